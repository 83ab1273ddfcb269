"""The machine of a call where it is not alone: queues for a provider's pace, places, probes of other processes."""

from __future__ import annotations

import pytest

from reliable_llm import events
from reliable_llm.core.actions import AwaitTurn, StartAttempt
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.failover import FailoverCall
from reliable_llm.core.memory import still_holds
from reliable_llm.core.pacing import Demand, Pace
from reliable_llm.core.recovery import Fault
from reliable_llm.core.visit import Visit
from reliable_llm.errors import DeadlineExceededError, Kind, QueueFullError
from reliable_llm.policy import BudgetPolicy, Limits, RetryPolicy
from reliable_llm.types import Attempt
from tests.core.trips import World, down, fail, limited, quota, raised, started

ONE_AT_ONCE = Limits(max_concurrency=1)
SIX_A_MINUTE = Limits(requests_per_minute=6)


def paced(limits: Limits = ONE_AT_ONCE, *, keys: int = 1) -> World:
    """Return a world in which provider `a` is paced, and `b` is not."""
    world = World(a=keys, b=1)
    world.health["a"].pace = Pace(limits, keys, world.now)
    return world


def call(world: World, *route: str, deadline: float | None = None) -> FailoverCall:
    return world.call(*(route or ("a/m1",)), demand=Demand(10.0, 0), deadline=deadline)


def pace_of(world: World) -> Pace:
    pace = world.health["a"].pace
    assert pace is not None
    return pace


def turn(one: FailoverCall, now: float) -> AwaitTurn:
    action = one.next(now)
    assert isinstance(action, AwaitTurn), action
    return action


# ---------------------------------------------------------------- pace


def test_a_call_without_room_waits_for_its_turn() -> None:
    world = paced()
    started(call(world), world.now)
    assert turn(call(world), world.now).visit.stop.provider == "a"


def test_a_call_with_room_elsewhere_goes_there() -> None:
    world = paced()
    started(call(world), world.now)
    assert started(call(world, "a/m1", "b/m1"), world.now).stop.provider == "b"


def test_another_key_with_room_is_used_at_once() -> None:
    world = paced(keys=2)
    assert [started(call(world), world.now).key_place for _ in range(2)] == [0, 1]


def test_whose_turn_it_is_starts() -> None:
    world = paced()
    first, second = call(world), call(world)
    action = started(first, world.now)
    waiting = turn(second, world.now)
    assert action.ticket is not None
    pace_of(world).settle(action.ticket, None)
    waiting.demand.turn = True
    assert isinstance(second.next(world.now), StartAttempt)


def test_a_full_queue_is_left_for_one_with_room() -> None:
    world = paced(Limits(max_concurrency=1, queue=0))
    world.health["b"].pace = Pace(ONE_AT_ONCE, 1, world.now)
    for _ in range(2):
        started(call(world, "a/m1", "b/m1"), world.now)

    assert turn(call(world, "a/m1", "b/m1"), world.now).visit.stop.provider == "b"


@pytest.mark.parametrize(("waiting", "where"), [(5, "a"), (7, "b")])
def test_a_call_queues_where_its_turn_comes_first(waiting: int, where: str) -> None:
    world = paced(SIX_A_MINUTE)
    world.health["b"].pace = Pace(SIX_A_MINUTE, 1, world.now)
    for _ in range(2):
        started(call(world, "a/m1", "b/m1"), world.now)
    pace_of(world).waiting, world.health["b"].pace.waiting = waiting, 6

    assert turn(call(world, "a/m1", "b/m1"), world.now).visit.stop.provider == where


def test_nobody_overtakes_those_who_queue() -> None:
    world = paced()
    pace_of(world).waiting = 1
    turn(call(world), world.now)


def test_when_there_is_room_again_may_be_known() -> None:
    world = paced(SIX_A_MINUTE)
    started(call(world), world.now)
    assert turn(call(world), world.now).visit.turn_at(world.now) == pytest.approx(world.now + 10)


def test_when_there_is_room_again_may_hang_on_others() -> None:
    world = paced()
    started(call(world), world.now)
    assert turn(call(world), world.now).visit.turn_at(world.now) is None


def test_a_turn_that_comes_after_the_deadline_is_not_waited_for() -> None:
    world = paced(SIX_A_MINUTE)
    started(call(world), world.now)
    error = raised(call(world, deadline=5), world.now)
    assert isinstance(error, DeadlineExceededError)
    assert error.where == "local_queue"


def test_a_call_may_wait_for_its_turn_until_its_deadline() -> None:
    world = paced()
    started(call(world), world.now)
    assert turn(call(world, deadline=5), world.now).until == world.now + 5


def test_what_was_waited_in_a_queue_is_in_the_ledger() -> None:
    world = paced()
    one = call(world)
    one.waited(7.0)
    world.trip({}, one)
    assert one.attempts[0].waited == 7.0


def test_a_call_can_end_in_the_queue() -> None:
    world = paced()
    one = call(world)
    one.gave_up(QueueFullError())
    assert isinstance(raised(one, world.now), QueueFullError)


@pytest.mark.parametrize("spoil", ["left", "shut", "gate", "key", "tried"])
def test_a_candidate_that_rests_for_other_reasons_is_not_queued_for(spoil: str) -> None:
    world = paced()
    started(call(world), world.now)
    visit = Visit(world.stop("a/m1"))
    assert visit.is_held_back(world.now)
    if spoil == "left":
        visit.left = True
    elif spoil == "shut":
        visit.shut_until = world.now + 1
    elif spoil == "tried":
        visit.tried, visit.again = {0}, world.now + 1
    else:
        gate = visit.stop.health.candidate_gate("m1") if spoil == "gate" else visit.stop.health.ring.gate(0)
        gate.force(until=world.now + 9, fault=Fault(kind=Kind.QUOTA_EXHAUSTED, at=world.now), probe=True)
    assert not visit.is_held_back(world.now)


def test_a_provider_without_a_pace_has_no_turns() -> None:
    visit = Visit(World(a=1).stop("a/m1"))
    assert not visit.is_held_back(5.0)
    assert visit.turn_at(5.0) == 5.0


def test_an_attempt_taken_back_uses_nothing() -> None:
    world = paced()
    one = call(world)
    one.withdrawn(started(one, world.now))
    assert isinstance(call(world).next(world.now), StartAttempt)


def test_an_attempt_taken_back_costs_the_budget_nothing() -> None:
    world = World(a=1, b=1)
    budget = RetryBudget(BudgetPolicy(burst=1, share=0))
    one = world.call("a/m1", "b/m1", budget=budget, retry=RetryPolicy(max_retries=0))
    one.failed(started(one, world.now), world.now, world.now, down())

    one.withdrawn(started(one, world.now))

    assert started(one, world.now).stop.provider == "b"


# ---------------------------------------------------------------- places


def test_a_candidate_without_a_place_is_passed_by() -> None:
    world = World(a=1, b=1)
    one = world.call("a/m1", "b/m1")
    one.crowded_out(started(one, world.now))
    assert world.trip({}, one) == ["b#1/m1", "ok"]
    assert [event.reason for event in world.told(events.CandidateSkipped)] == ["queue_full"]


def test_with_no_place_anywhere_that_is_the_error() -> None:
    world = World(a=1)
    one = world.call("a/m1")
    one.crowded_out(started(one, world.now))
    error = raised(one, world.now)
    assert isinstance(error, QueueFullError)
    assert (error.provider, error.attempts) == ("a", ())


def test_what_the_candidate_said_before_counts_more() -> None:
    world = World(a=1)
    one = world.call("a/m1")
    one.failed(started(one, world.now), world.now, world.now, down())
    one.crowded_out(started(one, world.now + 1))
    assert raised(one, world.now + 1).kind is Kind.SERVER_ERROR


# ---------------------------------------------------------------- probes of other processes


def test_a_ceded_probe_is_asked_for_again_later() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [quota()]}, world.call("a/m1"))
    world.now += 300
    one = world.call("a/m1", "b/m1")
    one.ceded(started(one, world.now), world.now + 1)
    assert started(world.call("a/m1", "b/m1"), world.now).stop.provider == "b"
    assert started(world.call("a/m1", "b/m1"), world.now + 1).permit.probe


def test_a_ceded_probe_of_a_candidate_too() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [fail(Kind.MODEL_NOT_FOUND)]}, world.call("a/m1", "b/m1"))
    world.now += 3_600
    one = world.call("a/m1", "b/m1")
    one.ceded(started(one, world.now), world.now + 1)
    assert started(world.call("a/m1", "b/m1"), world.now).stop.provider == "b"


@pytest.mark.parametrize("failure", [quota(), limited(9), fail(Kind.MODEL_NOT_FOUND)])
def test_a_permit_holds_until_something_happens(failure: Exception) -> None:
    world = World(a=1, b=1)
    action = started(world.call("a/m1", "b/m1"), world.now)
    assert still_holds(action.stop, action.permit)
    world.trip({"a": [failure]}, world.call("a/m1", "b/m1"))  # type: ignore[list-item]
    assert not still_holds(action.stop, action.permit)


def test_a_permit_of_this_generation_holds() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [fail(Kind.MODEL_NOT_FOUND)]}, world.call("a/m1", "b/m1"))
    world.now += 3_600
    action = started(world.call("a/m1", "b/m1"), world.now)
    assert still_holds(action.stop, action.permit)


# ---------------------------------------------------------------- coordinators behind adapters


def test_what_was_tried_inside_is_in_the_ledger_of_a_failure() -> None:
    world = World(a=1)
    one = world.call("a/m1")
    error = fail(Kind.INVALID_REQUEST)
    error.inner = (Attempt(1, "in", "m", "in#1", 0.0, 1.0),)
    world.trip({"a": [error]}, one)
    assert [attempt.provider for attempt in one.attempts] == ["in"]
