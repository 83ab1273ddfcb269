"""Cancelled at every await of a call in turn: nothing may leak, nobody may be blamed, and the cancellation passes.

Each path (an answer, and every kind of failure on the way to one, plain and streamed) is first walked undisturbed to
count the times at which the call waits. Then it is walked anew for each of them, and cancelled there, once and twice.
Afterwards every response is closed, no task is left, no key is held by a probe, the one place in the provider's
queue is free, and the next call is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from reliable_llm import FailoverChat, Provider, RetryPolicy, Timeouts
from reliable_llm.errors import ReliableLLMError
from reliable_llm.testing import Act, Drill, act, connection_refused, error, html, ok, out_of_quota, rate_limited

LONG = 1e6
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MOST_AWAITS = 200


class Stepped:
    """A coroutine that is cancelled while it waits for the *at*-th time; `awaits` counts how often it has waited."""

    def __init__(self, body: Coroutine[Any, Any, object], at: int | None, *, twice: bool) -> None:
        self._body = body
        self._at = at
        self._twice = twice
        self.awaits = 0
        self.cancelled = False

    def __await__(self) -> Generator[Any, Any, object]:
        body = self._body.__await__()
        step: Callable[[], Any] = lambda: next(body)  # noqa: E731 - replaced at every step
        while True:
            try:
                waiting = step()
            except StopIteration as done:
                return done.value
            self.awaits += 1
            if self.awaits == self._at:
                self._cancel()
            try:
                value = yield waiting
            except BaseException as thrown:  # noqa: BLE001 - handed on as it is
                step = _throwing(body, thrown)
            else:
                step = _sending(body, value)

    def _cancel(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self.cancelled = True
        loop.call_soon(task.cancel)
        if self._twice:
            loop.call_soon(lambda: loop.call_soon(task.cancel))


def _throwing(body: Generator[Any, Any, Any], thrown: BaseException) -> Callable[[], Any]:
    return lambda: body.throw(thrown)


def _sending(body: Generator[Any, Any, Any], value: object) -> Callable[[], Any]:
    return lambda: body.send(value)


def streamed(*chunks: str, end: str = "done") -> Act:
    return act({"act": "stream", "chunks": list(chunks), "end": end, "delay_s": 0.1, "gap_s": 0.1})


HANGS = act({"act": "hang", "phase": "headers"})
HANGS_IN_THE_BODY = act({"act": "hang", "phase": "body"})
RESET = act({"act": "reset", "phase": "body"})
EMPTY = act({"act": "empty", "shape": "content_null", "delay_s": 0.1})
NO_JSON = act({"act": "ok", "text": "no JSON", "delay_s": 0.1})
JSON = act({"act": "ok_json", "obj": {"n": 1}, "delay_s": 0.1})

PLAIN: dict[str, tuple[Act, ...]] = {
    "success": (ok("hello", after=0.1),),
    "server error, then well": (error(500), ok("hello", after=0.1)),
    "limited, waited for": (rate_limited(retry_after=2), ok("hello", after=0.1)),
    "out of quota": (out_of_quota(),),
    "refused": (connection_refused(), ok("hello", after=0.1)),
    "silent": (HANGS, ok("hello", after=0.1)),
    "silent in the body": (HANGS_IN_THE_BODY, ok("hello", after=0.1)),
    "reset in the body": (RESET, ok("hello", after=0.1)),
    "a page instead of JSON": (html(200), ok("hello", after=0.1)),
    "empty": (EMPTY, ok("hello", after=0.1)),
    "refused key": (error(401, error_type="authentication_error"),),
    "bad request": (error(400, error_type="invalid_request_error").model_copy(update={"delay_s": 0.1}),),
    "nobody answers": (error(503),),
}
STREAMED: dict[str, tuple[Act, ...]] = {
    "success": (streamed("a", "b"),),
    "server error, then well": (error(500), streamed("a", "b")),
    "limited, waited for": (rate_limited(retry_after=2), streamed("a", "b")),
    "out of quota": (out_of_quota(),),
    "silent": (HANGS, streamed("a", "b")),
    "nothing but a close": (streamed(end="zero_bytes"), streamed("a", "b")),
    "cut after output": (streamed("a", "b", end="cut"), streamed("c")),
    "no end after output": (streamed("a", "b", end="eof"), streamed("c")),
    "stalls after output": (streamed("a", "b", end="stall"), streamed("c")),
    "an error after output": (streamed("a", "b", end="error_frame"), streamed("c")),
    "nobody answers": (error(503),),
}


@dataclass(frozen=True)
class Path:
    """One way a call can go, at one vendor."""

    vendor: str
    acts: Sequence[Act]
    stream: bool = False
    on_interrupt: str = "raise"
    structured: bool = False

    def coordinator(self, drill: Drill) -> FailoverChat:
        drill.answers("first", *self.acts)
        second = streamed("d", "e") if self.stream else JSON if self.structured else ok("from the second", after=0.1)
        drill.answers("second", second)
        make = Provider.openai if self.vendor == "openai" else Provider.anthropic
        providers = [
            make(
                name=name,
                models=["m1"],
                keys=[f"{name}-1", f"{name}-2"],
                vendor=self.vendor,
                base_url="https://vendor.example/v1",
                http_client=drill.http_client(name, pool_limit=1),
                timeouts=Timeouts(attempt=5, first_token=5, first_byte=5, idle=5),
                max_concurrency=1,
            )
            for name in ("first", "second")
        ]
        return FailoverChat(providers, clock=drill.clock, retry=RetryPolicy(patience=5, jitter=0))

    async def call(self, chat: FailoverChat) -> None:
        if not self.stream:
            await chat("hi", output=SCHEMA if self.structured else None)
            return
        async with chat.stream("hi", on_interrupt=self.on_interrupt) as answer:  # type: ignore[arg-type]
            async for _ in answer:
                await asyncio.sleep(0.01)


async def walk(path: Path, drill: Drill, at: int | None, *, twice: bool) -> Stepped:
    """Walk *path*, cancelled at the *at*-th await, and check what is left behind."""
    chat = path.coordinator(drill)
    await chat.warmup()
    stepped = Stepped(path.call(chat), at, twice=twice)

    async def body() -> None:
        await stepped

    task = asyncio.ensure_future(body())
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if stepped.cancelled:
        assert isinstance(outcome, asyncio.CancelledError), f"cancelled at await {at}, and got {outcome!r}"
    else:
        assert outcome is None or isinstance(outcome, ReliableLLMError), outcome
    await _check_nothing_is_held(chat, drill, at)
    return stepped


async def _check_nothing_is_held(chat: FailoverChat, drill: Drill, at: int | None) -> None:
    await asyncio.sleep(2)  # a response that is closed in the background has a second for it
    drill.assert_all_closed()
    assert asyncio.all_tasks() == {asyncio.current_task()}, f"a task is left after await {at}"
    await asyncio.sleep(LONG)
    states = {key.health.state for provider in chat.status().providers for key in provider.keys}
    assert not states & {"probing", "resting"}, f"a permit is lost after await {at}"
    chat.reset()
    for name in ("first", "second"):
        drill.answers(name, ok("well again"))
        reply = await chat("hi", route=[(name, "m1")], deadline=1)
        assert reply.text == "well again", f"the place at {name} is lost after await {at}"
    await chat.aclose()


def prove(path: Path) -> int:
    """Return how many awaits were cancelled in turn."""
    undisturbed = Drill()
    awaits = undisturbed.run(walk(path, undisturbed, None, twice=False)).awaits
    assert 0 < awaits < MOST_AWAITS
    for at in range(1, awaits + 1):
        for twice in (False, True):
            drill = Drill()
            drill.run(walk(path, drill, at, twice=twice))
    return awaits


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("way", PLAIN)
def test_a_plain_call_can_be_cancelled_anywhere(way: str, vendor: str) -> None:
    prove(Path(vendor, PLAIN[way]))


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("way", STREAMED)
def test_a_stream_can_be_cancelled_anywhere(way: str, vendor: str) -> None:
    prove(Path(vendor, STREAMED[way], stream=True))


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("on_interrupt", ["restart", "continue"])
def test_a_stream_that_goes_on_elsewhere_can_be_cancelled_anywhere(on_interrupt: str, vendor: str) -> None:
    prove(Path(vendor, (streamed("a", "b", end="cut"), streamed("c")), stream=True, on_interrupt=on_interrupt))


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_a_structured_call_and_its_repair_can_be_cancelled_anywhere(vendor: str) -> None:
    prove(Path(vendor, (NO_JSON, JSON), structured=True))


def test_a_call_that_waits_for_its_turn_can_be_cancelled() -> None:
    async def queued(drill: Drill, at: int, *, twice: bool) -> None:
        chat = Path("openai", (ok("hello", after=3.0),)).coordinator(drill)
        ahead = asyncio.ensure_future(chat("hi"))
        await asyncio.sleep(1)
        stepped = Stepped(chat("hi"), at, twice=twice)

        async def body() -> None:
            await stepped

        behind = asyncio.ensure_future(body())
        with pytest.raises(asyncio.CancelledError):
            await behind
        assert (await ahead).text == "hello"
        await _check_nothing_is_held(chat, drill, at)

    for at in (1, 2):
        for twice in (False, True):
            drill = Drill()
            drill.run(queued(drill, at, twice=twice))


def test_the_harness_notices_a_response_left_open() -> None:
    class Careless(Path):
        async def call(self, chat: FailoverChat) -> None:
            stream = chat.stream("hi")
            await stream.__aenter__()
            await asyncio.sleep(1)

    with pytest.raises((AssertionError, ReliableLLMError)):  # the place in the queue is lost with it
        prove(Careless("openai", STREAMED["success"], stream=True))
