"""Ten thousand streams, most of them ended badly: what they opened is closed, and nothing of them is left."""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections.abc import AsyncIterator
from itertools import count

import httpx2
import pytest

from reliable_llm import FailoverChat, Provider, RetryPolicy, StreamInterruptedError

STREAMS = 10_000
AT_ONCE = 50
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def event(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return f"data: {json.dumps({**CHUNK, 'choices': [choice]})}\n\n".encode()


class Body(httpx2.AsyncByteStream):
    """A streamed answer that counts itself while it is open; every third one breaks in the middle."""

    opened = 0

    def __init__(self, *, breaks: bool) -> None:
        self.breaks = breaks
        self.closed = False
        Body.opened += 1

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for word in ("one ", "two ", "three "):
            await asyncio.sleep(0)
            yield event(word)
        if self.breaks:
            raise httpx2.ReadError("the connection broke")
        yield event("", "stop") + b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            Body.opened -= 1


class Crowd:
    """Callers of three kinds: one reads to the end, one leaves at the first event, one is cancelled at some await."""

    def __init__(self, chat: FailoverChat, seed: int) -> None:
        self.chat = chat
        self.random = random.Random(seed)
        self.ends = {"read": 0, "broken": 0, "left": 0, "cancelled": 0}

    async def read(self) -> None:
        try:
            async with self.chat.stream("hi") as stream:
                async for _ in stream:
                    pass
            self.ends["read"] += 1
        except StreamInterruptedError:
            self.ends["broken"] += 1

    async def leave(self) -> None:
        async with self.chat.stream("hi") as stream:
            async for _ in stream:
                break
        self.ends["left"] += 1

    async def be_cancelled(self) -> None:
        task = asyncio.create_task(self.read())
        for _ in range(self.random.randrange(1, 40)):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            self.ends["cancelled"] += 1

    async def run(self, streams: int) -> None:
        kinds = (self.read, self.leave, self.be_cancelled)
        for first in range(0, streams, AT_ONCE):
            await asyncio.gather(*(kinds[n % 3]() for n in range(first, first + AT_ONCE)))


@pytest.mark.timeout(300)
async def test_ten_thousand_streams_leave_nothing_open_and_nothing_behind() -> None:
    numbers = count()

    def answer(_: httpx2.Request) -> httpx2.Response:
        body = Body(breaks=next(numbers) % 3 == 0)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    provider = Provider.openai(models=["m"], keys=["sk-a", "sk-b"], http_client=http)
    async with http, FailoverChat([provider], retry=RetryPolicy(max_retries=0)) as chat:
        crowd = Crowd(chat, seed=1)
        await crowd.run(STREAMS // 5)
        tasks, objects = len(asyncio.all_tasks()), settled_objects()
        await crowd.run(STREAMS - STREAMS // 5)

        assert all(number > STREAMS // 20 for number in crowd.ends.values()), crowd.ends
        assert Body.opened == 0
        assert len(asyncio.all_tasks()) == tasks
        assert settled_objects() < objects * 1.01
        assert all(key.health.state == "ready" for key in chat.status().providers[0].keys)


def settled_objects() -> int:
    """Return how many objects are alive once the garbage is gone."""
    gc.collect()
    return len(gc.get_objects())
