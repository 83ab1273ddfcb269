"""What one call may still do at one candidate."""

from __future__ import annotations

from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.visit import Visit
from reliable_llm.errors import Kind
from reliable_llm.policy import RetryPolicy
from tests.core.trips import World

FAULT = Fault(kind=Kind.SERVER_ERROR, at=0.0)
QUOTA = Fault(kind=Kind.QUOTA_EXHAUSTED, at=0.0)


def visit(keys: int = 2) -> Visit:
    return Visit(World(p=keys).stop("p/m1"))


def place(seen: Visit, now: float = 0.0) -> int | None:
    permit = seen.permit(now)
    return None if permit is None else permit.key.place


def park(seen: Visit, index: int, until: float) -> None:
    seen.stop.health.ring.gate(index).force(until=until, fault=QUOTA, probe=True)


def shut(seen: Visit, until: float) -> None:
    seen.stop.health.candidate_gate("m1").force(until=until, fault=FAULT, probe=True)


def test_a_fresh_key_comes_before_a_tried_one() -> None:
    seen = visit()
    seen.tried.add(0)
    assert [place(seen), place(seen)] == [1, 1]


def test_a_tried_key_is_used_again_when_its_backoff_is_over() -> None:
    seen = visit(1)
    seen.tried.add(0)
    seen.again = 5
    assert place(seen, 4.9) is None
    assert place(seen, 5) == 0


def test_a_dead_key_is_never_used() -> None:
    seen = visit(1)
    seen.dead.add(0)
    assert place(seen, 1e9) is None


def test_a_resting_key_is_not_used_before_its_time() -> None:
    seen = visit(1)
    seen.tried.add(0)
    seen.resting[0] = 20
    assert place(seen, 19) is None
    assert place(seen, 20) == 0


def test_a_repair_begins_anew_but_not_with_a_resting_key() -> None:
    seen = visit(2)
    seen.tried.add(0)
    seen.resting[0] = 20
    seen.repair()
    assert [place(seen), place(seen)] == [1, 1]


def test_a_candidate_that_is_shut_for_this_call_gives_no_permit() -> None:
    seen = visit()
    seen.shut_until = 20
    assert place(seen, 19) is None
    assert place(seen, 20) is not None


def test_a_candidate_whose_gate_is_shut_gives_no_permit() -> None:
    seen = visit()
    shut(seen, 20)
    assert place(seen, 19) is None


def test_a_half_open_candidate_gives_a_probe() -> None:
    seen = visit()
    shut(seen, 20)
    permit = seen.permit(20)
    assert permit is not None
    assert permit.candidate is not None
    assert permit.probe


def test_a_candidate_is_back_now_if_a_key_is() -> None:
    assert visit().back_at(7) == 7


def test_a_candidate_is_back_with_its_first_key() -> None:
    seen = visit()
    park(seen, 0, 300)
    seen.resting[1] = 200
    assert seen.back_at(0) == 200


def test_a_candidate_is_back_no_earlier_than_its_gate() -> None:
    seen = visit()
    shut(seen, 400)
    assert seen.back_at(0) == 400


def test_a_dead_key_does_not_come_back() -> None:
    seen = visit(1)
    seen.dead.add(0)
    assert seen.back_at(0) is None


def test_a_candidate_that_was_left_does_not_come_back() -> None:
    seen = visit()
    seen.left = True
    assert seen.back_at(0) is None


def test_an_isolated_candidate_does_not_come_back() -> None:
    seen = visit()
    shut(seen, FOREVER)
    assert seen.back_at(0) is None


def test_nobody_knows_when_a_probed_candidate_comes_back() -> None:
    seen = visit()
    shut(seen, 20)
    seen.permit(20)
    assert seen.back_at(20) is None


def test_a_key_that_is_out_does_not_come_back() -> None:
    seen = visit(1)
    park(seen, 0, FOREVER)
    assert seen.back_at(0) is None


def test_a_candidate_rests_until_its_first_key_is_back_for_anybody() -> None:
    seen = visit()
    park(seen, 0, 300)
    park(seen, 1, 500)
    assert seen.rests_until(0) == 300


def test_a_dead_key_counts_when_it_comes_to_who_rests() -> None:
    seen = visit(1)
    park(seen, 0, 300)
    seen.dead.add(0)
    assert seen.rests_until(0) == 300


def test_a_candidate_rests_no_shorter_than_its_gate() -> None:
    seen = visit()
    shut(seen, 400)
    assert seen.rests_until(0) == 400


def test_a_candidate_out_for_good_has_no_end_of_rest() -> None:
    seen = visit(1)
    park(seen, 0, FOREVER)
    shut(seen, FOREVER)
    assert seen.rests_until(5) <= 5


def test_a_candidate_that_does_not_rest_says_so() -> None:
    assert visit().rests_until(5) <= 5


def test_the_candidates_own_fault_comes_before_its_keys() -> None:
    seen = visit()
    assert seen.stored_fault() is None
    park(seen, 0, 300)
    assert seen.stored_fault() is QUOTA
    shut(seen, 400)
    assert seen.stored_fault() is FAULT


def test_a_gate_that_is_open_again_has_no_fault() -> None:
    seen = visit()
    shut(seen, 400)
    seen.stop.health.candidate_gate("m1").open()
    assert seen.stored_fault() is None


def test_a_providers_own_policy_counts_at_its_candidates_unless_the_call_brings_one() -> None:
    stop = World(p=1).stop("p/m1")
    stop.retry = RetryPolicy(max_retries=7)
    of_the_call = RetryPolicy(max_retries=1)
    assert Visit(stop, of_the_call).retry.max_retries == 7
    assert Visit(stop.without_policy(), of_the_call).retry is of_the_call
