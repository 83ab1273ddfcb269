"""Answers that do not fit the schema, or were cut, as the vendors give them: as answers.

The coordinator raises them, after its own repair. What is built on a vendor's client, on LangChain or on Pydantic AI
expects the text and judges it itself (and asks again in its own way), so there they are answers as ever.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from reliable_llm.errors import InvalidOutputError, OutputTruncatedError
from reliable_llm.types import Candidate, ChatReply, FinishReason, ServedBy, Text

Unfit: TypeAlias = InvalidOutputError | OutputTruncatedError

UNFIT: Final = (InvalidOutputError, OutputTruncatedError)


def unfit_reply(error: Unfit) -> ChatReply:
    """Return the answer that *error* was raised for."""
    provider, model = error.provider or "", error.model or ""
    first = error.attempts[0] if error.attempts else None
    return ChatReply(
        parts=(Text(error.text),),
        served_by=ServedBy(provider, model, error.key_label or ""),
        requested=Candidate(first.provider, first.model) if first else Candidate(provider, model),
        finish_reason=FinishReason.LENGTH if isinstance(error, OutputTruncatedError) else FinishReason.STOP,
        usage=error.usage,
        attempts=error.attempts,
        request_id=error.request_id,
    )
