"""A second candidate beside a slow first one, in virtual time: the first output wins, the loser leaves no trace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reliable_llm import FailoverChat
from reliable_llm.drill import loop
from reliable_llm.drill.clock import DrillClock
from reliable_llm.errors import Kind, ServerError
from reliable_llm.policy import BudgetPolicy, HedgePolicy, Limits, RetryPolicy
from reliable_llm.testing import Drill, hang, ok, stream
from reliable_llm.types import Finished, FinishReason, HostedTool, TextDelta
from tests.support import ScriptedAdapter, answer, fails, provider

ONCE = RetryPolicy(max_retries=0)


def after(seconds: float, text: str) -> Any:
    async def slowly() -> Any:
        await asyncio.sleep(seconds)
        return answer(text)

    return slowly


def streamed(seconds: float, text: str) -> list[Any]:
    async def wait() -> None:
        await asyncio.sleep(seconds)

    return [wait, TextDelta(text), Finished(FinishReason.STOP, None)]


def chat_of(first: ScriptedAdapter, second: ScriptedAdapter, delay: float | None = 1.0, **fields: Any) -> FailoverChat:
    limits = Limits(max_concurrency=1)
    return FailoverChat(
        [provider("a", first, limits=limits), provider("b", second, limits=limits)],
        clock=DrillClock(),
        hedge=HedgePolicy(delay=delay, share=fields.pop("share", 1.0)),
        retry=ONCE,
        **fields,
    )


async def free_again(chat: FailoverChat) -> None:
    """Fail unless both providers, which allow one request at a time, take one more."""
    for route in ("a/m1", "b/m1"):
        async with asyncio.timeout(300):
            await chat("hi", route=[route])


def test_the_first_output_wins_and_the_loser_is_in_the_attempts_as_cancelled() -> None:
    first, second = ScriptedAdapter(after(60, "slow"), "a"), ScriptedAdapter(after(1, "fast"), "b")
    chat = chat_of(first, second)

    reply = loop.run(chat("hi"))

    assert reply.text == "fast"
    assert [(attempt.provider, attempt.kind) for attempt in reply.attempts] == [("a", Kind.CANCELLED), ("b", None)]
    assert str(reply.requested) == "a/m1"


def test_a_first_one_that_answers_after_all_wins() -> None:
    chat = chat_of(ScriptedAdapter(after(2, "first")), ScriptedAdapter(after(60, "second")))

    reply = loop.run(chat("hi"))

    assert reply.text == "first"
    assert [(attempt.provider, attempt.kind) for attempt in reply.attempts] == [("a", None), ("b", Kind.CANCELLED)]


def test_who_answers_in_time_is_not_hedged() -> None:
    second = ScriptedAdapter("second")

    loop.run(chat_of(ScriptedAdapter(after(0.5, "first")), second)("hi"))

    assert second.sent == []


def test_a_call_that_has_left_its_first_choice_is_not_hedged() -> None:
    """Seed 664 of the simulation: two requests of one call were under way at the same candidate."""
    first, second = ScriptedAdapter(fails(Kind.AUTHENTICATION)), ScriptedAdapter(after(60, "slow"), "twin")
    chat = chat_of(first, second)

    reply = loop.run(chat("hi"))

    assert (reply.text, len(second.sent)) == ("slow", 1)


def test_when_both_fail_the_first_ones_error_is_raised_with_all_attempts() -> None:
    async def fail_late() -> Any:
        await asyncio.sleep(2)
        raise ServerError

    chat = chat_of(ScriptedAdapter(fail_late), ScriptedAdapter(fails(Kind.RATE_LIMITED)))

    with pytest.raises(ServerError) as caught:
        loop.run(chat("hi"))

    assert {attempt.provider for attempt in caught.value.attempts} == {"a", "b"}


def test_no_more_than_a_twentieth_of_the_calls_is_hedged() -> None:
    second = ScriptedAdapter("second")
    chat = chat_of(ScriptedAdapter(after(2, "first")), second, share=0.05)

    async def many() -> None:
        for _ in range(200):
            await chat("hi")

    loop.run(many())

    assert len(second.sent) == 10


def test_a_third_candidate_does_not_make_more_hedges_in_streams() -> None:
    adapters = [ScriptedAdapter(streams=(streamed(2, name),)) for name in "abc"]
    chat = FailoverChat(
        [provider(name, adapter) for name, adapter in zip("abc", adapters, strict=True)],
        clock=DrillClock(),
        hedge=HedgePolicy(delay=1.0),
        retry=ONCE,
    )

    async def many() -> None:
        for _ in range(100):
            async with chat.stream("hi") as opened:
                await opened.reply()

    loop.run(many())

    assert [len(adapter.sent) for adapter in adapters] == [100, 5, 0]


def test_tools_that_the_vendor_runs_are_never_sent_twice() -> None:
    first, second = ScriptedAdapter(after(60, "slow")), ScriptedAdapter("second", vendor="openai")
    chat = chat_of(first, second)

    reply = loop.run(chat("hi", tools=[HostedTool(vendor="openai", spec={"type": "web_search"})]))

    assert reply.text == "slow"
    assert second.sent == []


def test_cancelling_the_call_cancels_both_and_gives_their_places_back() -> None:
    first, second = ScriptedAdapter(after(60, "slow"), "a"), ScriptedAdapter(after(60, "slow"), "b")
    chat = chat_of(first, second)

    async def story() -> float:
        call = asyncio.create_task(chat("hi"))
        await asyncio.sleep(5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        at = asyncio.get_running_loop().time()
        await free_again(chat)
        return at

    assert loop.run(story()) == 5.0
    assert (len(first.sent), len(second.sent)) == (2, 2)


def test_the_losers_place_is_free_again() -> None:
    chat = chat_of(ScriptedAdapter(after(60, "slow"), "a"), ScriptedAdapter(after(1, "fast"), "b"))

    async def story() -> None:
        await chat("hi")
        await free_again(chat)

    loop.run(story())


def test_no_response_of_a_loser_stays_open() -> None:
    drill = Drill()
    drill.answers("openai", hang("body"))
    drill.answers("anthropic", ok("hello"))
    chat = FailoverChat(
        [drill.openai(models=["m1"]), drill.anthropic(models=["m2"])],
        clock=drill.clock,
        hedge=HedgePolicy(delay=1.0),
    )

    assert drill.run(chat("hi")).text == "hello"
    drill.assert_all_closed()


def test_a_stream_is_hedged_until_its_first_output() -> None:
    drill = Drill()
    drill.answers("openai", hang("headers"))
    drill.answers("anthropic", stream("he", "llo"))
    chat = FailoverChat(
        [drill.openai(models=["m1"]), drill.anthropic(models=["m2"])],
        clock=drill.clock,
        hedge=HedgePolicy(delay=1.0),
    )

    async def read() -> Any:
        async with chat.stream("hi") as opened:
            return await opened.reply()

    reply = drill.run(read())

    assert reply.text == "hello"
    assert [attempt.kind for attempt in reply.attempts] == [Kind.CANCELLED, None]
    drill.assert_all_closed()


def test_two_streams_with_their_first_output_in_the_same_moment_leave_none_open() -> None:
    first, second = ScriptedAdapter(streams=(streamed(2, "a"),)), ScriptedAdapter(streams=(streamed(1, "b"),))
    chat = chat_of(first, second)

    async def read() -> str:
        async with chat.stream("hi") as opened:
            return (await opened.reply()).text

    assert loop.run(read()) in ("a", "b")
    assert first.streams_closed + second.streams_closed == len(first.sent) + len(second.sent) == 2


def test_the_delay_of_streams_is_learned_from_their_first_outputs() -> None:
    first = ScriptedAdapter(streams=(*(streamed(1, "quick") for _ in range(25)), streamed(60, "slow")))
    second = ScriptedAdapter(streams=(streamed(0, "second"),))
    chat = chat_of(first, second, delay=None)

    async def read() -> str:
        for _ in range(25):
            async with chat.stream("hi") as opened:
                await opened.reply()
        async with chat.stream("hi") as opened:
            return (await opened.reply()).text

    assert loop.run(read()) == "second"


def test_a_hedged_call_fills_the_budget_once() -> None:
    down = fails(Kind.SERVER_ERROR)
    chat = chat_of(ScriptedAdapter(down), ScriptedAdapter(down), budget=BudgetPolicy(share=0.1, burst=1))

    async def many() -> int:
        attempts = 0
        for _ in range(100):
            with pytest.raises(ServerError) as caught:
                await chat("hi", failover=True)
            attempts += len(caught.value.attempts)
        return attempts

    assert loop.run(many()) <= 100 + 1 + 10
