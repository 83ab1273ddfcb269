"""Group L: model chain > provider chain > retries; how often, and how long in between."""

from __future__ import annotations

import asyncio

import pytest

from reliable_llm.chat import FailoverChat
from reliable_llm.errors import RateLimitedError, ServerError
from reliable_llm.policy import RetryPolicy
from tests.checklist.pairs import Pair
from tests.support import (
    STEADY,
    ManualClock,
    ScriptedAdapter,
    Vendor,
    openai_error,
    openai_ok,
    provider,
    rate_limited,
)

DOWN = openai_error(500)
ONCE = RetryPolicy(max_retries=1, jitter=0)


async def test_l1_models_are_outside_providers_and_retries_inside() -> None:
    order: list[str] = []

    def vendor(name: str) -> Vendor:
        async def refuse(request: object) -> object:
            order.append(f"{endpoint.arrivals[-1].model}{name}")
            return DOWN

        endpoint = Vendor(refuse)
        return endpoint

    p1, p2 = vendor("p1"), vendor("p2")
    providers = [p.openai(name=name, models=["m1", "m2"]) for name, p in (("p1", p1), ("p2", p2))]
    chat = FailoverChat(providers, retry=ONCE, clock=ManualClock())
    with pytest.raises(ServerError):
        await chat("hi")
    assert order == ["m1p1", "m1p1", "m1p2", "m1p2", "m2p1", "m2p1", "m2p2", "m2p2"]


async def test_l2_two_retries_are_three_calls_at_most_per_candidate() -> None:
    pair = Pair(DOWN)
    await pair.ask()
    assert pair.calls == (3, 1)


async def test_l2_five_retries_do_not_help_a_refused_key() -> None:
    pair = Pair(openai_error(401), retry=RetryPolicy(max_retries=5, jitter=0))
    await pair.ask()
    assert pair.calls == (1, 1)


async def test_l3_retries_and_backoff_can_be_set_for_one_provider() -> None:
    clock, first, second = ManualClock(), Vendor(DOWN), Vendor(DOWN)
    providers = [
        first.openai(retry=RetryPolicy(max_retries=1, backoff=2, jitter=0)),
        second.anthropic(),
    ]
    with pytest.raises(ServerError):
        await FailoverChat(providers, retry=RetryPolicy(max_retries=0, jitter=0), clock=clock)("hi")
    assert (len(first.arrivals), len(second.arrivals), clock.slept) == (2, 1, [2])


async def test_l3_a_calls_own_policy_goes_before_a_providers() -> None:
    clock, vendor = ManualClock(), Vendor(DOWN)
    chat = FailoverChat([vendor.openai(retry=RetryPolicy(max_retries=5))], clock=clock)
    with pytest.raises(ServerError):
        await chat("hi", retry=RetryPolicy(max_retries=0))
    assert (len(vendor.arrivals), clock.slept) == (1, [])


async def test_l3_retries_and_backoff_can_be_set_for_one_call() -> None:
    pair = Pair(DOWN)
    await pair.ask(retry=RetryPolicy(max_retries=1, backoff=2, jitter=0))
    assert (pair.calls, pair.slept) == ((2, 1), [2])


async def test_l4_the_waits_double_up_to_the_cap_with_none_after_the_last_attempt() -> None:
    pair = Pair(DOWN, alone=True, retry=RetryPolicy(max_retries=7, cap=10, jitter=0))
    await pair.fail()
    assert pair.slept == [0.5, 1, 2, 4, 8, 10, 10]


async def test_l4_the_default_cap_is_thirty_seconds() -> None:
    pair = Pair(DOWN, alone=True, retry=RetryPolicy(max_retries=7, jitter=0))
    await pair.fail()
    assert pair.slept == [0.5, 1, 2, 4, 8, 16, 30]


async def test_l4_the_shortest_wait_is_a_twentieth_of_a_second() -> None:
    pair = Pair(DOWN, alone=True, retry=RetryPolicy(backoff=0, jitter=0))
    await pair.fail()
    assert pair.slept == pytest.approx([0.05, 0.05])


async def test_l4_the_waits_begin_anew_at_the_next_candidate() -> None:
    pair = Pair(DOWN, fallback=openai_error(500))
    await pair.fail()
    assert pair.slept == [0.5, 1, 0.5, 1]


async def test_l5_jitter_is_on_by_default() -> None:
    pair = Pair(DOWN, alone=True, retry=RetryPolicy())
    pair.clock.chance = 0.5
    await pair.fail()
    assert pair.slept == [0.375, 0.75]


async def test_l5_jitter_never_goes_below_the_servers_hint() -> None:
    pair = Pair(rate_limited(retry_after="4"), openai_ok(), alone=True, retry=RetryPolicy())
    pair.clock.chance = 0.5
    await pair.ask()
    assert pair.slept == [pytest.approx(4.02)]


async def test_l6_a_rate_limit_with_another_candidate_gets_one_call_and_no_sleep() -> None:
    pair = Pair(rate_limited(retry_after="20"))
    await pair.ask()
    assert (pair.calls, pair.slept) == ((1, 1), [])


async def test_l6_with_every_candidate_limited_the_earliest_one_is_waited_for() -> None:
    first, second = (
        Vendor(rate_limited(retry_after="20"), openai_ok()),
        Vendor(rate_limited(retry_after="8"), openai_ok()),
    )
    clock = ManualClock()
    chat = FailoverChat([first.openai(name="first"), second.openai(name="second")], retry=STEADY, clock=clock)
    reply = await chat("hi")
    assert (reply.served_by.provider, clock.slept) == ("second", [8])


async def test_l6_but_not_past_the_deadline() -> None:
    pair = Pair(rate_limited(retry_after="20"), alone=True)
    assert isinstance(await pair.fail(deadline=10), RateLimitedError)
    assert pair.slept == []


async def test_l7_cancellation_passes_at_once_and_changes_nothing() -> None:
    waiting = asyncio.Event()

    async def hang() -> object:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    first, second = ScriptedAdapter(hang), ScriptedAdapter()
    chat = FailoverChat([provider("first", first), provider("second", second)], clock=ManualClock())
    before = chat.status()
    call = asyncio.create_task(chat("hi"))
    await waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (len(first.sent), len(second.sent), chat.status()) == (1, 0, before)
