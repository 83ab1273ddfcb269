"""A rule that could never work is refused where it is written, not when an outage shows it."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.errors import ConfigurationError, Kind, Scope


def complaint(**given: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Rule(**{"kind": Kind.OVERLOADED, **given})
    return str(caught.value)


@pytest.mark.parametrize("kind", ["x", "", None, 429, [], "Rate_Limited"])
def test_a_kind_that_is_none_is_refused_with_the_list_of_kinds(kind: object) -> None:
    said = complaint(kind=kind)

    assert said.startswith("Rule.kind must be one of ")
    assert [str(known) for known in Kind if str(known) not in said] == []


@pytest.mark.parametrize("pattern", ["(", "[a", "a{99999999999999999999}", "(?z)", "*", "a|(", r"(?P<a>b)(?P<a>c)"])
def test_a_pattern_that_is_no_regular_expression_is_refused(pattern: str) -> None:
    assert complaint(pattern=pattern).startswith("Rule.pattern must be a regular expression (")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pattern", 5),
        ("pattern", b"x"),
        ("name", None),
        ("reason", 1),
        ("feature", 1),
        ("codes", "TEAM_BUDGET"),
        ("codes", ("",)),
        ("codes", (1113,)),
        ("codes", None),
        ("vendors", "groq"),
        ("vendors", (None,)),
        ("statuses", 403),
        ("statuses", ("403",)),
        ("statuses", (True,)),
        ("statuses", (4030,)),
        ("statuses", (99,)),
        ("scope", "planet"),
        ("rotate_key", "yes"),
        ("retry_same", 1),
        ("failover", 0),
        ("retry_after", -1),
        ("retry_after", math.nan),
        ("retry_after", math.inf),
        ("retry_after", "60"),
        ("retry_after", True),
    ],
)
def test_any_other_argument_of_the_wrong_kind_is_refused_by_its_name(field: str, value: object) -> None:
    assert complaint(**{field: value}).startswith(f"Rule.{field} must be ")


def test_a_long_value_is_not_repeated_whole() -> None:
    assert len(complaint(codes="x" * 10_000)) < 250


def test_the_values_of_kinds_and_scopes_do_as_well() -> None:
    rule = Rule(kind="quota_exhausted", scope="model")  # type: ignore[arg-type]

    assert (rule.kind, rule.scope) == (Kind.QUOTA_EXHAUSTED, Scope.MODEL)
    assert isinstance(rule.kind, Kind)


def test_lists_do_as_well_as_tuples() -> None:
    rule = Rule(kind=Kind.OVERLOADED, codes=["A"], statuses=[403, NO_STATUS], vendors={"groq"})  # type: ignore[arg-type]

    assert (rule.codes, rule.statuses, rule.vendors) == (("A",), (403, NO_STATUS), ("groq",))


def test_a_rule_can_be_hashed_compared_and_pickled() -> None:
    rule = Rule(kind=Kind.OVERLOADED, codes=["A"], pattern="no worker", retry_after=0.5)  # type: ignore[arg-type]

    assert {rule: 1}[Rule(kind=Kind.OVERLOADED, codes=("A",), pattern="no worker", retry_after=0.5)] == 1
    assert pickle.loads(pickle.dumps(rule)) == rule
