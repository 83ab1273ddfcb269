"""What answers say about limits: `x-ratelimit-*` (OpenAI, Groq and many others) and `anthropic-ratelimit-*`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from reliable_llm.core.pacing import Reported
from reliable_llm.core.retry_after import clock, wait_from_headers

# Prefix and suffix around what is limited; then remaining, limit and reset, wherever the vendor puts the word.
_FORMS: Final = ("x-ratelimit-{what}-{of}", "anthropic-ratelimit-{of}-{what}")


def reported(headers: Mapping[str, str], wall: float) -> tuple[Reported, ...]:
    """Return what *headers* (lower-case names) say; never raises. *wall* is Unix time, for resets given as dates."""
    if not any("ratelimit" in name for name in headers):
        return ()
    return tuple(_reported(headers, clock(headers, wall)))


def _reported(headers: Mapping[str, str], now: float) -> Iterator[Reported]:
    for form in _FORMS:
        for of in ("requests", "tokens"):
            remaining = _count(headers.get(form.format(what="remaining", of=of)))
            if remaining is not None:
                limit = _count(headers.get(form.format(what="limit", of=of)))
                reset = _wait(headers.get(form.format(what="reset", of=of), "")[:40], now)
                yield Reported(of=of, limit=limit, remaining=remaining, reset=reset)


def _count(value: str | None) -> float | None:
    try:
        number = float((value or "")[:20])
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _wait(value: str, now: float) -> float | None:
    """Return "6m0s", "12" or "2026-01-01T00:00:12Z" as seconds from *now*."""
    wait = wait_from_headers({"retry-after": value}, now)
    if wait is not None:
        return wait
    try:
        return max(0.0, datetime.fromisoformat(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None
