"""The one rule type, shared by the built-in tables and by users."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from reliable_llm.core.rules.needles import Guarded
from reliable_llm.errors import ConfigurationError, Kind, Scope

EnumT = TypeVar("EnumT", bound=StrEnum)

NO_STATUS = 0
"""Stands in `Rule.statuses` for a failure without an HTTP status of its own: a frame inside a stream, a bare text."""


_LONGEST_SHOWN: Final = 80


def words(text: str) -> tuple[str, ...]:
    """Return the words of *text*: long lists of codes read better so."""
    return tuple(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A failure that meets every condition is of `kind`. Conditions left empty are met by anything.

    `vendors`: names from configuration, or families of them (`zhipu` also covers `zai`). `statuses`: HTTP statuses.
    `codes`: the code, type, status or reason that the vendor's body gives, compared whole and without regard to case.
    `pattern`: a regular expression searched in the vendor's message, its first 4,000 characters, without regard to
    case. Anchor it: vendors quote prompts, keys and model names.

    Raises `ConfigurationError` for an argument that could never work: a `kind` that is none, a `pattern` that is no
    regular expression, a string where a tuple is wanted.

    What a rule leaves at None follows from the kind and the wait. `retry_after`, in seconds, is used where the failure
    names no wait. `reason` is for people: a source, or one line.

    A private gateway that answers 403 with `{"code": "TEAM_BUDGET", "message": ...}` when the month's money is spent:

        Rule(kind=Kind.QUOTA_EXHAUSTED, name="acme.budget", statuses=(403,), codes=("TEAM_BUDGET",), retry_after=3600)
    """

    kind: Kind
    name: str = ""
    vendors: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()
    pattern: str = ""
    scope: Scope | None = None
    rotate_key: bool | None = None
    retry_same: bool | None = None
    failover: bool | None = None
    retry_after: float | None = None
    feature: str | None = None
    reason: str = ""
    expression: Guarded = field(init=False, repr=False, compare=False)
    lowered: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _member("kind", self.kind, Kind))
        if self.scope is not None:
            object.__setattr__(self, "scope", _member("scope", self.scope, Scope))
        for name in ("name", "pattern", "reason"):
            _check_text(name, getattr(self, name))
        if self.feature is not None:
            _check_text("feature", self.feature)
        for name in ("vendors", "codes"):
            object.__setattr__(self, name, _strings(name, getattr(self, name)))
        object.__setattr__(self, "statuses", _statuses(self.statuses))
        for name in ("rotate_key", "retry_same", "failover"):
            if not isinstance(getattr(self, name), bool | None):
                _refuse(name, "True, False or None", getattr(self, name))
        _check_seconds(self.retry_after)
        object.__setattr__(self, "expression", _expression(self.pattern))
        object.__setattr__(self, "lowered", frozenset(code.lower() for code in self.codes))

    def fits(self, *, vendors: Sequence[str], status: int, codes: Sequence[str], texts: Sequence[str]) -> bool:
        """Tell whether a failure meets the conditions; *codes* are lower-case, *status* may be `NO_STATUS`."""
        if not self.applies(vendors=vendors, status=status, codes=codes):
            return False
        return not self.pattern or any(self.expression.search(text) for text in texts)

    def applies(self, *, vendors: Sequence[str], status: int, codes: Sequence[str]) -> bool:
        """Tell whether a failure meets the conditions but for the pattern."""
        if self.statuses and status not in self.statuses:
            return False
        if self.vendors and not any(vendor in self.vendors for vendor in vendors):
            return False
        return not self.lowered or not self.lowered.isdisjoint(codes)


def _refuse(name: str, wanted: str, got: object) -> NoReturn:
    raise ConfigurationError(f"Rule.{name} must be {wanted}, got {repr(got)[:_LONGEST_SHOWN]}")


def _member(name: str, value: object, kinds: type[EnumT]) -> EnumT:
    if isinstance(value, str) and value in set(kinds):
        return kinds(value)
    _refuse(name, f"one of {', '.join(sorted(kinds))}", value)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        _refuse(name, "a string", value)


def _strings(name: str, values: object) -> tuple[str, ...]:
    if isinstance(values, list | tuple | set | frozenset) and all(isinstance(v, str) and v.strip() for v in values):
        return tuple(values)
    _refuse(name, f'a tuple of strings that are not empty, such as {name}=("a", "b")', values)


def _statuses(values: object) -> tuple[int, ...]:
    if isinstance(values, list | tuple | set | frozenset) and all(map(_is_status, values)):
        return tuple(values)
    _refuse("statuses", "a tuple of HTTP statuses, such as statuses=(403,)", values)


def _is_status(value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and (value == NO_STATUS or 100 <= value <= 599)  # type: ignore[operator]


def _check_seconds(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        _refuse("retry_after", "a number of seconds from 0", value)


def _expression(pattern: str) -> Guarded:
    try:
        return Guarded(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        _refuse("pattern", f"a regular expression ({error})", pattern)
