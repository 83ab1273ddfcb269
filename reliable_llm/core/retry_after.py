"""How long a vendor asks to wait, in seconds: from headers and bodies, the most trusted place first.

Pure, and hostile values are no hint: zero, past, negative, NaN, infinite, huge and junk give None, and nothing raises.
Times of day need to know what time it is: `wall` is the time now in Unix seconds, or 0 where that is not known; a
`date` header of the answer itself is better still, because it is the vendor's own clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final

from reliable_llm.core.rules.needles import Guarded
from reliable_llm.core.unwrap import Details, mapping, text

LONGEST: Final = 400 * 86_400.0
"""A wait of more than about a year is not a hint."""

_EPOCH_SECONDS: Final = 1_000_000_000.0
_EPOCH_MILLISECONDS: Final = 1_000_000_000_000.0

# A number with a unit; two or more may follow each other: 6m0s, 1h 2m 3s, 7m12s, 20ms, 1.984999999s, 2 minutes.
_PART = (
    r"\d{1,12}(?:\.\d{1,12})?\s?"
    r"(?:milliseconds?|msecs?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)(?![a-z])"
)
_DURATION = rf"{_PART}(?:,?\s?(?:and\s)?{_PART}){{0,4}}"
_GO_PART = r"\d{1,12}(?:\.\d{1,12})?(?:ms|h|m|s)"
_PIECE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s?(ms|mil|min|m|s|h|d)[a-z]*", re.IGNORECASE)
_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "mil": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}

_LEAD = (
    r"(?:try(?:ing)? again|retry(?:ing)?(?: (?:your|the) request)?|please wait|wait(?: for)?|available(?: again)?|"
    r"resets?|"
    r"quota (?:will )?reset|cool(?:ing)?[ -]?down)"
)
_TEXT_DURATION = Guarded(
    rf"\b{_LEAD}[^.\n\d]{{0,24}}?\s?(?:in|after|for|wait|of|:)?\s?\(?((?:{_GO_PART}){{2,5}}(?![a-z])|{_DURATION})"
)
# A .NET TimeSpan, as Azure's gateways write it: 00:01:30, or 2.10:30:00 with days.
_TEXT_CLOCK = Guarded(
    rf"\b(?:{_LEAD}|replenished)[^.\n\d]{{0,24}}?\s?(?:in|after)\s(?:(\d{{1,3}})\.)?(\d{{1,2}}):(\d\d):(\d\d)(?![\d:])"
)
_TEXT_SECONDS = Guarded(r"\bretry[-_ ]after[\"']?\s?[:=]?\s?[\"']?(\d{1,12}(?:\.\d{1,12})?)(?!\.?\d|[\w-])")
_TEXT_DATE = Guarded(
    r"(?:\b(?:resets?|regain access|available again|try again|retry)\b[^.\d\n]{0,24}|将在 ?|于 ?)"
    r"(\d{4}-\d\d-\d\d)(?:(?:T| at | )(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?)?\s?(Z|UTC|GMT|[+-]\d\d:?\d\d)?"
)
_TEXT_AFTER = Guarded(
    r"(\d{1,9}(?:\.\d{1,9})?) ?(毫秒|秒|分钟|分|小时|時間|초|분|시간)(?:钟|間)? ?"
    r"(?:之后|以后|后|後|후|뒤)"
)
_AFTER_UNITS: Final[Mapping[str, float]] = {
    "毫秒": 0.001, "秒": 1, "초": 1, "分钟": 60, "分": 60, "분": 60, "小时": 3600, "時間": 3600, "시간": 3600,
}  # fmt: skip
_DIGIT = re.compile(r"\d")
_FIELDS_SECONDS: Final = (
    "resets_in_seconds",
    "retry_after_seconds",
    "retry_after",
    "retryAfter",
    "retry-after",
    "wait_seconds",
    "estimated_time",  # Hugging Face: until a model is loaded
)
_FIELDS_MILLISECONDS: Final = ("retry_after_ms", "retryAfterMs")
_FIELDS_EPOCH: Final = ("resets_at", "reset_at", "resetsAt", "reset_time")
_FIELDS: Final = frozenset((*_FIELDS_SECONDS, *_FIELDS_MILLISECONDS, *_FIELDS_EPOCH))
_CHINA: Final = timezone(timedelta(hours=8))


def seconds(value: object) -> float | None:
    """Return *value* as a wait in seconds; whatever is not a plain positive number is no hint."""
    number = _number(value)
    return None if number is None else _sane(number)


def wait_from_headers(headers: Mapping[str, str], wall: float) -> float | None:
    """Return the wait that `retry-after-ms` or `retry-after` asks for: seconds, a duration or an HTTP date."""
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = seconds(headers.get(name))
        if milliseconds:
            return milliseconds / 1000
    value = headers.get("retry-after", "")[:100]
    return seconds(value) or _duration(value) or _until(_http_date(value), clock(headers, wall))


def wait_from_body(details: Details, headers: Mapping[str, str], wall: float, *, local: bool = False) -> float | None:
    """Return the wait that a body asks for. *local*: times without a zone are China's (Zhipu)."""
    now = clock(headers, wall)
    stated = [wait for level in details.envelopes for wait in _field_waits(level, now)]
    spoken = [wait for message in details.texts for wait in _text_waits(message, now, local=local)]
    if stated and spoken and abs(stated[0] - spoken[0]) < 1:
        return max(stated[0], spoken[0])
    return next(iter([*stated, *spoken]), None)


def wait_from_buckets(headers: Mapping[str, str], wall: float) -> float | None:
    """Return the wait until the buckets that are EMPTY fill again; full ones say nothing about this failure."""
    if not any("ratelimit" in name or name.startswith("x-codex") for name in headers):
        return None
    now = clock(headers, wall)
    waits = [*_anthropic_windows(headers, now), *_anthropic_buckets(headers, now), *_openai_buckets(headers, now)]
    found = [wait for wait in waits if wait is not None]
    return max(found, default=None)


def clock(headers: Mapping[str, str], wall: float) -> float:
    """Return the vendor's own time where the answer is dated, else *wall*."""
    return _http_date(headers.get("date", "")[:100]) or wall


def window_rejected(headers: Mapping[str, str]) -> bool:
    """Tell whether a subscription window (five hours, a week) is used up."""
    return any(_windows(headers)) or headers.get("anthropic-ratelimit-unified-status") == "rejected"


def _sane(number: float) -> float | None:
    return number if math.isfinite(number) and 0 < number <= LONGEST else None


def _duration(value: str) -> float | None:
    """Return "6m0s", "1.5s", "20ms", "2 minutes" in seconds."""
    pieces = _PIECE.findall(value[:100]) if value and not value.lstrip().startswith("-") else ()
    return _sane(sum(float(number) * _UNITS[unit.lower()] for number, unit in pieces))


def _until(moment: float | None, now: float) -> float | None:
    return _sane(moment - now) if moment is not None and now > 0 else None


def _http_date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp() if value[:1].isalpha() else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _iso_date(value: str) -> float | None:
    try:
        return datetime.fromisoformat(value[:40]).timestamp() if value else None
    except (ValueError, OverflowError):
        return None


def _epoch(value: object, now: float) -> float | None:
    """Return the wait until an epoch time in seconds or milliseconds, an ISO date, or a plain number of seconds."""
    number = _number(value)
    if number is None:
        return _until(_iso_date(text(value)), now) or _duration(text(value))
    if number >= _EPOCH_MILLISECONDS:
        return _until(number / 1000, now)
    return _until(number, now) if number >= _EPOCH_SECONDS else _sane(number)


def _number(value: object) -> float | None:
    digits = text(value)[:40]
    try:
        return float(digits) if digits and digits.isascii() else None
    except (ValueError, OverflowError):
        return None


def _field_waits(level: Mapping[str, object], now: float) -> Iterator[float]:
    """Yield the waits in the fields of one object: Google's RetryInfo, Codex's `resets_in_seconds`, relays' copies."""
    details = level.get("details")
    for item in details[:16] if isinstance(details, list) else ():
        delay = mapping(item).get("retryDelay")
        yield from _some(_duration(text(delay)) or seconds(mapping(delay).get("seconds")))
    metadata = mapping(level.get("metadata"))
    for place in (level, metadata, mapping(level.get("details"))):
        if _FIELDS.isdisjoint(place):
            continue
        for name in filter(place.__contains__, _FIELDS_MILLISECONDS):
            yield from (wait / 1000 for wait in _some(seconds(place[name])))
        for name in filter(place.__contains__, _FIELDS_SECONDS):
            yield from _some(seconds(place[name]) or _duration(text(place[name])))
        for name in filter(place.__contains__, _FIELDS_EPOCH):
            yield from _some(_epoch(place[name], now))
    inner = {name.lower(): text(value) for name, value in list(mapping(metadata.get("headers")).items())[:32]}
    if inner:
        yield from _some(wait_from_headers(inner, now) or max(_some_all(_openai_buckets(inner, now)), default=None))


def _text_waits(message: str, now: float, *, local: bool) -> Iterator[float]:
    if not _DIGIT.search(message):
        return
    for found in _TEXT_DURATION.all(message):
        yield from _some(_duration(found.group(1)))
    for found in _TEXT_CLOCK.all(message):
        days, hours, minutes, rest = (int(group or 0) for group in found.groups())
        yield from _some(_sane(float(days * 86_400 + hours * 3_600 + minutes * 60 + rest)))
    for found in _TEXT_AFTER.all(message):
        yield from _some(_sane(float(found.group(1)) * _AFTER_UNITS[found.group(2)]))
    for found in _TEXT_SECONDS.all(message):
        yield from _some(seconds(found.group(1)))
    for found in _TEXT_DATE.all(message):
        yield from _some(_until(_moment(*found.groups(), local=local), now))


def _moment(day: str, time: str | None, zone: str | None, *, local: bool) -> float | None:
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}")
        offset = zone if zone and zone[0] in "+-" else None
        if offset:
            return datetime.fromisoformat(f"{moment.isoformat()}{offset}").timestamp()
        return moment.replace(tzinfo=_CHINA if local and not zone else UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _some(wait: float | None) -> Iterator[float]:
    if wait is not None:
        yield wait


def _some_all(waits: Iterable[float | None]) -> list[float]:
    return [wait for wait in waits if wait is not None]


def _windows(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the subscription windows that are used up."""
    for name, value in headers.items():
        found = re.fullmatch(r"anthropic-ratelimit-unified-(\w+)-status", name)
        if found and value == "rejected":
            yield found.group(1)


def _anthropic_windows(headers: Mapping[str, str], now: float) -> Iterator[float | None]:
    rejected = list(_windows(headers))
    for window in rejected:
        yield _until(_number(headers.get(f"anthropic-ratelimit-unified-{window}-reset")), now)
    # `unified-reset` follows the representative claim, so it counts only where no window is named.
    if not rejected and headers.get("anthropic-ratelimit-unified-status") == "rejected":
        yield _until(_number(headers.get("anthropic-ratelimit-unified-reset")), now)


def _anthropic_buckets(headers: Mapping[str, str], now: float) -> Iterator[float | None]:
    for bucket in ("requests", "tokens", "input-tokens", "output-tokens"):
        if _number(headers.get(f"anthropic-ratelimit-{bucket}-remaining")) == 0:
            yield _until(_iso_date(headers.get(f"anthropic-ratelimit-{bucket}-reset", "")), now)


def _openai_buckets(headers: Mapping[str, str], now: float) -> Iterator[float | None]:
    """OpenAI, Groq and others: `x-ratelimit-remaining-tokens: 0` with `x-ratelimit-reset-tokens: 7m12s`."""
    for suffix in ("-requests", "-tokens", "-requests-minute", "-tokens-minute", "-requests-day", "-tokens-day", ""):
        if _number(headers.get(f"x-ratelimit-remaining{suffix}")) == 0:
            yield _epoch(headers.get(f"x-ratelimit-reset{suffix}"), now)
    if (_number(headers.get("x-codex-primary-used-percent")) or 0) >= 100:
        yield seconds(headers.get("x-codex-primary-reset-after-seconds"))
    if (_number(headers.get("x-codex-secondary-used-percent")) or 0) >= 100:
        yield seconds(headers.get("x-codex-secondary-reset-after-seconds"))
