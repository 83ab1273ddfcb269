"""Group B: what is left alone for a time, and by whom."""

from __future__ import annotations

from freezegun import freeze_time

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import Kind, RateLimitedError
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from tests.checklist.pairs import Pair
from tests.support import STEADY, ManualClock, Vendor, anthropic_error, openai_error, openai_ok, rate_limited

BREAKER = RecoveryPolicy(breaker={Kind.SERVER_ERROR: 60})


async def test_b1_a_breaker_opens_when_retries_are_spent_and_closes_with_one_success() -> None:
    pair = Pair(*[openai_error(500)] * 3, openai_ok(), recovery=BREAKER)
    await pair.ask()
    await pair.ask()
    assert pair.calls == (3, 2)
    pair.clock.advance(60)
    await pair.ask()
    await pair.ask()
    assert pair.calls == (5, 2)


async def test_b1_a_probe_that_fails_opens_it_again() -> None:
    pair = Pair(openai_error(500), recovery=BREAKER, retry=RetryPolicy(max_retries=0))
    await pair.ask()
    pair.clock.advance(60)
    await pair.ask()
    await pair.ask()
    assert pair.calls == (2, 3)


async def test_b1_the_breaker_can_be_turned_off() -> None:
    pair = Pair(openai_error(500), recovery=RecoveryPolicy(breaker={}))
    await pair.ask()
    await pair.ask()
    assert pair.calls == (6, 2)


async def test_b2_a_limit_is_for_one_key_and_one_model() -> None:
    vendor = Vendor(openai_ok()).on("m1", rate_limited(retry_after="120"))
    chat = FailoverChat([vendor.openai(models=["m1", "m2"])], retry=STEADY, clock=ManualClock())
    reply = await chat("hi")
    assert (vendor.models, reply.served_by.model) == (["m1", "m2"], "m2")


async def test_b3_a_cooldown_ends_by_itself() -> None:
    pair = Pair(rate_limited(retry_after="120"), openai_ok())
    await pair.ask()
    pair.clock.advance(120)
    assert pair.chat.status().providers[0].keys[0].models == ()
    assert (await pair.ask()).served_by.provider == "openai"


async def test_b3_a_step_of_the_date_does_not_end_it() -> None:
    pair = Pair(rate_limited(retry_after="120"), openai_ok())
    await pair.ask()
    with freeze_time("2036-01-01", real_asyncio=True):
        assert (await pair.ask()).served_by.provider == "anthropic"


async def test_b4_a_cooled_candidate_is_passed_by_with_an_event() -> None:
    pair = Pair(rate_limited(retry_after="120"), openai_ok())
    await pair.ask()
    pair.clock.advance(20)
    await pair.ask()
    assert pair.calls == (1, 2)
    assert pair.heard.of(events.CandidateResting) == [
        events.CandidateResting("openai", "gpt-5.1", Kind.RATE_LIMITED, 100.0)
    ]


async def test_b4_with_everybody_cooled_the_error_tells_when_to_come_back() -> None:
    pair = Pair(rate_limited(retry_after="120"), fallback=anthropic_error(429, "rate_limit_error", retry_after="90"))
    await pair.fail()
    error = await pair.fail()
    assert isinstance(error, RateLimitedError)
    assert (error.retry_after, pair.calls) == (90, (1, 1))


async def test_b4_a_single_candidate_is_waited_for_and_not_skipped() -> None:
    pair = Pair(rate_limited(retry_after="20"), openai_ok(), alone=True)
    assert (await pair.ask()).text == "hello from gpt"
    assert (pair.calls, pair.slept) == ((2, 0), [20])
