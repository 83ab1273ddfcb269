"""From a reply or an exception to the plain figures that a drill reports."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reliable_llm.errors import ReliableLLMError
from reliable_llm.types import (
    Attempt,
    ChatReply,
    ReasoningDelta,
    Restarted,
    Started,
    StreamEvent,
    TextDelta,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from reliable_llm.stream import ChatStream

Json = dict[str, object]
_DIGITS: Final = 6


def answered(reply: ChatReply, keys: Mapping[str, str]) -> Json:
    """Return what an answer says of itself. *keys* names key labels as the scenario does."""
    said: Json = {
        "served_by": str(reply.served_by),
        "text": reply.text,
        "usage": tokens(reply.usage),
        "usage_total": tokens(reply.usage_total),
        "usage_by": {where: [u.input_tokens, u.output_tokens] for where, u in reply.usage_by.items()},
        "stop_reason": str(reply.finish_detail or reply.finish_reason),
        "model": reply.model,
        "attempts": [attempt(each, keys) for each in reply.attempts],
        "attempt_kinds": [str(a.kind) for a in reply.attempts if a.kind is not None],
    }
    if reply.tool_calls:
        said["tool_calls"] = [{"name": call.name, "args": _arguments(call)} for call in reply.tool_calls]
    if reply.parsed is not None:
        said["parsed"] = _plain(reply.parsed)
    return said


def attempt(made: Attempt, keys: Mapping[str, str]) -> Json:
    row: Json = {"provider": made.provider, "model": made.model, "key": keys.get(made.key_label, made.key_label)}
    row |= {"status": made.status, "kind": str(made.kind) if made.kind else None, "request_id": made.request_id}
    return row | {"retry_after": made.retry_after, "started": round(made.started, _DIGITS)}


def tokens(usage: Usage | None) -> Json | None:
    if usage is None:
        return None
    said: Json = {"input": usage.input_tokens, "output": usage.output_tokens}
    return said | ({"partial": True} if usage.partial else {})


def _arguments(call: ToolCall) -> object:
    try:
        return call.parsed()
    except ValueError:
        return call.arguments


def _plain(parsed: object) -> object:
    dump = getattr(parsed, "model_dump", None)
    return dump() if callable(dump) else parsed


def streamed(events: Sequence[StreamEvent]) -> Json:
    """Return what a consumer saw of a stream."""
    said: Json = {"events": [word for event in events if (word := _word(event))]}
    said["chunks"] = [event.text for event in events if isinstance(event, TextDelta)]
    said["start_events"] = sum(isinstance(event, Started) for event in events)
    return said


def left(stream: ChatStream, seen: Sequence[StreamEvent]) -> Json:
    """Return what is known of a stream that its consumer left before the end."""
    said: Json = {"text": text_since_restart(seen), "usage": tokens(stream.usage), **streamed(seen)}
    return said if stream.served_by is None else said | {"served_by": str(stream.served_by)}


def _word(event: StreamEvent) -> str | None:
    if isinstance(event, TextDelta):
        return f"text:{event.text}"
    return "restart" if isinstance(event, Restarted) else None


def text_since_restart(events: Sequence[StreamEvent]) -> str:
    text = ""
    for event in events:
        text = "" if isinstance(event, Restarted) else text + (event.text if isinstance(event, TextDelta) else "")
    return text


def reasoning_of(events: Sequence[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def raised(error: BaseException, keys: Mapping[str, str], *, own: Sequence[BaseException], limited: bool) -> Json:
    """Return what an exception says. *own* are the application's, *limited* tells that the caller set a time limit."""
    said: Json = {"kind": kind_of(error, own, limited=limited), "type": _type(error), "attempts": 0}
    if any(error is each for each in own):
        said["identity"] = "same object"
    if not isinstance(error, ReliableLLMError):
        return said
    said |= {"provider": error.provider, "model": error.model, "status": error.status, "code": error.code}
    said |= {"retry_after": None if error.retry_after is None else round(error.retry_after, _DIGITS)}
    said |= {"attempts": len(error.attempts), "attempt_kinds": [str(a.kind) for a in error.attempts if a.kind]}
    said["ledger"] = [attempt(each, keys) for each in error.attempts]
    return said | _details(error)


def _details(error: ReliableLLMError) -> Json:
    """Return the fields that only some kinds have."""
    found: Json = {}
    for name in ("partial_text", "where", "limit_tokens", "used_tokens"):
        if (value := getattr(error, name, None)) not in (None, ""):
            found[name] = value
    if cause := getattr(error, "cause_kind", None):
        found["cause_kind"] = str(cause)
    if calls := getattr(error, "partial_tool_calls", ()):
        found["incomplete_tool_calls"] = [call.name for call in calls]
    if getattr(error, "text", ""):
        found["raw_text_available"] = True
    if error.usage is not None:
        found["usage"] = tokens(error.usage)
    return found


def kind_of(error: BaseException, own: Sequence[BaseException], *, limited: bool) -> str:
    """Return the kind of a failure; what passes through untouched has names of its own."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if any(error is each for each in own):
        return "app_error" if isinstance(error, Exception) else "base_exception"
    if isinstance(error, ReliableLLMError):
        return str(error.kind)
    if isinstance(error, TimeoutError) and limited:
        return "caller_timeout"
    return "unexpected" if isinstance(error, Exception) else "base_exception"


def _type(error: BaseException) -> str:
    name = type(error).__name__
    return f"asyncio.{name}" if isinstance(error, asyncio.CancelledError) else name


def survives_copying(error: BaseException) -> bool:
    """Tell whether the error is the same after pickling and after a deep copy."""
    if not isinstance(error, ReliableLLMError):
        return False
    copies = (pickle.loads(pickle.dumps(error)), copy.deepcopy(error))  # noqa: S301 - our own object
    return all(_facts(each) == _facts(error) for each in copies)


def _facts(error: ReliableLLMError) -> tuple[object, ...]:
    return type(error), error.kind, str(error), error.status, error.retry_after, error.attempts
