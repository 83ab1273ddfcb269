"""What rules look at: codes, messages and traits, read once from a failure. Pure and bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reliable_llm.core.failure import Failure
from reliable_llm.core.retry_after import wait_from_body, wait_from_buckets, wait_from_headers, window_rejected
from reliable_llm.core.rules.families import names_of
from reliable_llm.core.rules.needles import Guarded
from reliable_llm.core.rules.rule import NO_STATUS
from reliable_llm.core.tokens import larger_than_limit
from reliable_llm.core.unwrap import Details, clean, mapping, text, unwrap

_SHORT_WAIT: Final = 3_600.0
"""A daily limit that frees up within the hour is a rolling one: a rate. Groq and OpenAI state such waits."""

_PER_DAY = Guarded(
    r"(?:\b(?:per|a|each|every)[ _-]?|/ ?)(?:day|month|week)\b|\bper_?day|\bbyday\b|\bdaily\b|"
    r"\b[RT]PD\b"
)
_PER_DAY_NAME = re.compile(r"per_?(?:day|month)|_daily", re.IGNORECASE)
_PER_MINUTE_NAME = re.compile(r"per_?minute", re.IGNORECASE)
_QUOTA_OF_ZERO = Guarded(r"\blimit: 0\b(?!\.)")


@dataclass(frozen=True, slots=True)
class Facts:
    """A failure as rules see it.

    `status` is the HTTP status, or the one inside the body of a 2xx or a frame, or `NO_STATUS`. `codes` are lower-case,
    most specific first. They end with traits: "trait:html", "trait:wordless" (no message, no code), "trait:frame" (in a
    stream), "trait:untyped" (an exception without status and body), "trait:success" (under a 2xx), "trait:per_day",
    "trait:day_is_spent" (no short wait stated), "trait:day_rolls" (a short one is), "trait:long_wait",
    "trait:quota_of_zero", "trait:larger_than_limit", "trait:window_rejected", and "finish:..." for finish reasons.
    `wait` is the stated wait in seconds, if any.
    """

    vendors: tuple[str, ...]
    status: int
    codes: tuple[str, ...]
    texts: tuple[str, ...]
    details: Details
    wait: float | None


def facts_of(failure: Failure, wall: float) -> Facts:
    """Read *failure*; *wall* is the time now in Unix seconds, 0 where unknown."""
    details = unwrap(failure.body, failure.headers)
    texts = details.texts or tuple(filter(None, (clean(failure.message),)))
    vendors = names_of(failure.vendor)
    wait = (
        wait_from_headers(failure.headers, wall)
        or wait_from_body(details, failure.headers, wall, local="zhipu" in vendors)
        or wait_from_buckets(failure.headers, wall)
    )
    status = _status(failure, details)
    traits = _traits(failure, details, texts, wait)
    return Facts(vendors, status, (*details.codes, *_tail_number(vendors, texts), *traits), texts, details, wait)


def _status(failure: Failure, details: Details) -> int:
    if failure.status is not None and failure.status >= 300:
        return failure.status
    return details.status or NO_STATUS


def _traits(failure: Failure, details: Details, texts: tuple[str, ...], wait: float | None) -> Iterator[str]:
    if failure.status is None or failure.status < 300:
        yield from _finish_reasons(details)
    if details.html:
        yield "trait:html"
    if not details.texts and not details.codes and not details.html:
        yield "trait:wordless"
    if failure.status is None and failure.transport is None:
        yield "trait:frame" if failure.body is not None else "trait:untyped"
    if failure.status is not None and 200 <= failure.status < 300:
        yield "trait:success"
    if window_rejected(failure.headers):
        yield "trait:window_rejected"
    if any(map(larger_than_limit, texts)):
        yield "trait:larger_than_limit"
    yield from _quota_traits(details, texts, wait)


def _quota_traits(details: Details, texts: tuple[str, ...], wait: float | None) -> Iterator[str]:
    names = " ".join(_quota_names(details))
    per_day = bool(_PER_DAY_NAME.search(names)) or (
        not _PER_MINUTE_NAME.search(names) and any(_PER_DAY.search(message) for message in texts)
    )
    if per_day:
        yield "trait:per_day"
        yield "trait:day_is_spent" if wait is None or wait > _SHORT_WAIT else "trait:day_rolls"
    if wait is not None and wait > _SHORT_WAIT:
        yield "trait:long_wait"
    if any(_QUOTA_OF_ZERO.search(message) for message in texts):
        yield "trait:quota_of_zero"


def _quota_names(details: Details) -> Iterator[str]:
    """Yield Google's names of the quota that was met: `violations[].quotaId`, `metadata.quota_limit`."""
    for level in details.envelopes:
        items = level.get("details")
        for item in items[:16] if isinstance(items, list) else ():
            yield text(mapping(mapping(item).get("metadata")).get("quota_limit"))
            violations = mapping(item).get("violations")
            for violation in violations[:16] if isinstance(violations, list) else ():
                yield text(mapping(violation).get("quotaId"))


def _finish_reasons(details: Details) -> Iterator[str]:
    """Yield why an answer ended, where a body under a 2xx is one: `content_filter: PROHIBITED_CONTENT` -> two parts."""
    for level in details.envelopes:
        for name in ("choices", "candidates"):
            choices = level.get(name)
            for choice in choices[:2] if isinstance(choices, list) else ():
                yield from _finish(mapping(choice).get("finish_reason"))
                yield from _finish(mapping(choice).get("finishReason"))
        yield from _finish(level.get("stop_reason"))
        yield from _finish(mapping(level.get("promptFeedback")).get("blockReason"))
        yield from _finish(mapping(level.get("incomplete_details")).get("reason"))


def _finish(reason: object) -> Iterator[str]:
    for part in text(reason).lower()[:100].replace(":", " ").split():
        yield f"finish:{part}"


def _tail_number(vendors: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[str]:
    """Yield the number that MiniMax puts in brackets behind its few words: "insufficient balance (1008)"."""
    for message in texts if "minimax" in vendors else ():
        found = re.fullmatch(r"[a-z ,_/-]{1,80}\((\d{4,5})\)", message, re.IGNORECASE)
        if found:
            yield found.group(1)
