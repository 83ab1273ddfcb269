"""What is written to a store about one gate, and how it is read back: as something a stranger may have written.

A record is a line of JSON of at most 300 bytes. Whatever does not look like one is no record. A rest ends at most a day
after it was learned of, whatever is written, and a record from the future is none: so no value, however often it is
read, keeps a gate closed for longer than that.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Final

from reliable_llm.core.memory import TRANSIENT
from reliable_llm.errors import Kind
from reliable_llm.policy import DAY

MAX_BYTES: Final = 300

# Clocks of one server do not differ; this is for its own corrections.
_FUTURE: Final = 60.0

SHARED_KINDS: Final = TRANSIENT | {
    Kind.RATE_LIMITED,
    Kind.QUOTA_EXHAUSTED,
    Kind.AUTHENTICATION,
    Kind.PERMISSION,
    Kind.MODEL_NOT_FOUND,
}

# Vendors' codes are words such as insufficient_quota; nothing that could hold a part of a key passes.
_CODE: Final = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The state of one gate. Times are the server's, in seconds; `until` 0 means open."""

    at: float
    until: float = 0.0
    kind: Kind = Kind.RATE_LIMITED
    status: int | None = None
    code: str | None = None
    probe: bool = False

    @property
    def is_open(self) -> bool:
        return self.until == 0.0


def encode(record: Record) -> bytes:
    """Return *record* as it is stored."""
    fields: dict[str, object] = {"at": round(record.at, 6)}
    if not record.is_open:
        until = min(record.until, record.at + DAY)
        fields |= {"until": round(until, 6), "kind": str(record.kind), "probe": record.probe}
        fields |= {"status": record.status} if record.status is not None else {}
        fields |= {"code": record.code} if _is_code(record.code) else {}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(raw: object, now: float) -> Record | None:
    """Return the record in *raw*, or None where there is none. Never raises; *now* is the server's time."""
    if not isinstance(raw, bytes) or not 0 < len(raw) <= MAX_BYTES:
        return None
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    at = _time(fields.get("at")) if isinstance(fields, dict) else None
    if at is None or at > now + _FUTURE:
        return None
    if "until" not in fields:
        return Record(at=at)
    until, kind = _time(fields["until"]), fields.get("kind")
    if until is None or not isinstance(kind, str) or kind not in SHARED_KINDS:
        return None
    return Record(
        at=at,
        until=min(until, at + DAY),
        kind=Kind(kind),
        status=_status(fields.get("status")),
        code=fields["code"] if _is_code(fields.get("code")) else None,
        probe=fields.get("probe") is not False,
    )


def _time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and 100 <= value <= 599 else None


def _is_code(value: object) -> bool:
    return isinstance(value, str) and _CODE.fullmatch(value) is not None
