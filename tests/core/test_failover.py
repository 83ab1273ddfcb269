"""The machine of one call: told what happened, it says what to do next."""

from __future__ import annotations

import pytest

from reliable_llm import events
from reliable_llm.core.actions import Raise, Sleep
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.ledger import printable
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.errors import (
    ContextWindowError,
    DeadlineExceededError,
    Kind,
    QuotaExhaustedError,
    Scope,
    UnsupportedFeatureError,
)
from reliable_llm.policy import BudgetPolicy, RecoveryPolicy, RetryPolicy
from reliable_llm.types import Usage
from tests.core.trips import World, down, fail, limited, quota, raised, started, trip

TRANSIENT = [
    Kind.OVERLOADED,
    Kind.SERVER_ERROR,
    Kind.TIMEOUT,
    Kind.CONNECTION,
    Kind.MALFORMED_RESPONSE,
    Kind.EMPTY_RESPONSE,
]
RAISED_AT_ONCE = [Kind.INVALID_REQUEST, Kind.CONTENT_POLICY, Kind.OUTPUT_TRUNCATED]
ELSEWHERE_AT_ONCE = [Kind.REQUEST_TOO_LARGE, Kind.MODEL_NOT_FOUND, Kind.UNSUPPORTED, Kind.QUEUE_FULL]


# ---------------------------------------------------------------- one candidate


def test_an_answer_ends_the_call() -> None:
    assert trip({}, "a/m1") == ["a#1/m1", "ok"]


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_transient_failure_is_retried_with_growing_waits_then_raised(kind: Kind) -> None:
    assert trip({"a": [fail(kind)] * 3}, "a/m1") == [
        "a#1/m1",
        "wait 0.5",
        "a#1/m1",
        "wait 1",
        "a#1/m1",
        f"raise {kind}",
    ]


@pytest.mark.parametrize("kind", RAISED_AT_ONCE)
def test_what_would_fail_everywhere_is_raised_at_once(kind: Kind) -> None:
    assert trip({"a": [fail(kind)]}, "a/m1", "b/m1", keys=2) == ["a#1/m1", f"raise {kind}"]


@pytest.mark.parametrize("kind", RAISED_AT_ONCE)
def test_failover_on_moves_on_instead(kind: Kind) -> None:
    policy = RetryPolicy(failover_on=frozenset({kind}))
    assert trip({"a": [fail(kind)]}, "a/m1", "b/m1", retry=policy) == ["a#1/m1", "b#1/m1", "ok"]


def test_an_answer_that_does_not_fit_the_schema_is_repaired_once_then_raised() -> None:
    steps = trip({"a": [fail(Kind.INVALID_OUTPUT)] * 2}, "a/m1", "b/m1")
    assert steps == ["a#1/m1", "a#1/m1", "raise invalid_output"]


def test_repairs_can_be_turned_off() -> None:
    policy = RetryPolicy(schema_retries=0)
    assert trip({"a": [fail(Kind.INVALID_OUTPUT)]}, "a/m1", retry=policy) == ["a#1/m1", "raise invalid_output"]


def test_after_its_repairs_an_answer_that_does_not_fit_may_move_on() -> None:
    policy = RetryPolicy(failover_on=frozenset({Kind.INVALID_OUTPUT}))
    steps = trip({"a": [fail(Kind.INVALID_OUTPUT)] * 2}, "a/m1", "b/m1", retry=policy)
    assert steps == ["a#1/m1", "a#1/m1", "b#1/m1", "ok"]


def test_a_call_tells_what_it_fails_over_on() -> None:
    call = World(a=1).call("a/m1", retry=RetryPolicy(failover_on=frozenset({Kind.CONTENT_POLICY})))
    assert call.fails_over_on(Kind.CONTENT_POLICY)
    assert not call.fails_over_on(Kind.INVALID_OUTPUT)


@pytest.mark.parametrize("kind", ELSEWHERE_AT_ONCE)
def test_what_another_candidate_may_do_goes_there_without_a_wait(kind: Kind) -> None:
    assert trip({"a": [fail(kind)]}, "a/m1", "b/m1", keys=2) == ["a#1/m1", "b#1/m1", "ok"]


def test_retries_are_counted_per_candidate() -> None:
    steps = trip({"a": ["down"] * 9, "b": ["down"] * 9}, "a/m1", "b/m1", retry=RetryPolicy(max_retries=1, jitter=0))
    assert steps == ["a#1/m1", "wait 0.5", "a#1/m1", "b#1/m1", "wait 0.5", "b#1/m1", "raise server_error"]


def test_retries_take_turns_over_the_keys() -> None:
    assert trip({"a": ["down"]}, "a/m1", keys=2) == ["a#1/m1", "wait 0.5", "a#2/m1", "ok"]


def test_with_no_retries_there_is_one_attempt() -> None:
    assert trip({"a": ["down"]}, "a/m1", retry=RetryPolicy(max_retries=0)) == ["a#1/m1", "raise server_error"]


def test_a_hint_on_a_server_error_is_waited_for() -> None:
    assert trip({"a": [down(retry_after=7)]}, "a/m1") == ["a#1/m1", "wait 7", "a#1/m1", "ok"]


def test_a_hint_below_the_backoff_does_not_shorten_it() -> None:
    assert trip({"a": [down(retry_after=0.1)]}, "a/m1") == ["a#1/m1", "wait 0.5", "a#1/m1", "ok"]


def test_a_hint_on_a_server_error_above_the_cap_is_never_slept_on() -> None:
    assert trip({"a": [down(retry_after=31)]}, "a/m1", "b/m1") == ["a#1/m1", "b#1/m1", "ok"]


def test_jitter_shortens_a_backoff() -> None:
    steps = trip({"a": ["down"]}, "a/m1", retry=RetryPolicy(jitter=0.5), chance=0.5)
    assert steps[1] == "wait 0.375"


def test_jitter_lengthens_a_hint() -> None:
    steps = trip({"a": [limited(3)]}, "a/m1", retry=RetryPolicy(hint_jitter=0.5), chance=0.5)
    assert steps[1] == "wait 3.75"


# ---------------------------------------------------------------- rate limits


def test_a_limited_key_gives_way_to_the_next_at_once() -> None:
    assert trip({"a#1": [limited(20)]}, "a/m1", "b/m1", keys=2) == ["a#1/m1", "a#2/m1", "ok"]


def test_rotation_costs_no_retry() -> None:
    steps = trip(
        {f"a#{n}": [limited(20)] for n in range(1, 6)}, "a/m1", "b/m1", keys=5, retry=RetryPolicy(max_retries=0)
    )
    assert steps == [*(f"a#{n}/m1" for n in range(1, 6)), "b#1/m1", "ok"]


def test_a_short_hint_is_waited_for_although_another_candidate_is_ready() -> None:
    assert trip({"a": [limited(0.8)]}, "a/m1", "b/m1") == ["a#1/m1", "wait 0.8", "a#1/m1", "ok"]


def test_a_hint_above_patience_is_not_waited_for_while_another_candidate_is_ready() -> None:
    assert trip({"a": [limited(2)]}, "a/m1", "b/m1") == ["a#1/m1", "b#1/m1", "ok"]


def test_a_hint_within_the_cap_is_waited_for_where_nothing_else_is_ready() -> None:
    assert trip({"a": [limited(29)]}, "a/m1") == ["a#1/m1", "wait 29", "a#1/m1", "ok"]


def test_a_hint_above_the_cap_is_never_slept_on() -> None:
    assert trip({"a": [limited(31)]}, "a/m1") == ["a#1/m1", "raise rate_limited"]


def test_a_candidate_that_rests_is_not_a_reason_to_leave_a_limited_one_but_a_ready_one_is() -> None:
    world = World(a=1, b=1, c=1)
    world.trip({"b": [quota()]}, world.call("b/m1"))
    assert world.trip({"a": [limited(5)]}, world.call("a/m1", "b/m1")) == ["a#1/m1", "wait 5", "a#1/m1", "ok"]
    assert world.trip({"a": [limited(5)]}, world.call("a/m1", "b/m1", "c/m1")) == ["a#1/m1", "c#1/m1", "ok"]


def test_a_limit_without_a_hint_backs_off() -> None:
    assert trip({"a": [limited()] * 2}, "a/m1") == ["a#1/m1", "wait 0.5", "a#1/m1", "wait 1", "a#1/m1", "ok"]


def test_a_call_is_limited_at_most_so_often() -> None:
    assert trip({"a": [limited(1)] * 99}, "a/m1").count("a#1/m1") == 3


def test_with_no_retries_a_limited_call_waits_for_the_first_one_back_once() -> None:
    none = RetryPolicy(max_retries=0, jitter=0)
    assert trip({"a": [limited(8)] * 99}, "a/m1", retry=none) == ["a#1/m1", "wait 8", "a#1/m1", "raise rate_limited"]


def test_a_limit_that_no_key_escapes_shuts_the_candidate() -> None:
    steps = trip({"a#1": [limited(5, rotate_key=False)]}, "a/m1", keys=3)
    assert steps == ["a#1/m1", "wait 5", "a#2/m1", "ok"]


def test_a_limit_that_no_wait_and_no_key_mends_leaves_the_candidate() -> None:
    limit = limited(rotate_key=False, retry_same=False)
    assert trip({"a": [limit]}, "a/m1", "b/m1", keys=2) == ["a#1/m1", "b#1/m1", "ok"]


def test_a_limit_that_no_wait_mends_drops_the_key_for_this_call() -> None:
    assert trip({"a#1": [limited(retry_same=False)]}, "a/m1", "b/m1", keys=2) == ["a#1/m1", "a#2/m1", "ok"]


def test_without_cooldowns_a_limited_key_is_still_left_alone_within_the_call() -> None:
    steps = trip({"a#1": [limited(20)]}, "a/m1", keys=2, recovery=RecoveryPolicy(cooldowns=False))
    assert steps == ["a#1/m1", "a#2/m1", "ok"]


def test_a_limited_key_is_not_used_by_the_next_call_before_its_hint() -> None:
    world = World(a=2, b=1)
    world.trip({"a#1": [limited(20)]}, world.call("a/m1"))
    assert world.trip({}, world.call("a/m1")) == ["a#2/m1", "ok"]
    assert world.trip({}, world.call("a/m1")) == ["a#2/m1", "ok"]
    world.now += 20
    assert world.trip({}, world.call("a/m1")) == ["a#1/m1", "ok"]


# ---------------------------------------------------------------- keys that cannot


def test_quota_goes_to_the_next_key_then_the_next_candidate() -> None:
    script = {"a#1": [quota()], "a#2": [quota()]}
    assert trip(script, "a/m1", "b/m1", keys=2) == ["a#1/m1", "a#2/m1", "b#1/m1", "ok"]


def test_a_refused_key_is_not_used_for_the_next_model() -> None:
    world = World(a=2)
    steps = world.trip({"a#1": [fail(Kind.AUTHENTICATION)], "a/m1": ["down"] * 3}, world.call("a/m1", "a/m2"))
    assert "a#1/m1" not in steps[1:]
    assert steps[-2:] == ["a#2/m2", "ok"]


def test_a_refused_key_is_out_for_later_calls() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [fail(Kind.AUTHENTICATION)]}, world.call("a/m1", "b/m1"))
    world.now += 1e6
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["b#1/m1", "ok"]


def test_a_key_without_permission_serves_another_model() -> None:
    world = World(a=1)
    assert world.trip({"a/m1": [fail(Kind.PERMISSION)]}, world.call("a/m1", "a/m2")) == ["a#1/m1", "a#1/m2", "ok"]


def test_a_provider_that_refuses_this_caller_is_avoided_for_all_its_models() -> None:
    refusal = fail(Kind.PERMISSION, scope=Scope.PROVIDER, rotate_key=False)
    assert trip({"a": [refusal]}, "a/m1", "a/m2", "b/m1") == ["a#1/m1", "b#1/m1", "ok"]


def test_a_permission_failure_that_no_key_escapes_leaves_the_candidate() -> None:
    refusal = fail(Kind.PERMISSION, scope=Scope.MODEL, rotate_key=False)
    assert trip({"a/m1": [refusal]}, "a/m1", "a/m2", keys=2) == ["a#1/m1", "a#2/m2", "ok"]


def test_a_provider_without_a_key_is_skipped() -> None:
    world = World(a=0, b=1)
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["b#1/m1", "ok"]
    assert [event.reason for event in world.told(events.CandidateSkipped)] == ["no key"]


# ---------------------------------------------------------------- what a request needs


def test_a_candidate_known_not_to_see_is_skipped() -> None:
    world = World(a=1, b=1)
    blind = world.stop("a/m1", vision=False)
    assert world.trip({}, world.call(blind, "b/m1", needs={"vision"})) == ["b#1/m1", "ok"]


def test_where_nobody_can_the_error_names_what_each_lacks() -> None:
    world = World(a=1)
    call = world.call(world.stop("a/m1", vision=False), needs={"vision"})
    error = raised(call, world.now)
    assert isinstance(error, UnsupportedFeatureError)
    assert "a/m1: vision" in str(error)


def test_a_feature_that_can_be_emulated_is_done_without() -> None:
    world = World(a=1)
    call = world.call(world.stop("a/m1", structured_output=False), needs={"structured_output"})
    assert started(call, world.now).without == {"structured_output"}


def test_a_refused_feature_that_can_be_emulated_is_tried_again_without_it() -> None:
    world = World(a=1)
    call = world.call("a/m1", needs={"structured_output"})
    call.failed(started(call, 0), 0, 0, fail(Kind.UNSUPPORTED, feature="structured_output"))
    assert started(call, 0).without == {"structured_output"}


def test_a_feature_refused_twice_is_not_tried_a_third_time() -> None:
    refusal = fail(Kind.UNSUPPORTED, feature="structured_output")
    again = fail(Kind.UNSUPPORTED, feature="structured_output")
    assert trip({"a": [refusal, again]}, "a/m1", "b/m1") == ["a#1/m1", "a#1/m1", "b#1/m1", "ok"]


def test_tools_go_into_the_prompt_where_that_is_allowed() -> None:
    world = World(a=1)
    call = world.call(world.stop("a/m1", prompt_tools=True), needs={"tools"})
    call.failed(started(call, 0), 0, 0, fail(Kind.UNSUPPORTED, feature="tools"))
    assert "tools" in started(call, 0).without


def test_what_a_candidate_turned_out_to_lack_is_remembered() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [fail(Kind.UNSUPPORTED, feature="vision")]}, world.call("a/m1", "b/m1", needs={"vision"}))
    assert world.trip({}, world.call("a/m1", "b/m1", needs={"vision"})) == ["b#1/m1", "ok"]
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["a#1/m1", "ok"]


# ---------------------------------------------------------------- context windows


def long(limit: int | None = None, used: int | None = None) -> Exception:
    return fail(Kind.CONTEXT_WINDOW, limit_tokens=limit, used_tokens=used)


def test_a_long_prompt_goes_to_a_candidate_known_to_be_larger() -> None:
    world = World(a=1, b=1, c=1)
    route = [world.stop("a/m1", context_window=100), world.stop("b/m1"), world.stop("c/m1", context_window=200)]
    assert world.trip({"a": [long()]}, world.call(*route)) == ["a#1/m1", "c#1/m1", "ok"]


def test_without_a_larger_candidate_the_error_is_raised_at_once() -> None:
    world = World(a=1, b=1)
    route = [world.stop("a/m1", context_window=100), world.stop("b/m1", context_window=100)]
    assert world.trip({"a": [long()]}, world.call(*route)) == ["a#1/m1", "raise context_window"]


def test_where_no_window_is_known_the_error_is_raised_at_once() -> None:
    assert trip({"a": [long()]}, "a/m1", "b/m1") == ["a#1/m1", "raise context_window"]


def test_a_window_smaller_than_the_request_is_not_tried() -> None:
    world = World(a=1, b=1)
    route = [world.stop("a/m1"), world.stop("b/m1", context_window=200)]
    assert world.trip({"a": [long(limit=100, used=300)]}, world.call(*route)) == ["a#1/m1", "raise context_window"]


def test_a_larger_candidate_that_cannot_answer_either_leaves_the_first_error() -> None:
    world = World(a=1, b=1)
    route = [world.stop("a/m1", context_window=100), world.stop("b/m1", context_window=200)]
    steps = world.trip({"a": [long()], "b": [long()]}, world.call(*route))
    assert steps == ["a#1/m1", "b#1/m1", "raise context_window"]


def test_a_history_is_cut_as_often_as_it_may_be_and_the_candidate_asked_again() -> None:
    world = World(a=1)
    call = world.call("a/m1", cuts=2)
    cuts = []
    for _ in range(2):
        action = started(call, world.now)
        cuts.append(action.cuts)
        call.failed(action, world.now, world.now, fail(Kind.CONTEXT_WINDOW))
    assert [*cuts, started(call, world.now).cuts] == [0, 1, 2]


def test_a_history_is_not_cut_while_a_larger_candidate_is_left() -> None:
    world = World(a=1, b=1)
    route = [world.stop("a/m1", context_window=100), world.stop("b/m1", context_window=200)]
    call = world.call(*route, cuts=2)
    call.failed(started(call, world.now), world.now, world.now, fail(Kind.CONTEXT_WINDOW))
    action = started(call, world.now)
    assert (action.stop.provider, action.cuts) == ("b", 0)


# ---------------------------------------------------------------- everybody rests


def test_with_every_candidate_limited_the_first_one_back_is_waited_for() -> None:
    assert trip({"a": [limited(20)], "b": [limited(8)]}, "a/m1", "b/m1") == [
        "a#1/m1",
        "b#1/m1",
        "wait 8",
        "b#1/m1",
        "ok",
    ]


def test_with_every_candidate_limited_beyond_the_cap_the_call_fails_with_the_earliest_time() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    assert world.trip({"a": [limited(60)], "b": [limited(40)]}, call)[-1] == "raise rate_limited"
    assert raised(call, world.now).retry_after == 40


def test_waiting_for_a_cooldown_can_be_turned_off() -> None:
    policy = RetryPolicy(wait_for_cooldown=False, jitter=0)
    steps = trip({"a": [limited(20)], "b": [limited(8)]}, "a/m1", "b/m1", retry=policy)
    assert steps == ["a#1/m1", "b#1/m1", "wait 8", "b#1/m1", "ok"]


def test_a_candidate_parked_by_another_call_is_waited_for_if_it_is_the_only_one() -> None:
    world = World(a=1)
    world.trip({"a": [quota(10)]}, world.call("a/m1", retry=RetryPolicy(wait_for_cooldown=False)))
    assert world.trip({}, world.call("a/m1")) == ["wait 10", "a#1/m1", "ok"]


def test_a_parked_candidate_fails_the_next_call_with_the_stored_error() -> None:
    world = World(a=1)
    world.trip({"a": [quota(status=429, code="insufficient_quota")]}, world.call("a/m1"))
    error = raised(world.call("a/m1"), world.now)
    assert isinstance(error, QuotaExhaustedError)
    assert (error.status, error.code, error.retry_after) == (429, "insufficient_quota", 300)


def test_a_call_waits_for_another_calls_probe_where_there_is_nothing_else() -> None:
    world = World(a=1)
    world.trip({"a": [quota()]}, world.call("a/m1"))
    world.now += 300
    probing = world.call("a/m1")
    probe = started(probing, world.now)
    waiting = world.call("a/m1")
    assert waiting.next(world.now) == Sleep(1.0)
    probing.succeeded(probe, world.now, world.now, usage=None, request_id=None)
    assert world.trip({}, waiting) == ["a#1/m1", "ok"]


def test_a_call_does_not_wait_for_a_probe_for_ever() -> None:
    world = World(a=1)
    world.trip({"a": [quota()]}, world.call("a/m1"))
    world.now += 300
    started(world.call("a/m1"), world.now)
    assert world.trip({}, world.call("a/m1")) == [*["wait 1"] * 30, "raise quota_exhausted"]


def test_the_call_whose_probe_failed_gets_its_answer_elsewhere() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [quota()]}, world.call("a/m1", "b/m1"))
    world.now += 300
    assert world.trip({"a": [quota()]}, world.call("a/m1", "b/m1")) == ["a#1/m1", "b#1/m1", "ok"]
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["b#1/m1", "ok"]


def test_a_probe_that_ends_undecided_parks_the_key_again() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [quota()]}, world.call("a/m1", "b/m1"))
    world.now += 300
    world.trip({"a": ["down"] * 3}, world.call("a/m1", "b/m1"))
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["b#1/m1", "ok"]


def test_an_isolated_candidate_is_passed_by() -> None:
    world = World(a=1, b=1)
    fault = Fault(kind=Kind.CONFIGURATION, at=world.now)
    world.health["a"].candidate_gate("m1").force(until=FOREVER, fault=fault, probe=False)
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["b#1/m1", "ok"]


# ---------------------------------------------------------------- the breaker

BREAKER = RecoveryPolicy(breaker={Kind.SERVER_ERROR: 60})


def test_a_breaker_can_be_turned_off() -> None:
    world, off = World(a=1, b=1), RecoveryPolicy(breaker={})
    world.trip({"a": ["down"] * 3}, world.call("a/m1", "b/m1", recovery=off))
    assert world.trip({}, world.call("a/m1", "b/m1", recovery=off))[0] == "a#1/m1"


def test_by_default_a_server_that_is_down_rests_for_a_quarter_of_a_minute() -> None:
    world = World(a=1, b=1)
    world.trip({"a": ["down"] * 3}, world.call("a/m1", "b/m1"))
    world.now += 14.9
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["b#1/m1", "ok"]
    world.now += 0.1
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["a#1/m1", "ok"]


def test_a_candidate_that_answers_others_meanwhile_does_not_rest() -> None:
    world = World(a=1, b=1)
    failing = world.call("a/m1", "b/m1")
    failing.failed(started(failing, world.now), world.now, world.now, down())
    world.trip({}, world.call("a/m1"))
    world.now += 0.5
    world.trip({"a": ["down"] * 2}, failing)
    assert world.trip({}, world.call("a/m1", "b/m1"))[0] == "a#1/m1"


def test_the_only_candidate_never_rests_for_its_breaker() -> None:
    world = World(a=1)
    world.trip({"a": ["down"] * 3}, world.call("a/m1"))
    assert world.trip({}, world.call("a/m1")) == ["a#1/m1", "ok"]


def test_with_every_breaker_open_the_first_candidate_is_asked_all_the_same() -> None:
    world = World(a=1, b=1)
    world.trip({"a": ["down"] * 3, "b": ["down"] * 3}, world.call("a/m1", "b/m1"))
    assert world.trip({}, world.call("a/m1", "b/m1")) == ["a#1/m1", "ok"]


def test_with_every_breaker_open_each_call_asks_one_candidate_only() -> None:
    world = World(a=1, b=1)
    world.trip({"a": ["down"] * 3, "b": ["down"] * 3}, world.call("a/m1", "b/m1"))
    steps = world.trip({"a": ["down"] * 9, "b": ["down"] * 9}, world.call("a/m1", "b/m1"))
    assert "b#1/m1" not in steps
    assert steps[-1] == "raise server_error"


def test_a_breaker_opens_when_retries_are_spent() -> None:
    world = World(a=1, b=1)
    world.trip({"a": ["down"] * 3}, world.call("a/m1", "b/m1", recovery=BREAKER))
    assert world.trip({}, world.call("a/m1", "b/m1", recovery=BREAKER)) == ["b#1/m1", "ok"]


def test_a_breaker_is_for_its_kind_only() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [fail(Kind.TIMEOUT)] * 3}, world.call("a/m1", "b/m1", recovery=BREAKER))
    assert world.trip({}, world.call("a/m1", "b/m1", recovery=BREAKER))[0] == "a#1/m1"


def test_a_breaker_is_half_open_after_its_time() -> None:
    world = World(a=1, b=1)
    world.trip({"a": ["down"] * 3}, world.call("a/m1", "b/m1", recovery=BREAKER))
    world.now += 60
    probing = world.call("a/m1", "b/m1", recovery=BREAKER)
    assert started(probing, world.now).permit.probe
    assert world.trip({}, world.call("a/m1", "b/m1", recovery=BREAKER)) == ["b#1/m1", "ok"]


# ---------------------------------------------------------------- deadlines


def test_nothing_starts_at_the_deadline() -> None:
    world = World(a=1)
    call = world.call("a/m1", deadline=5)
    assert isinstance(raised(call, world.now + 5), DeadlineExceededError)


def test_an_attempt_is_told_when_it_has_to_end() -> None:
    world = World(a=1)
    assert started(world.call("a/m1", deadline=5), world.now).until == world.now + 5


def test_without_a_deadline_an_attempt_has_no_end() -> None:
    world = World(a=1)
    assert started(world.call("a/m1"), world.now).until is None


def test_a_reserve_keeps_time_for_the_candidates_not_yet_tried() -> None:
    world = World(a=1, b=1)
    action = started(world.call("a/m1", "b/m1", deadline=30, retry=RetryPolicy(reserve=10)), world.now)
    assert (action.until, action.reserved) == (world.now + 20, True)


def test_a_reserve_larger_than_what_is_left_is_not_kept() -> None:
    world = World(a=1, b=1)
    action = started(world.call("a/m1", "b/m1", deadline=5, retry=RetryPolicy(reserve=10)), world.now)
    assert (action.until, action.reserved) == (world.now + 5, False)


def test_a_backoff_that_would_pass_the_deadline_is_not_slept() -> None:
    assert trip({"a": ["down"]}, "a/m1", "b/m1", deadline=0.4) == ["a#1/m1", "b#1/m1", "ok"]


def test_a_limit_that_would_pass_the_deadline_is_not_waited_for() -> None:
    assert trip({"a": [limited(20)]}, "a/m1", deadline=10) == ["a#1/m1", "raise rate_limited"]


def test_jitter_does_not_push_a_wait_past_the_deadline() -> None:
    steps = trip({"a": [limited(3)]}, "a/m1", deadline=3.1, retry=RetryPolicy(hint_jitter=1), chance=0.9)
    assert steps[:2] == ["a#1/m1", "wait 3"]


def test_a_deadline_error_of_an_attempt_ends_the_call() -> None:
    assert trip({"a": [fail(Kind.DEADLINE)]}, "a/m1", "b/m1", deadline=9) == ["a#1/m1", "raise deadline"]


def test_the_deadlines_error_names_what_was_not_tried() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1", deadline=5)
    assert "not tried: b/m1" in str(raised(call, world.now + 5))


# ---------------------------------------------------------------- the end


def test_the_error_is_that_of_the_first_candidate() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    world.trip({"a": [quota(status=429)], "b": [fail(Kind.AUTHENTICATION, status=401)]}, call)
    error = raised(call, world.now)
    assert (error.kind, error.provider, len(error.attempts)) == (Kind.QUOTA_EXHAUSTED, "a", 2)


def test_a_call_that_has_failed_stays_failed() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    world.trip({"a": [fail(Kind.INVALID_REQUEST)]}, call)
    assert raised(call, world.now) is raised(call, world.now)


def test_the_message_lists_what_was_tried_whatever_the_first_error_said() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    first = quota(status=429)
    first.args = ("quota exhausted (status 429)",)
    world.trip({"a": [first], "b": [fail(Kind.AUTHENTICATION)]}, call)
    lines = str(raised(call, world.now)).splitlines()
    assert [line.split(" [")[0].strip() for line in lines[1:]] == ["1. a/m1", "2. b/m1"]


def test_the_end_is_told_once() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    world.trip({"a": [fail(Kind.INVALID_REQUEST)]}, call)
    world.trip({}, call)
    assert len(world.told(events.CallFailed)) == 1


def test_waiting_cannot_heal_a_refused_key() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    world.trip({"a": [fail(Kind.AUTHENTICATION)], "b": [quota()]}, call)
    assert raised(call, world.now).retry_after is None


def test_the_ledger_has_every_attempt_and_what_was_waited_before_it() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    world.trip({"a": [down()]}, call, took=2.0)
    assert [(a.number, a.kind, a.started, a.elapsed, a.waited) for a in call.attempts] == [
        (1, Kind.SERVER_ERROR, 0.0, 2.0, 0.0),
        (2, None, 2.5, 2.0, 0.5),
    ]


def test_the_ledger_keeps_what_a_rejected_attempt_cost() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    error = fail(Kind.EMPTY_RESPONSE)
    error.usage = Usage(input_tokens=10)
    world.trip({"a": [error]}, call)
    assert call.attempts[0].usage == Usage(input_tokens=10)


def test_the_first_choice_is_what_was_requested() -> None:
    assert str(World(a=1, b=1).call("a/m1", "b/m1").requested) == "a/m1"


# ---------------------------------------------------------------- the budget of retries


def test_the_first_attempt_of_a_call_is_free() -> None:
    world, budget = World(a=1), RetryBudget(BudgetPolicy(share=0, burst=1))
    budget.withdraw()
    assert world.trip({}, world.call("a/m1", budget=budget)) == ["a#1/m1", "ok"]


def test_without_budget_a_call_fails_after_its_first_attempt() -> None:
    world, budget = World(a=1, b=1), RetryBudget(BudgetPolicy(share=0, burst=1))
    budget.withdraw()
    assert world.trip({"a": [quota()]}, world.call("a/m1", "b/m1", budget=budget)) == [
        "a#1/m1",
        "raise quota_exhausted",
    ]


def test_a_probe_that_the_budget_does_not_pay_for_is_handed_back() -> None:
    world, budget = World(a=1, b=1), RetryBudget(BudgetPolicy(share=0, burst=1))
    world.trip({"b": [quota()]}, world.call("b/m1"))
    world.now += 300
    budget.withdraw()
    world.trip({"a": [quota()]}, world.call("a/m1", "b/m1", budget=budget))
    assert started(world.call("b/m1"), world.now).permit.probe


def test_a_fallback_that_answers_pays_for_itself() -> None:
    world, budget = World(a=1, b=1), RetryBudget(BudgetPolicy(share=0, burst=1))
    for _ in range(3):
        script = {"a": [fail(Kind.REQUEST_TOO_LARGE)]}
        assert world.trip(script, world.call("a/m1", "b/m1", budget=budget)) == ["a#1/m1", "b#1/m1", "ok"]


# ---------------------------------------------------------------- other ends of an attempt


def test_an_abandoned_attempt_changes_nobodys_health() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    call.abandoned(started(call, world.now), world.now + 1, world.now, usage=Usage(output_tokens=1))
    assert call.attempts[0].kind is Kind.CANCELLED
    assert world.health["a"].ring.gate(0).generation == 0


def test_an_abandoned_probe_lets_the_next_call_probe() -> None:
    world = World(a=1)
    world.trip({"a": [quota()]}, world.call("a/m1"))
    world.now += 300
    call = world.call("a/m1")
    call.abandoned(started(call, world.now), world.now, world.now)
    assert started(world.call("a/m1"), world.now).permit.probe


def test_a_withdrawn_attempt_is_not_in_the_ledger() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    call.withdrawn(started(call, world.now))
    assert call.attempts == []
    assert world.trip({}, call) == ["a#1/m1", "ok"]


def test_an_attempt_withdrawn_with_an_error_ends_the_call() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    error = DeadlineExceededError()
    call.withdrawn(started(call, world.now), error)
    assert raised(call, world.now) is error


@pytest.mark.parametrize(("feature", "reason"), [("vision", "vision"), (None, "unsupported")])
def test_a_candidate_whose_adapter_cannot_is_passed_by(feature: str | None, reason: str) -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    call.refused(started(call, world.now), fail(Kind.UNSUPPORTED, feature=feature))
    assert world.trip({}, call) == ["b#1/m1", "ok"]
    assert [event.reason for event in world.told(events.CandidateSkipped)] == [reason]


def test_a_refused_attempt_is_not_in_the_ledger() -> None:
    world = World(a=1)
    call = world.call("a/m1")
    call.refused(started(call, world.now), fail(Kind.UNSUPPORTED))
    assert isinstance(call.next(world.now), Raise)
    assert call.attempts == []


def test_a_stream_that_breaks_after_output_ends_the_call() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    error = call.broke_off(started(call, world.now), world.now + 3, world.now, fail(Kind.STREAM_INTERRUPTED))
    assert error.provider == "a"
    assert [attempt.kind for attempt in error.attempts] == [Kind.STREAM_INTERRUPTED]
    assert isinstance(call.next(world.now), Raise)


# ---------------------------------------------------------------- announcements


def test_a_move_to_another_candidate_is_announced() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [quota()]}, world.call("a/m1", "b/m1"))
    assert world.told(events.Failover) == [events.Failover("a/m1", "b/m1", Kind.QUOTA_EXHAUSTED)]


def test_a_rotation_is_announced_with_labels() -> None:
    world = World(a=2)
    world.trip({"a#1": [limited(9)]}, world.call("a/m1"))
    assert world.told(events.KeyRotated) == [events.KeyRotated("a", "a#1", "a#2", Kind.RATE_LIMITED)]


def test_a_retry_with_the_same_key_is_no_move() -> None:
    world = World(a=1)
    world.trip({"a": ["down"]}, world.call("a/m1"))
    assert not world.told(events.Failover)
    assert not world.told(events.KeyRotated)


def test_a_failure_tells_how_many_attempts_are_left() -> None:
    world = World(a=1)
    world.trip({"a": ["down"] * 3}, world.call("a/m1"))
    assert [event.retries_left for event in world.told(events.AttemptFailed)] == [2, 1, 0]


def test_with_every_key_out_no_attempts_are_left() -> None:
    world = World(a=2)
    world.trip({"a": [fail(Kind.AUTHENTICATION)] * 2}, world.call("a/m1"))
    assert [event.retries_left for event in world.told(events.AttemptFailed)] == [3, 0]


def test_a_resting_candidate_is_told_with_the_time_left() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [quota()]}, world.call("a/m1", "b/m1"))
    world.now += 100
    world.trip({}, world.call("a/m1", "b/m1"))
    assert world.told(events.QuotaModeActive) == [events.QuotaModeActive("a", 200.0)]


def test_a_candidate_that_failed_in_this_call_is_not_told_to_rest() -> None:
    world = World(a=1, b=1)
    world.trip({"a": [quota()]}, world.call("a/m1", "b/m1"))
    assert not world.told(events.CandidateResting)


def test_a_probe_is_told_with_the_time_since_the_error() -> None:
    world = World(a=1)
    world.trip({"a": [quota()]}, world.call("a/m1"))
    world.now += 310
    world.trip({}, world.call("a/m1"))
    assert world.told(events.QuotaProbe) == [events.QuotaProbe("a", "a#1", 310.0)]


def test_a_breakers_probe_is_not_told_as_a_quota_probe() -> None:
    world = World(a=1, b=1)
    world.trip({"a": ["down"] * 3}, world.call("a/m1", "b/m1", recovery=BREAKER))
    world.now += 60
    world.trip({}, world.call("a/m1", "b/m1", recovery=BREAKER))
    assert not world.told(events.QuotaProbe)
    assert world.told(events.CandidateRecovered) == [events.CandidateRecovered("a", "m1")]


def test_total_failure_is_told_with_what_the_caller_gets() -> None:
    world = World(a=1)
    world.trip({"a": [limited(60)]}, world.call("a/m1"))
    assert world.told(events.CallFailed) == [events.CallFailed(Kind.RATE_LIMITED, 1, 60, "a", "m1")]


def test_the_error_of_a_long_prompt_met_only_by_memory_is_of_that_kind() -> None:
    world = World(a=1, b=1)
    route = [world.stop("a/m1", context_window=100), world.stop("b/m1", context_window=200)]
    call = world.call(*route)
    call.failed(started(call, world.now), world.now, world.now, fail(Kind.CONTEXT_WINDOW))
    call.refused(started(call, world.now), fail(Kind.UNSUPPORTED, feature="vision"))
    assert isinstance(raised(call, world.now), ContextWindowError)


# ---------------------------------------------------------------- limits without a hint


def test_a_key_limited_without_a_hint_rests_for_ten_seconds_while_another_one_is_ready() -> None:
    world = World(a=2)
    world.trip({"a": [limited()]}, world.call("a/m1"))
    assert world.health["a"].ring.opens_at(0, world.now, "m1") == world.now + 10


def test_a_lone_key_limited_without_a_hint_rests_for_a_backoff() -> None:
    assert trip({"a": [limited()]}, "a/m1") == ["a#1/m1", "wait 0.5", "a#1/m1", "ok"]


# ---------------------------------------------------------------- what hedging and the ledger ask


def test_a_call_is_at_its_first_choice_until_it_moves_on() -> None:
    world = World(a=1, b=1)
    call = world.call("a/m1", "b/m1")
    before = call.is_at_first
    world.trip({"a": [fail(Kind.AUTHENTICATION)]}, call)
    assert (before, call.is_at_first) == (True, False)


def test_a_request_id_that_would_write_into_a_terminal_is_cleaned() -> None:
    assert printable("req_1\x1b[31m\n") == "req_1[31m"
