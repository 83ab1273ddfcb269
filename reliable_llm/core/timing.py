"""How long an attempt may take, and whose fault it is when it takes longer."""

from __future__ import annotations

from reliable_llm.core.actions import StartAttempt
from reliable_llm.errors import AttemptTimeoutError, DeadlineExceededError, ReliableLLMError


def time_limit(action: StartAttempt, now: float, limit: float) -> tuple[float, bool]:
    """Return the seconds that an attempt may take, and whether it is the deadline that says so."""
    if action.until is not None and action.until - now <= limit:
        return action.until - now, True
    return limit, False


def late(action: StartAttempt, *, by_deadline: bool) -> ReliableLLMError:
    """Return the error of an attempt that was cut off: by the caller's deadline, or by its own timeout."""
    if not by_deadline or action.reserved:
        return AttemptTimeoutError()
    error = DeadlineExceededError()
    error.where = str(action.stop.candidate)
    return error
