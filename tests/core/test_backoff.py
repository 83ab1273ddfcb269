"""How long to wait between attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.core.backoff import FLOOR, backoff_delay, spread
from reliable_llm.policy import RetryPolicy

policies = st.builds(
    RetryPolicy,
    backoff=st.floats(0, 1e6),
    multiplier=st.floats(1, 1_000),
    cap=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
    hint_jitter=st.floats(0, 1),
)
chances = st.floats(0, 1, exclude_max=True)


def delays(policy: RetryPolicy, count: int, chance: float = 0.0) -> list[float]:
    return [backoff_delay(policy, waits, chance) for waits in range(count)]


def test_the_wait_doubles_up_to_the_cap() -> None:
    assert delays(RetryPolicy(cap=10, jitter=0), 7) == [0.5, 1, 2, 4, 8, 10, 10]


def test_the_default_cap_is_thirty_seconds() -> None:
    assert delays(RetryPolicy(jitter=0), 8)[-2:] == [30, 30]


def test_the_multiplier_is_the_users() -> None:
    assert delays(RetryPolicy(backoff=1, multiplier=3, jitter=0), 3) == [1, 3, 9]


def test_no_wait_is_shorter_than_the_floor() -> None:
    assert delays(RetryPolicy(backoff=0), 3) == [FLOOR] * 3


def test_jitter_takes_away_its_share() -> None:
    policy = RetryPolicy(backoff=4, jitter=0.5)
    assert (backoff_delay(policy, 0, 0.0), backoff_delay(policy, 0, 0.5)) == (4, 3)


def test_full_jitter_still_keeps_the_floor() -> None:
    assert backoff_delay(RetryPolicy(backoff=1, jitter=1), 0, 0.999_999) == FLOOR


def test_a_thousand_waits_do_not_overflow() -> None:
    assert backoff_delay(RetryPolicy(multiplier=1_000, jitter=0), 10_000, 0.0) == 30


@given(policy=policies, waits=st.integers(0, 10_000), chance=chances)
def test_a_wait_is_between_the_floor_and_the_cap(policy: RetryPolicy, waits: int, chance: float) -> None:
    assert FLOOR <= backoff_delay(policy, waits, chance) <= max(FLOOR, policy.cap)


@given(policy=policies, waits=st.integers(0, 200), chance=chances)
def test_a_later_wait_is_never_shorter(policy: RetryPolicy, waits: int, chance: float) -> None:
    assert backoff_delay(policy, waits, chance) <= backoff_delay(policy, waits + 1, chance)


@pytest.mark.parametrize(("hint", "added"), [(2, 0.5), (5, 1.25), (3600, 1.25)])
def test_a_hint_is_spread_by_its_share_of_five_seconds_at_most(hint: float, added: float) -> None:
    assert spread(RetryPolicy(hint_jitter=0.5), hint, 0.5) == added


def test_by_default_half_of_two_percent_of_a_hint_is_left_for_the_way() -> None:
    assert 0 < spread(RetryPolicy(), 2, 0.999) < 0.02


@given(policy=policies, hint=st.floats(0, 1e9), chance=chances)
def test_jitter_only_adds_to_a_hint(policy: RetryPolicy, hint: float, chance: float) -> None:
    assert 0 <= spread(policy, hint, chance) <= 5


def test_without_jitter_a_hint_is_kept_to_the_second() -> None:
    assert spread(RetryPolicy(hint_jitter=0), 7, 0.9) == 0
