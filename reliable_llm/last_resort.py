"""The answer of last resort: a callable of the caller's own that speaks when nobody else did.

It is asked only after an outage: every candidate that could have served the request has failed, or the deadline came
first. A request that would fail everywhere is raised as ever; so is a stream that broke after output. The outage is
logged (`all_failed`) before the callable is asked, the reply is marked `degraded` and keeps the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.types import Candidate, ChatReply, ChatRequest, FinishReason, ServedBy, Text

# Takes the request and the error that would be raised; None declines, and then it is raised. Must not block.
LastResort: TypeAlias = Callable[[ChatRequest, ReliableLLMError], ChatReply | str | None]

SERVED_BY: Final = ServedBy("last_resort", "none", "")

_OUTAGES: Final = frozenset(
    {
        Kind.RATE_LIMITED,
        Kind.QUOTA_EXHAUSTED,
        Kind.OVERLOADED,
        Kind.SERVER_ERROR,
        Kind.TIMEOUT,
        Kind.CONNECTION,
        Kind.MALFORMED_RESPONSE,
        Kind.EMPTY_RESPONSE,
        Kind.AUTHENTICATION,
        Kind.PERMISSION,
        Kind.MODEL_NOT_FOUND,
        Kind.QUEUE_FULL,
        Kind.DEADLINE,
    }
)


def is_outage(error: ReliableLLMError) -> bool:
    """Tell whether *error* means that nobody was able to answer, whatever the request."""
    return error.kind in _OUTAGES


def stand_in(
    last_resort: LastResort, request: ChatRequest, error: ReliableLLMError, requested: Candidate
) -> ChatReply | None:
    """Return the degraded reply in place of *error*, or None where it has to be raised."""
    if not is_outage(error):
        return None
    answer = last_resort(request, error)
    if answer is None:
        return None
    if isinstance(answer, ChatReply):
        return replace(answer, degraded=True, requested=requested, attempts=error.attempts)
    return ChatReply(
        parts=(Text(answer),),
        served_by=SERVED_BY,
        requested=requested,
        finish_reason=FinishReason.STOP,
        usage=None,
        attempts=error.attempts,
        degraded=True,
    )
