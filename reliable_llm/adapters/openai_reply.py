"""What both OpenAI endpoints share in an answer: decoding, usage, emptiness and the errors for what is no answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from reliable_llm.errors import (
    ContentPolicyError,
    EmptyResponseError,
    Kind,
    OutputTruncatedError,
    ReliableLLMError,
    default_verdict,
)
from reliable_llm.types import FinishReason, Json, Opaque, Part, Reasoning, Text, ToolCall, Usage

# An unclosed tag swallows the rest.
_THINK: Final = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def text_or_none(value: object) -> str | None:
    """Return *value* where it is text with something in it."""
    return value if isinstance(value, str) and value else None


def count(value: object) -> int | None:
    """Return *value* where it is a number of tokens. Zero is zero; anything else is unknown."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def usage_of(raw: object, *, incoming: str, outgoing: str) -> Usage | None:
    """Return usage from a vendor's object, whose counts are named *incoming*`_tokens` and *outgoing*`_tokens`."""
    if not isinstance(raw, Mapping):
        return None
    inside, outside = raw.get(f"{incoming}_tokens_details"), raw.get(f"{outgoing}_tokens_details")
    inside = inside if isinstance(inside, Mapping) else {}
    outside = outside if isinstance(outside, Mapping) else {}
    return Usage(
        input_tokens=count(raw.get(f"{incoming}_tokens")),
        output_tokens=count(raw.get(f"{outgoing}_tokens")),
        cache_read_tokens=count(inside.get("cached_tokens")),
        cache_write_tokens=count(inside.get("cache_write_tokens")),
        reasoning_tokens=count(outside.get("reasoning_tokens")),
    )


def holds_error(body: Json) -> bool:
    """Tell whether *body*, which is no answer, says itself that it is an error."""
    base = body.get("base_resp")
    code = base.get("status_code") if isinstance(base, Mapping) else None
    return bool(body.get("error")) or body.get("object") == "error" or bool(code)


def is_complete_json(text: str) -> bool:
    """Tell whether *text* is a whole JSON object: arguments of a tool call that were not cut."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def says_something(parts: tuple[Part, ...]) -> bool:
    """Tell whether *parts* hold an answer: text outside of `<think>`, a tool call, or what only the vendor reads."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    if text and (text.strip() if "<think>" not in text else _THINK.sub("", text).strip()):
        return True
    return any(isinstance(part, ToolCall | Opaque) for part in parts)


def no_answer(finish: FinishReason, *, detail: str | None = None, truncated: bool = False) -> ReliableLLMError:
    """Return the error for an answer that says nothing and ended for *finish*."""
    if finish is FinishReason.CONTENT_FILTER:
        verdict = replace(default_verdict(Kind.CONTENT_POLICY, rule="finish_reason"), status=200, code=detail)
        return ContentPolicyError("the answer was withheld by the vendor's content filter", verdict=verdict)
    if truncated:
        return OutputTruncatedError("the answer was cut by the output limit inside a tool call")
    verdict = replace(default_verdict(Kind.EMPTY_RESPONSE, rule="no_output"), status=200)
    return EmptyResponseError("the answer holds no text and no tool call", verdict=verdict)


@dataclass(frozen=True, slots=True)
class OpenAIRaw:
    """The answer as decoded; `typed()` builds what the SDK's `create()` returns."""

    body: Json
    request_id: str | None
    endpoint: str

    def typed(self) -> object:
        """Build the SDK's object, with the request id that it carries."""
        if self.endpoint == "responses":
            from openai.types.responses import Response as Answer
        else:
            from openai.types.chat import ChatCompletion as Answer  # type: ignore[assignment]
        answer = Answer.construct(**dict(self.body))  # type: ignore[arg-type]
        # Documented as public in spite of its name.
        answer._request_id = self.request_id  # noqa: SLF001
        return answer

    def __repr__(self) -> str:
        return f"OpenAIRaw({self.endpoint})"


def reasoning_parts(text: str | None, issuer: Any) -> tuple[Reasoning, ...]:
    """Return reasoning that a compatible host showed, as a part."""
    return (Reasoning(text=text, issuer=issuer),) if text else ()
