"""An answer of `POST /v1/messages` in neutral terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from reliable_llm.adapters.anthropic_blocks import part_from_block
from reliable_llm.adapters.base import Prepared
from reliable_llm.errors import EmptyResponseError, Kind, MalformedResponseError, Verdict, default_verdict
from reliable_llm.types import AdapterReply, FinishReason, Json, Part, Text, ToolCall, Usage

_FINISH: Final[Mapping[object, FinishReason]] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
    "pause_turn": FinishReason.PAUSE,
}

# Endings that need no text: a refusal is an answer, and a paused turn is sent back to go on.
_WITHOUT_TEXT: Final = frozenset({FinishReason.REFUSAL, FinishReason.PAUSE})


@dataclass(frozen=True, slots=True)
class AnthropicRaw:
    """The answer as decoded. `typed()` builds the `anthropic.types.Message` that `messages.create()` would return."""

    body: Json
    request_id: str | None = None

    def typed(self) -> object:
        """Return the SDK's own object, equal to what its `create()` returns."""
        from anthropic.types import Message

        message = Message.construct(None, **self.body)
        # Public by the SDK's own documentation, whatever its underscore says.
        message._request_id = self.request_id  # noqa: SLF001
        return message

    def __repr__(self) -> str:
        return f"AnthropicRaw(request_id={self.request_id!r})"


def reply_from_body(
    body: Json, prepared: Prepared, headers: Mapping[str, str], request_id: str | None, status: int = 200
) -> AdapterReply:
    """Return a decoded answer as a reply.

    Raises `MalformedResponseError` where it is none, `EmptyResponseError` (with its usage) where it says nothing.
    """
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        raise malformed("a success status, but no message content", status, request_id)
    parts = tuple(part_from_block(block, prepared.target.candidate) for block in content)
    usage = usage_of(body.get("usage"))
    finish = finish_reason(body.get("stop_reason"))
    if prepared.answer_tool is not None:
        parts, finish = unwrap_answer(parts, finish, prepared.answer_tool)
    silent = not says_something(parts, finish) and prepared.body.get("max_tokens") != 0
    if silent and not prepared.takes_silence(finish):
        raise empty(usage, status, request_id)
    return AdapterReply(
        parts=parts,
        finish_reason=finish,
        usage=usage,
        model=text_or_none(body.get("model")),
        request_id=request_id,
        raw=AnthropicRaw(body, request_id),
        dropped=prepared.dropped,
        headers=headers,
        finish_detail=finish_detail(body),
        status=status,
    )


def says_something(parts: tuple[Part, ...], finish: FinishReason) -> bool:
    """Say whether there is any text or tool call; thinking alone is no answer."""
    if finish in _WITHOUT_TEXT:
        return True
    return any(isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip()) for part in parts)


def unwrap_answer(
    parts: tuple[Part, ...], finish: FinishReason, answer_tool: str
) -> tuple[tuple[Part, ...], FinishReason]:
    """Turn the call of *answer_tool* into the text that it stands in for; what was said around it is no answer."""
    answer = next((part for part in parts if isinstance(part, ToolCall) and part.name == answer_tool), None)
    if answer is None:
        return parts, finish
    kept = [part for part in parts if not isinstance(part, Text | ToolCall)]
    stopped = FinishReason.STOP if finish is FinishReason.TOOL_CALLS else finish
    return (*kept, Text(answer.arguments)), stopped


def finish_reason(reason: object) -> FinishReason:
    return _FINISH.get(reason, FinishReason.OTHER) if isinstance(reason, str) else FinishReason.OTHER


def finish_detail(body: Json) -> str | None:
    """Return the vendor's own word for the ending: the refusal's category, or a reason that has no neutral name."""
    details = body.get("stop_details")
    if isinstance(details, Mapping) and isinstance(details.get("category"), str):
        return str(details["category"])
    return text_or_none(body.get("stop_reason"))


def usage_of(usage: object) -> Usage | None:
    """Return Anthropic's count; its `input_tokens` leaves out what went into or came from the cache."""
    if not isinstance(usage, Mapping):
        return None
    fresh, write = _count(usage, "input_tokens"), _count(usage, "cache_creation_input_tokens")
    read = _count(usage, "cache_read_input_tokens")
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (write or 0) + (read or 0),
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=_count(details, "thinking_tokens") if isinstance(details, Mapping) else None,
    )


def _count(usage: Json, name: str) -> int | None:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def malformed(what: str, status: int, request_id: str | None) -> MalformedResponseError:
    return MalformedResponseError(what, verdict=_verdict(Kind.MALFORMED_RESPONSE, status), request_id=request_id)


def empty(usage: Usage | None, status: int, request_id: str | None) -> EmptyResponseError:
    verdict = _verdict(Kind.EMPTY_RESPONSE, status)
    said = "an answer without text or tool call"
    return EmptyResponseError(said, verdict=verdict, request_id=request_id, usage=usage)


def _verdict(kind: Kind, status: int) -> Verdict:
    return replace(default_verdict(kind, rule="adapter"), status=status)
