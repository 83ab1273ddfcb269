"""The arithmetic of a paced provider: limits per minute, what headers say, one ticket per attempt."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.pacing import MARGIN, MINUTE, Allowance, Pace, Reported
from reliable_llm.core.rate_headers import reported
from reliable_llm.core.visit import Visit
from reliable_llm.policy import DAY, Limits
from tests.core.trips import World, started

WALL = 1_767_225_600.0  # 2026-01-01 00:00:00 UTC


def busiest_minute(times: list[float]) -> int:
    return max(sum(start <= at < start + MINUTE for at in times) for start in times)


# ---------------------------------------------------------------- one limit


@settings(deadline=None)
@given(per_minute=st.integers(1, 120), pauses=st.lists(st.floats(0, 30), min_size=1, max_size=200))
def test_no_minute_has_more_than_allowed(per_minute: int, pauses: list[float]) -> None:
    allowance, now, times = Allowance(per_minute, 0.0), 0.0, []
    for pause in pauses:
        now = allowance.ready_at(now + pause, 1.0)
        allowance.use(now, 1.0)
        times.append(now)

    assert busiest_minute(times) <= per_minute


@settings(deadline=None)
@given(per_minute=st.integers(1, 300))
def test_who_always_waits_gets_nearly_all(per_minute: int) -> None:
    allowance, now, used = Allowance(per_minute, 0.0), 0.0, 0
    while now < 600:
        allowance.use(now, 1.0)
        used += 1
        now = allowance.ready_at(now, 1.0)

    assert used >= 0.95 * per_minute * 10


def test_at_most_ten_seconds_worth_starts_at_once() -> None:
    allowance = Allowance(60, 0.0)
    for _ in range(10):
        allowance.use(0.0, 1.0)

    assert allowance.ready_at(0.0, 1.0) == pytest.approx(1.0)


def test_more_than_the_whole_allowance_may_be_used_when_nothing_else_is() -> None:
    allowance = Allowance(100, 0.0)

    assert allowance.ready_at(0.0, 1_000.0) == 0.0
    allowance.use(0.0, 1_000.0)
    assert allowance.ready_at(0.0, 1.0) >= MINUTE


def test_an_estimate_that_was_too_high_is_given_back() -> None:
    allowance = Allowance(60, 0.0)
    entry = allowance.use(0.0, 60.0)

    allowance.correct(entry, 0.0)

    assert allowance.ready_at(0.0, 1.0) == 0.0


def test_a_correction_of_what_is_past_changes_nothing() -> None:
    allowance = Allowance(60, 0.0)
    entry = allowance.use(0.0, 1.0)
    later = MINUTE + MARGIN + 1
    assert allowance.ready_at(later, 1.0) == later

    allowance.correct(entry, 1_000.0)
    allowance.use(later, 1.0)
    allowance.correct(entry, 1_000.0)

    assert allowance.ready_at(later, 1.0) == later


@pytest.mark.parametrize("estimate", [10.0, 1e12])
def test_however_much_was_used_a_minute_later_it_is_past(estimate: float) -> None:
    allowance = Allowance(1_000, 0.0)

    allowance.correct(allowance.use(0.0, estimate), 1e12)

    later = MINUTE + MARGIN
    assert allowance.ready_at(later, 10.0) == later


# ---------------------------------------------------------------- a provider


def test_tokens_are_counted_as_estimated_until_the_usage_is_known() -> None:
    pace = Pace(Limits(tokens_per_minute=600), 1, 0.0)
    ticket = pace.take(0, "m1", 0.0, 600.0)
    assert (pace.ready_at(0, "m1", 0.0, 10.0) or 0.0) > 0

    pace.settle(ticket, 10.0)

    assert pace.ready_at(0, "m1", 0.0, 10.0) == 0.0


def test_without_a_usage_the_estimate_stands() -> None:
    pace = Pace(Limits(tokens_per_minute=600), 1, 0.0)

    pace.settle(pace.take(0, "m1", 0.0, 600.0), None)

    assert (pace.ready_at(0, "m1", 0.0, 10.0) or 0.0) > 0


def test_what_was_never_sent_counts_for_nothing() -> None:
    pace = Pace(Limits(requests_per_minute=1, tokens_per_minute=10), 1, 0.0)

    pace.settle(pace.take(0, "m1", 0.0, 10.0), None, sent=False)

    assert pace.ready_at(0, "m1", 0.0, 10.0) == 0.0


def test_a_ticket_is_settled_once() -> None:
    pace = Pace(Limits(max_concurrency=2), 1, 0.0)
    ticket = pace.take(0, "m1", 0.0, 0.0)
    pace.take(0, "m1", 0.0, 0.0)

    pace.settle(ticket, None)
    pace.settle(ticket, None)
    pace.take(0, "m1", 0.0, 0.0)

    assert pace.ready_at(0, "m1", 0.0, 0.0) is None
    assert pace.unready("m1", 0.0, 0.0) == {0}


# ---------------------------------------------------------------- what headers say


def said(**fields: float | None) -> Reported:
    return Reported(of="requests", limit=fields.get("limit"), remaining=fields["remaining"] or 0, reset=fields["reset"])


def after(limits: Limits, *reports: Reported) -> Pace:
    pace = Pace(limits, 1, 0.0)
    pace.hear(0, "m1", reports, 0.0)
    return pace


def test_a_limit_is_learned_with_what_is_used_of_it() -> None:
    pace = after(Limits(), said(limit=6.0, remaining=1.0, reset=50.0))

    pace.take(0, "m1", 0.0, 0.0)

    assert pace.ready_at(0, "m1", 0.0, 0.0) == pytest.approx(MINUTE + MARGIN)


def test_a_limit_that_changes_is_taken_over() -> None:
    pace = after(Limits(), said(limit=60.0, remaining=60.0, reset=1.0), said(limit=6.0, remaining=6.0, reset=1.0))

    for _ in range(6):
        pace.take(0, "m1", 0.0, 0.0)

    assert (pace.ready_at(0, "m1", 0.0, 0.0) or 0.0) >= MINUTE


def test_a_learned_limit_is_that_model_s_alone() -> None:
    pace = after(Limits(), said(limit=6.0, remaining=0.0, reset=50.0))

    assert pace.ready_at(0, "m2", 0.0, 0.0) == 0.0


def test_what_the_user_says_is_not_overruled() -> None:
    pace = after(Limits(requests_per_minute=600), said(limit=1.0, remaining=1.0, reset=50.0))

    pace.take(0, "m1", 0.0, 0.0)

    assert pace.ready_at(0, "m1", 0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("report", "back"),
    [
        (said(limit=200.0, remaining=0.0, reset=7_200.0), 0.0),
        (said(limit=None, remaining=0.0, reset=12.0), 12.0),
        (said(limit=60.0, remaining=0.0, reset=30.0), 1.0),
        (said(limit=60.0, remaining=0.0, reset=0.25), 0.25),
        (said(limit=None, remaining=0.0, reset=None), 0.0),
        (said(limit=200.0, remaining=3.0, reset=7_200.0), 0.0),
    ],
)
def test_with_nothing_left_a_key_rests_until_some_is_back(report: Reported, back: float) -> None:
    pace = after(Limits(requests_per_minute=1e9), report)

    assert pace.ready_at(0, "m1", 0.0, 0.0) == back


@pytest.mark.parametrize(
    ("remaining", "reset", "spent"), [(0.0, 7_200.0, 7_200.0), (3.0, 7_200.0, 0.0), (0.0, 30.0, 0.0)]
)
def test_a_key_is_spent_where_nothing_is_left_for_longer_than_a_turn_is_queued_for(
    remaining: float, reset: float, spent: float
) -> None:
    pace = Pace(Limits(), 1, 0.0)

    assert pace.hear(0, "m1", [said(limit=200.0, remaining=remaining, reset=reset)], 0.0) == spent


@pytest.mark.parametrize(("seconds", "rest"), [(7_200.0, 7_200.0), (1e300, DAY)])
def test_a_spent_key_rests_for_its_model_for_a_day_at_most(seconds: float, rest: float) -> None:
    world = World(a=1)
    call = world.call("a/m1")

    call.spent(started(call, world.now), world.now, seconds)

    ring = world.health["a"].ring
    assert [ring.ready_at(world.now, model) for model in ("m1", "m2")] == [world.now + rest, world.now]


def test_openais_headers_are_read() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }

    assert reported(headers, WALL) == (
        Reported(of="requests", limit=60, remaining=59, reset=1.0),
        Reported(of="tokens", limit=150_000, remaining=149_984, reset=360.0),
    )


def test_anthropics_headers_are_read() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:12Z",
    }

    assert reported(headers, WALL) == (Reported(of="requests", limit=50, remaining=0, reset=12.0),)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, ()),
        ({"date": "now"}, ()),
        ({"x-ratelimit-remaining-requests": "many"}, ()),
        ({"x-ratelimit-remaining-requests": "nan"}, ()),
        ({"x-ratelimit-remaining-requests": "-1"}, ()),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "soon"},
            (Reported(of="requests", limit=None, remaining=3, reset=None),),
        ),
    ],
)
def test_junk_in_headers_says_nothing(headers: Mapping[str, str], found: tuple[Reported, ...]) -> None:
    assert reported(headers, WALL) == found


@given(
    st.dictionaries(st.sampled_from(["x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "date"]), st.text())
)
def test_reading_headers_never_raises(headers: dict[str, str]) -> None:
    reported(headers, WALL)


# ---------------------------------------------------------------- in the machine of a call


def test_a_candidate_without_limits_has_room_at_once() -> None:
    assert Visit(World(a=1).stop("a/m")).turn_at(5.0) == 5.0


def test_attempts_with_a_key_are_under_way_until_they_are_over() -> None:
    pace = Pace(Limits(), 2, 0.0)
    ticket = pace.take(1, "m", 0.0, 0.0)
    assert (pace.under_way(0), pace.under_way(1)) == (0, 1)

    pace.settle(ticket, None)

    assert pace.under_way(1) == 0


def test_an_attempt_that_is_taken_back_uses_nothing() -> None:
    world = World(a=1)
    pace = world.health["a"].pace = Pace(Limits(max_concurrency=1), 1, world.now)
    call = world.call("a/m")
    action = call.next(world.now)
    assert isinstance(action, StartAttempt)

    call.withdrawn(action)

    assert pace.ready_at(0, "m", world.now, 0.0) == world.now


def test_an_attempt_that_waits_for_something_else_counts_from_its_start_on() -> None:
    pace = Pace(Limits(requests_per_minute=1), 1, 0.0)
    ticket = pace.take(0, "m", 0.0, 0.0)

    pace.begin(ticket, 50.0)

    assert pace.ready_at(0, "m", 61.0, 0.0) == pytest.approx(50.0 + MINUTE + MARGIN)


def test_attempts_under_way_are_counted_by_key() -> None:
    pace = Pace(Limits(), 2, 0.0)
    ticket = pace.take(1, "m", 0.0, 0.0)
    assert (pace.under_way(0), pace.under_way(1)) == (0, 1)

    pace.settle(ticket, None)

    assert pace.under_way(1) == 0


def test_nobody_waits_for_the_turn_of_a_key_that_may_not_be_used_any_more() -> None:
    world = World(a=1)
    world.health["a"].pace = Pace(Limits(max_concurrency=1), 1, world.now)
    world.health["a"].pace.take(0, "m", world.now, 0.0)
    visit = Visit(world.stop("a/m"))
    assert visit.turn_at(world.now) is None

    visit.dead.add(0)

    assert visit.turn_at(world.now) == world.now
