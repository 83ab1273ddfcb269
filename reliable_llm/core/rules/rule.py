"""The one rule type, shared by the built-in tables and by users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reliable_llm.core.rules.needles import Guarded
from reliable_llm.errors import Kind, Scope

NO_STATUS = 0
"""Stands in `Rule.statuses` for a failure without an HTTP status of its own: a frame inside a stream, a bare text."""


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
        object.__setattr__(self, "expression", Guarded(self.pattern))
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
