"""The store dies in the middle of the work and comes back empty: calls do not notice."""

from __future__ import annotations

import asyncio
import time

import pytest

from reliable_llm import FailoverChat
from reliable_llm.errors import Kind
from reliable_llm.events import StoreBack, StoreUnavailable
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.state.base import HealthStore
from reliable_llm.state.redis import RedisHealth
from tests.state.conftest import Server
from tests.support import Listening, ScriptedAdapter, failure, provider

# What a call may take more than its peers, in seconds.
ALLOWED = 0.05


class Flaky(ScriptedAdapter):
    """The first key is always spent: it is parked, probed and parked again, all the time."""

    async def complete(self, prepared, key, timeouts):  # type: ignore[no-untyped-def]
        if key.label == "main#1":
            raise failure(Kind.QUOTA_EXHAUSTED)
        return await super().complete(prepared, key, timeouts)


def worker(health: HealthStore | None, heard: Listening) -> FailoverChat:
    return FailoverChat(
        [provider("main", Flaky("hello"), keys=3)],
        health=health,
        retry=RetryPolicy(max_retries=0),
        recovery=RecoveryPolicy(quota=0.3),
        listeners=[heard],
    )


async def timed(chat: FailoverChat) -> float:
    started = time.perf_counter()
    assert (await chat("hi")).text == "hello"
    return time.perf_counter() - started


def worst(durations: list[float]) -> float:
    """Return the 99th percentile: a slow call in a hundred is the machine's own doing on either side."""
    return sorted(durations)[int(len(durations) * 0.99)]


@pytest.mark.timeout(120)
async def test_a_store_killed_in_the_middle_costs_no_call_and_no_time(valkey_server: Server) -> None:
    heard = Listening()
    sharing = [worker(RedisHealth(valkey_server.url, sync=0.5), heard) for _ in range(2)]
    alone = [worker(None, Listening()) for _ in range(2)]
    for chat in sharing:
        await chat.warmup()
    with_store: list[float] = []
    without: list[float] = []

    async def traffic(stop: asyncio.Event) -> None:
        while not stop.is_set():
            taken = await asyncio.gather(*(timed(chat) for chat in (*sharing, *alone)))
            with_store.extend(taken[:2])
            without.extend(taken[2:])
            await asyncio.sleep(0.02)

    stop = asyncio.Event()
    running = asyncio.create_task(traffic(stop))
    await asyncio.sleep(1)
    valkey_server.kill()
    await asyncio.sleep(5)
    valkey_server.start()
    async with asyncio.timeout(30):
        while not heard.of(StoreBack):  # noqa: ASYNC110 - it happens in a server
            await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    stop.set()
    await running  # raises if any call failed

    assert worst(with_store) <= worst(without) + ALLOWED
    assert len(heard.of(StoreUnavailable)) == len(sharing)

    # What one learns reaches the other again.
    await _converged(sharing)
    for chat in (*sharing, *alone):
        await chat.aclose()


async def _converged(chats: list[FailoverChat]) -> None:
    async with asyncio.timeout(15):
        while True:
            await chats[0]("hi")
            if all(chat.status().providers[0].keys[0].health.reason is Kind.QUOTA_EXHAUSTED for chat in chats):
                return
            await asyncio.sleep(0.02)
