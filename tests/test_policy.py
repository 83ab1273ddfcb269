"""Settings cannot exist in a bad state, and every refusal names the field."""

from __future__ import annotations

import dataclasses
import math

import pytest

from reliable_llm.errors import ConfigurationError, Kind
from reliable_llm.policy import BudgetPolicy, HedgePolicy, RecoveryPolicy, RetryPolicy, Timeouts

NUMBERS = [
    *((RetryPolicy, name) for name in ("backoff", "multiplier", "cap", "jitter", "patience", "reserve")),
    *((RecoveryPolicy, name) for name in ("quota", "max_reset", "memory")),
    *((Timeouts, each.name) for each in dataclasses.fields(Timeouts)),
    *((BudgetPolicy, name) for name in ("share", "burst")),
    *((HedgePolicy, name) for name in ("delay", "quantile", "share")),
]
COUNTS = ["max_retries", "schema_retries"]


@pytest.mark.parametrize(("policy", "name"), NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, True, "3", [1]])
def test_what_is_no_sensible_number_is_refused_by_name(policy: type, name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"{policy.__name__}\.{name} must be"):
        policy(**{name: value})


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [-1, 1.5, True, "3", None, 1000])
def test_what_is_no_count_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"RetryPolicy\.{name} must be a whole number"):
        RetryPolicy(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("jitter", 1.1), ("multiplier", 0.9), ("multiplier", 1001)])
def test_a_number_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RetryPolicy(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", [{"no_such_kind"}, "rate_limited", 3, {"rate_limited", 3}])
def test_what_are_no_kinds_are_refused(kinds: object) -> None:
    with pytest.raises(ConfigurationError, match="failover_on must hold kinds"):
        RetryPolicy(failover_on=kinds)  # type: ignore[arg-type]


def test_kinds_may_be_given_by_name() -> None:
    assert RetryPolicy(failover_on={"content_policy"}).failover_on == {Kind.CONTENT_POLICY}  # type: ignore[arg-type]


@pytest.mark.parametrize("breaker", [{"no_such_kind": 3}, {Kind.TIMEOUT: -1}, {Kind.TIMEOUT: math.nan}])
def test_a_bad_breaker_is_refused(breaker: dict[Kind, float]) -> None:
    with pytest.raises(ConfigurationError, match="breaker"):
        RecoveryPolicy(breaker=breaker)


def test_a_breaker_may_be_given_by_name() -> None:
    assert RecoveryPolicy(breaker={"timeout": 30}).breaker == {Kind.TIMEOUT: 30.0}  # type: ignore[dict-item]


@pytest.mark.parametrize("policy", [RetryPolicy(), RecoveryPolicy(), Timeouts(), BudgetPolicy(), HedgePolicy()])
def test_a_policy_cannot_be_changed(policy: object) -> None:
    first = dataclasses.fields(policy)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(policy, first, 1)


def test_a_breaker_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        RecoveryPolicy().breaker[Kind.TIMEOUT] = 3.0  # type: ignore[index]


def test_a_changed_copy_of_a_dict_changes_no_policy() -> None:
    breaker = {Kind.TIMEOUT: 3.0}
    policy = RecoveryPolicy(breaker=breaker)
    breaker[Kind.TIMEOUT] = 99.0
    assert policy.breaker == {Kind.TIMEOUT: 3.0}
