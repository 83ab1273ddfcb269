"""Headers that a script gives as a time from now: `HTTP-date +30s`, `now+30s`, `rfc3339 now+30s`, `epoch +30`.

`HTTP-date 30 s from now`, `HTTP-date in 30 s` and `HTTP-date 30 s ago` are read as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime


def dated(headers: Mapping[str, str], now: float) -> dict[str, str]:
    """Return *headers* with every relative date written out; *now* is the vendor's Unix time."""
    return {name: _written(value, now) for name, value in headers.items()}


def _written(value: str, now: float) -> str:
    value = re.sub(r"(date\b.*?) (?:in )?(\d+(?:\.\d+)? ?[smh]) ago\b", r"\1 -\2", value, flags=re.IGNORECASE)
    value = re.sub(
        r"(date\b.*?) (?:in )?(\d+(?:\.\d+)? ?[smh])(?: (?:from now|ahead|later))?$",
        r"\1 +\2",
        value,
        flags=re.IGNORECASE,
    )
    found = re.search(
        r"(?:date|now|rfc ?3339|iso|epoch|unix).*?([+-]) ?(\d+(?:\.\d+)?) ?(s|m|h)?\b", value, re.IGNORECASE
    )
    if found is None:
        return value
    seconds = float(found[2]) * {"m": 60, "h": 3600}.get(found[3] or "s", 1)
    at = now + (seconds if found[1] == "+" else -seconds)
    if re.search("epoch|unix", value, re.IGNORECASE):
        return f"{at:g}" if at % 1 else f"{at:.0f}"
    moment = datetime.fromtimestamp(at, UTC)
    if re.search("3339|iso", value, re.IGNORECASE):
        return moment.isoformat().replace("+00:00", "Z")
    return format_datetime(moment, usegmt=True)
