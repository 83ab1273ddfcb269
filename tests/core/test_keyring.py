"""The keys of one provider: even turns, no key that rests, one probe."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.core.keyring import KeyPermit, KeyRing
from reliable_llm.core.recovery import FOREVER, Fault, Gate
from reliable_llm.errors import Kind

M = "m1"


def ring(size: int = 3) -> KeyRing:
    return KeyRing([f"openai#{n + 1}" for n in range(size)])


def rest(gate: Gate, until: float, *, probe: bool = True, kind: Kind = Kind.QUOTA_EXHAUSTED) -> None:
    gate.force(until=until, fault=Fault(kind=kind, at=0.0), probe=probe)


def picks(keys: KeyRing, count: int, now: float = 0.0) -> list[int]:
    return [_place(keys.pick(now, M)) for _ in range(count)]


def _place(permit: KeyPermit | None) -> int:
    assert permit is not None
    return permit.place


def test_keys_take_turns() -> None:
    assert picks(ring(), 5) == [0, 1, 2, 0, 1]


def test_a_ring_without_keys_gives_none() -> None:
    keys = ring(0)
    assert keys.pick(0, M) is None
    assert keys.ready_at(0, M) is None
    assert len(keys) == 0


def test_turns_are_shared_by_all_models() -> None:
    keys = ring()
    assert [_place(keys.pick(0, model)) for model in ("a", "b", "a")] == [0, 1, 2]


def test_a_key_that_rests_is_passed_over() -> None:
    keys = ring()
    rest(keys.gate(1), 300)
    assert picks(keys, 4) == [0, 2, 0, 2]


def test_the_turn_of_a_resting_key_goes_to_both_neighbours_alike() -> None:
    keys = ring(3)
    rest(keys.gate(1), 300)
    assert set(Counter(picks(keys, 100)).values()) == {50}


def test_a_key_comes_back_when_its_time_is_up() -> None:
    keys = ring(2)
    rest(keys.gate(0), 300, probe=False)
    assert picks(keys, 2, now=299) == [1, 1]
    assert sorted(picks(keys, 2, now=300)) == [0, 1]


def test_a_parked_key_comes_back_as_one_probe() -> None:
    keys = ring(1)
    rest(keys.gate(0), 300)
    first, second = keys.pick(300, M), keys.pick(300, M)
    assert first is not None
    assert first.probe
    assert second is None


def test_a_key_limited_for_one_model_serves_another() -> None:
    keys = ring(1)
    rest(keys.model_gate(0, M), 300)
    assert keys.pick(0, M) is None
    assert keys.pick(0, "other") is not None


def test_a_model_gate_is_made_once() -> None:
    keys = ring(1)
    assert keys.model_gate(0, M) is keys.model_gate(0, M)
    assert [model for model, _ in keys.model_gates(0)] == [M]


def test_a_skipped_key_is_not_given() -> None:
    assert _place(ring().pick(0, M, skip={0, 1})) == 2


def test_with_every_key_skipped_there_is_none() -> None:
    assert ring().pick(0, M, skip={0, 1, 2}) is None


def test_ready_at_is_now_for_a_ready_key() -> None:
    assert ring().ready_at(5, M) == 5


def test_ready_at_is_the_earliest_time() -> None:
    keys = ring(2)
    rest(keys.gate(0), 300)
    rest(keys.gate(1), 200)
    assert keys.ready_at(0, M) == 200
    assert keys.ready_at(0, M, skip={1}) == 300


def test_ready_at_is_the_later_one_of_a_keys_two_gates() -> None:
    keys = ring(1)
    rest(keys.gate(0), 100)
    rest(keys.model_gate(0, M), 200)
    assert keys.ready_at(0, M) == 200


def test_a_key_that_is_out_is_never_ready() -> None:
    keys = ring(1)
    rest(keys.gate(0), FOREVER)
    assert keys.ready_at(0, M) is None
    assert keys.pick(1e9, M) is None


def test_nobody_knows_when_a_probed_key_is_ready() -> None:
    keys = ring(1)
    rest(keys.gate(0), 300)
    assert not keys.has_probe_out(300, M)
    keys.pick(300, M)
    assert keys.has_probe_out(300, M)
    assert keys.opens_at(0, 300, M) is None


def test_the_fault_is_that_of_the_key_that_is_back_first() -> None:
    keys = ring(2)
    assert keys.fault(M) is None
    rest(keys.gate(0), 300)
    rest(keys.model_gate(1, M), 200, kind=Kind.RATE_LIMITED)
    fault = keys.fault(M)
    assert fault is not None
    assert fault.kind is Kind.RATE_LIMITED


def test_a_probes_success_opens_its_gate() -> None:
    keys = ring(1)
    rest(keys.gate(0), 300)
    probe = keys.pick(300, M)
    assert probe is not None
    assert keys.succeed(probe, M)
    assert keys.gate(0).until is None


def test_a_success_on_a_key_that_did_not_rest_is_no_news() -> None:
    keys = ring(1)
    permit = keys.pick(0, M)
    assert permit is not None
    assert not keys.succeed(permit, M)


def test_a_probe_of_one_model_opens_that_model() -> None:
    keys = ring(1)
    rest(keys.model_gate(0, M), 300)
    probe = keys.pick(300, M)
    assert probe is not None
    assert keys.succeed(probe, M)
    assert keys.pick(300, M) is not None


def test_a_released_probe_can_be_made_again() -> None:
    keys = ring(1)
    rest(keys.gate(0), 300)
    rest(keys.model_gate(0, M), 300)
    probe = keys.pick(300, M)
    assert probe is not None
    keys.release(probe, M)
    again = keys.pick(300, M)
    assert again is not None
    assert again.key.probe
    assert again.model.probe


def test_a_permit_without_a_model_gate_is_released_too() -> None:
    keys = ring(1)
    rest(keys.gate(0), 300)
    probe = keys.pick(300, M)
    assert probe is not None
    keys.release(probe, M)
    assert keys.pick(300, M) is not None


@pytest.mark.parametrize("index", [None, 0])
def test_reset_brings_a_key_back(index: int | None) -> None:
    keys = ring(1)
    rest(keys.gate(0), FOREVER)
    rest(keys.model_gate(0, M), FOREVER)
    keys.pick(0, M)
    keys.reset(index)
    assert keys.pick(0, M) is not None


def test_reset_of_one_key_leaves_the_others() -> None:
    keys = ring(2)
    for place in (0, 1):
        rest(keys.gate(place), FOREVER)
    keys.reset(0)
    assert picks(keys, 2) == [0, 0]


def test_a_rest_that_is_cut_short_from_outside_is_noticed_after_a_refresh() -> None:
    keys = ring(1)
    rest(keys.gate(0), FOREVER)
    keys.pick(0, M)
    rest(keys.gate(0), 10, probe=False)
    keys.refresh()
    assert picks(keys, 1, now=10) == [0]


def test_a_rest_that_grows_while_a_key_waits_is_noticed() -> None:
    keys = ring(2)
    rest(keys.gate(0), 100, probe=False)
    picks(keys, 2)
    rest(keys.gate(0), 200, probe=False)
    assert picks(keys, 2, now=150) == [1, 1]
    assert sorted(picks(keys, 2, now=200)) == [0, 1]


@given(size=st.integers(1, 12), count=st.integers(0, 200))
def test_the_load_is_even(size: int, count: int) -> None:
    load = Counter(picks(ring(size), count))
    assert max(load.values(), default=0) - min((load[n] for n in range(size)), default=0) <= 1


@given(
    size=st.integers(1, 8),
    steps=st.lists(
        st.tuples(st.sampled_from(["pick", "park", "cool", "deny", "wait"]), st.integers(0, 7), st.floats(0, 50)),
        max_size=60,
    ),
)
def test_a_pick_is_a_ready_key_whenever_there_is_one(size: int, steps: list[tuple[str, int, float]]) -> None:
    keys, now = ring(size), 0.0
    for step, place, seconds in steps:
        place %= size
        if step == "wait":
            now += seconds
        elif step == "park":
            rest(keys.gate(place), now + seconds)
            keys.refresh()
        elif step == "cool":
            rest(keys.model_gate(place, M), now + seconds, probe=False)
            keys.refresh()
        elif step == "deny":
            rest(keys.gate(place), FOREVER)
        else:
            admitted = [n for n in range(size) if keys.gate(n).admits(now) and keys.model_gate(n, M).admits(now)]
            permit = keys.pick(now, M)
            assert (permit is not None) == bool(admitted)
            assert permit is None or permit.place in admitted
