"""A neutral request as the body of Gemini's `generateContent`. Pure, and done once per candidate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from reliable_llm.adapters.base import Prepared, Target
from reliable_llm.adapters.gemini_format import VENDOR, Wire, Writer
from reliable_llm.adapters.openai_parts import unsupported
from reliable_llm.adapters.openai_request import plan_output, to_json
from reliable_llm.adapters.overrides import applied, extra_fields, removed, with_overrides
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import ChatRequest, HostedTool, Tool, ToolName

# `ThinkingLevel` of the SDK, by our efforts; it has no word for none and max.
_LEVELS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh"})

_MODES: Final[Mapping[str, str]] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}

# What a neutral name stands for in the body, where `without` asks to leave a parameter out.
_PATHS: Final[Mapping[str, str]] = {
    "max_tokens": "generationConfig.maxOutputTokens",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "stop": "generationConfig.stopSequences",
    "reasoning": "generationConfig.thinkingConfig",
}


def prepare(
    request: ChatRequest, target: Target, *, stream: bool, without: frozenset[str], names: Iterable[str]
) -> Prepared:
    """Return *request* in Gemini's terms; *names* are the keys of `extra` that mean this adapter."""
    whole = request
    request, fields = with_overrides(request, target.candidate)
    extra = {**extra_fields(request, (*names, target.candidate.provider)), **fields}
    plan = plan_output(request, without)
    if request.tools and "tools" in without:
        raise unsupported("tools", "this candidate takes no tools")
    writer = Writer(target.candidate, reasoning="reasoning_history" not in without)
    told = request.messages if plan.prompt is None else (*request.messages, plan.prompt)
    contents, system = writer.write(told)
    if not contents:
        raise InvalidRequestError("there is nothing to answer: no message has any content")
    body: Wire = {"contents": contents}
    if system is not None:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    tools = request.tools if plan.tool is None else (*request.tools, plan.tool)
    answer_tool = None if plan.tool is None else plan.tool.name
    _write_tools(body, request, tools, answer_tool, writer.dropped)
    if settings := _settings(request, writer.dropped, native=plan.native is not None):
        body["generationConfig"] = settings
    body = applied(body, extra)
    for name in sorted(without):
        if name.startswith("parameter:"):
            body = _left_out(body, name.removeprefix("parameter:"), request, writer.dropped)
    return Prepared(
        target=target,
        body=body,
        stream=stream,
        dropped=tuple(sorted(writer.dropped)),
        request=whole,
        answer_tool=answer_tool,
        content=to_json(body),
    )


def _left_out(body: Wire, name: str, request: ChatRequest, dropped: set[str]) -> Wire:
    path = _PATHS.get(name, name)
    shorter = removed(body, path)
    if shorter != body and getattr(request, name, None) is not None:
        dropped.add(name)
    return shorter


def _write_tools(
    body: Wire, request: ChatRequest, tools: tuple[Tool | HostedTool, ...], answer_tool: str | None, dropped: set[str]
) -> None:
    choice = request.tool_choice
    if not tools:
        if choice not in (None, "auto", "none"):
            raise InvalidRequestError("tool_choice asks for a tool, but the request has no tools")
        return
    body["tools"] = list(_declared(tools))
    config = _choice(request, answer_tool)
    if config is not None:
        body["toolConfig"] = {"functionCallingConfig": config}
    if request.parallel_tool_calls is False:
        dropped.add("parallel_tool_calls")


def _declared(tools: tuple[Tool | HostedTool, ...]) -> Iterable[Wire]:
    functions = [_function(tool) for tool in tools if isinstance(tool, Tool)]
    if functions:
        yield {"functionDeclarations": functions}
    for tool in tools:
        if isinstance(tool, HostedTool):
            if tool.vendor != VENDOR:
                raise unsupported("hosted_tool", f"a tool hosted by {tool.vendor} runs nowhere else")
            yield dict(tool.spec)


def _function(tool: Tool) -> Wire:
    told = {"description": tool.description} if tool.description else {}
    own = dict(tool.extra.get(VENDOR, {}))
    return {"name": tool.name, **told, "parametersJsonSchema": {"type": "object", **tool.parameters}, **own}


def _choice(request: ChatRequest, answer_tool: str | None) -> Wire | None:
    choice = request.tool_choice
    if answer_tool is not None and choice in (None, "auto", "none"):
        only = {} if request.tools and choice != "none" else {"allowedFunctionNames": [answer_tool]}
        return {"mode": "ANY", **only}
    if isinstance(choice, ToolName):
        if all(isinstance(tool, HostedTool) or tool.name != choice.name for tool in request.tools):
            raise InvalidRequestError(f"tool_choice names {choice.name!r}, which is none of the request's tools")
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return None if choice is None else {"mode": _MODES[choice]}


def _settings(request: ChatRequest, dropped: set[str], *, native: bool) -> Wire:
    settings: Wire = {
        "maxOutputTokens": request.max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "stopSequences": list(request.stop) or None,
        "thinkingConfig": _thinking(request, dropped),
    }
    if native and request.output is not None:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = json.loads(to_json(request.output.schema))
    return {name: value for name, value in settings.items() if value is not None}


def _thinking(request: ChatRequest, dropped: set[str]) -> Wire | None:
    if request.reasoning in _LEVELS:
        return {"thinkingLevel": request.reasoning}
    if request.reasoning is not None:
        dropped.add("reasoning")
    return None
