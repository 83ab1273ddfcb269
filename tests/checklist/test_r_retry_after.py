"""Group R: how long the server says to wait, and what is made of it."""

from __future__ import annotations

import email.utils

import pytest

from reliable_llm.errors import RateLimitedError
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from tests.checklist.pairs import Pair
from tests.support import EPOCH, ManualClock, openai_error, openai_ok, rate_limited


def in_seconds(seconds: float) -> str:
    """Return an HTTP date that many seconds from the moment at which a `ManualClock` starts."""
    return email.utils.formatdate(EPOCH + ManualClock().now + seconds, usegmt=True)


async def slept_after(*, message: str = "Rate limit reached", **headers: str) -> list[float]:
    """Return what is slept before the only candidate is asked again."""
    pair = Pair(openai_error(429, message, code="rate_limit_exceeded", **headers), openai_ok(), alone=True)
    await pair.ask()
    return pair.slept


async def test_r1_the_header_of_the_vendors_exception_is_read() -> None:
    assert await slept_after(retry_after="7") == [7]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "5"}, 5),
        ({"retry_after": "2.5"}, 2.5),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after": in_seconds(12)}, 12),
    ],
)
async def test_r2_every_form_of_the_header_is_read(headers: dict[str, str], seconds: float) -> None:
    assert await slept_after(**headers) == [seconds]


@pytest.mark.parametrize("value", ["0", in_seconds(-60), "-5", "NaN", "soon", "5.5.5", "", "inf"])
async def test_r2_what_is_no_time_to_come_is_no_hint_and_the_backoff_counts(value: str) -> None:
    assert await slept_after(retry_after=value) == [0.5]


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limited. Retry-After: 5", 5),
        ("Rate limited. retry_after: 2.5", 2.5),
        ("Rate limited. Retry-After 7", 7),
        ("Rate limit reached. Please try again in 20s.", 20),
        ('Rate limited. {"retryDelay": "13s"}', 13),
    ],
)
async def test_r3_a_wait_in_the_body_is_read(message: str, seconds: float) -> None:
    assert await slept_after(message=message) == [seconds]


async def test_r3_a_field_of_the_body_is_read() -> None:
    response = rate_limited()
    body = response.json() | {"retry_after": 2.5}
    pair = Pair(type(response)(429, json=body), openai_ok(), alone=True)
    await pair.ask()
    assert pair.slept == [2.5]


@pytest.mark.parametrize("value", ["1" + "0" * 23, "9" * 400, "1e308"])
async def test_r4_a_monstrous_value_is_no_exception_and_no_endless_sleep(value: str) -> None:
    pair = Pair(rate_limited(retry_after=value), alone=True)
    assert isinstance(await pair.fail(), RateLimitedError)
    assert sum(pair.slept) <= 30


async def test_r5_a_hint_above_the_backoff_is_waited_for() -> None:
    assert await slept_after(retry_after="3") == [3]


async def test_r5_a_hint_below_the_backoff_does_not_shorten_it() -> None:
    assert await slept_after(retry_after="0.1") == [0.5]


async def test_r5_a_hint_above_the_cap_leads_to_the_next_candidate_at_once() -> None:
    pair = Pair(rate_limited(retry_after="120"))
    reply = await pair.ask()
    assert (reply.served_by.provider, pair.calls, pair.slept) == ("anthropic", (1, 1), [])


async def test_r5_a_hint_above_the_cap_with_nowhere_to_go_is_told_and_not_slept_on() -> None:
    pair = Pair(rate_limited(retry_after="120"), alone=True)
    error = await pair.fail()
    assert (error.retry_after, pair.slept, pair.calls) == (120, [], (1, 0))


async def test_r5_the_seeds_cap_is_a_setting() -> None:
    pair = Pair(rate_limited(retry_after="12"), alone=True, retry=RetryPolicy(jitter=0, cap=10))
    await pair.fail()
    assert pair.slept == []


async def test_r6_a_limited_key_cools_for_its_hint_also_for_later_calls() -> None:
    pair = Pair(rate_limited(retry_after="120"), openai_ok())
    await pair.ask()
    pair.clock.advance(118)
    await pair.ask()
    assert pair.calls == (1, 2)
    pair.clock.advance(2)
    await pair.ask()
    assert pair.calls == (2, 2)


async def test_r6_a_call_waits_out_the_last_second_of_a_cooldown() -> None:
    pair = Pair(rate_limited(retry_after="120"), openai_ok())
    await pair.ask()
    pair.clock.advance(119)
    await pair.ask()
    assert (pair.calls, pair.slept) == ((2, 1), [1])


async def test_r6_without_a_hint_it_cools_for_the_backoff() -> None:
    pair = Pair(rate_limited(), openai_ok(), retry=RetryPolicy(jitter=0, backoff=10, patience=0))
    await pair.ask()
    pair.clock.advance(9)
    await pair.ask()
    assert pair.calls == (1, 2)
    pair.clock.advance(1)
    await pair.ask()
    assert pair.calls == (2, 2)


async def test_r6_cooldowns_can_be_turned_off() -> None:
    pair = Pair(rate_limited(retry_after="120"), openai_ok(), recovery=RecoveryPolicy(cooldowns=False))
    await pair.ask()
    await pair.ask()
    assert pair.calls == (2, 1)
