"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reliable_llm.adapters.base import AdapterSettings, Prepared, Target
from reliable_llm.adapters.openai_adapter import OpenAIAdapter
from reliable_llm.adapters.openai_items import split_instructions, to_items
from reliable_llm.adapters.openai_parts import OPENAI, Wire, losses, own_extra, unsupported
from reliable_llm.adapters.openai_request import (
    Body,
    OutputPlan,
    all_tools,
    chosen_tool,
    plan_output,
    schema_name,
    stops,
    strict_schema,
    to_json,
)
from reliable_llm.adapters.openai_responses_events import ResponsesAssembly
from reliable_llm.adapters.openai_responses_reply import read_reply
from reliable_llm.adapters.overrides import with_overrides
from reliable_llm.types import (
    AdapterReply,
    ChatRequest,
    HostedTool,
    OutputSchema,
    Reasoning,
    Tool,
    ToolChoice,
    ToolName,
)

PATH: Final = "responses"


class OpenAIResponsesAdapter(OpenAIAdapter):
    """One Responses API endpoint."""

    def __init__(self, settings: AdapterSettings) -> None:
        super().__init__(settings, PATH)

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; see `adapters.base.Adapter.prepare`."""
        return prepare(request, target, self.vendor, stream=stream, without=without)

    def _read(self, body: object, headers: Mapping[str, str], prepared: Prepared) -> AdapterReply:
        return read_reply(body, headers, prepared, self._client)

    def _assembly(self, prepared: Prepared) -> ResponsesAssembly:
        return ResponsesAssembly(prepared)


# ---------------------------------------------------------------- the request


def prepare(request: ChatRequest, target: Target, vendor: str, *, stream: bool, without: frozenset[str]) -> Prepared:
    """Return *request* as the Responses API takes it at *vendor*."""
    request, overrides = with_overrides(request, target.candidate)
    plan = plan_output(request, without)
    instructions, messages = split_instructions(
        request.messages if plan.prompt is None else (plan.prompt, *request.messages)
    )

    def own(part: Reasoning) -> bool:
        return part.issuer == target.candidate and "reasoning_history" not in without

    body = Body({"model": target.model_id, "input": to_items(messages, vendor, own)}, without)
    body.dropped += losses(messages, vendor, own)
    body.put("instructions", "instructions", instructions)
    _put_tools(body, request, plan, vendor)
    _put_parameters(body, request)
    if plan.native is not None:
        body.fields["text"] = {"format": _format(plan.native)}
    if stream:
        body.fields["stream"] = True
    body.merge(request, target.candidate, vendor, overrides)
    return Prepared(
        target=target,
        body=body.fields,
        stream=stream,
        dropped=tuple(dict.fromkeys(body.dropped)),
        request=request,
        answer_tool=None if plan.tool is None else plan.tool.name,
        content=to_json(body.fields),
    )


def _put_tools(body: Body, request: ChatRequest, plan: OutputPlan, vendor: str) -> None:
    tools = all_tools(request, plan, body.without)
    choice = chosen_tool(request, plan, tools)
    if tools:
        body.fields["tools"] = [_tool(tool, vendor) for tool in tools]
        body.put("tool_choice", "tool_choice", None if choice is None else _choice(choice, tools))
        body.put("parallel_tool_calls", "parallel_tool_calls", request.parallel_tool_calls)


def _tool(tool: Tool | HostedTool, vendor: str) -> Wire:
    if isinstance(tool, HostedTool):
        if tool.vendor not in (OPENAI, vendor):
            raise unsupported("hosted_tool", f"{vendor} does not run hosted tools of {tool.vendor!r}")
        return dict(tool.spec)
    # The API's own default is strict, which would refuse most schemas.
    function: Wire = {"type": "function", "name": tool.name, "parameters": tool.parameters, "strict": bool(tool.strict)}
    if tool.description:
        function["description"] = tool.description
    return {**function, **own_extra(tool.extra, vendor)}


def _choice(choice: ToolChoice | str, tools: tuple[Tool | HostedTool, ...]) -> object:
    if not isinstance(choice, ToolName):
        return choice
    is_function = any(isinstance(tool, Tool) and tool.name == choice.name for tool in tools)
    return {"type": "function", "name": choice.name} if is_function else {"type": choice.name}


def _put_parameters(body: Body, request: ChatRequest) -> None:
    body.put("max_tokens", "max_output_tokens", request.max_tokens)
    body.put("temperature", "temperature", request.temperature)
    body.put("top_p", "top_p", request.top_p)
    if stops(request):
        body.dropped.append("stop")
    if request.reasoning is not None:
        body.put("reasoning", "reasoning", {"effort": request.reasoning})
        # What the model thought goes back with the next turn, with any key and without storing it at OpenAI.
        if request.reasoning != "none" and "parameter:include" not in body.without:
            body.fields["include"] = ["reasoning.encrypted_content"]


def _format(output: OutputSchema) -> Wire:
    strict = strict_schema(output.schema) if output.strict else None
    return {
        "type": "json_schema",
        "name": schema_name(output.name),
        "schema": strict or output.schema,
        "strict": strict is not None,
    }
