"""OpenAI chat completions, and every host that speaks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reliable_llm.adapters.base import AdapterSettings, Prepared, Target
from reliable_llm.adapters.openai_adapter import OpenAIAdapter
from reliable_llm.adapters.openai_chat_events import ChatAssembly
from reliable_llm.adapters.openai_chat_reply import read_reply
from reliable_llm.adapters.openai_messages import to_openai
from reliable_llm.adapters.openai_parts import Wire, losses, own_extra, unsupported
from reliable_llm.adapters.openai_request import (
    Body,
    OutputPlan,
    all_tools,
    chosen_tool,
    follows_openai,
    plan_output,
    schema_name,
    stops,
    strict_schema,
    to_json,
)
from reliable_llm.adapters.overrides import with_overrides
from reliable_llm.types import AdapterReply, ChatRequest, HostedTool, OutputSchema, Tool, ToolChoice, ToolName

PATH: Final = "chat/completions"

# https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop
MAX_STOPS: Final = 4


class OpenAIChatAdapter(OpenAIAdapter):
    """One chat completions endpoint."""

    def __init__(self, settings: AdapterSettings) -> None:
        super().__init__(settings, PATH)

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; see `adapters.base.Adapter.prepare`."""
        return prepare(request, target, self.vendor, stream=stream, without=without)

    def _read(self, body: object, headers: Mapping[str, str], prepared: Prepared) -> AdapterReply:
        return read_reply(body, headers, prepared, self._client)

    def _assembly(self, prepared: Prepared) -> ChatAssembly:
        return ChatAssembly(prepared)


# ---------------------------------------------------------------- the request


def prepare(request: ChatRequest, target: Target, vendor: str, *, stream: bool, without: frozenset[str]) -> Prepared:
    """Return *request* as chat completions take it at *vendor*."""
    request, overrides = with_overrides(request, target.candidate)
    plan = plan_output(request, without)
    messages = request.messages if plan.prompt is None else (*request.messages, plan.prompt)
    body = Body({"model": target.model_id, "messages": to_openai(messages, vendor=vendor)}, without)
    # Chat takes no reasoning back, its own least of all: only what another candidate thought is a loss.
    body.dropped += losses(messages, vendor, lambda part: part.issuer == target.candidate)
    _put_tools(body, request, plan, vendor)
    _put_parameters(body, request, vendor)
    if plan.native is not None:
        body.fields["response_format"] = {"type": "json_schema", "json_schema": _json_schema(plan.native)}
    if stream:
        body.fields["stream"] = True
        # Without it a stream has no usage. Left out where it was refused, and nobody's wish is dropped then.
        if "parameter:stream_options" not in without:
            body.fields["stream_options"] = {"include_usage": True}
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
        body.put("tool_choice", "tool_choice", None if choice is None else _choice(choice))
        body.put("parallel_tool_calls", "parallel_tool_calls", request.parallel_tool_calls)


def _tool(tool: Tool | HostedTool, vendor: str) -> Wire:
    if isinstance(tool, HostedTool):
        if tool.vendor != vendor:
            raise unsupported("hosted_tool", f"{vendor} does not run hosted tools of {tool.vendor!r}")
        return dict(tool.spec)
    function: Wire = {"name": tool.name, "parameters": tool.parameters}
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function, **own_extra(tool.extra, vendor)}


def _choice(choice: ToolChoice | str) -> object:
    return {"type": "function", "function": {"name": choice.name}} if isinstance(choice, ToolName) else choice


def _put_parameters(body: Body, request: ChatRequest, vendor: str) -> None:
    spellings = ("max_completion_tokens", "max_tokens")
    body.put_max_tokens(request.max_tokens, *(spellings if follows_openai(vendor) else reversed(spellings)))
    body.put("temperature", "temperature", request.temperature)
    body.put("top_p", "top_p", request.top_p)
    body.put("reasoning", "reasoning_effort", request.reasoning)
    stop = stops(request)
    if len(stop) > MAX_STOPS:
        body.dropped.append("stop")
    else:
        body.put("stop", "stop", stop or None)


def _json_schema(output: OutputSchema) -> Wire:
    strict = strict_schema(output.schema) if output.strict else None
    return {"name": schema_name(output.name), "schema": strict or output.schema, "strict": strict is not None}
