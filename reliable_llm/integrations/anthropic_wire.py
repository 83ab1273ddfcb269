"""Anthropic's messages as requests to us, and our replies as Anthropic's answers. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from reliable_llm.adapters.anthropic_format import from_anthropic
from reliable_llm.errors import InvalidRequestError
from reliable_llm.integrations.transport import count_field, list_field, number_field, rest_of, story
from reliable_llm.types import (
    ChatReply,
    ChatRequest,
    FinishReason,
    HostedTool,
    Json,
    Message,
    Opaque,
    OutputSchema,
    Part,
    Reasoning,
    ReasoningDelta,
    ServedBy,
    StreamEvent,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCallStarted,
    ToolChoice,
    ToolName,
    Usage,
)

_KNOWN: Final = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "temperature", "top_p"}
    | {"stream", "output_config"}
)
_TOOL: Final = frozenset({"name", "description", "input_schema", "type", "strict"})
_STOP: Final[Mapping[FinishReason, str]] = {
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTENT_FILTER: "refusal",
    FinishReason.PAUSE: "pause_turn",
}

# ---------------------------------------------------------------- in


def read_request(body: Json) -> ChatRequest:
    """Return the request in *body*. What has no neutral word goes to Anthropic only. Raises `InvalidRequestError`."""
    config = body.get("output_config")
    config = config if isinstance(config, Mapping) else {}
    choice = body.get("tool_choice")
    choice = choice if isinstance(choice, Mapping) else {}
    extra = rest_of(body, _KNOWN)
    if further := {name: value for name, value in config.items() if name not in ("effort", "format")}:
        extra["output_config"] = further
    effort = config.get("effort")
    return ChatRequest(
        messages=tuple(_own_thinking(m) for m in from_anthropic(list_field(body, "messages"), body.get("system"))),
        tools=tuple(_tool(raw) for raw in list_field(body, "tools")),
        tool_choice=_choice(choice),
        parallel_tool_calls=False if choice.get("disable_parallel_tool_use") is True else None,
        output=_output(config.get("format")),
        max_tokens=count_field(body, "max_tokens"),
        temperature=number_field(body, "temperature"),
        top_p=number_field(body, "top_p"),
        stop=tuple(str(each) for each in list_field(body, "stop_sequences")),
        reasoning=effort if isinstance(effort, str) else None,
        extra={"anthropic": extra} if extra else {},
    )


def _own_thinking(message: Message) -> Message:
    """Leave out thinking without a signature: another vendor's, shown to the caller, that Anthropic would refuse."""
    if isinstance(message.content, str):
        return message
    kept = tuple(part for part in message.content if not (isinstance(part, Reasoning) and part.signature == ""))
    return replace(message, content=kept)


def _tool(raw: object) -> Tool | HostedTool:
    if not isinstance(raw, Mapping):
        raise InvalidRequestError("every tool is an object")
    schema, strict = raw.get("input_schema"), raw.get("strict")
    if not isinstance(schema, Mapping):
        return HostedTool(vendor="anthropic", spec=dict(raw))
    rest = rest_of(raw, _TOOL)
    return Tool(
        name=str(raw.get("name") or ""),
        description=str(raw.get("description") or ""),
        parameters=schema,
        strict=strict if isinstance(strict, bool) else None,
        extra={"anthropic": rest} if rest else {},
    )


def _choice(raw: Json) -> ToolChoice | None:
    kind = raw.get("type")
    if kind == "tool":
        return ToolName(str(raw.get("name")))
    return "required" if kind == "any" else kind if kind == "auto" or kind == "none" else None


def _output(raw: object) -> OutputSchema | None:
    schema = raw.get("schema") if isinstance(raw, Mapping) else None
    return OutputSchema(name="answer", schema=schema) if isinstance(schema, Mapping) else None


# ---------------------------------------------------------------- out


def message(reply: ChatReply) -> dict[str, object]:
    """Return *reply* as a message; the extra field `reliable_llm` tells who answered and what it took."""
    return {
        **head(reply.served_by, reply.model or reply.served_by.model),
        "content": [block for part in reply.parts if (block := _block(part))],
        "stop_reason": stop_word(reply.finish_reason),
        "usage": usage_of(reply.usage),
        "reliable_llm": story(reply),
    }


def head(served_by: ServedBy, model: str) -> dict[str, object]:
    """Return a message that has not begun. Its id ends with who answers: some frameworks keep nothing else."""
    return {
        "id": f"msg_{uuid.uuid4().hex}:{served_by}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_of(None),
    }


def _block(part: Part) -> dict[str, object] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.parsed()}
        case Reasoning() if part.opaque is not None and part.signature is None and not part.text:
            return {"type": "redacted_thinking", "data": part.opaque}
        case Reasoning():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case Opaque() if part.vendor == "anthropic":
            return dict(part.data)
        case _:
            return None


def stop_word(reason: FinishReason) -> str:
    return _STOP.get(reason, "end_turn")


def usage_of(usage: Usage | None) -> dict[str, object]:
    """Return *usage* in Anthropic's words, where cached tokens do not count as input."""
    usage = usage or Usage()
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "output_tokens": usage.output_tokens or 0,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


class Blocks:
    """The events of one streamed message: blocks are opened and closed as the kind of output changes."""

    def __init__(self) -> None:
        self._count = 0
        self._open: object = None

    def of(self, event: StreamEvent) -> Iterator[dict[str, object]]:
        """Yield what *event* adds to the message."""
        match event:
            case TextDelta():
                yield from self._enter("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": event.text})
            case ReasoningDelta():
                yield from self._enter("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                yield self._delta({"type": "thinking_delta", "thinking": event.text})
            case ToolCallStarted():
                block = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
                yield from self._enter(event.index, block)
            case ToolCallDelta() if self._open == event.index:
                yield self._delta({"type": "input_json_delta", "partial_json": event.arguments})
            case _:
                pass

    def _enter(self, kind: object, block: Json) -> Iterator[dict[str, object]]:
        if self._open == kind:
            return
        yield from self.close()
        self._open = kind
        yield {"type": "content_block_start", "index": self._count, "content_block": block}

    def _delta(self, delta: Json) -> dict[str, object]:
        return {"type": "content_block_delta", "index": self._count, "delta": delta}

    def close(self) -> Iterator[dict[str, object]]:
        """Yield the end of the open block, if there is one."""
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._count}
            self._count += 1
            self._open = None


def last_events(reply: ChatReply) -> Iterator[dict[str, object]]:
    """Yield the events that end a message."""
    delta = {"stop_reason": stop_word(reply.finish_reason), "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": usage_of(reply.usage), "reliable_llm": story(reply)}
    yield {"type": "message_stop"}
