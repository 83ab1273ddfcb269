"""The gate: blocked for a time, then one probe; a result of a past generation changes nothing."""

from __future__ import annotations

from reliable_llm.core.recovery import Fault, Gate, GatePermit
from reliable_llm.errors import Kind

FAULT = Fault(kind=Kind.QUOTA_EXHAUSTED, at=0.0)
OTHER = Fault(kind=Kind.RATE_LIMITED, at=1.0)


def parked(until: float = 300.0, *, probe: bool = True) -> Gate:
    gate = Gate()
    gate.block(gate.enter(0), until=until, fault=FAULT, probe=probe)
    return gate


def test_a_new_gate_admits_everybody() -> None:
    gate = Gate()
    assert gate.admits(0)
    assert gate.enter(0) == GatePermit(0, probe=False)
    assert gate.admits(0)


def test_an_open_gate_opens_now() -> None:
    assert Gate().opens_at(7) == 7


def test_a_blocked_gate_admits_nobody_before_its_time() -> None:
    gate = parked()
    assert not gate.admits(299.999)
    assert gate.opens_at(10) == 300


def test_a_blocked_gate_knows_why() -> None:
    assert parked().fault is FAULT


def test_when_the_time_is_up_the_first_one_in_is_the_probe() -> None:
    assert parked().enter(300).probe


def test_while_a_probe_is_out_nobody_else_is_admitted() -> None:
    gate = parked()
    gate.enter(300)
    assert not gate.admits(10_000)
    assert gate.opens_at(10_000) is None


def test_a_probe_that_succeeds_opens_the_gate() -> None:
    gate = parked()
    assert gate.succeed(gate.enter(300))
    assert gate.enter(300) == GatePermit(gate.generation, probe=False)
    assert gate.fault is None


def test_a_probe_that_fails_blocks_anew() -> None:
    gate = parked()
    assert gate.block(gate.enter(300), until=600, fault=OTHER, probe=True)
    assert not gate.admits(599)
    assert gate.enter(600).probe


def test_a_probe_that_is_released_leaves_the_next_one_to_probe() -> None:
    gate = parked()
    gate.release(gate.enter(300))
    assert gate.admits(300)
    assert gate.enter(300).probe


def test_a_cooldown_needs_no_probe() -> None:
    gate = parked(probe=False)
    assert not gate.enter(300).probe
    assert gate.until is None


def test_a_success_that_began_before_the_bad_news_cannot_clear_it() -> None:
    gate = Gate()
    early = gate.enter(0)
    gate.block(gate.enter(0), until=300, fault=FAULT, probe=True)
    assert not gate.succeed(early)
    assert not gate.admits(1)


def test_a_success_without_news_is_none() -> None:
    gate = Gate()
    assert not gate.succeed(gate.enter(0))


def test_a_stale_release_does_not_admit_a_second_probe() -> None:
    gate = parked()
    first = gate.enter(300)
    gate.block(first, until=600, fault=FAULT, probe=True)
    gate.enter(600)
    gate.release(first)
    assert not gate.admits(600)


def test_the_release_of_a_permit_that_was_no_probe_changes_nothing() -> None:
    gate = parked()
    gate.enter(300)
    gate.release(GatePermit(gate.generation, probe=False))
    assert not gate.admits(300)


def test_a_second_failure_of_the_same_moment_may_lengthen_the_rest() -> None:
    gate = Gate()
    first, second = gate.enter(0), gate.enter(0)
    gate.block(first, until=300, fault=FAULT, probe=True)
    assert not gate.block(second, until=900, fault=FAULT, probe=True)
    assert gate.until == 900


def test_a_second_failure_of_the_same_moment_never_shortens_the_rest() -> None:
    gate = Gate()
    first, second = gate.enter(0), gate.enter(0)
    gate.block(first, until=300, fault=FAULT, probe=True)
    gate.block(second, until=10, fault=FAULT, probe=True)
    assert gate.until == 300


def test_a_failure_of_the_generation_before_does_not_touch_a_probe() -> None:
    gate = Gate()
    first, second = gate.enter(0), gate.enter(0)
    gate.block(first, until=300, fault=FAULT, probe=True)
    gate.enter(300)
    gate.block(second, until=900, fault=FAULT, probe=True)
    assert gate.until == 300


def test_a_failure_from_long_ago_changes_nothing() -> None:
    gate = parked()
    old = GatePermit(0, probe=False)
    gate.block(gate.enter(300), until=600, fault=FAULT, probe=True)
    assert not gate.block(old, until=9_000, fault=OTHER, probe=True)
    assert gate.until == 600


def test_a_failure_that_comes_after_the_gate_opened_changes_nothing() -> None:
    gate = parked()
    probe = gate.enter(300)
    gate.open()
    assert not gate.block(probe, until=900, fault=OTHER, probe=True)
    assert gate.admits(300)


def test_force_blocks_whatever_the_permits_say() -> None:
    gate = parked()
    gate.enter(300)
    gate.force(until=500, fault=OTHER, probe=False)
    assert gate.opens_at(300) == 500
    assert gate.fault is OTHER


def test_open_takes_a_probe_out_of_the_way() -> None:
    gate = parked()
    gate.enter(300)
    gate.open()
    assert gate.admits(0)


def test_a_forced_attempt_beside_a_probe_does_not_give_the_probes_place_back() -> None:
    """Seed 632 of the simulation: a second probe was admitted while the first one was out."""
    gate = parked()
    gate.enter(300)
    gate.release(gate.force_enter())
    gate.cede(gate.force_enter(), until=301)
    assert gate.probing


def test_a_forced_attempt_that_succeeds_opens_the_gate() -> None:
    gate = parked()
    assert gate.succeed(gate.force_enter())
    assert gate.admits(1)
