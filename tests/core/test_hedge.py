"""When a second candidate may be started, and how often."""

from __future__ import annotations

import pytest

from reliable_llm.core.hedge import ENOUGH, WINDOW, Hedges
from reliable_llm.policy import HedgePolicy


def test_a_set_delay_needs_no_experience() -> None:
    assert Hedges(HedgePolicy(delay=2.0)).delay("a/m") == 2.0


def test_without_enough_answers_nothing_is_known() -> None:
    hedges = Hedges(HedgePolicy())
    for _ in range(ENOUGH - 1):
        hedges.observe("a/m", 1.0)

    assert hedges.delay("a/m") is None


def test_the_delay_is_the_quantile_of_what_was_seen() -> None:
    hedges = Hedges(HedgePolicy(quantile=0.95))
    for second in range(100):
        hedges.observe("a/m", float(second))

    assert hedges.delay("a/m") == 95.0


def test_each_candidate_has_its_own_times() -> None:
    hedges = Hedges(HedgePolicy())
    for _ in range(ENOUGH):
        hedges.observe("a/m", 1.0)

    assert hedges.delay("b/m") is None


def test_old_answers_are_forgotten() -> None:
    hedges = Hedges(HedgePolicy())
    for _ in range(WINDOW):
        hedges.observe("a/m", 100.0)
    for _ in range(WINDOW):
        hedges.observe("a/m", 1.0)

    assert hedges.delay("a/m") == 1.0


@pytest.mark.parametrize("calls", [1, 19, 20, 100, 1000])
def test_no_more_than_the_share_of_calls_is_hedged(calls: int) -> None:
    hedges = Hedges(HedgePolicy(delay=0.0, share=0.05))
    hedged = 0
    for _ in range(calls):
        hedges.delay("a/m")
        hedged += hedges.allow()

    assert hedged == max(1, int(calls * 0.05))


def test_a_share_of_nothing_allows_none() -> None:
    hedges = Hedges(HedgePolicy(delay=0.0, share=0.0))
    hedges.delay("a/m")

    assert not hedges.allow()
