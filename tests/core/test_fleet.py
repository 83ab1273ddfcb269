"""A probe that is left to another process."""

from __future__ import annotations

from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.recovery import Fault, Gate
from reliable_llm.errors import Kind
from reliable_llm.events import CooldownStarted, QuotaProbe
from tests.core.trips import World, fail, limited

FAULT = Fault(kind=Kind.QUOTA_EXHAUSTED, at=0.0)


def half_open() -> Gate:
    gate = Gate()
    gate.force(until=10.0, fault=FAULT, probe=True)
    return gate


def test_a_ceded_probe_is_as_if_it_were_out_here_for_a_while() -> None:
    gate = half_open()

    gate.cede(gate.enter(11.0), until=12.0)

    assert not gate.probing
    assert not gate.admits(11.9)
    assert gate.opens_at(11.9) is None
    assert gate.admits(12.0)


def test_news_ends_the_wait_for_a_ceded_probe() -> None:
    gate = half_open()
    gate.cede(gate.enter(11.0), until=1_000.0)

    gate.open()

    assert gate.admits(11.0)
    assert not gate.needs_probe


def test_only_a_probe_of_this_generation_is_ceded() -> None:
    gate = half_open()
    permit = gate.enter(11.0)
    gate.force(until=10.0, fault=FAULT, probe=True)

    gate.cede(permit, until=1_000.0)
    gate.cede(gate.permit, until=1_000.0)

    assert gate.admits(11.0)
    assert gate.needs_probe


def started(action: object) -> StartAttempt:
    assert isinstance(action, StartAttempt)
    return action


def test_a_call_whose_probe_is_ceded_goes_on_elsewhere_and_announces_none() -> None:
    world = World(a=1, b=1)
    world.health["a"].ring.gate(0).force(until=world.now - 1, fault=FAULT, probe=True)
    call = world.call("a/m", "b/m")

    call.ceded(started(call.next(world.now)), world.now + 1)

    assert started(call.next(world.now)).stop.provider == "b"
    assert not [event for event in call.events if isinstance(event, QuotaProbe)]


def test_probes_of_a_key_for_a_model_and_of_a_candidate_are_ceded_too() -> None:
    world = World(a=1)
    health = world.health["a"]
    gates = [health.ring.model_gate(0, "m"), health.candidate_gate("m")]
    for gate in gates:
        gate.force(until=world.now - 1, fault=FAULT, probe=True)
    call = world.call("a/m")

    call.ceded(started(call.next(world.now)), world.now + 5)

    assert [gate.opens_at(world.now) for gate in gates] == [None, None]


def test_a_ring_goes_on_at_the_turn_it_is_told() -> None:
    world = World(a=3)
    world.health["a"].ring.start_at(2)

    assert started(world.call("a/m").next(world.now)).key_place == 2


def test_a_rate_limit_is_announced_with_key_and_time() -> None:
    world = World(a=2)
    call = world.call("a/m")
    action = started(call.next(world.now))

    call.failed(action, world.now, world.now, limited(20.0))

    [cooldown] = [event for event in call.events if isinstance(event, CooldownStarted)]
    assert (cooldown.key, cooldown.model, cooldown.seconds) == ("a#1", "m", 20.0)


def test_a_rate_limit_that_no_other_key_escapes_names_no_key() -> None:
    world = World(a=2)
    call = world.call("a/m")
    action = started(call.next(world.now))

    call.failed(action, world.now, world.now, fail(Kind.RATE_LIMITED, retry_after=20.0, rotate_key=False))

    assert [event.key for event in call.events if isinstance(event, CooldownStarted)] == [None]


def test_bad_news_that_is_old_announces_no_second_cooldown() -> None:
    world = World(a=1)
    calls = [world.call("a/m"), world.call("a/m")]
    actions = [started(call.next(world.now)) for call in calls]

    for call, action in zip(calls, actions, strict=True):
        call.failed(action, world.now, world.now, limited(20.0))

    told = [[event for event in call.events if isinstance(event, CooldownStarted)] for call in calls]
    assert [len(events) for events in told] == [1, 0]
