"""Streams: put together exactly, and every break told as what it is."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from hypothesis import given, settings
from hypothesis import strategies as st

from reliable_llm.adapters.anthropic_messages import AnthropicAdapter
from reliable_llm.adapters.base import AdapterSettings, Target
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    ConnectionFailedError,
    EmptyResponseError,
    Kind,
    MalformedResponseError,
    ReliableLLMError,
    StreamInterruptedError,
)
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
    AdapterReply,
    Alive,
    Candidate,
    ChatRequest,
    Finished,
    FinishReason,
    Message,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)

ME = Candidate("anthropic", "claude")
KEY = Credential("sk-ant-secret", label="anthropic#1")
HEADERS = {"content-type": "text/event-stream", "request-id": "req_1"}
Wire = dict[str, Any]


# ---------------------------------------------------------------- what a server sends


def start(**usage: object) -> Wire:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, content: Wire, *deltas: Wire, stop: bool = True) -> list[Wire]:
    events: list[Wire] = [{"type": "content_block_start", "index": index, "content_block": content}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}] if stop else events


def text(index: int, *pieces: str, stop: bool = True) -> list[Wire]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces), stop=stop)


def tool(index: int, *pieces: str, name: str = "f", stop: bool = True) -> list[Wire]:
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return block(index, content, *({"type": "input_json_delta", "partial_json": p} for p in pieces), stop=stop)


def thinking(index: int, *pieces: str) -> list[Wire]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    return block(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        *deltas,
        {"type": "signature_delta", "signature": "sig=="},
    )


def end(reason: str = "end_turn", **usage: object) -> list[Wire]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9, **usage}},
        {"type": "message_stop"},
    ]


def sse(events: Iterable[Wire]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


# The output count of the start event is a placeholder.
SO_FAR = Usage(input_tokens=7, output_tokens=None, partial=True)
HELLO = [start(), *text(0, "Hel", "lo")]


# ---------------------------------------------------------------- asking


@asynccontextmanager
async def opened(http: httpx2.AsyncClient, base: str = "http://vendor.test", **fields: Any) -> AsyncIterator[Any]:
    adapter = AnthropicAdapter(AdapterSettings(vendor="anthropic", base_url=base, http_client=http))
    without = frozenset({"structured_output"}) if "output" in fields else frozenset[str]()
    request = ChatRequest(messages=(Message("user", "hi"),), **fields)
    prepared = adapter.prepare(request, Target(candidate=ME, model_id="m"), stream=True, without=without)
    async with adapter.stream(prepared, KEY, Timeouts()) as stream:
        yield stream


def served(*pieces: bytes, headers: dict[str, str] | None = None, after: Exception | None = None) -> httpx2.AsyncClient:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        if after is not None:
            raise after

    def handler(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body(), headers=HEADERS if headers is None else headers)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handler))


async def received(*pieces: bytes, **fields: Any) -> tuple[list[StreamEvent], AdapterReply]:
    async with served(*pieces) as http, opened(http, **fields) as stream:
        events = [event async for event in stream if not isinstance(event, Alive)]
        return events, stream.reply()


async def broken(
    *pieces: bytes, headers: dict[str, str] | None = None, after: Exception | None = None, **fields: Any
) -> tuple[list[StreamEvent], ReliableLLMError]:
    events: list[StreamEvent] = []
    async with served(*pieces, headers=headers, after=after) as http:
        with pytest.raises(ReliableLLMError) as raised:
            await consume(http, events, **fields)
    return events, raised.value


async def consume(
    http: httpx2.AsyncClient, events: list[StreamEvent], base: str = "http://vendor.test", **fields: Any
) -> None:
    async with opened(http, base, **fields) as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401 - what came before a failure is kept


# ---------------------------------------------------------------- a good stream


async def test_text_comes_in_pieces_and_ends_with_the_final_count() -> None:
    events, reply = await received(sse([*HELLO, *end()]))
    final = Usage(input_tokens=7, output_tokens=9)
    assert events == [
        UsageUpdate(SO_FAR),
        TextDelta("Hel"),
        TextDelta("lo"),
        UsageUpdate(final),
        Finished(FinishReason.STOP, final),
    ]
    assert reply.parts == (Text("Hello"),)
    assert (reply.request_id, reply.model, reply.usage, reply.finish_detail) == ("req_1", "claude-x", final, "end_turn")


async def test_signed_thinking_is_put_together_exactly() -> None:
    redacted = block(1, {"type": "redacted_thinking", "data": "opaque"})
    events, reply = await received(sse([start(), *thinking(0, "h", "m"), *redacted, *text(2, "a"), *end()]))
    assert [event for event in events if isinstance(event, ReasoningDelta)] == [
        ReasoningDelta("h"),
        ReasoningDelta("m"),
    ]
    assert reply.parts == (
        Reasoning(text="hm", signature="sig==", issuer=ME),
        Reasoning(opaque="opaque", issuer=ME),
        Text("a"),
    )


async def test_tool_calls_are_counted_from_zero_and_end_whole() -> None:
    events, reply = await received(sse([start(), *text(0, "x"), *tool(1, '{"a', '": 1}'), *tool(2), *end("tool_use")]))
    first = ToolCall(id="toolu_1", name="f", arguments='{"a": 1}')
    second = ToolCall(id="toolu_2", name="f", arguments="{}")
    assert [event for event in events if isinstance(event, ToolCallStarted | ToolCallDelta | ToolCallEnded)] == [
        ToolCallStarted(0, "toolu_1", "f"),
        ToolCallDelta(0, '{"a'),
        ToolCallDelta(0, '": 1}'),
        ToolCallEnded(0, first),
        ToolCallStarted(1, "toolu_2", "f"),
        ToolCallEnded(1, second),
    ]
    assert reply.parts == (Text("x"), first, second)
    assert reply.finish_reason is FinishReason.TOOL_CALLS


async def test_counts_are_cumulative_and_none_keeps_what_was() -> None:
    _, reply = await received(
        sse([start(cache_read_input_tokens=100), *text(0, "a"), *end(input_tokens=None, cache_read_input_tokens=None)])
    )
    assert reply.usage == Usage(input_tokens=107, output_tokens=9, cache_read_tokens=100)


async def test_a_count_before_the_last_is_told_as_partial() -> None:
    early = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4}}
    events, _ = await received(sse([*HELLO, early, *end()]))
    assert UsageUpdate(Usage(input_tokens=7, output_tokens=4, partial=True)) in events


async def test_without_a_final_count_usage_stays_partial() -> None:
    last: list[Wire] = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    events, _ = await received(sse([*HELLO, *last]))
    assert events[-1] == Finished(FinishReason.STOP, SO_FAR)


@pytest.mark.parametrize(
    "noise",
    [
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b": keep-alive\n\n",
        b'event: hologram\ndata: {"type": "hologram"}\n\n',
        b"data: [DONE]\n\n",
    ],
)
async def test_noise_is_a_sign_of_life_and_nothing_else(noise: bytes) -> None:
    async with served(noise, sse(HELLO), noise, sse(end())) as http, opened(http) as stream:
        events = [event async for event in stream]
    assert isinstance(events[0], Alive) or noise == b"data: [DONE]\n\n"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"


async def test_events_without_their_event_line_are_read_all_the_same() -> None:
    data = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in [*HELLO, *end()])
    assert (await received(data))[1].parts == (Text("Hello"),)


async def test_what_comes_after_the_terminal_event_is_not_read_as_an_answer() -> None:
    events, _ = await received(sse([*HELLO, *end(), *HELLO]))
    assert isinstance(events[-1], Finished)
    assert len([event for event in events if isinstance(event, TextDelta)]) == 2


async def test_a_refusal_ends_well_without_text() -> None:
    events, reply = await received(sse([start(), *end("refusal")]))
    assert isinstance(events[-1], Finished)
    assert reply.finish_reason is FinishReason.REFUSAL


async def test_server_tools_are_kept_for_the_next_turn() -> None:
    content = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    search = block(0, content, {"type": "input_json_delta", "partial_json": '{"query": "x"}'})
    _, reply = await received(sse([start(), *search, *text(1, "found"), *end()]))
    assert reply.raw is not None
    assert reply.raw.body["content"][0] == {**content, "input": {"query": "x"}}  # type: ignore[index]


async def test_a_forced_tools_input_streams_as_text() -> None:
    output = OutputSchema(name="Person", schema={"type": "object"})
    answer = [start(), *text(0, "Here: "), *tool(1, '{"age"', ": 3}", name="Person"), *end("tool_use")]
    events, reply = await received(sse(answer), output=output)
    assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta('{"age"'), TextDelta(": 3}")]
    assert (reply.parts, reply.finish_reason) == ((Text('{"age": 3}'),), FinishReason.STOP)


async def test_text_instead_of_the_forced_tool_is_not_lost() -> None:
    output = OutputSchema(name="Person", schema={"type": "object"})
    events, reply = await received(sse([start(), *text(0, '{"age', '": 3}'), *end()]), output=output)
    assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta('{"age": 3}')]
    assert reply.parts == (Text('{"age": 3}'),)


async def test_arguments_that_the_model_broke_are_handed_out_as_they_are() -> None:
    events, reply = await received(sse([start(), *tool(0, '{"a": nonsense'), *end("tool_use")]))
    (call,) = reply.parts
    assert ToolCallEnded(0, call) in events  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'f'"):
        call.parsed()  # type: ignore[union-attr]


async def test_arguments_cut_by_the_output_limit_never_make_a_call() -> None:
    events, reply = await received(sse([start(), *text(0, "x"), *tool(1, '{"a": "b'), *end("max_tokens")]))
    assert not [event for event in events if isinstance(event, ToolCallEnded)]
    assert reply.parts == (Text("x"),)
    assert reply.finish_reason is FinishReason.LENGTH


STREAMS = {
    "text": [*HELLO, *end()],
    "thinking": [start(), *thinking(0, "h", "m"), *text(1, "a"), *end()],
    "tools": [start(), *text(0, "x"), *tool(1, '{"a', '": [1, "é"]}'), *tool(2), *end("tool_use")],
    "citations": [
        start(),
        *block(
            0,
            {"type": "text", "text": "", "citations": None},
            {"type": "text_delta", "text": "a"},
            {
                "type": "citations_delta",
                "citation": {
                    "type": "char_location",
                    "cited_text": "c",
                    "document_index": 0,
                    "document_title": None,
                    "start_char_index": 0,
                    "end_char_index": 1,
                },
            },
        ),
        *end(),
    ],
    "cache": [start(cache_creation_input_tokens=3), *text(0, "a"), *end(cache_creation_input_tokens=3)],
}


@pytest.mark.parametrize("name", STREAMS)
async def test_the_typed_answer_equals_what_the_sdk_puts_together(name: str) -> None:
    data = sse(STREAMS[name])
    async with served(data) as http:
        sdk = AsyncAnthropic(api_key="k", base_url="http://vendor.test", http_client=http)
        async with sdk.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}]) as theirs:
            final = await theirs.get_final_message()
    _, reply = await received(data)
    assert reply.raw is not None
    assert reply.raw.typed().model_dump(warnings=False) == {  # type: ignore[attr-defined]
        name: value for name, value in final.model_dump(warnings=False).items() if name != "parsed_output"
    }


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(STREAMS)), st.lists(st.integers(0, 2000), max_size=12))
async def test_any_split_of_the_bytes_gives_the_same_answer(name: str, cuts: list[int]) -> None:
    data = sse(STREAMS[name])
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    pieces = [data[start_:stop] for start_, stop in itertools.pairwise(places)]
    split, whole = await received(*pieces), await received(data)
    assert split[0] == whole[0]
    assert split[1].parts == whole[1].parts


# ---------------------------------------------------------------- breaks before output

ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "secret prompt"}}


@pytest.mark.parametrize("preamble", [b"", sse([start()])])
async def test_an_end_without_the_terminal_event_before_output_is_a_connection_failure(preamble: bytes) -> None:
    events, error = await broken(preamble)
    assert isinstance(error, ConnectionFailedError)
    assert error.request_id == "req_1"
    assert not [event for event in events if isinstance(event, TextDelta)]


async def test_FS_049_a_break_after_the_preamble_keeps_the_usage_so_far() -> None:
    _, error = await broken(sse([start()]), after=httpx2.RemoteProtocolError("cut"))
    assert error.kind is Kind.CONNECTION
    assert error.usage == SO_FAR


@pytest.mark.parametrize("line", [b"event: error\n", b""])
async def test_FS_045_an_error_frame_is_read_with_or_without_its_event_line(line: bytes) -> None:
    _, error = await broken(line + b"data: " + json.dumps(ERROR).encode() + b"\n\n")
    assert error.kind is Kind.OVERLOADED
    assert "secret" not in str(error)


async def test_an_error_frame_that_is_no_json_is_an_error_all_the_same() -> None:
    _, error = await broken(b"event: error\ndata: upstream is gone\n\n")
    assert isinstance(error, ConnectionFailedError)


@pytest.mark.parametrize("content_type", ["text/html", "application/json", "text/event-stream", "text/plain", ""])
@pytest.mark.parametrize("page", [b"<html>\n<p>secret</p></html>", b'{"id": "msg_1"}', b"not JSON"])
async def test_a_page_or_a_document_instead_of_a_stream_is_malformed(content_type: str, page: bytes) -> None:
    _, error = await broken(page[:5], page[5:], headers={"content-type": content_type, "request-id": "req_1"})
    assert isinstance(error, MalformedResponseError)
    assert error.request_id == "req_1"
    assert "secret" not in str(error)


async def test_an_error_document_instead_of_a_stream_is_that_error() -> None:
    _, error = await broken(json.dumps(ERROR).encode(), headers={"content-type": "application/json"})
    assert error.kind is Kind.OVERLOADED


@pytest.mark.parametrize(
    "data",
    [b"{nonsense", b"[1]", b"\xff", b'{"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta"}}'],
)
async def test_a_broken_event_before_output_is_malformed(data: bytes) -> None:
    _, error = await broken(sse([start()]) + b"data: " + data + b"\n\n")
    assert isinstance(error, MalformedResponseError)


@pytest.mark.parametrize(
    "content", [[], text(0, ""), text(0, "  "), block(0, {"type": "redacted_thinking", "data": "x"})]
)
async def test_a_whole_stream_that_says_nothing_is_empty(content: list[Wire]) -> None:
    events, error = await broken(sse([start(), *content, *end()]))
    cause = error.cause_kind if isinstance(error, StreamInterruptedError) else error.kind
    assert cause is Kind.EMPTY_RESPONSE
    assert error.usage == Usage(input_tokens=7, output_tokens=9)
    assert not [event for event in events if isinstance(event, Finished)]


async def test_an_empty_stream_is_no_interruption() -> None:
    _, error = await broken(sse([start(), *end()]))
    assert isinstance(error, EmptyResponseError)


# ---------------------------------------------------------------- breaks after output


async def test_FS_047_an_end_without_the_terminal_event_after_output_is_an_interruption() -> None:
    _, error = await broken(sse(HELLO))
    assert isinstance(error, StreamInterruptedError)
    assert (error.partial_text, error.cause_kind) == ("Hello", Kind.CONNECTION)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx2.RemoteProtocolError("cut"), Kind.CONNECTION),
        (httpx2.ReadError("reset"), Kind.CONNECTION),
        (httpx2.ReadTimeout("silent"), Kind.TIMEOUT),
    ],
)
async def test_FS_048_a_cut_after_output_is_an_interruption_that_names_its_cause(
    failure: Exception, kind: Kind
) -> None:
    _, error = await broken(sse(HELLO), after=failure)
    assert isinstance(error, StreamInterruptedError)
    assert (error.partial_text, error.cause_kind, error.__cause__) == ("Hello", kind, failure)
    assert error.usage == SO_FAR


async def test_FS_053_a_broken_event_after_output_is_an_interruption() -> None:
    events, error = await broken(sse(HELLO) + b"data: {nonsense\n\n" + sse(text(1, "lost")))
    assert isinstance(error, StreamInterruptedError)
    assert (error.partial_text, error.cause_kind) == ("Hello", Kind.MALFORMED_RESPONSE)
    assert TextDelta("Hello"[:3]) in events


async def test_an_error_frame_after_output_is_an_interruption() -> None:
    _, error = await broken(sse([*HELLO, ERROR]))
    assert isinstance(error, StreamInterruptedError)
    assert error.cause_kind is Kind.OVERLOADED


async def test_FS_082_a_call_that_was_cut_is_never_whole() -> None:
    events, error = await broken(sse([start(), *tool(0, '{"path": "/a", "text": "hal', stop=False)]))
    assert isinstance(error, StreamInterruptedError)
    assert not [event for event in events if isinstance(event, ToolCallEnded)]
    assert error.partial_tool_calls == (ToolCall(id="toolu_0", name="f", arguments='{"path": "/a", "text": "hal'),)


async def test_an_interruption_pickles() -> None:
    _, error = await broken(sse([start(), *tool(0, '{"a', stop=False)]))
    assert isinstance(error, StreamInterruptedError)
    copy = pickle.loads(pickle.dumps(error))
    assert copy.partial_tool_calls == error.partial_tool_calls


async def test_the_reply_so_far_holds_no_unsigned_signature_and_no_cut_call() -> None:
    unfinished = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        stop=False,
    )
    async with served(sse([start(), *unfinished, *tool(1, "{", stop=False)])) as http, opened(http) as stream:
        with pytest.raises(StreamInterruptedError):
            async for _ in stream:
                pass
        assert stream.reply().parts == (Reasoning(text="hm", issuer=ME),)


async def test_an_error_status_under_stream_is_raised_on_entering() -> None:
    def handler(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(529, json=ERROR, headers={"request-id": "req_1"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler)) as http:
        with pytest.raises(ReliableLLMError) as raised:
            async with opened(http):
                pytest.fail("entered")
    assert raised.value.kind is Kind.OVERLOADED


# ---------------------------------------------------------------- real sockets

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Server:
    """A server of raw bytes on loopback that counts its connections."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.connections = 0
        self.closed = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) is not None:
                length = next(
                    int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
                )
                await reader.readexactly(length)
                await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def loopback(serve: Serve) -> AsyncIterator[tuple[Server, str]]:
    server = Server(serve)
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    try:
        yield server, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def test_a_connection_is_used_again_after_a_whole_stream() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write(writer, HEAD + chunk(sse([*HELLO, *end()])) + b"0\r\n\r\n")

    async with loopback(serve) as (server, base), httpx2.AsyncClient() as http:
        for _ in range(3):
            async with opened(http, base) as stream:
                async for event in stream:
                    if isinstance(event, Finished):
                        break
    assert server.connections == 1


async def test_a_server_that_holds_the_line_after_the_terminal_event_does_not_hold_the_caller() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write(writer, HEAD + chunk(sse([*HELLO, *end()])))
        await reader.read(1)

    async with loopback(serve) as (server, base), httpx2.AsyncClient() as http:
        async with asyncio.timeout(20), opened(http, base) as stream:
            events = [event async for event in stream]
        await asyncio.wait_for(server.closed.wait(), 20)
    assert isinstance(events[-1], Finished)


async def leave_early(stream: Any) -> None:
    async for event in stream:
        if isinstance(event, TextDelta):
            return


async def fail_in_the_middle(stream: Any) -> None:
    await leave_early(stream)
    raise LookupError


@pytest.mark.parametrize("leave", [leave_early, fail_in_the_middle])
async def test_leaving_early_closes_the_connection(leave: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write(writer, HEAD + chunk(sse(HELLO)))
        await reader.read(1)

    async with loopback(serve) as (server, base), httpx2.AsyncClient() as http:
        try:
            async with opened(http, base) as stream:
                await leave(stream)
        except LookupError:
            pass
        await asyncio.wait_for(server.closed.wait(), 20)
    assert server.connections == 1


async def test_cancelling_closes_the_connection() -> None:
    shown = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write(writer, HEAD + chunk(sse(HELLO)))
        await reader.read(1)

    async def consume(http: httpx2.AsyncClient, base: str) -> None:
        async with opened(http, base) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    shown.set()

    async with loopback(serve) as (server, base), httpx2.AsyncClient() as http:
        task = asyncio.create_task(consume(http, base))
        await asyncio.wait_for(shown.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed.wait(), 20)


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


BREAKS: dict[str, Callable[[asyncio.StreamWriter], object]] = {
    "fin": lambda writer: writer.close(),
    "rst": reset,
    "garbage": lambda writer: writer.write(b"zz\r\nnonsense\r\n"),
    "clean_end": lambda writer: writer.write(b"0\r\n\r\n"),
}


def breaking(events: list[Wire], how: str, seen: asyncio.Event) -> Serve:
    """Send *events*, wait until the client has *seen* them, and break."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write(writer, HEAD + chunk(sse(events)))
        await asyncio.wait_for(seen.wait(), 20)
        BREAKS[how](writer)

    return serve


async def read_on(http: httpx2.AsyncClient, base: str, seen: asyncio.Event, awaited: type) -> None:
    async with opened(http, base) as stream:
        async for event in stream:
            if isinstance(event, awaited):
                seen.set()


@pytest.mark.parametrize("how", BREAKS)
async def test_a_break_on_the_wire_after_output_is_an_interruption(how: str) -> None:
    seen = asyncio.Event()
    async with loopback(breaking(HELLO, how, seen)) as (_, base), httpx2.AsyncClient() as http:
        with pytest.raises(StreamInterruptedError) as raised:
            await read_on(http, base, seen, TextDelta)
    assert (raised.value.partial_text, raised.value.cause_kind) == ("Hello", Kind.CONNECTION)


@pytest.mark.parametrize("how", BREAKS)
async def test_a_break_on_the_wire_before_output_is_a_connection_failure(how: str) -> None:
    seen = asyncio.Event()
    async with loopback(breaking([start()], how, seen)) as (_, base), httpx2.AsyncClient() as http:
        with pytest.raises(ConnectionFailedError):
            await read_on(http, base, seen, UsageUpdate)
