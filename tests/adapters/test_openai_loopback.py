"""The OpenAI adapters over real sockets: broken servers, cancelled callers, and a pool that stays whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest

from reliable_llm.adapters.base import AdapterSettings, Prepared, Target
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.credentials import Credential
from reliable_llm.errors import Kind, ReliableLLMError, StreamInterruptedError
from reliable_llm.policy import Timeouts
from reliable_llm.types import Candidate, ChatRequest, Finished, Message, Text, TextDelta

Sse = Callable[..., bytes]

KEY = Credential("sk-test", label="openai#1")
QUICK = Timeouts(first_byte=0.05, first_token=0.05, idle=0.05)
TRANSPORTS = pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])

ANSWER = {
    "id": "c",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}


def chunk(content: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}


def adapter_at(loopback: Any, transport: Literal["httpx2", "aiohttp"] = "httpx2", pool: int = 2) -> OpenAIChatAdapter:
    if transport == "aiohttp":
        pytest.importorskip("aiohttp")
    return OpenAIChatAdapter(
        AdapterSettings(vendor="openai", base_url=loopback.url, transport=transport, pool_limit=pool)
    )


def prepared(adapter: OpenAIChatAdapter, *, stream: bool = False) -> Prepared:
    target = Target(candidate=Candidate("openai", "gpt"), model_id="m")
    return adapter.prepare(ChatRequest(messages=(Message("user", "hello"),)), target, stream=stream)


async def listen(adapter: OpenAIChatAdapter, timeouts: Timeouts | None = None) -> list[object]:
    async with adapter.stream(prepared(adapter, stream=True), KEY, timeouts or Timeouts()) as stream:
        return [event async for event in stream]


async def text_then_error(adapter: OpenAIChatAdapter) -> tuple[str, ReliableLLMError]:
    text = ""
    try:
        async with adapter.stream(prepared(adapter, stream=True), KEY, QUICK) as stream:
            async for event in stream:
                text += event.text if isinstance(event, TextDelta) else ""
    except ReliableLLMError as error:
        return text, error
    raise AssertionError(f"the stream ended well after {text!r}")


# ---------------------------------------------------------------- streams that break


@TRANSPORTS
@pytest.mark.parametrize(
    ("end", "kind"),
    [("fin", Kind.CONNECTION), ("rst", Kind.CONNECTION), ("eof", Kind.CONNECTION), ("hang", Kind.TIMEOUT)],
)
async def test_a_stream_broken_on_the_wire_carries_what_came(
    loopback: Any, sse: Sse, transport: Any, end: str, kind: Kind
) -> None:
    adapter = adapter_at(loopback, transport)
    loopback.send_stream(sse(chunk("half ")), sse(chunk("an")), end=end)
    text, error = await text_then_error(adapter)
    assert isinstance(error, StreamInterruptedError)
    assert (error.cause_kind, error.partial_text) == (kind, text)
    # A reset may overtake what was sent before it.
    assert text == "half an" or end == "rst"
    await adapter.aclose()


@TRANSPORTS
async def test_a_chunk_cut_in_the_middle_is_a_broken_stream(loopback: Any, sse: Sse, transport: Any) -> None:
    adapter = adapter_at(loopback, transport)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    first = sse(chunk("ab"))
    loopback.send(head, b"%x\r\n%s\r\n" % (len(first), first), b"400\r\ndata: {")
    text, error = await text_then_error(adapter)
    assert isinstance(error, StreamInterruptedError)
    assert (text, error.cause_kind) == ("ab", Kind.CONNECTION)
    await adapter.aclose()


@TRANSPORTS
@pytest.mark.parametrize(
    ("pieces", "end", "kind"),
    [
        ([], "fin", Kind.CONNECTION),
        ([], "rst", Kind.CONNECTION),
        ([], "hang", Kind.TIMEOUT),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"], "fin", Kind.CONNECTION),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"], "hang", Kind.TIMEOUT),
        ([b"HTTP/1.1 503 No\r\ncontent-length: 100\r\n\r\n{"], "hang", Kind.TIMEOUT),
    ],
)
async def test_an_answer_broken_on_the_wire_is_classified(
    loopback: Any, transport: Any, pieces: list[bytes], end: str, kind: Kind
) -> None:
    adapter = adapter_at(loopback, transport)
    loopback.send(*pieces, end=end)
    with pytest.raises(ReliableLLMError) as raised:
        await adapter.complete(prepared(adapter), KEY, QUICK)
    assert raised.value.kind == kind
    await adapter.aclose()


# ---------------------------------------------------------------- the pool stays whole


@TRANSPORTS
async def test_a_finished_stream_gives_its_connection_back(loopback: Any, sse: Sse, transport: Any) -> None:
    adapter = adapter_at(loopback, transport)
    loopback.send_stream(sse(chunk("hi", "stop")), sse("[DONE]"), end="whole")
    ends = [(await listen(adapter))[-1] for _ in range(5)]
    assert [type(end) for end in ends] == [Finished] * 5
    assert loopback.connections == 1
    await adapter.aclose()


@TRANSPORTS
async def test_streams_left_early_leave_the_pool_whole(loopback: Any, sse: Sse, transport: Any) -> None:
    adapter = adapter_at(loopback, transport)
    loopback.send_stream(sse(chunk("a")), end="hang")
    for _ in range(6):
        async with adapter.stream(prepared(adapter, stream=True), KEY, Timeouts()) as stream:
            await anext(stream)
    loopback.send_json(ANSWER)
    reply = await adapter.complete(prepared(adapter), KEY, Timeouts(attempt=5))
    assert reply.parts == (Text("hi"),)
    await adapter.aclose()


@TRANSPORTS
@pytest.mark.parametrize("op", ["complete", "stream"])
@pytest.mark.parametrize("gap", [0, 1, 2, 3])
async def test_two_cancels_in_a_row_leave_the_pool_whole(
    loopback: Any, sse: Sse, transport: Any, op: str, gap: int
) -> None:
    adapter = adapter_at(loopback, transport)
    loopback.send_stream(sse(chunk("a")), end="hang")
    for _ in range(6):
        call = listen(adapter) if op == "stream" else adapter.complete(prepared(adapter), KEY, Timeouts())
        task: asyncio.Task[Any] = asyncio.create_task(call)
        await loopback.arrived.acquire()
        task.cancel()
        for _ in range(gap):
            await asyncio.sleep(0)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
    loopback.send_json(ANSWER)
    reply = await adapter.complete(prepared(adapter), KEY, Timeouts(attempt=5))
    assert reply.parts == (Text("hi"),)
    await adapter.aclose()


async def test_a_burst_beyond_the_pool_waits_and_is_answered(loopback: Any) -> None:
    adapter = adapter_at(loopback, pool=3)
    loopback.send_json(ANSWER)
    request = prepared(adapter)
    replies = await asyncio.gather(*(adapter.complete(request, KEY, Timeouts()) for _ in range(30)))
    assert len(replies) == 30
    assert loopback.connections <= 3
    await adapter.aclose()


@TRANSPORTS
async def test_an_adapter_that_was_closed_opens_again(loopback: Any, transport: Any) -> None:
    adapter = adapter_at(loopback, transport)
    loopback.send_json(ANSWER)
    for _ in range(2):
        await adapter.complete(prepared(adapter), KEY, Timeouts())
        await adapter.aclose()
    assert loopback.connections == 2
