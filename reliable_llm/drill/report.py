"""A drill in the terminal: told line by line as it goes, and summed up at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TextIO

from reliable_llm.drill.picture import CallLine
from reliable_llm.drill.timeline import Moment

_COLOURS: Final = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "bold": "1"}
_LONG_SILENCE_S: Final = 5.0


class Teller:
    """Writes a drill to *out* as it happens. Colour only on a terminal, and not where NO_COLOR is set."""

    def __init__(self, out: TextIO, keys: Mapping[str, str] | None = None) -> None:
        self._out = out
        self._keys = keys or {}
        self._colour = out.isatty() and not os.environ.get("NO_COLOR")
        self._last = 0.0

    def line(self, text: str = "", style: str = "") -> None:
        print(self.styled(text, style), file=self._out, flush=True)

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if self._colour and style else text

    def tell(self, moment: Moment) -> None:
        """Write one moment, or nothing where it says nothing to a reader."""
        said = _words(moment, self._keys)
        if said is None:
            return
        if moment.at - self._last > _LONG_SILENCE_S:
            self.line(f"{'':>10}  ... {moment.at - self._last:.0f} s later", "dim")
        self._last = moment.at
        text, style = said
        self.line(f"{moment.at:>8.2f} s  {moment.call or '':<4} {self.styled(text, style)}")

    def table(self, calls: Sequence[CallLine]) -> None:
        """Write what each call cost."""
        rows = [("call", "asked", "took", "outcome", "requests", "waited", "tokens in/out"), *map(_cells, calls)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for number, row in enumerate(rows):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.line("  " + text, "" if number else "dim")


def _cells(call: CallLine) -> tuple[str, ...]:
    outcome = f"answered by {call.by}" if call.ok else f"raised {call.kind}"
    spent = f"{_count(call.tokens[0])}/{_count(call.tokens[1])}" if call.tokens else "-"
    took, waited = f"{call.end - call.start:.2f} s", f"{call.waited:.2f} s"
    return call.name, f"{call.start:.2f} s", took, outcome, str(call.requests), waited, spent


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else str(tokens)


def _words(moment: Moment, keys: Mapping[str, str]) -> tuple[str, str] | None:
    facts = moment.fields
    if moment.what == "event":
        return _event_words(facts, keys)
    if moment.what == "asked":
        op = facts["op"]
        return ("asks" if op in {"chat", "stream", "structured"} else str(op)), "bold"
    if moment.what == "sent":
        return f"  -> {facts['where']}", ""
    if moment.what == "back":
        return _back_words(facts)
    if moment.what == "streamed":
        return f"     {facts['step']}", "bold"
    if moment.what == "answered" and "served_by" in facts:
        return f"answered by {facts['served_by']}", "good"
    return (_failure_words(facts), "bad") if moment.what == "failed" else None


def _failure_words(facts: Mapping[str, object]) -> str:
    hint = facts.get("retry_after")
    soon = f"; worth another try in {hint:.0f} s" if isinstance(hint, int | float) else ""
    return f"raises {facts['kind']}{soon}"


def _back_words(facts: Mapping[str, object]) -> tuple[str, str]:
    status, outcome = facts["status"], facts["outcome"]
    if outcome != "answered":
        return f"  <- {outcome}", "warn"
    return f"  <- {status}", "" if isinstance(status, int) and status < 400 else "warn"


def _event_words(facts: Mapping[str, object], keys: Mapping[str, str]) -> tuple[str, str] | None:
    write = _EVENTS.get(str(facts["event"]))
    if write is None:
        return None
    known = {**facts, "key": keys.get(str(facts.get("key")), facts.get("key"))}
    return f"     {write[0](known)}", write[1]


def _rest(facts: Mapping[str, object]) -> str:
    left = facts.get("remaining")
    if facts.get("probing"):
        return "another call is trying it"
    return f"rests {left:.0f} s more" if isinstance(left, int | float) else "rests until a probe has succeeded"


_EVENTS: Final[dict[str, tuple[Callable[[Mapping[str, object]], str], str]]] = {
    "attempt_failed": (lambda f: f"read as {f['kind']}", "warn"),
    "key_rotated": (lambda f: f"next key of {f['provider']}: {f['key']}", ""),
    "key_parked": (
        lambda f: f"{f['provider']} {f['key']} is left alone for {f['seconds']:g} s ({f['reason']})",
        "warn",
    ),
    "key_disabled": (lambda f: f"{f['provider']} {f['key']} is out until reset() ({f['reason']})", "warn"),
    "retry_scheduled": (lambda f: f"waits {f['delay']:.2f} s, then tries again", "dim"),
    "failover": (lambda f: f"fails over from {f['from_']} to {f['to']}", "warn"),
    "quota_mode_entered": (lambda f: f"{f['provider']} is out of quota: remembered for {f['seconds']:g} s", "warn"),
    "quota_probe": (lambda f: f"time is up: this one call tries {f['provider']} {f['key']} again", ""),
    "quota_recovered": (lambda f: f"{f['provider']} is back", "good"),
    "candidate_resting": (lambda f: f"passes {f['provider']} over without a request: {_rest(f)}", "dim"),
    "candidate_skipped": (lambda f: f"skips {f['provider']}/{f['model']}: {f['reason']}", "dim"),
    "candidate_parked": (lambda f: f"{f['provider']}/{f['model']} rests {f['seconds']:g} s ({f['reason']})", "warn"),
    "candidate_recovered": (lambda f: f"{f['provider']}/{f['model']} is back", "good"),
    "capability_learned": (lambda f: f"{f['provider']}/{f['model']} lacks {f['missing']}: remembered", "dim"),
    "config_warning": (lambda f: f"warning: {f['provider']}: {f['reason']}", "warn"),
}
