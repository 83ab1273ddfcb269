"""Group T: nothing hangs. Virtual time: a minute passes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from reliable_llm.chat import FailoverChat
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import run
from reliable_llm.errors import (
    AttemptTimeoutError,
    DeadlineExceededError,
    Kind,
    ReliableLLMError,
    StreamInterruptedError,
)
from reliable_llm.policy import RetryPolicy, Timeouts
from reliable_llm.types import ChatReply, Finished, FinishReason, TextDelta
from tests.support import ScriptedAdapter, Vendor, anthropic_ok, openai_error, openai_ok, provider

ONE = RetryPolicy(max_retries=0, jitter=0)


async def hang(*_: object) -> httpx2.Response:
    await asyncio.Event().wait()
    raise AssertionError


def slow(seconds: float) -> Callable[[httpx2.Request], Awaitable[httpx2.Response]]:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(seconds)
        return openai_ok()

    return answer


def timed(call: Callable[[], Awaitable[ChatReply]]) -> tuple[ChatReply | ReliableLLMError, float]:
    """Return what came of *call*, and after how many seconds."""

    async def measured() -> tuple[ChatReply | ReliableLLMError, float]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return await call(), loop.time() - started
        except ReliableLLMError as error:
            return error, loop.time() - started

    return run(measured())


def pair(first: Vendor, *, timeouts: Timeouts | None = None, retry: RetryPolicy = ONE) -> FailoverChat:
    second = Vendor(anthropic_ok())
    return FailoverChat([first.openai(timeouts=timeouts), second.anthropic()], retry=retry, clock=DrillClock())


def alone(first: Vendor, *, retry: RetryPolicy = ONE) -> FailoverChat:
    return FailoverChat([first.openai()], retry=retry, clock=DrillClock())


def test_t1_a_call_that_hangs_goes_to_the_fallback_after_120_seconds() -> None:
    reply, seconds = timed(lambda: pair(Vendor(hang))("hi"))
    assert isinstance(reply, ChatReply)
    assert (reply.served_by.provider, seconds) == ("anthropic", 120)


def test_t1_the_timeout_is_a_setting_of_the_provider() -> None:
    _, seconds = timed(lambda: pair(Vendor(hang), timeouts=Timeouts(attempt=7))("hi"))
    assert seconds == 7


def test_t1_an_attempt_that_took_too_long_is_a_timeout_and_is_retried() -> None:
    vendor = Vendor(hang, openai_ok())
    reply, seconds = timed(lambda: alone(vendor, retry=RetryPolicy(jitter=0))("hi"))
    assert isinstance(reply, ChatReply)
    assert [attempt.kind for attempt in reply.attempts] == [Kind.TIMEOUT, None]
    assert seconds == 120.5


def test_t1_alone_it_is_raised_as_what_it_is() -> None:
    error, _ = timed(lambda: alone(Vendor(hang))("hi"))
    assert isinstance(error, AttemptTimeoutError)


def test_t1_a_slow_answer_within_the_timeout_is_an_answer() -> None:
    reply, seconds = timed(lambda: alone(Vendor(slow(119)))("hi"))
    assert isinstance(reply, ChatReply)
    assert seconds == 119


def streaming(*items: object, timeouts: Timeouts | None = None) -> FailoverChat:
    adapter = ScriptedAdapter(streams=(list(items),))  # type: ignore[arg-type]
    return FailoverChat([provider("a", adapter, timeouts=timeouts)], retry=ONE, clock=DrillClock())


async def read(chat: FailoverChat, **asked: object) -> ChatReply:
    async with chat.stream("hi", **asked) as stream:  # type: ignore[arg-type]
        return await stream.reply()


def test_t2_a_stream_that_falls_silent_is_interrupted_after_60_seconds_with_what_came() -> None:
    error, seconds = timed(lambda: read(streaming(TextDelta("The Rhine"), hang)))
    assert isinstance(error, StreamInterruptedError)
    assert (error.partial_text, error.cause_kind, seconds) == ("The Rhine", Kind.TIMEOUT, 60)


@pytest.mark.parametrize("idle", [90, 300])
def test_t2_the_seeds_idle_timeouts_are_settings(idle: float) -> None:
    _, seconds = timed(lambda: read(streaming(TextDelta("The Rhine"), hang, timeouts=Timeouts(idle=idle))))
    assert seconds == idle


def test_t2_a_stream_without_a_first_token_is_left_after_60_seconds() -> None:
    error, seconds = timed(lambda: read(streaming(hang)))
    assert isinstance(error, AttemptTimeoutError)
    assert seconds == 60


def test_t2_the_deadline_holds_in_the_middle_of_a_stream() -> None:
    error, seconds = timed(lambda: read(streaming(TextDelta("The Rhine"), hang), deadline=10))
    assert isinstance(error, DeadlineExceededError)
    assert (error.partial_text, seconds) == ("The Rhine", 10)


def test_t2_a_stream_that_goes_on_slowly_is_not_interrupted() -> None:
    async def pause() -> None:
        await asyncio.sleep(50)

    items = [TextDelta("a"), pause, TextDelta("b"), pause, Finished(FinishReason.STOP, None)]
    reply, seconds = timed(lambda: read(streaming(*items)))
    assert isinstance(reply, ChatReply)
    assert (reply.text, seconds) == ("ab", 100)


def test_t3_a_deadline_cuts_the_attempt_under_way() -> None:
    error, seconds = timed(lambda: alone(Vendor(hang))("hi", deadline=5))
    assert isinstance(error, DeadlineExceededError)
    assert seconds == 5
    assert [attempt.kind for attempt in error.attempts] == [Kind.DEADLINE]


def test_t3_no_sleep_goes_past_the_deadline() -> None:
    vendor = Vendor(openai_error(500))
    error, seconds = timed(lambda: alone(vendor, retry=RetryPolicy(max_retries=9, jitter=0))("hi", deadline=5))
    assert isinstance(error, ReliableLLMError)
    assert seconds == 3.5
    assert len(vendor.arrivals) == 4


def test_t3_no_call_starts_past_the_deadline() -> None:
    first, second = Vendor(slow(10)), Vendor(anthropic_ok())
    chat = FailoverChat([first.openai(), second.anthropic()], retry=ONE, clock=DrillClock())
    error, _ = timed(lambda: chat("hi", deadline=5))
    assert isinstance(error, DeadlineExceededError)
    assert second.arrivals == []


def test_t3_a_reserve_leaves_time_for_the_fallback() -> None:
    reply, seconds = timed(lambda: pair(Vendor(hang), retry=RetryPolicy(max_retries=0, reserve=4))("hi", deadline=10))
    assert isinstance(reply, ChatReply)
    assert (reply.served_by.provider, seconds) == ("anthropic", 6)


def test_t3_the_error_lists_what_was_tried_and_what_was_not() -> None:
    first = Vendor(openai_error(401))
    second = Vendor(hang)
    third = Vendor(anthropic_ok())
    providers = [first.openai(name="a"), second.openai(name="b"), third.anthropic(name="c")]
    chat = FailoverChat(providers, retry=ONE, clock=DrillClock())
    error, _ = timed(lambda: chat("hi", deadline=5))
    assert isinstance(error, DeadlineExceededError)
    assert [attempt.provider for attempt in error.attempts] == ["a", "b"]
    assert "not tried: c/claude-sonnet-4-5" in str(error)
