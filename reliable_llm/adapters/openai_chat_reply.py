"""A chat completion, read: what is an answer becomes one, what is not is raised as what it is. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.openai_parts import OPENAI
from reliable_llm.adapters.openai_reply import (
    OpenAIRaw,
    is_complete_json,
    no_answer,
    reasoning_parts,
    says_something,
    text_or_none,
    usage_of,
)
from reliable_llm.errors import ReliableLLMError
from reliable_llm.types import AdapterReply, FinishReason, Json, Opaque, Part, Reasoning, Text, ToolCall, Usage

_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
}


class Refusals(Protocol):
    """What makes an error of a body that is no answer."""

    @property
    def refusal(self) -> Callable[[object, int, Mapping[str, str]], ReliableLLMError]: ...


def finish_of(reason: object) -> FinishReason:
    """Return the neutral word for *reason*. Google writes `content_filter: PROHIBITED_CONTENT`."""
    if not isinstance(reason, str):
        return FinishReason.OTHER
    return (
        FinishReason.CONTENT_FILTER if reason.startswith("content_filter") else _FINISH.get(reason, FinishReason.OTHER)
    )


def chat_usage(raw: object) -> Usage | None:
    """Return the usage of a completion or of a chunk."""
    return usage_of(raw, incoming="prompt", outgoing="completion")


def read_reply(body: object, headers: Mapping[str, str], prepared: Prepared, refusals: Refusals) -> AdapterReply:
    """Return the answer in *body*; raise the error that it is instead."""
    request_id = headers.get("x-request-id")
    usage = chat_usage(body.get("usage")) if isinstance(body, Mapping) else None
    choice = _first_choice(body)
    if not isinstance(body, Mapping) or choice is None:
        raise _stamped(refusals.refusal(body, 200, headers), usage, request_id)
    reason = choice.get("finish_reason")
    if reason == "error":
        error = choice.get("error") or body.get("error")
        raise _stamped(refusals.refusal({"error": error} if error else body, 200, headers), usage, request_id)
    message = choice.get("message")
    finish = finish_of(reason)
    if not isinstance(message, Mapping) and finish is not FinishReason.CONTENT_FILTER:
        raise _stamped(refusals.refusal(body, 200, headers), usage, request_id)
    parts, finish, truncated = read_message(message, finish, prepared, str(body.get("id")))
    if not says_something(parts) and not prepared.takes_silence(finish):
        raise _stamped(no_answer(finish, detail=text_or_none(reason), truncated=truncated), usage, request_id)
    return AdapterReply(
        parts=parts,
        finish_reason=finish,
        usage=usage,
        model=text_or_none(body.get("model")),
        request_id=request_id,
        raw=OpenAIRaw(body, request_id, "chat"),
        dropped=prepared.dropped,
        headers=headers,
        finish_detail=text_or_none(reason) if finish not in _FINISH.values() else None,
    )


def _first_choice(body: object) -> Json | None:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else None


def _stamped(error: ReliableLLMError, usage: Usage | None, request_id: str | None) -> ReliableLLMError:
    error.usage = usage
    error.request_id = error.request_id or request_id
    return error


def read_message(
    message: object, finish: FinishReason, prepared: Prepared, reply_id: str
) -> tuple[tuple[Part, ...], FinishReason, bool]:
    """Return the parts of an answer, how it ended, and whether a tool call was cut by the output limit."""
    if not isinstance(message, Mapping):
        return (), finish, False
    candidate = prepared.target.candidate
    parts: list[Part] = [
        *reasoning_parts(text_or_none(message.get("reasoning_content") or message.get("reasoning")), candidate),
        *_content_parts(message.get("content"), prepared),
    ]
    if refusal := text_or_none(message.get("refusal")):
        return (*parts, Text(refusal)), FinishReason.REFUSAL, False
    calls = _calls(message.get("tool_calls"), prepared.answer_tool, reply_id)
    whole = [call for call in calls if finish is not FinishReason.LENGTH or _is_whole(call)]
    if any(isinstance(call, ToolCall | Opaque) for call in whole) and finish is FinishReason.STOP:
        finish = FinishReason.TOOL_CALLS
    if finish is FinishReason.TOOL_CALLS and whole and all(isinstance(call, Text) for call in whole):
        finish = FinishReason.STOP
    return (*parts, *whole), finish, len(whole) < len(calls)


def _content_parts(content: object, prepared: Prepared) -> Iterable[Part]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    # Some hosts answer in a list of parts, thinking among them.
    pieces = content if isinstance(content, list) else ()
    return tuple(part for piece in pieces if (part := _piece(piece, prepared)) is not None)


def _piece(piece: object, prepared: Prepared) -> Part | None:
    if not isinstance(piece, Mapping):
        return None
    if text := text_or_none(piece.get("text")):
        return Text(text)
    if piece.get("type") == "thinking":
        return Reasoning(text=thinking_text(piece.get("thinking")), issuer=prepared.target.candidate)
    return None


def thinking_text(thinking: object) -> str:
    """Return thinking that is written as text, or as a list of texts."""
    if isinstance(thinking, str):
        return thinking
    pieces = thinking if isinstance(thinking, list) else ()
    return "".join(text_or_none(piece.get("text")) or "" for piece in pieces if isinstance(piece, Mapping))


def _calls(raw: object, answer_tool: str | None, reply_id: str) -> list[Part]:
    calls = raw if isinstance(raw, list) else ()
    return [
        _call(call, answer_tool, reply_id, number) for number, call in enumerate(calls) if isinstance(call, Mapping)
    ]


def _call(raw: Json, answer_tool: str | None, reply_id: str, number: int) -> Part:
    function = raw.get("function")
    if not isinstance(function, Mapping):
        return Opaque(vendor=OPENAI, data=raw)
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    name = str(function.get("name") or "")
    if name == answer_tool:
        return Text(text)
    return ToolCall(id=text_or_none(raw.get("id")) or made_id(reply_id, number), name=name, arguments=text)


def made_id(reply_id: str, number: int) -> str:
    """Return an id for a tool call that came without one: the same for the same answer, other answers have others."""
    return "call_" + hashlib.sha256(f"{reply_id}/{number}".encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _is_whole(call: Part) -> bool:
    return not isinstance(call, ToolCall) or is_complete_json(call.arguments or "{}")
