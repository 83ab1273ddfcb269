"""The one rule type, shared by the built-in tables and by users."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from reliable_llm.errors import Kind, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """If a failure fits, it is of `kind`. Conditions left empty fit anything; a rule without any fits every failure.

    `vendors`: names from configuration. `statuses`: HTTP statuses. `codes`: the error's code, type, status or reason in
    the body, compared whole and without regard to case. `pattern`: a regular expression searched in the vendor's message
    (at most the first 4,000 characters), without regard to case; anchor it, vendors quote prompts. `headers`: name and
    pattern of the value.

    What a rule leaves at None is derived from the kind and the wait. `retry_after` is in seconds and used where the
    failure names no wait. `reason` is for people: a source, or one line.
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
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern, re.IGNORECASE))
