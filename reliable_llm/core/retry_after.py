"""How long a vendor asks to wait, in seconds. Pure; hostile values are no hint, and nothing here raises."""

from __future__ import annotations

import math
from collections.abc import Mapping

LONGEST = 366 * 86_400.0


def seconds(text: object) -> float | None:
    """Return *text* as a wait in seconds; zero, negative, NaN, infinite and junk are no hint."""
    try:
        value = float(str(text)[:40])
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value <= LONGEST else None


def wait_from_headers(headers: Mapping[str, str], wall: float) -> float | None:
    """Return the wait that *headers* ask for; *wall* is the time now in Unix seconds, for dates."""
    milliseconds = seconds(headers.get("retry-after-ms"))
    return milliseconds / 1000 if milliseconds else seconds(headers.get("retry-after"))
