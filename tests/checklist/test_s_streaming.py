"""Group S: failover until the first output, the truth afterwards."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import EmptyResponseError, Kind, StreamInterruptedError
from reliable_llm.policy import RetryPolicy
from reliable_llm.types import Capabilities, Finished, TextDelta, Usage
from tests.support import (
    STEADY,
    Listening,
    ManualClock,
    Response,
    Vendor,
    openai_chunk,
    openai_error,
    openai_ok,
    out_of_quota,
    rate_limited,
    sse,
)


class Body(httpx2.AsyncByteStream):
    """A body that remembers whether it was closed."""

    def __init__(self, *pieces: str | Exception) -> None:
        self._pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield f"data: {piece}\n\n".encode()

    async def aclose(self) -> None:
        self.closed = True


def streamed(body: Body) -> Response:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body, request=request)

    return answer


WHOLE = sse(
    openai_chunk("The "),
    openai_chunk("Rhine."),
    openai_chunk(finish="stop"),
    openai_chunk(usage=(10, 5)),
    "[DONE]",
)
CUT = sse(openai_chunk("The "), openai_chunk("Rhi"))


class Streams:
    """Two endpoints of OpenAI's protocol, and what a stream over them gives."""

    def __init__(self, *first: Response, second: Response = WHOLE, alone: bool = False, **first_fields: Any) -> None:
        self.clock = ManualClock()
        self.heard = Listening()
        self.first, self.second = Vendor(*first), Vendor(second)
        keys = first_fields.pop("keys", ("sk-key-a",))
        retry = first_fields.pop("retry", STEADY)
        providers = [self.first.openai(*keys, name="first", **first_fields)]
        if not alone:
            providers.append(self.second.openai(name="second"))
        self.chat = FailoverChat(providers, retry=retry, clock=self.clock, listeners=[self.heard])

    async def text(self, **asked: Any) -> str:
        async with self.chat.stream("hi", **asked) as stream:
            return (await stream.reply()).text

    @property
    def calls(self) -> tuple[int, int]:
        return len(self.first.arrivals), len(self.second.arrivals)


async def test_s1_a_whole_stream_is_the_whole_text() -> None:
    assert await Streams(WHOLE).text() == "The Rhine."


async def test_s1_a_candidate_that_rests_is_not_streamed_from() -> None:
    streams = Streams(out_of_quota(), WHOLE)
    await streams.text()
    await streams.text()
    assert streams.calls == (1, 2)


async def test_s1_a_candidate_that_cannot_stream_is_asked_for_the_whole_answer() -> None:
    streams = Streams(openai_ok("In one piece."), capabilities=Capabilities(streaming=False))
    assert await streams.text() == "In one piece."
    assert "stream" not in streams.first.arrivals[0].body


@pytest.mark.parametrize("first", [out_of_quota(), openai_error(401), openai_error(404, code="model_not_found")])
async def test_s2_before_the_first_output_a_failure_fails_over(first: httpx2.Response) -> None:
    assert await Streams(first).text() == "The Rhine."


async def test_s2_a_stream_that_ends_before_its_first_output_is_tried_again_and_then_elsewhere() -> None:
    streams = Streams(sse())
    assert await streams.text() == "The Rhine."
    assert streams.calls == (3, 1)


async def test_s2_an_error_frame_before_the_first_output_fails_over() -> None:
    frame = json.dumps({"error": {"message": "x", "code": "insufficient_quota", "type": "insufficient_quota"}})
    streams = Streams(sse(frame))
    assert await streams.text() == "The Rhine."
    assert streams.calls == (1, 1)


async def test_s2_after_the_first_output_the_caller_gets_the_partial_text_and_no_second_answer() -> None:
    streams = Streams(CUT)
    with pytest.raises(StreamInterruptedError) as raised:
        await streams.text()
    assert (raised.value.partial_text, streams.calls) == ("The Rhi", (1, 0))


async def test_s2_a_restart_is_asked_for_and_announced() -> None:
    streams = Streams(CUT, retry=RetryPolicy(max_retries=0))
    async with streams.chat.stream("hi", on_interrupt="restart") as stream:
        seen = [type(event).__name__ async for event in stream]
    assert "Restarted" in seen
    assert stream.text == "The Rhine."


async def test_s3_a_single_candidate_is_tried_again_by_the_same_rules() -> None:
    streams = Streams(openai_error(500), WHOLE, alone=True)
    assert await streams.text() == "The Rhine."
    assert (streams.calls, streams.clock.slept) == ((2, 0), [0.5])


@pytest.mark.parametrize("broken", [None, httpx2.RemoteProtocolError("incomplete chunked read")])
async def test_s4_the_end_is_proved_by_the_vendors_mark_alone(broken: Exception | None) -> None:
    body = Body(openai_chunk("The Rhi"), *([broken] if broken else []))
    with pytest.raises(StreamInterruptedError) as raised:
        await Streams(streamed(body)).text()
    assert raised.value.partial_text == "The Rhi"


async def test_s4_an_empty_stream_with_a_proper_end_is_no_answer() -> None:
    empty = sse(openai_chunk(finish="stop"), "[DONE]")
    with pytest.raises(EmptyResponseError):
        await Streams(empty, alone=True).text()


async def test_s5_leaving_the_block_closes_the_response() -> None:
    body = Body(openai_chunk("The "), openai_chunk("Rhine."), openai_chunk(finish="stop"), "[DONE]")
    async with Streams(streamed(body)).chat.stream("hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert body.closed


async def test_s5_an_error_of_the_consumer_closes_the_response() -> None:
    body = Body(openai_chunk("The "), openai_chunk("Rhine."), openai_chunk(finish="stop"), "[DONE]")
    with pytest.raises(KeyError):
        async with Streams(streamed(body)).chat.stream("hi"):
            raise KeyError
    assert body.closed


async def test_s6_a_success_is_recorded_with_the_clean_end_and_not_before() -> None:
    streams = Streams(WHOLE)
    async with streams.chat.stream("hi") as stream:
        assert streams.heard.of(events.AttemptSucceeded) == []
        reply = await stream.reply()
    assert len(streams.heard.of(events.AttemptSucceeded)) == 1
    assert (reply.usage, len(reply.attempts)) == (Usage(input_tokens=10, output_tokens=5), 1)


async def test_s6_usage_and_then_an_error_is_no_success() -> None:
    body = Body(openai_chunk("The "), openai_chunk(usage=(10, 5)), httpx2.ReadError("reset"))
    streams = Streams(streamed(body))
    with pytest.raises(StreamInterruptedError) as raised:
        await streams.text()
    assert streams.heard.of(events.AttemptSucceeded) == []
    assert [attempt.kind for attempt in raised.value.attempts] == [Kind.STREAM_INTERRUPTED]


async def test_s7_a_429_on_opening_rotates_the_key_and_cools_it() -> None:
    streams = Streams(WHOLE, keys=("sk-key-a", "sk-key-b"))
    streams.first.on("sk-key-a", rate_limited(retry_after="20"))
    assert await streams.text() == "The Rhine."
    assert await streams.text() == "The Rhine."
    assert streams.first.keys == ["sk-key-a", "sk-key-b", "sk-key-b"]


async def test_s_the_events_of_a_stream_come_in_order() -> None:
    async with Streams(WHOLE).chat.stream("hi") as stream:
        seen = [event async for event in stream]
    texts = [event.text for event in seen if isinstance(event, TextDelta)]
    assert (texts, isinstance(seen[-1], Finished)) == (["The ", "Rhine."], True)
