"""What the simulation has found, one by one: a broken rule, with the seed under which it was met."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest

from reliable_llm import FailoverChat, HedgePolicy, RecoveryPolicy, RetryPolicy, StreamInterruptedError, Timeouts
from reliable_llm.core.actions import Sleep, StartAttempt
from reliable_llm.core.recovery import Fault
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import run
from reliable_llm.errors import DeadlineExceededError, Kind, ReliableLLMError
from reliable_llm.events import AttemptFailed, Event
from reliable_llm.policy import Limits
from reliable_llm.types import AdapterReply, Finished, FinishReason, TextDelta
from tests.core.trips import STEADY, World, down, quota
from tests.support import Listening, ScriptedAdapter, StreamItem, answer, fails, failure, provider


def after(seconds: float, text: str = "hello") -> Any:
    """Return an item of a script: answer *text* after *seconds*."""

    async def late() -> AdapterReply:
        await asyncio.sleep(seconds)
        return answer(text)

    return late


def failing_after(seconds: float, kind: Kind, **verdict: Any) -> Any:
    async def late() -> AdapterReply:
        await asyncio.sleep(seconds)
        raise failure(kind, **verdict)

    return late


def silence(seconds: float) -> Any:
    async def wait() -> None:
        await asyncio.sleep(seconds)

    return wait


def coordinator(*providers: Any, **settings: Any) -> FailoverChat:
    settings.setdefault("retry", STEADY)
    return FailoverChat(list(providers), clock=DrillClock(), **settings)


async def read_all(chat: FailoverChat, read: list[str] | None = None, **settings: Any) -> None:
    """Read a stream to its end, and note its text in *read*."""
    async with chat.stream("hi", **settings) as stream:
        async for event in stream:
            if read is not None and isinstance(event, TextDelta):
                read.append(event.text)


def in_virtual_time(main: Coroutine[Any, Any, Any]) -> Any:
    return run(main)


def test_a_listener_that_raises_does_not_fail_the_call() -> None:
    """Every seed: the contract of listeners said so, and the driver did not."""

    def nasty(event: Event, tags: Mapping[str, str]) -> None:
        raise RuntimeError("a listener's own bug")

    heard = Listening()
    chat = coordinator(provider("a", ScriptedAdapter("hello")), listeners=[nasty, heard])
    assert in_virtual_time(chat("hi")).text == "hello"
    assert "attempt_succeeded" in heard.names


def test_what_rounding_leaves_of_a_wait_is_not_slept_for_ever() -> None:
    """Seed 2: on a clock that keeps nanoseconds, a rest of 3e-14 s never passed."""
    world = World(a=1)
    world.now = 246.401
    call = world.call("a/m1", retry=RetryPolicy(backoff=0.05, jitter=0))
    first = call.next(world.now)
    assert isinstance(first, StartAttempt)
    call.failed(first, world.now, world.now, down())
    wait = call.next(world.now)
    assert isinstance(wait, Sleep)
    woken = round(world.now + wait.seconds, 9)
    assert isinstance(call.next(woken), StartAttempt)


def test_who_waited_for_a_place_does_not_use_a_key_that_was_parked_meanwhile() -> None:
    """Seed 0: with max_concurrency=1, each of ten queued calls hit the key that the first one had found spent."""
    broke = ScriptedAdapter(failing_after(1.0, Kind.QUOTA_EXHAUSTED, status=429))
    chat = coordinator(provider("a", broke, max_concurrency=1), provider("b", ScriptedAdapter("from b")))

    async def ten() -> list[str]:
        replies = await asyncio.gather(*(chat(f"call {n}") for n in range(10)))
        return [reply.text for reply in replies]

    assert in_virtual_time(ten()) == ["from b"] * 10
    assert len(broke.sent) == 1


def test_time_kept_for_others_is_not_spent_in_a_queue() -> None:
    """Seed 5: the call ended with `deadline` while `reserve` seconds were left for the next candidate."""
    busy = ScriptedAdapter(after(100.0))
    chat = coordinator(
        provider("a", busy, max_concurrency=1, timeouts=Timeouts(attempt=200)),
        provider("b", ScriptedAdapter("from b")),
        retry=RetryPolicy(reserve=5.0, jitter=0),
    )

    async def queued() -> str:
        ahead = asyncio.ensure_future(chat("ahead", failover=False))
        await asyncio.sleep(0.1)
        reply = await chat("behind", deadline=10)
        ahead.cancel()
        await asyncio.gather(ahead, return_exceptions=True)
        return str(reply.text)

    assert in_virtual_time(queued()) == "from b"


@pytest.mark.parametrize("stream", [False, True])
def test_when_both_sides_of_a_hedge_fail_the_error_tells_of_both(stream: bool) -> None:
    """Seed 14: the ledger of the error had the first side's attempts only."""
    slow = [silence(2.0), fails(Kind.SERVER_ERROR)]
    a = ScriptedAdapter(failing_after(2.0, Kind.SERVER_ERROR), streams=(slow,))
    b = ScriptedAdapter(fails(Kind.SERVER_ERROR), streams=([fails(Kind.SERVER_ERROR)],))
    chat = coordinator(
        provider("a", a),
        provider("b", b),
        retry=RetryPolicy(max_retries=0, jitter=0),
        hedge=HedgePolicy(delay=0.5, share=1.0),
        recovery=RecoveryPolicy(breaker={}),
    )

    async def ask() -> tuple[str, ...]:
        with pytest.raises(ReliableLLMError) as caught:
            await (read_all(chat) if stream else chat("hi"))
        return tuple(attempt.provider for attempt in caught.value.attempts)

    assert sorted(in_virtual_time(ask())) == sorted(["a", *(["b"] * len(b.sent))])
    assert len(b.sent) >= 1


def test_a_hedge_that_failed_stays_in_the_ledger_of_the_stream_that_won() -> None:
    """Seed 10: what the second side had tried was dropped when the first one answered after all."""
    whole: list[StreamItem] = [silence(2.0), TextDelta("hello"), Finished(FinishReason.STOP, None)]
    b = ScriptedAdapter(streams=([fails(Kind.AUTHENTICATION)],))
    chat = coordinator(
        provider("a", ScriptedAdapter(streams=(whole,))), provider("b", b), hedge=HedgePolicy(delay=0.5, share=1.0)
    )

    async def ask() -> list[str]:
        async with chat.stream("hi") as stream:
            reply = await stream.reply()
        return [attempt.provider for attempt in reply.attempts]

    assert in_virtual_time(ask()) == ["a", "b"]


def test_a_streams_failure_is_told_when_it_happens_and_not_when_it_is_closed() -> None:
    """Seed 58: a response that was slow to close held the news back."""
    told: list[float] = []
    clock = DrillClock()

    def listener(event: Event, tags: Mapping[str, str]) -> None:
        if isinstance(event, AttemptFailed):
            told.append(clock.monotonic())

    class SlowToClose(ScriptedAdapter):
        def stream(self, *args: Any) -> Any:
            inner = super().stream(*args)
            leave = inner.__aexit__

            class Slow:
                __aenter__ = staticmethod(inner.__aenter__)

                async def __aexit__(self, *error: object) -> None:
                    await asyncio.sleep(0.5)
                    await leave(*error)

            return Slow()

    a = SlowToClose(streams=([silence(1.0), fails(Kind.SERVER_ERROR)],))
    done: list[StreamItem] = [TextDelta("hello"), Finished(FinishReason.STOP, None)]
    chat = FailoverChat(
        [provider("a", a), provider("b", ScriptedAdapter(streams=(done,)))],
        clock=clock,
        listeners=[listener],
        retry=RetryPolicy(max_retries=0),
    )

    async def ask() -> None:
        async with chat.stream("hi") as stream:
            await stream.reply()

    in_virtual_time(ask())
    assert told == [1.0]


def test_the_deadlines_error_holds_what_was_read_before_the_stream_went_on() -> None:
    """Seed 154: after a continuation had begun, the text that the caller had read was not in the error."""
    broken: list[StreamItem] = [TextDelta("one "), fails(Kind.STREAM_INTERRUPTED)]
    hangs: list[StreamItem] = [silence(1e6)]
    a = ScriptedAdapter(streams=(broken, hangs))
    chat = coordinator(provider("a", a))

    async def ask() -> tuple[str, str]:
        read: list[str] = []
        with pytest.raises(DeadlineExceededError) as caught:
            await read_all(chat, read, on_interrupt="continue", deadline=5)
        return "".join(read), caught.value.partial_text

    assert in_virtual_time(ask()) == ("one ", "one ")


def test_an_error_after_two_restarts_holds_what_was_shown_last() -> None:
    """Seed 434: what is raised is the primary's error, and it still had the primary's text."""
    first: list[StreamItem] = [TextDelta("first"), fails(Kind.STREAM_INTERRUPTED)]
    second: list[StreamItem] = [TextDelta("second"), fails(Kind.STREAM_INTERRUPTED)]
    chat = coordinator(
        provider("a", ScriptedAdapter(streams=(first,))),
        provider("b", ScriptedAdapter(streams=(second,))),
        provider("c", ScriptedAdapter(streams=([fails(Kind.AUTHENTICATION)],))),
        retry=RetryPolicy(max_retries=0, jitter=0),
    )

    async def ask() -> str:
        with pytest.raises(StreamInterruptedError) as caught:
            await read_all(chat, on_interrupt="restart")
        return caught.value.partial_text

    assert in_virtual_time(ask()) == "second"


def test_a_candidate_that_came_back_while_the_call_was_elsewhere_is_asked() -> None:
    """Seed 24: with nobody to wait for, the call gave up although its first choice was ready again."""
    world = World(a=1, b=1)
    world.trip({"a": [quota(retry_after=5.0)]}, world.call("a/m1"))
    call = world.call("a/m1", "b/m1", retry=RetryPolicy(jitter=0, wait_for_cooldown=False))
    assert world.trip({"b": [quota()]}, call, took=6.0) == ["b#1/m1", "a#1/m1", "ok"]


def test_a_breaker_is_forced_only_where_nothing_was_tried() -> None:
    """Seed 619: a candidate that could not be had when it was to be forced was asked later, after others had been."""
    world = World(a=1, b=1)
    world.trip({"a": [quota(retry_after=5.0)]}, world.call("a/m1"))
    world.trip({"b": [quota(retry_after=1.0)]}, world.call("b/m1"))
    fault = Fault(kind=Kind.SERVER_ERROR, at=world.now)
    world.health["b"].candidate_gate("m1").force(until=world.now + 100, fault=fault, probe=True)
    steps = world.trip({"a": [quota()]}, world.call("a/m1", "b/m1"))
    assert steps == ["wait 5", "a#1/m1", "raise quota_exhausted"]


@pytest.mark.parametrize("kind", [Kind.AUTHENTICATION, Kind.QUOTA_EXHAUSTED, Kind.MODEL_NOT_FOUND])
def test_nobody_queues_for_what_others_have_found_unfit(kind: Kind) -> None:
    """Seed 70: who queued behind a limit waited for a key that had been refused meanwhile, without end."""
    paced = provider("a", ScriptedAdapter(failing_after(1.0, kind)), limits=Limits(max_concurrency=1))
    chat = coordinator(paced, provider("b", ScriptedAdapter("from b", after(30.0, "from b"))))

    async def three() -> tuple[list[str], float]:
        alone = [chat(f"call {n}", route=["a/m1"]) for n in range(2)]
        either = chat("either")
        begun = asyncio.get_running_loop().time()
        first, second, third = await asyncio.gather(*alone, either, return_exceptions=True)
        waited = asyncio.get_running_loop().time() - begun
        return [getattr(each, "kind", None) or each.text for each in (first, second, third)], waited

    told, waited = in_virtual_time(three())
    assert told == [kind, kind, "from b"]
    assert waited < 5


def test_a_pace_counts_when_requests_start_and_not_when_their_turn_comes() -> None:
    """Seed 279: who waited for a place after the turn had come started when more than a minute allows had started."""
    began: list[float] = []

    def takes(seconds: float) -> Any:
        async def slow() -> AdapterReply:
            began.append(asyncio.get_running_loop().time())
            await asyncio.sleep(seconds)
            return answer("hello")

        return slow

    slow_first = ScriptedAdapter(takes(50.0), *(takes(0.1) for _ in range(11)))
    chat = coordinator(
        provider(
            "a", slow_first, max_concurrency=1, limits=Limits(requests_per_minute=6), timeouts=Timeouts(attempt=90)
        )
    )

    async def twelve() -> None:
        await asyncio.gather(*(chat(f"call {n}") for n in range(12)))

    in_virtual_time(twelve())
    assert max(sum(at <= other < at + 60 for other in began) for at in began) <= 6
