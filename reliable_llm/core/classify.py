"""Tell a failure for what it is. Pure: the same failure gives the same verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reliable_llm.core.failure import Failure
from reliable_llm.core.retry_after import wait_from_headers
from reliable_llm.core.rules.rule import Rule
from reliable_llm.errors import Kind, Verdict, default_verdict

__all__ = ["Rule", "classify"]

_STATUS = {
    401: Kind.AUTHENTICATION,
    402: Kind.QUOTA_EXHAUSTED,
    403: Kind.PERMISSION,
    404: Kind.MODEL_NOT_FOUND,
    408: Kind.TIMEOUT,
    413: Kind.REQUEST_TOO_LARGE,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
    504: Kind.TIMEOUT,
    529: Kind.OVERLOADED,
}


def classify(failure: Failure, *, rules: Sequence[Rule] = (), wall: float = 0.0) -> Verdict:
    """Return what *failure* means. *rules* are the user's own, tried first; *wall* is the time now, in Unix seconds."""
    kind = _kind(failure)
    verdict = default_verdict(kind, rule="status")
    return replace(verdict, status=failure.status, retry_after=wait_from_headers(failure.headers, wall))


def _kind(failure: Failure) -> Kind:
    if failure.output_started:
        return Kind.STREAM_INTERRUPTED
    if failure.transport:
        return Kind.TIMEOUT if "timeout" in failure.transport else Kind.CONNECTION
    if failure.status is None or failure.status < 400:
        return Kind.MALFORMED_RESPONSE
    return _STATUS.get(failure.status, Kind.SERVER_ERROR if failure.status >= 500 else Kind.INVALID_REQUEST)
