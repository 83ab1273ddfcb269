"""What Pydantic AI asks for, as one of our requests. Pure."""

from __future__ import annotations

from typing import Final

from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings, ToolOrOutput

from reliable_llm.integrations.pydantic_ai_messages import from_pydantic_ai, tool_of
from reliable_llm.types import ChatRequest, OutputSchema, Tool, ToolChoice, ToolName

# Settings that only OpenAI has words for.
_OPENAI_ONLY: Final = ("seed", "presence_penalty", "frequency_penalty", "logit_bias", "service_tier")


def request_of(
    messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
) -> ChatRequest:
    """Return the request for *messages*. Raises Pydantic AI's `UserError` for content that cannot be sent."""
    tools = tuple(tool_of(each) for each in (*parameters.declared_function_tools, *parameters.output_tools))
    choice, tools = _choice(settings, parameters, tools)
    extra = {name: value for name in _OPENAI_ONLY if (value := settings.get(name)) is not None}
    return ChatRequest(
        messages=from_pydantic_ai(messages, _instructions(messages, parameters)),
        tools=tools,
        tool_choice=choice if tools else None,
        parallel_tool_calls=settings.get("parallel_tool_calls"),
        output=_output(parameters),
        max_tokens=settings.get("max_tokens"),
        temperature=settings.get("temperature"),
        top_p=settings.get("top_p"),
        stop=tuple(settings.get("stop_sequences") or ()),
        reasoning=_effort(parameters.thinking),
        extra={"openai": extra} if extra else {},
    )


def _instructions(messages: list[ModelMessage], parameters: ModelRequestParameters) -> str | None:
    if parameters.instruction_parts is not None:
        return InstructionPart.join(parameters.instruction_parts) if parameters.instruction_parts else None
    requests = [message for message in reversed(messages) if isinstance(message, ModelRequest)]
    return next((message.instructions for message in requests if message.instructions is not None), None)


def _choice(
    settings: ModelSettings, parameters: ModelRequestParameters, tools: tuple[Tool, ...]
) -> tuple[ToolChoice | None, tuple[Tool, ...]]:
    """Return the tool choice and the tools it leaves: no vendor can be told to choose among some of them."""
    asked = settings.get("tool_choice")
    free: ToolChoice = "auto" if parameters.allow_text_output else "required"
    outputs = {each.name for each in parameters.output_tools}
    if isinstance(asked, ToolOrOutput):
        return free, _named(tools, {*asked.function_tools, *outputs})
    if isinstance(asked, list):
        left = _named(tools, set(asked))
        return (ToolName(left[0].name) if len(left) == 1 else "required"), left
    if asked == "none":
        return (free, _named(tools, outputs)) if outputs else ("none", tools)
    return ("required" if asked == "required" else free), tools


def _named(tools: tuple[Tool, ...], names: set[str]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.name in names)


def _output(parameters: ModelRequestParameters) -> OutputSchema | None:
    wanted = parameters.output_object
    if parameters.output_mode != "native" or wanted is None:
        return None
    return OutputSchema(name=wanted.name or "answer", schema=wanted.json_schema, strict=wanted.strict is not False)


def _effort(thinking: bool | str | None) -> str | None:
    if isinstance(thinking, bool):
        return "medium" if thinking else "none"
    return thinking
