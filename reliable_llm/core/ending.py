"""How a call ends that nobody answered: whose error is raised, and what it tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reliable_llm.core.memory import TRANSIENT
from reliable_llm.core.summary import describe, from_fault
from reliable_llm.core.walk import Walk
from reliable_llm.errors import (
    ContextWindowError,
    DeadlineExceededError,
    Kind,
    ReliableLLMError,
    UnsupportedFeatureError,
)
from reliable_llm.types import Attempt

# Kinds for which "when will somebody be back" has an answer.
_TIME_HEALS: Final = TRANSIENT | {Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED}


def primary_error(walk: Walk, now: float) -> ReliableLLMError:
    """Return the error of the first candidate that has one: met in this call, or remembered."""
    for index, stop in enumerate(walk.route):
        visit = walk.visit(index)
        if visit.last_error is not None:
            return visit.last_error
        fault = visit.stored_fault()
        if fault is not None:
            return from_fault(stop, fault)
    reasons = "; ".join(f"{stop.candidate}: {walk.why_not(index, now)}" for index, stop in enumerate(walk.route))
    error = UnsupportedFeatureError if walk.larger_than is None else ContextWindowError
    return error(f"no candidate can serve this request ({reasons})")


def complete(error: ReliableLLMError, walk: Walk, attempts: Sequence[Attempt], now: float) -> None:
    """Write the whole story on the error that is to be raised."""
    error.attempts = tuple(attempts)
    seconds = walk.seconds_left(now)
    if seconds is not None and error.kind in _TIME_HEALS:
        error.retry_after = seconds
    untried = [str(stop.candidate) for stop in walk.route[walk.index + 1 :]] if error.kind is Kind.DEADLINE else []
    error.args = (describe(error, error.attempts, untried),)


def late_in_queue() -> DeadlineExceededError:
    """Return the error of a call whose turn does not come within its deadline."""
    error = DeadlineExceededError("the deadline does not leave the time to wait for a turn (limits)")
    error.where = "local_queue"
    return error
