"""OpenAI's chat completions as requests to us, and our replies as OpenAI's answers. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reliable_llm.adapters.openai_messages import from_openai
from reliable_llm.adapters.openai_parts import tool_call
from reliable_llm.errors import InvalidRequestError
from reliable_llm.integrations.transport import count_field, list_field, number_field, rest_of, story, text_field
from reliable_llm.types import (
    ChatReply,
    ChatRequest,
    FinishReason,
    HostedTool,
    Json,
    OutputSchema,
    ReasoningDelta,
    ServedBy,
    StreamEvent,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCallStarted,
    ToolChoice,
    ToolName,
    Usage,
)

_KNOWN: Final = frozenset(
    {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "max_tokens", "stop", "n"}
    | {"max_completion_tokens", "temperature", "top_p", "reasoning_effort", "stream", "stream_options"}
)
_FINISH: Final[Mapping[FinishReason, str]] = {
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.CONTENT_FILTER: "content_filter",
}

# ---------------------------------------------------------------- in


def read_request(body: Json) -> ChatRequest:
    """Return the request in *body*. What has no neutral word goes to OpenAI only. Raises `InvalidRequestError`."""
    if body.get("n") not in (None, 1):
        raise InvalidRequestError("n must be 1: one answer comes from one candidate")
    choice, output = _choice(body.get("tool_choice")), _output(body.get("response_format"))
    extra = rest_of(body, _KNOWN)
    for name, value in (("tool_choice", choice), ("response_format", output)):
        if value is None and body.get(name) not in (None, {"type": "text"}):
            extra[name] = body[name]
    parallel = body.get("parallel_tool_calls")
    return ChatRequest(
        messages=from_openai(list_field(body, "messages")),
        tools=tuple(_tool(raw) for raw in list_field(body, "tools")),
        tool_choice=choice,
        parallel_tool_calls=parallel if isinstance(parallel, bool) else None,
        output=output,
        max_tokens=count_field(body, "max_completion_tokens") or count_field(body, "max_tokens"),
        temperature=number_field(body, "temperature"),
        top_p=number_field(body, "top_p"),
        stop=_stop(body.get("stop")),
        reasoning=text_field(body, "reasoning_effort"),
        extra={"openai": extra} if extra else {},
    )


def _tool(raw: object) -> Tool | HostedTool:
    if not isinstance(raw, Mapping):
        raise InvalidRequestError("every tool is an object")
    function = raw.get("function")
    if not isinstance(function, Mapping):
        return HostedTool(vendor="openai", spec=dict(raw))
    parameters, strict = function.get("parameters"), function.get("strict")
    return Tool(
        name=str(function.get("name") or ""),
        description=str(function.get("description") or ""),
        parameters=parameters if isinstance(parameters, Mapping) else {"type": "object", "properties": {}},
        strict=strict if isinstance(strict, bool) else None,
    )


def _choice(raw: object) -> ToolChoice | None:
    if raw == "auto" or raw == "none" or raw == "required":
        return raw
    function = raw.get("function") if isinstance(raw, Mapping) else None
    return ToolName(str(function.get("name"))) if isinstance(function, Mapping) else None


def _output(raw: object) -> OutputSchema | None:
    spec = raw.get("json_schema") if isinstance(raw, Mapping) else None
    schema = spec.get("schema") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(schema, Mapping):
        return None
    return OutputSchema(name=str(spec.get("name") or "answer"), schema=schema, strict=spec.get("strict") is True)


def _stop(raw: object) -> tuple[str, ...]:
    if raw is None:
        return ()
    return (raw,) if isinstance(raw, str) else tuple(str(each) for each in raw) if isinstance(raw, Sequence) else ()


# ---------------------------------------------------------------- out


def new_id(served_by: ServedBy) -> str:
    """Return an id that ends with who answered: some frameworks keep nothing else of an answer."""
    return f"chatcmpl-{uuid.uuid4().hex}:{served_by}"


def completion(reply: ChatReply, created: float) -> dict[str, object]:
    """Return *reply* as a chat completion; the extra field `reliable_llm` tells who answered and what it took."""
    choice = {
        "index": 0,
        "logprobs": None,
        "finish_reason": finish_word(reply.finish_reason),
        "message": _message(reply),
    }
    return {
        "id": new_id(reply.served_by),
        "object": "chat.completion",
        "created": int(created),
        "model": reply.model or reply.served_by.model,
        "choices": [choice],
        "usage": usage_of(reply.usage),
        "reliable_llm": story(reply),
    }


def _message(reply: ChatReply) -> dict[str, object]:
    refused = reply.finish_reason is FinishReason.REFUSAL
    message: dict[str, object] = {
        "role": "assistant",
        "content": None if refused else reply.text or None,
        "refusal": reply.text if refused else None,
    }
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [tool_call(call, "openai") for call in reply.tool_calls]
    return message


def finish_word(reason: FinishReason) -> str:
    return _FINISH.get(reason, "stop")


def usage_of(usage: Usage | None) -> dict[str, object] | None:
    """Return *usage* in OpenAI's words."""
    if usage is None:
        return None
    incoming, outgoing = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "prompt_tokens": incoming,
        "completion_tokens": outgoing,
        "total_tokens": incoming + outgoing,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


class Chunks:
    """The chunks of one streamed completion."""

    def __init__(self, served_by: ServedBy, created: float) -> None:
        self._head = {
            "id": new_id(served_by),
            "object": "chat.completion.chunk",
            "created": int(created),
            "model": served_by.model,
        }
        self._calls: dict[int, int] = {}

    def of(self, event: StreamEvent) -> Iterator[dict[str, object]]:
        """Yield what *event* adds to the message."""
        match event:
            case TextDelta():
                yield self.chunk({"content": event.text})
            case ReasoningDelta():
                yield self.chunk({"reasoning_content": event.text})
            case ToolCallStarted():
                place = self._calls.setdefault(event.index, len(self._calls))
                function = {"name": event.name, "arguments": ""}
                call = {"index": place, "id": event.id, "type": "function", "function": function}
                yield self.chunk({"tool_calls": [call]})
            case ToolCallDelta() if event.index in self._calls:
                call = {"index": self._calls[event.index], "function": {"arguments": event.arguments}}
                yield self.chunk({"tool_calls": [call]})
            case _:
                pass

    def chunk(self, delta: Json, finish: str | None = None) -> dict[str, object]:
        """Return one chunk with a choice."""
        return {**self._head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    def last(self, reply: ChatReply) -> dict[str, object]:
        """Return the chunk that ends the choice and tells who answered."""
        return {**self.chunk({}, finish_word(reply.finish_reason)), "reliable_llm": story(reply)}

    def usage(self, usage: Usage | None) -> dict[str, object]:
        """Return the chunk that reports usage, after the last choice."""
        return {**self._head, "choices": [], "usage": usage_of(usage)}
