"""How long an attempt may take, and whose fault it is when it takes longer."""

from __future__ import annotations

import pytest

from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.timing import late, time_limit
from reliable_llm.errors import DeadlineExceededError, Kind
from reliable_llm.policy import RetryPolicy
from tests.core.trips import World


def started(*, deadline: float | None = None, reserve: float = 0.0) -> StartAttempt:
    world = World(p=1, q=1)
    world.now = 0.0
    action = world.call("p/m1", "q/m1", deadline=deadline, retry=RetryPolicy(reserve=reserve)).next(world.now)
    assert isinstance(action, StartAttempt)
    return action


@pytest.mark.parametrize(
    ("deadline", "seconds", "by_deadline"), [(None, 60.0, False), (90.0, 60.0, False), (60.0, 60.0, True), (9, 9, True)]
)
def test_an_attempt_may_take_its_timeout_or_what_the_deadline_leaves(
    deadline: float | None, seconds: float, by_deadline: bool
) -> None:
    assert time_limit(started(deadline=deadline), 0.0, 60.0) == (seconds, by_deadline)


def test_a_timeout_of_its_own_is_the_candidates_fault() -> None:
    assert late(started(), by_deadline=False).kind is Kind.TIMEOUT


def test_an_attempt_cut_off_by_the_deadline_says_where_the_call_was() -> None:
    error = late(started(deadline=9.0), by_deadline=True)
    assert isinstance(error, DeadlineExceededError)
    assert error.where == "p/m1"


def test_an_attempt_cut_off_for_the_sake_of_later_candidates_is_not_the_end_of_the_call() -> None:
    assert late(started(deadline=9.0, reserve=2.0), by_deadline=True).kind is Kind.TIMEOUT
