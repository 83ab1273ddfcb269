"""A response of the Responses API, read: what is an answer becomes one, what is not is raised as what it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.openai_chat_reply import Refusals
from reliable_llm.adapters.openai_items import holds_refusal, read_item
from reliable_llm.adapters.openai_reply import OpenAIRaw, no_answer, says_something, text_or_none, usage_of
from reliable_llm.types import AdapterReply, Candidate, FinishReason, Json, Opaque, Part, ToolCall, Usage

# Calls that OpenAI ran by itself on the way to an answer: without one they are none.
_ON_THE_WAY: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "mcp_list_tools", "tool_search_call"}
)
_UNDER_WAY: Final = frozenset({"queued", "in_progress"})
_CUT: Final[Mapping[object, FinishReason]] = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def responses_usage(raw: object) -> Usage | None:
    """Return the usage of a response."""
    return usage_of(raw, incoming="input", outgoing="output")


def read_parts(body: Json, candidate: Candidate, answer_tool: str | None) -> tuple[Part, ...]:
    """Return the parts of all output items, in order."""
    output = body.get("output")
    items = [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []
    return tuple(part for item in items for part in read_item(item, candidate, answer_tool))


def is_answer(parts: tuple[Part, ...]) -> bool:
    """Tell whether *parts* hold more than steps on the way."""
    return says_something(
        tuple(part for part in parts if not (isinstance(part, Opaque) and str(part.data.get("type")) in _ON_THE_WAY))
    )


def cut_by(body: Json) -> str | None:
    """Return why an incomplete response is incomplete."""
    details = body.get("incomplete_details")
    return text_or_none(details.get("reason")) if isinstance(details, Mapping) else None


def finish_of(body: Json, parts: tuple[Part, ...]) -> FinishReason:
    """Return the neutral word for how the response in *body* ended."""
    if holds_refusal(body.get("output")):
        return FinishReason.REFUSAL
    if body.get("status") == "incomplete":
        return _CUT.get(cut_by(body), FinishReason.OTHER)
    if text_or_none(body.get("status")) in _UNDER_WAY:
        return FinishReason.PAUSE
    return FinishReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in parts) else FinishReason.STOP


def lost_call(body: Json, parts: tuple[Part, ...]) -> bool:
    """Tell whether a function call was cut, and is not among *parts*."""
    output = body.get("output")
    items = output if isinstance(output, list) else []
    calls = [item for item in items if isinstance(item, Mapping) and item.get("type") == "function_call"]
    return bool(calls) and not any(isinstance(part, ToolCall) for part in parts)


def is_response(body: object) -> bool:
    """Tell whether *body* is a response that did not fail."""
    if not isinstance(body, Mapping) or body.get("error") or body.get("status") in ("failed", "cancelled"):
        return False
    return isinstance(body.get("output"), list)


def read_reply(body: object, headers: Mapping[str, str], prepared: Prepared, refusals: Refusals) -> AdapterReply:
    """Return the answer in *body*; raise the error that it is instead."""
    request_id = headers.get("x-request-id")
    usage = responses_usage(body.get("usage")) if isinstance(body, Mapping) else None
    if not is_response(body) or not isinstance(body, Mapping):
        error = refusals.refusal(error_document(body), 200, headers)
        error.usage, error.request_id = usage, error.request_id or request_id
        raise error
    parts = read_parts(body, prepared.target.candidate, prepared.answer_tool)
    finish = finish_of(body, parts)
    if not is_answer(parts) and finish is not FinishReason.PAUSE and not prepared.takes_silence(finish):
        error = no_answer(finish, detail=cut_by(body), truncated=lost_call(body, parts))
        error.usage, error.request_id = usage, request_id
        raise error
    return AdapterReply(
        parts=parts,
        finish_reason=finish,
        usage=usage,
        model=text_or_none(body.get("model")),
        request_id=request_id,
        raw=OpenAIRaw(body, request_id, "responses"),
        dropped=prepared.dropped,
        headers=headers,
        finish_detail=cut_by(body),
    )


def error_document(body: object) -> object:
    """Return the error of a failed response in the form of an error document, anything else as it is."""
    if isinstance(body, Mapping) and body.get("error"):
        return {"error": body["error"]}
    return body
