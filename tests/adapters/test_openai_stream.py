"""Streams of chat completions: what they say, how they end, and how they break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from reliable_llm.adapters.base import AdapterSettings, Target
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.credentials import Credential
from reliable_llm.drill import loop as virtual
from reliable_llm.errors import (
    ConnectionFailedError,
    ContentPolicyError,
    EmptyResponseError,
    Kind,
    MalformedResponseError,
    ReliableLLMError,
    StreamInterruptedError,
)
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
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
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)

Sse = Callable[..., bytes]

HERE = Candidate("openai", "gpt")
KEY = Credential("sk-test", label="openai#1")
COUNTED = Usage(input_tokens=7, output_tokens=2)
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
DONE = "[DONE]"


def chunk(content: str | None = None, *, finish: str | None = None, **delta: object) -> dict[str, Any]:
    said = {"content": content, **delta} if content is not None else delta
    return {"id": "c", "model": "gpt-dated", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def call(index: object, name: str | None = None, arguments: str = "", call_id: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return chunk(tool_calls=[{"index": index, "function": function} | ({"id": call_id} if call_id else {})])


class Heard:
    """All that came of one stream."""

    def __init__(self) -> None:
        self.events: list[StreamEvent] = []
        self.error: ReliableLLMError | None = None
        self.stream: Any = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def loud(self) -> list[StreamEvent]:
        return [event for event in self.events if not isinstance(event, Alive)]

    @property
    def broken(self) -> StreamInterruptedError:
        assert isinstance(self.error, StreamInterruptedError)
        return self.error


def opened(host: Any, *, without: tuple[str, ...] = (), **fields: Any) -> Any:
    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=host.client()))
    request = ChatRequest(messages=(Message("user", "hello"),), **fields)
    target = Target(candidate=HERE, model_id="gpt-dated")
    prepared = adapter.prepare(request, target, stream=True, without=frozenset(without))
    return adapter.stream(prepared, KEY, Timeouts())


async def listen(host: Any, **fields: Any) -> Heard:
    heard = Heard()
    try:
        async with opened(host, **fields) as heard.stream:
            async for event in heard.stream:
                heard.events.append(event)
    except ReliableLLMError as error:
        heard.error = error
    return heard


# ---------------------------------------------------------------- what it says


async def test_a_whole_stream_gives_text_usage_and_its_end(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("he"), chunk("y"), chunk(finish="stop"), USAGE, DONE))
    heard = await listen(host)
    assert heard.loud == [
        TextDelta("he"),
        TextDelta("y"),
        UsageUpdate(COUNTED),
        Finished(FinishReason.STOP, COUNTED),
    ]


async def test_the_assembled_reply_has_what_was_streamed(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("he"), chunk("y", finish="stop"), USAGE, DONE), x_request_id="req-1")
    reply = (await listen(host)).stream.reply()
    assert (reply.parts, reply.finish_reason, reply.usage) == ((Text("hey"),), FinishReason.STOP, COUNTED)
    assert (reply.model, reply.request_id) == ("gpt-dated", "req-1")


async def test_the_model_and_request_id_are_known_while_it_runs(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("he")), sse(chunk("y", finish="stop"), DONE), x_request_id="req-1")
    async with opened(host) as stream:
        await anext(stream)
        assert (stream.model, stream.request_id) == ("gpt-dated", "req-1")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_of_compatible_hosts_is_streamed_apart(host: Any, sse: Sse, field: str) -> None:
    host.stream(sse(chunk(**{field: "h"}), chunk(**{field: "m"}), chunk("a", finish="stop"), DONE))
    heard = await listen(host)
    assert heard.loud[:3] == [ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("a")]
    assert heard.stream.reply().parts == (Reasoning(text="hm", issuer=HERE), Text("a"))


async def test_content_in_parts_is_streamed(host: Any, sse: Sse) -> None:
    parts: Any = [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}, {"type": "text", "text": "a"}]
    host.stream(sse(chunk(parts), chunk(finish="stop"), DONE))
    assert (await listen(host)).loud[:2] == [ReasoningDelta("h"), TextDelta("a")]


async def test_a_refusal_is_text_with_its_own_finish(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk(refusal="I can"), chunk(refusal="not."), chunk(finish="stop"), DONE))
    heard = await listen(host)
    assert (heard.text, heard.events[-1]) == ("I cannot.", Finished(FinishReason.REFUSAL, None))


ODD: list[Any] = [
    {"choices": []},
    {"choices": None},
    {"choices": [{"index": 0}]},
    {"choices": [{"index": 0, "delta": None}]},
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}}]},
    {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
    {"choices": [None]},
    {"choices": [], "prompt_filter_results": [{"index": 0}]},
    {"error": None, "choices": []},
    "null",
    "",
]


@pytest.mark.parametrize("odd", ODD, ids=str)
async def test_odd_but_legal_chunks_are_signs_of_life_and_nothing_more(host: Any, sse: Sse, odd: Any) -> None:
    host.stream(sse(odd), sse(chunk("hi")), sse(odd), sse(chunk(finish="stop")), sse(odd), sse(USAGE, DONE))
    heard = await listen(host)
    assert heard.loud == [TextDelta("hi"), UsageUpdate(COUNTED), Finished(FinishReason.STOP, COUNTED)]
    assert heard.events.count(Alive()) == 4


async def test_comments_are_signs_of_life(host: Any, sse: Sse) -> None:
    host.stream(b": ping\n\n", b": ping\n\n", sse(chunk("hi", finish="stop"), DONE))
    assert (await listen(host)).events[:2] == [Alive(), Alive()]


async def test_every_split_of_the_bytes_tells_the_same(host: Any, sse: Sse) -> None:
    whole = sse(chunk("h€"), chunk("y", finish="stop"), USAGE, DONE)
    for place in range(1, len(whole)):
        host.answers.clear()
        host.stream(whole[:place], whole[place:])
        assert (await listen(host)).text == "h€y"


async def test_usage_in_every_chunk_is_told_once(host: Any, sse: Sse) -> None:
    counted = {"usage": USAGE["usage"]}
    host.stream(sse(chunk("a") | counted, chunk("b", finish="stop") | counted, DONE))
    assert [event for event in (await listen(host)).events if isinstance(event, UsageUpdate)] == [UsageUpdate(COUNTED)]


# ---------------------------------------------------------------- tool calls


async def test_a_tool_call_begins_grows_and_ends(host: Any, sse: Sse) -> None:
    host.stream(
        sse(call(0, "f", "", "call_1"), call(0, None, '{"a"'), call(0, None, ":1}"), chunk(finish="tool_calls"), DONE)
    )
    heard = await listen(host)
    assert heard.loud[:3] == [ToolCallStarted(0, "call_1", "f"), ToolCallDelta(0, '{"a"'), ToolCallDelta(0, ":1}")]
    assert isinstance(heard.loud[3], ToolCallEnded)
    assert heard.loud[3].call.parsed() == {"a": 1}
    assert heard.loud[4] == Finished(FinishReason.TOOL_CALLS, None)


@pytest.mark.parametrize("indexes", [(0, 1), (0, 0), (None, None)])
async def test_parallel_calls_are_told_apart_by_index_or_by_id(host: Any, sse: Sse, indexes: tuple[Any, Any]) -> None:
    first, second = indexes
    host.stream(
        sse(call(first, "f", "{}", "call_1"), call(second, "g", "[", "call_2"), call(second, None, "]")),
        sse(chunk(finish="tool_calls"), DONE),
    )
    ended = [event.call for event in (await listen(host)).events if isinstance(event, ToolCallEnded)]
    assert [(made.id, made.name, made.arguments) for made in ended] == [("call_1", "f", "{}"), ("call_2", "g", "[]")]


async def test_a_call_that_ends_with_stop_finishes_as_a_tool_call(host: Any, sse: Sse) -> None:
    host.stream(sse(call(0, "f", "{}", "call_1"), chunk(finish="stop"), DONE))
    assert (await listen(host)).events[-1] == Finished(FinishReason.TOOL_CALLS, None)


async def test_a_call_cut_by_the_output_limit_never_ends(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("a"), call(0, "f", '{"a', "call_1"), chunk(finish="length"), DONE))
    heard = await listen(host)
    assert not [event for event in heard.events if isinstance(event, ToolCallEnded)]
    assert heard.stream.reply().parts == (Text("a"),)


async def test_an_answer_forced_through_a_tool_is_streamed_as_text(host: Any, sse: Sse) -> None:
    host.stream(
        sse(
            call(0, "Person", "", "call_1"),
            call(0, None, '{"n":'),
            call(0, None, "1}"),
            chunk(finish="tool_calls"),
            DONE,
        )
    )
    schema = OutputSchema(name="Person", schema={"type": "object"})
    heard = await listen(host, output=schema, without=("structured_output",))
    assert (heard.text, heard.events[-1]) == ('{"n":1}', Finished(FinishReason.STOP, None))


# ---------------------------------------------------------------- how it ends well


@pytest.mark.parametrize(
    "end",
    [
        [chunk(finish="stop"), DONE],
        [chunk(finish="stop")],
        [chunk(finish="stop"), USAGE],
        [DONE],
    ],
)
async def test_the_end_is_proved_by_a_finish_reason_or_by_done(host: Any, sse: Sse, end: list[Any]) -> None:
    host.stream(sse(chunk("hi"), *end))
    heard = await listen(host)
    assert (heard.error, heard.text, type(heard.events[-1])) == (None, "hi", Finished)


async def test_a_finish_that_nobody_gave_is_not_invented(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("hi"), DONE))
    assert (await listen(host)).events[-1] == Finished(FinishReason.OTHER, None)


@pytest.mark.parametrize(
    "trouble", [httpx2.ReadError("reset"), b"data: {broken\n\n", b'data: {"error":{"code":500}}\n\n']
)
async def test_trouble_after_the_proof_of_the_end_is_none(host: Any, sse: Sse, trouble: Any) -> None:
    host.stream(sse(chunk("hi", finish="stop")), trouble)
    heard = await listen(host)
    assert (heard.error, heard.events[-1]) == (None, Finished(FinishReason.STOP, None))


async def test_nothing_follows_the_end(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("hi", finish="stop"), USAGE, DONE, chunk("late")))
    assert (await listen(host)).text == "hi"


def test_a_server_silent_after_its_finish_reason_is_not_waited_for_long(host: Any, sse: Sse) -> None:
    class Silent(httpx2.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            yield sse(chunk("hi", finish="stop"))
            await asyncio.Event().wait()

    host.answers.append(httpx2.Response(200, stream=Silent(), headers={"content-type": "text/event-stream"}))

    async def timed() -> tuple[StreamEvent, float]:
        heard = await listen(host)
        return heard.events[-1], asyncio.get_running_loop().time()

    finished, seconds = virtual.run(timed())
    assert finished == Finished(FinishReason.STOP, None)
    assert seconds < 6


# ---------------------------------------------------------------- how it breaks

BREAKS: list[tuple[Any, Kind]] = [
    (httpx2.RemoteProtocolError("cut"), Kind.CONNECTION),
    (httpx2.ReadError("reset"), Kind.CONNECTION),
    (httpx2.ReadTimeout("silent"), Kind.TIMEOUT),
    (b"", Kind.CONNECTION),
    (b"data: {broken\n\n", Kind.MALFORMED_RESPONSE),
    (b"data: \xff\n\n", Kind.MALFORMED_RESPONSE),
    (b'data: {"error":{"message":"x","code":429}}\n\n', Kind.RATE_LIMITED),
    (b'data: {"error":{"message":"x","type":"server_error"},"choices":[]}\n\n', Kind.SERVER_ERROR),
    (b'event: error\ndata: {"error":{"message":"x","code":500}}\n\n', Kind.SERVER_ERROR),
]


@pytest.mark.parametrize(("trouble", "kind"), BREAKS, ids=repr)
async def test_before_any_output_a_break_is_what_it_is(host: Any, sse: Sse, trouble: Any, kind: Kind) -> None:
    host.stream(sse(chunk(role="assistant")), trouble)
    heard = await listen(host)
    assert (heard.error.kind if heard.error else None, heard.loud) == (kind, [])


@pytest.mark.parametrize(("trouble", "kind"), BREAKS, ids=repr)
async def test_after_output_a_break_carries_what_had_come(host: Any, sse: Sse, trouble: Any, kind: Kind) -> None:
    host.stream(sse(chunk("half "), chunk("an")), trouble, x_request_id="req-3")
    broken = (await listen(host)).broken
    assert (broken.partial_text, broken.cause_kind, broken.request_id) == ("half an", kind, "req-3")


async def test_what_came_in_the_same_packet_before_a_break_is_delivered_first(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("a")) + b"data: {broken\n\n" + sse(chunk("b")))
    heard = await listen(host)
    assert (heard.text, heard.broken.partial_text) == ("a", "a")


async def test_a_cut_inside_tool_arguments_hands_out_no_finished_call(host: Any, sse: Sse) -> None:
    host.stream(sse(call(0, "write", '{"path": "/a", "text": "hal', "call_1")))
    heard = await listen(host)
    assert [made.name for made in heard.broken.partial_tool_calls] == ["write"]
    assert not [event for event in heard.events if isinstance(event, ToolCallEnded)]
    assert heard.stream.reply().parts == ()


async def test_reasoning_shown_is_output_shown(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk(reasoning_content="hm")))
    assert (await listen(host)).broken.partial_text == ""


async def test_usage_known_before_a_break_is_kept(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("a") | {"usage": USAGE["usage"]}))
    assert (await listen(host)).broken.usage == COUNTED


async def test_an_iterator_that_raised_is_at_its_end(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk("a")))
    async with opened(host) as stream:
        with pytest.raises(StreamInterruptedError):
            [event async for event in stream]
        assert [event async for event in stream] == []


async def test_a_stream_without_a_byte_is_a_failed_connection(host: Any) -> None:
    host.stream()
    assert isinstance((await listen(host)).error, ConnectionFailedError)


@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain"])
@pytest.mark.parametrize("text", ["", "  "])
async def test_a_stream_that_says_nothing_is_empty(host: Any, sse: Sse, text: str, content_type: str) -> None:
    host.stream(sse(chunk(text, finish="stop"), USAGE, DONE), content_type=content_type)
    error = (await listen(host)).error
    assert isinstance(error, EmptyResponseError)
    assert error.usage == COUNTED


async def test_a_filtered_stream_without_text_is_a_policy_refusal(host: Any, sse: Sse) -> None:
    host.stream(sse(chunk(finish="content_filter"), DONE))
    assert isinstance((await listen(host)).error, ContentPolicyError)


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"<html>login to the wifi</html>", "text/html", Kind.MALFORMED_RESPONSE),
        (b'{"id":"x"}', "application/json", Kind.MALFORMED_RESPONSE),
        (b'{"error":{"message":"x","code":429}}', "application/json; charset=utf-8", Kind.RATE_LIMITED),
        (b"{broken", "application/json", Kind.MALFORMED_RESPONSE),
    ],
)
async def test_a_document_instead_of_a_stream_is_raised_when_it_opens(
    host: Any, body: bytes, content_type: str, kind: Kind
) -> None:
    sent = host.stream(body, content_type=content_type)
    heard = await listen(host)
    assert (heard.error.kind if heard.error else None, heard.stream, sent.closed) == (kind, None, True)


async def test_a_document_that_breaks_off_is_a_failed_connection(host: Any) -> None:
    host.stream(b"{", httpx2.ReadError("reset"), content_type="application/json")
    assert isinstance((await listen(host)).error, ConnectionFailedError)


async def test_a_refused_stream_is_classified_when_it_opens(host: Any) -> None:
    host.answer({"error": {"message": "no", "code": "rate_limit_exceeded"}}, status=429)
    heard = await listen(host)
    assert (heard.error.kind if heard.error else None, heard.stream) == (Kind.RATE_LIMITED, None)


async def test_an_event_without_end_is_malformed_and_memory_stays_bounded(host: Any) -> None:
    piece = b"data: " + b"x" * (8 * 1024 * 1024)
    host.stream(*[piece] * 20)
    assert isinstance((await listen(host)).error, MalformedResponseError)


async def test_an_error_document_of_any_size_is_read_to_a_bound(host: Any) -> None:
    sent = host.stream(*[b"x" * 65536] * 100, content_type="text/html")
    assert isinstance((await listen(host)).error, MalformedResponseError)
    assert not sent.read_to_end


# ---------------------------------------------------------------- leaving


async def test_a_stream_read_to_its_end_is_read_to_the_end_of_its_body(host: Any, sse: Sse) -> None:
    sent = host.stream(sse(chunk("a", finish="stop"), USAGE), sse(DONE))
    await listen(host)
    assert sent.read_to_end


async def test_leaving_early_closes_and_reads_no_further(host: Any, sse: Sse) -> None:
    sent = host.stream(sse(chunk("a")), sse(chunk("b")), sse(chunk("c", finish="stop"), DONE))
    async with opened(host) as stream:
        await anext(stream)
    assert (sent.closed, sent.read_to_end) == (True, False)


async def test_leaving_without_reading_closes(host: Any, sse: Sse) -> None:
    sent = host.stream(sse(chunk("a")))
    async with opened(host):
        pass
    assert sent.closed


async def test_an_exception_of_the_consumer_closes_and_passes(host: Any, sse: Sse) -> None:
    sent = host.stream(sse(chunk("a")), sse(chunk("b")))

    async def consume() -> None:
        async with opened(host) as stream:
            async for _ in stream:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await consume()
    assert sent.closed
