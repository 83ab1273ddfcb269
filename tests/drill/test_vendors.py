"""The simulated vendors, asked through the real SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine

import anthropic
import httpx2
import openai
import pytest

from reliable_llm.drill.loop import run
from reliable_llm.drill.scenario import Act, Upstream
from reliable_llm.drill.vendors.observed import Arrival
from reliable_llm.drill.vendors.wire import Site, Vendors

USER = [{"role": "user", "content": "hi"}]
Ask = Callable[[httpx2.AsyncClient], Coroutine[object, object, object]]


class Wire:
    """One vendor with one script, and what it saw."""

    def __init__(self, *acts: dict[str, object], rejects: tuple[str, ...] = (), pool_limit: int | None = None) -> None:
        entry = Upstream(match="P1/*/*", script=[Act.model_validate(act) for act in acts])
        self.vendors = Vendors([entry])
        site = Site(name="P1", keys={"secret": "k1"}, models={"big": "m1"}, rejects=rejects, pool_limit=pool_limit)
        self.transport = self.vendors.transport(site)

    @property
    def arrivals(self) -> list[Arrival]:
        return self.vendors.observed.arrivals

    def ask(self, question: Ask) -> object:
        async def asked() -> object:
            async with httpx2.AsyncClient(transport=self.transport, timeout=60) as client:
                return await question(client)

        return run(asked())

    def refused(self, question: Ask, kind: type[Exception]) -> Exception:
        with pytest.raises(kind) as caught:
            self.ask(question)
        return caught.value


def _openai(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="secret", base_url="https://p1.example/v1", http_client=client, max_retries=0)


def _anthropic(client: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="secret", base_url="https://p1.example", http_client=client, max_retries=0)


async def openai_chat(client: httpx2.AsyncClient) -> object:
    return await _openai(client).chat.completions.create(model="big", messages=USER)


async def openai_stream(client: httpx2.AsyncClient) -> list[openai.types.chat.ChatCompletionChunk]:
    options = {"include_usage": True}
    stream = await _openai(client).chat.completions.create(
        model="big", messages=USER, stream=True, stream_options=options
    )
    return [chunk async for chunk in stream]


async def openai_responses(client: httpx2.AsyncClient) -> object:
    return await _openai(client).responses.create(model="big", input="hi")


async def openai_responses_stream(client: httpx2.AsyncClient) -> list[object]:
    stream = await _openai(client).responses.create(model="big", input="hi", stream=True)
    return [event async for event in stream]


async def anthropic_chat(client: httpx2.AsyncClient) -> object:
    return await _anthropic(client).messages.create(model="big", messages=USER, max_tokens=10)


async def anthropic_stream(client: httpx2.AsyncClient) -> list[object]:
    stream = await _anthropic(client).messages.create(model="big", messages=USER, max_tokens=10, stream=True)
    return [event async for event in stream]


def test_openai_reads_an_answer_with_its_usage() -> None:
    reply = Wire({"act": "ok", "text": "hello", "usage": [3, 4]}).ask(openai_chat)
    assert reply.choices[0].message.content == "hello"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 4)


def test_an_answer_without_usage_has_none() -> None:
    assert Wire({"act": "ok", "text": "hello"}).ask(openai_chat).usage is None


def test_anthropic_reads_an_answer_with_thinking() -> None:
    act = {"act": "ok", "text": "hello", "usage": [3, 4], "thinking": {"text": "hm", "signature": "sig"}}
    reply = Wire(act).ask(anthropic_chat)
    assert [block.type for block in reply.content] == ["thinking", "text"]
    assert reply.content[0].signature == "sig"
    assert reply.stop_reason == "end_turn"


def test_the_responses_api_reads_an_answer() -> None:
    assert Wire({"act": "ok", "text": "hello", "usage": [3, 4]}).ask(openai_responses).output_text == "hello"


@pytest.mark.parametrize(
    ("question", "kind"), [(openai_chat, openai.RateLimitError), (anthropic_chat, anthropic.RateLimitError)]
)
def test_an_error_has_its_status_headers_and_body(question: Ask, kind: type[Exception]) -> None:
    act = {"act": "error", "status": 429, "headers": {"retry-after": "3"}, "error": {"type": "slow", "code": "c"}}
    error = Wire(act).refused(question, kind)
    assert error.response.headers["retry-after"] == "3"
    assert error.response.json()["error"]["type"] == "slow"


def test_the_wire_tells_key_model_and_time() -> None:
    wire = Wire({"act": "ok", "text": "hello", "delay_s": 7})
    wire.ask(openai_chat)
    assert [(a.where, a.at, a.ended, a.outcome) for a in wire.arrivals] == [("P1/k1/m1", 0.0, 7.0, "answered")]


def test_openai_streams_text_usage_and_a_reason() -> None:
    chunks = Wire({"act": "stream", "chunks": ["a", "b"], "usage": [7, 2]}).ask(openai_stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "ab"
    assert chunks[-1].usage.total_tokens == 9
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


def test_anthropic_streams_its_events_in_order() -> None:
    events = Wire({"act": "stream", "chunks": ["a", "b"], "usage": [7, 2]}).ask(anthropic_stream)
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_responses_api_streams_to_completed() -> None:
    events = Wire({"act": "stream", "chunks": ["a", "b"]}).ask(openai_responses_stream)
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "ab"
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "ab"


def test_chunks_keep_their_distance() -> None:
    wire = Wire({"act": "stream", "chunks": ["a", "b", "c"], "gap_s": 10})
    wire.ask(openai_stream)
    assert wire.arrivals[0].ended == 20.0


def test_a_cut_is_a_broken_body() -> None:
    error = Wire({"act": "stream", "chunks": ["a"], "end": "cut"}).refused(openai_stream, openai.APIConnectionError)
    assert isinstance(error.__cause__, httpx2.RemoteProtocolError)


def test_a_clean_end_without_the_terminal_event_is_no_error() -> None:
    events = Wire({"act": "stream", "chunks": ["a"], "end": "eof"}).ask(anthropic_stream)
    assert [event.type for event in events][-1] == "content_block_delta"


def test_a_stall_lasts_until_the_client_gives_up() -> None:
    wire = Wire({"act": "stream", "chunks": ["a"], "end": "stall"})
    wire.refused(anthropic_stream, httpx2.ReadTimeout)
    assert (wire.arrivals[0].outcome, wire.arrivals[0].waited) == ("gave up", 60.0)


@pytest.mark.parametrize(
    ("question", "kind"), [(openai_stream, openai.APIError), (anthropic_stream, anthropic.APIStatusError)]
)
def test_an_error_frame_carries_its_type(question: Ask, kind: type[Exception]) -> None:
    act = {"act": "stream", "chunks": [], "end": "error_frame", "error": {"type": "overloaded_error"}}
    assert Wire(act).refused(question, kind).type == "overloaded_error"


def test_a_stream_of_zero_bytes_has_no_event() -> None:
    assert Wire({"act": "stream", "end": "zero_bytes"}).ask(openai_stream) == []


def test_a_broken_event_comes_after_so_many_chunks() -> None:
    act = {"act": "stream", "chunks": ["a", "b"], "bad_json_after": 1}
    Wire(act).refused(openai_stream, json.JSONDecodeError)


def test_odd_chunks_stand_where_they_were_put() -> None:
    odd = {"first": "choices: []", "middle": "choice without delta", "last": "choices: [] with usage 7/2"}
    chunks = Wire({"act": "stream", "chunks": ["hi"], "extra_chunks": odd}).ask(openai_stream)
    assert chunks[1].choices == []
    assert chunks[-1].usage.prompt_tokens == 7


def test_pings_keep_a_timeline_alive() -> None:
    line = [[0, "chunk"], [50, "ping"], [100, "chunk"]]
    wire = Wire({"act": "stream", "chunks": ["a", "b"], "timeline": line})
    wire.ask(anthropic_stream)
    assert wire.arrivals[0].ended == 100.0


def test_a_tool_is_streamed_in_pieces() -> None:
    act = {"act": "stream_tool", "name": "write", "arg_deltas": ['{"a":', "1}"]}
    chunks = Wire(act).ask(openai_stream)
    calls = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or []]
    assert calls[0].function.name == "write"
    assert "".join(call.function.arguments or "" for call in calls) == '{"a":1}'


def test_what_is_said_before_a_tool_call_is_said_without_a_stream_too() -> None:
    act = {"act": "stream_tool", "chunks": ["one ", "moment"], "name": "write", "arg_deltas": ['{"a":', "1}"]}
    (choice,) = Wire(act).ask(openai_chat).choices
    assert choice.message.content == "one moment"


def test_a_tool_call_comes_whole() -> None:
    act = {"act": "ok_tool", "calls": [{"id": "t1", "name": "save", "args": {"a": 1}}]}
    assert Wire(act).ask(anthropic_chat).content[0].input == {"a": 1}


@pytest.mark.parametrize("act", [{"act": "refuse"}, {"act": "reset", "phase": "before_headers"}])
def test_a_broken_connection_is_the_transports_own_exception(act: dict[str, object]) -> None:
    error = Wire(act).refused(openai_chat, openai.APIConnectionError)
    assert isinstance(error.__cause__, httpx2.TransportError)


@pytest.mark.parametrize("phase", ["connect", "headers", "body"])
def test_a_hang_ends_with_the_clients_timeout(phase: str) -> None:
    wire = Wire({"act": "hang", "phase": phase})
    wire.refused(anthropic_chat, anthropic.APITimeoutError)
    assert wire.arrivals[0].ended == 60.0


def test_html_is_sent_as_it_is() -> None:
    act = {"act": "raw", "status": 502, "content_type": "text/html", "body": "<html>"}
    assert Wire(act).refused(openai_chat, openai.InternalServerError).response.text == "<html>"


def test_a_parameter_that_the_provider_rejects_is_a_400() -> None:
    error = Wire({"act": "ok", "text": "x"}, rejects=("messages",)).refused(openai_chat, openai.BadRequestError)
    assert error.code == "unsupported_parameter"


def test_the_transport_raises_what_it_is_told_to() -> None:
    wire = Wire({"act": "inject", "raise": "RuntimeError('bug')"})
    error = wire.refused(openai_chat, RuntimeError)
    assert wire.vendors.observed.injected == [error]


def test_a_script_that_is_used_up_is_reported() -> None:
    wire = Wire({"act": "error", "for_first": 0})
    wire.refused(openai_chat, openai.InternalServerError)
    assert wire.vendors.observed.unscripted == [
        'P1/k1/m1: the script has no more to say: add an act, or "repeat": true to its last'
    ]


def test_a_full_pool_times_out_before_the_wire() -> None:
    wire = Wire({"act": "hang", "repeat": True}, pool_limit=1)

    async def twice(client: httpx2.AsyncClient) -> object:
        import asyncio

        return await asyncio.gather(openai_chat(client), openai_chat(client))

    wire.refused(twice, openai.APITimeoutError)
    assert len(wire.arrivals) == 1
