"""What was observed against what the scenario expects. A figure that nobody can compare is said to be unchecked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reliable_llm.drill.scenario import Expect

Json = Mapping[str, object]
_SLACK_S: Final = 0.05
_HINT_SLACK_S: Final = 1.0
_FREE: Final = {"may_be_wrapped", "kind"}
_SHORT: Final = {"auth": "authentication", "quota": "quota_exhausted", "rate_limit": "rate_limited"}


@dataclass(slots=True)
class Findings:
    """What does not hold, and what could not be compared."""

    mismatches: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


def expanded(call: str) -> list[str]:
    """Return the calls that `c1..c30` stands for."""
    found = re.fullmatch(r"([A-Za-z_]+)(\d+)\.\.[A-Za-z_]*(\d+)", call)
    return [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)] if found else [call]


def compare(expect: Expect, observed: Json, events: Sequence[Json]) -> Findings:
    """Return where *observed* differs from *expect*."""
    findings = Findings(unchecked=[f"expect.{name}: unknown field" for name in expect.model_extra or {}])
    results = observed["results"]
    by_call = {str(row["call"]): row for row in results} if isinstance(results, list) else {}
    for want in expect.results:
        for call in expanded(str(want.get("call"))):
            _result(call, want, by_call.get(call), findings)
    findings.mismatches += _requests(expect.requests, _mapping(observed["requests"]))
    findings.mismatches += _waits(expect.waited_s, _mapping(observed["waited_s"]))
    if expect.order is not None and observed["order"] != expect.order:
        findings.mismatches.append(f"order: want {expect.order}, got {observed['order']}")
    findings.mismatches += [f"no event {_short(want)}" for want in expect.logs if not _logged(want, events)]
    return findings


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _short(value: object) -> str:
    return json.dumps(value, default=str)[:200]


def _result(call: str, want: Json, have: Json | None, findings: Findings) -> None:
    if have is None:
        findings.mismatches.append(f"{call}: no result, as no call has that id")
        return
    outcome = "ok" if "ok" in want else "raises"
    if outcome not in have:
        findings.mismatches.append(f"{call}: want {outcome} {_short(want[outcome])}, got {_short(have)}")
        return
    wanted, seen = _mapping(want[outcome]), _mapping(have[outcome])
    if outcome == "raises":
        findings.mismatches += [f"{call}: {fault}" for fault in _kind(wanted, seen)]
    for name, value in wanted.items():
        if name not in _FREE:
            _field(call, name, value, seen, findings)


def _kind(want: Json, have: Json) -> Iterator[str]:
    if want.get("kind") != "all_failed":
        if want.get("kind") != have.get("kind"):
            yield f"want {want.get('kind')}, got {have.get('kind')}"
    elif not isinstance(have.get("attempts"), int) or int(str(have["attempts"])) < 2:
        yield f"want at least two attempts, got {have.get('attempts')}"


def _field(call: str, name: str, want: object, seen: Json, findings: Findings) -> None:
    compare_with = _COMPARE.get(name)
    if compare_with is None:
        findings.unchecked.append(f"{call}.{name}: nothing to compare it with")
        return
    have = seen.get("kind" if name == "primary_kind" else name)
    if name == "chain_contains":
        have = seen.get("ledger")
    if name == "attempts" and isinstance(want, list):
        compare_with = _ledger
    if not compare_with(want, have):
        findings.mismatches.append(f"{call}: {name} want {_short(want)}, got {_short(have)}")


def _equal(want: object, have: object) -> bool:
    return want == have


def _near(want: object, have: object, slack: float = _SLACK_S) -> bool:
    if not isinstance(have, int | float):
        return want is None and have is None
    low, high = want if isinstance(want, list) else (want, want)
    return isinstance(low, int | float) and isinstance(high, int | float) and low - slack <= have <= high + slack


def _hint(want: object, have: object) -> bool:
    return _near(want, have, _HINT_SLACK_S)


def _last_name(want: object, have: object) -> bool:
    return str(want).rsplit(".", 1)[-1] == str(have).rsplit(".", 1)[-1]


def _usage(want: object, have: object) -> bool:
    if not isinstance(want, dict):
        return want == have
    known = {name: None if value == "unknown" else value for name, value in want.items()}
    return isinstance(have, dict) and all(have.get(name) == value for name, value in known.items())


def _said(want: object, have: object) -> bool:
    return bool(have) == (want is not False)


def _chain(want: object, have: object) -> bool:
    seen = {f"{a.get('kind')}@{a.get('provider')}" for a in have} if isinstance(have, list) else set()
    wanted = [str(each).split("@") for each in want] if isinstance(want, list) else []
    return all(f"{_SHORT.get(kind, kind)}@{provider}" in seen for kind, provider in wanted)


def _ledger(want: object, have: object) -> bool:
    if not (isinstance(want, list) and isinstance(have, list) and len(want) == len(have)):
        return False
    return all(_attempt(w, h) for w, h in zip(want, have, strict=True))


def _attempt(want: Json, have: Json) -> bool:
    return all(
        str(have.get(name)) == str(value).removeprefix("alias ") or have.get(name) == value
        for name, value in want.items()
    )


_COMPARE: Final = {
    **dict.fromkeys(
        ("served_by", "text", "tool_calls", "chunks", "start_events", "events", "parsed", "contains_key", "model",
         "status", "provider", "partial_text", "cause_kind", "where", "limit_tokens", "used_tokens", "identity", "code",
         "incomplete_tool_calls", "primary_kind", "attempts", "attempt_kinds", "usage_by", "stop_reason"),
        _equal,
    ),
    **dict.fromkeys(("usage", "usage_total"), _usage),
    **dict.fromkeys(("raw_text_available", "after_roundtrip"), _said),
    "retry_after": _hint,
    "at": _near,
    "type": _last_name,
    "chain_contains": _chain,
}  # fmt: skip


def _requests(want: Mapping[str, int], have: Json) -> Iterator[str]:
    for where in sorted({*want, *have}):
        if want.get(where, 0) != have.get(where, 0):
            yield f"requests {where}: want {want.get(where, 0)}, got {have.get(where, 0)}"


def _waits(want: Mapping[str, float | list[float]], have: Json) -> Iterator[str]:
    for call, seconds in want.items():
        if not _near(seconds, have.get(call, 0.0)):
            yield f"waited {call}: want {seconds} s, got {have.get(call, 0.0)} s"


def _logged(want: Json, events: Sequence[Json]) -> bool:
    fields = _mapping(want.get("fields"))
    return any(
        event["event"] == want.get("event")
        and event["level"] == want.get("level", event["level"])
        and all(_like(value, event.get(_LOG_NAMES.get(name, name))) for name, value in fields.items())
        for event in events
    )


# What the corpus calls fields of events, and what they are called in the product.
_LOG_NAMES: Final = {"key_alias": "key", "remaining_s": "remaining"}


def _like(want: object, have: object) -> bool:
    """A provider may be named with its model, and a reason in more words."""
    if isinstance(want, str) and isinstance(have, str):
        return want == have or have.startswith(f"{want}/") or want in have
    return want == have
