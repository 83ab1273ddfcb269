"""Cancellation passes at once, changes nobody's health and leaks no probe, no place and no connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx2
import pytest

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import run
from reliable_llm.errors import Kind
from reliable_llm.types import TextDelta
from tests.support import (
    STEADY,
    Listening,
    ManualClock,
    ScriptedAdapter,
    Vendor,
    anthropic_ok,
    fails,
    openai_chunk,
    openai_ok,
    out_of_quota,
    provider,
)


class Hanging:
    """A place to wait at; `reached` tells that somebody does."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def __call__(self, *_: object) -> Any:
        self.reached.set()
        await asyncio.Event().wait()


async def cancelled(call: Any, reached: asyncio.Event) -> None:
    """Cancel *call* when it has got there, and see that it is cancelled indeed."""
    task = asyncio.ensure_future(call)
    await asyncio.wait_for(reached.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_request_is_not_retried_and_nobody_else_is_asked() -> None:
    hang = Hanging()
    first, second = Vendor(hang), Vendor(anthropic_ok())
    chat = FailoverChat([first.openai(), second.anthropic()], retry=STEADY, clock=ManualClock())
    before = chat.status()
    await cancelled(chat("hi"), hang.reached)
    assert (len(first.arrivals), len(second.arrivals), chat.status()) == (1, 0, before)


async def test_a_cancelled_probe_leaves_the_next_call_to_probe() -> None:
    hang = Hanging()
    primary, clock = Vendor(out_of_quota(), hang, openai_ok()), ManualClock()
    chat = FailoverChat([primary.openai(), Vendor(anthropic_ok()).anthropic()], retry=STEADY, clock=clock)
    await chat("hi")
    clock.advance(300)
    await cancelled(chat("hi"), hang.reached)
    reply = await chat("hi")
    assert (reply.served_by.provider, reply.attempts[0].probe) == ("openai", True)


async def test_a_cancelled_backoff_sends_nothing_more() -> None:
    reached = asyncio.Event()

    class Waiting(ManualClock):
        async def sleep(self, seconds: float) -> None:
            reached.set()
            await asyncio.Event().wait()

    adapter = ScriptedAdapter(fails(Kind.SERVER_ERROR))
    chat = FailoverChat([provider("a", adapter)], retry=STEADY, clock=Waiting())
    await cancelled(chat("hi"), reached)
    assert len(adapter.sent) == 1


async def test_a_cancelled_call_gives_its_place_back() -> None:
    hang = Hanging()
    adapter = ScriptedAdapter(hang, "hello")
    chat = FailoverChat([provider("a", adapter, max_concurrency=1)], clock=ManualClock())
    await cancelled(chat("hi"), hang.reached)
    assert (await asyncio.wait_for(chat("hi"), 20)).text == "hello"


async def in_asyncio(chat: FailoverChat) -> None:
    async with asyncio.timeout(5):
        await chat("hi")


async def in_anyio(chat: FailoverChat) -> None:
    with anyio.fail_after(5):
        await chat("hi")


@pytest.mark.parametrize("ask", [in_asyncio, in_anyio])
def test_a_callers_own_timeout_passes_as_it_is(ask: Callable[[FailoverChat], Any]) -> None:
    first, second = ScriptedAdapter(asyncio.Event().wait), ScriptedAdapter()  # type: ignore[arg-type]
    chat = FailoverChat([provider("a", first), provider("b", second)], retry=STEADY, clock=DrillClock())
    with pytest.raises(TimeoutError) as raised:
        run(ask(chat))
    assert (type(raised.value), second.sent) == (TimeoutError, [])


async def test_one_cancelled_call_of_many_leaves_the_others_alone() -> None:
    hang = Hanging()
    adapter = ScriptedAdapter(hang, "hello")
    chat = FailoverChat([provider("a", adapter)], clock=ManualClock())
    calls = [asyncio.create_task(chat("hi")) for _ in range(5)]
    await asyncio.wait_for(hang.reached.wait(), 20)
    calls[0].cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert [reply.text for reply in done[1:]] == ["hello"] * 4  # type: ignore[union-attr]


# ---------------------------------------------------------------- streams


class Endless(httpx2.AsyncByteStream):
    """One chunk, then silence. Remembers whether it was closed."""

    def __init__(self, *, with_output: bool) -> None:
        self.with_output = with_output
        self.silent = asyncio.Event()
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.with_output:
            yield f"data: {openai_chunk('The ')}\n\n".encode()
        self.silent.set()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed = True


def streaming(body: Endless, heard: Listening) -> FailoverChat:
    async def open_it(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body, request=request)

    return FailoverChat([Vendor(open_it).openai()], retry=STEADY, clock=ManualClock(), listeners=[heard])


async def read(chat: FailoverChat) -> None:
    async with chat.stream("hi") as stream:
        async for _ in stream:
            pass


@pytest.mark.parametrize("with_output", [False, True])
async def test_a_cancelled_stream_closes_its_response_and_blames_nobody(with_output: bool) -> None:
    body, heard = Endless(with_output=with_output), Listening()
    chat = streaming(body, heard)
    before = chat.status()
    await cancelled(read(chat), body.silent)
    assert (body.closed, chat.status(), heard.of(events.AttemptFailed)) == (True, before, [])


async def test_a_stream_that_is_left_in_the_middle_is_closed_and_blames_nobody() -> None:
    body, heard = Endless(with_output=True), Listening()
    chat = streaming(body, heard)
    async with chat.stream("hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert body.closed
    assert heard.of(events.AttemptFailed) == []
