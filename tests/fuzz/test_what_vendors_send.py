"""Anything may come back from a vendor: it is an answer, or an error of ours. Never another exception, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reliable_llm import FailoverChat, Provider, RecoveryPolicy, RetryPolicy
from reliable_llm.errors import ReliableLLMError
from reliable_llm.types import ChatReply

ONCE = RetryPolicy(max_retries=0)
CALM = RecoveryPolicy(breaker={}, cooldowns=False)
PATIENCE = 20

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
OPENAI_SSE = (
    *(
        json.dumps({**CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        for delta, finish in (
            ({"role": "assistant", "content": ""}, None),
            ({"content": "hello "}, None),
            ({"content": "world"}, None),
            ({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}]}, None),
            ({}, "stop"),
        )
    ),
    json.dumps({**CHUNK, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}),
    "[DONE]",
)
START = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
ANTHROPIC_SSE = tuple(
    json.dumps(event)
    for event in (
        {"type": "message_start", "message": {**START, "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
)
RESPONSES_SSE = tuple(
    json.dumps(event)
    for event in (
        {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "hello"},
        {"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed", "output": []}},
    )
)
GEMINI_USAGE = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
GEMINI_CALL = {"functionCall": {"id": "t", "name": "f", "args": {"q": "a"}}, "thoughtSignature": "c2lnbmVk"}
GEMINI_SSE = tuple(
    json.dumps({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0} | finish]} | usage)
    for part, finish, usage in (
        ({"text": "thinking", "thought": True}, {}, {}),
        ({"text": "hello "}, {}, {}),
        (GEMINI_CALL, {}, {}),
        ({"text": "world"}, {"finishReason": "STOP"}, {"usageMetadata": GEMINI_USAGE, "responseId": "r"}),
    )
)

# Values as they may stand anywhere in a body: also where something else is expected.
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True),
    st.text(max_size=20),
    st.sampled_from(
        ["", "stop", "tool_use", "error", "9" * 5_000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@st.composite
def bent(draw: st.DrawFn, whole: Any) -> Any:
    """A JSON value with one thing in it changed, left out, or put in another's place."""
    value = json.loads(json.dumps(whole))
    at = value
    while isinstance(at, dict | list) and at:
        keys: Any = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or draw(st.booleans()):
            if draw(st.booleans()):
                at[key] = draw(values)
            else:
                del at[key]
            return value
        at = at[key]
    return draw(values)


@st.composite
def bent_stream(draw: st.DrawFn, events: tuple[str, ...]) -> bytes:
    """An event stream with events lost, doubled, bent, out of order, or bytes of it destroyed."""
    chosen = list(events)
    for _ in range(draw(st.integers(0, 4))):
        what = draw(st.sampled_from(["lose", "double", "swap", "bend", "break", "junk"]))
        place = draw(st.integers(0, max(0, len(chosen) - 1)))
        if not chosen:
            break
        if what == "lose":
            del chosen[place]
        elif what == "double":
            chosen.insert(place, chosen[place])
        elif what == "swap":
            chosen.append(chosen.pop(place))
        elif what == "bend":
            chosen[place] = json.dumps(draw(bent(_value_of(chosen[place]))))
        elif what == "break":
            chosen[place] = chosen[place][: draw(st.integers(0, len(chosen[place])))]
        else:
            chosen.insert(place, json.dumps(draw(values)))
    gap = draw(st.sampled_from(["\n\n", "\r\n\r\n", "\r\r", "\n", "\n: a comment\n\n", "\nid: 7\nretry: x\n\n"]))
    names = draw(st.booleans())
    body = "".join((f"event: {_name(event)}\n" if names else "") + f"data: {event}{gap}" for event in chosen).encode()
    if draw(st.integers(0, 3)) == 0 and body:
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=30)) + body[at + draw(st.integers(0, 10)) :]
    return body


def _value_of(event: str) -> Any:
    try:
        return json.loads(event)
    except ValueError:
        return event


def _name(event: str) -> str:
    try:
        return str(json.loads(event).get("type", "message"))[:40].replace("\n", " ").replace("\r", " ")
    except (ValueError, AttributeError):
        return "message"


headers = st.dictionaries(
    st.sampled_from(
        [
            "retry-after",
            "retry-after-ms",
            "x-should-retry",
            "x-request-id",
            "request-id",
            "x-ratelimit-reset-tokens",
            "x-ratelimit-remaining-requests",
            "anthropic-ratelimit-requests-reset",
            "anthropic-ratelimit-unified-status",
            "date",
        ]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
    | st.sampled_from(
        ["1e999", "-1", "nan", "9" * 400, "0x10", "1:2:3", "Thu, 99 Foo 2026 25:61:61 GMT", "2026-13-45T99:99:99Z"]
    ),
    max_size=4,
)
statuses = st.sampled_from(
    [200, 200, 200, 204, 301, 307, 400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 502, 503, 529, 599]
)
types = st.sampled_from(
    ["application/json", "text/html", "text/event-stream", "text/plain; charset=klingon", "", "x/y"]
)


def provider(vendor: str, transport: httpx2.AsyncBaseTransport) -> Provider:
    client = httpx2.AsyncClient(transport=transport)
    if vendor == "anthropic":
        return Provider.anthropic(
            models=["m"], keys=["k"], base_url="https://a.example", vendor="anthropic", http_client=client
        )
    if vendor == "gemini":
        return Provider.gemini(models=["m"], keys=["k"], base_url="https://g.example", http_client=client)
    api: Any = "responses" if vendor == "responses" else "chat"
    return Provider.openai(
        models=["m"], keys=["k"], base_url="https://o.example/v1", vendor="openai", api=api, http_client=client
    )


def outcome(vendor: str, answer: Callable[[], httpx2.Response], *, stream: bool) -> ChatReply | ReliableLLMError:
    async def respond(_: httpx2.Request) -> httpx2.Response:
        return answer()

    async def ask() -> ChatReply:
        made = provider(vendor, httpx2.MockTransport(respond))
        async with FailoverChat([made], retry=ONCE, recovery=CALM) as chat:
            if not stream:
                return await chat("hi")
            async with chat.stream("hi") as answering:
                return await answering.reply()

    async def bounded() -> ChatReply | ReliableLLMError:
        try:
            return await asyncio.wait_for(ask(), PATIENCE)
        except ReliableLLMError as error:
            str(error), repr(error)
            return error

    return asyncio.run(bounded())


def check(found: ChatReply | ReliableLLMError) -> None:
    assert isinstance(found, ChatReply | ReliableLLMError)
    if isinstance(found, ChatReply):
        assert isinstance(found.text, str)
        assert found.attempts


OK_BODIES: dict[str, Any] = {
    "openai": {
        **CHUNK,
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "anthropic": {
        **START,
        "content": [{"type": "text", "text": "hello"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "responses": {
        "id": "r",
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "i",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "hello", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    },
    "gemini": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "hello"}, GEMINI_CALL]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": GEMINI_USAGE,
        "modelVersion": "m",
        "responseId": "r",
    },
}
STREAMS = {"openai": OPENAI_SSE, "anthropic": ANTHROPIC_SSE, "responses": RESPONSES_SSE, "gemini": GEMINI_SSE}
VENDORS = ("openai", "anthropic", "responses", "gemini")


@pytest.mark.parametrize("vendor", VENDORS)
@given(data=st.data())
def test_a_bent_answer_is_an_answer_or_an_error_of_ours(vendor: str, data: st.DataObject) -> None:
    body = data.draw(bent(OK_BODIES[vendor]))
    check(outcome(vendor, lambda: httpx2.Response(200, json=body) if _plain(body) else _spelled(body), stream=False))


def _plain(body: object) -> bool:
    try:
        json.dumps(body, allow_nan=False)
    except ValueError:
        return False
    return True


def _spelled(body: object) -> httpx2.Response:
    return httpx2.Response(200, content=json.dumps(body).encode(), headers={"content-type": "application/json"})


@pytest.mark.parametrize("vendor", VENDORS)
@given(data=st.data())
def test_a_bent_stream_is_an_answer_or_an_error_of_ours(vendor: str, data: st.DataObject) -> None:
    body = data.draw(bent_stream(STREAMS[vendor]))
    told = {"content-type": "text/event-stream"}
    check(outcome(vendor, lambda: httpx2.Response(200, content=body, headers=told), stream=True))


@pytest.mark.parametrize("vendor", VENDORS)
@given(
    status=statuses,
    told=headers,
    body=st.binary(max_size=200) | values.map(lambda v: json.dumps(v).encode()),
    kind=types,
    stream=st.booleans(),
)
@example(status=200, told={}, body=b"[" * 100_000, kind="application/json", stream=False)
@example(status=429, told={}, body=b'{"a":' * 50_000, kind="application/json", stream=False)
@example(status=429, told={}, body=b"7", kind="application/json", stream=False)
@example(status=400, told={}, body=b"[[]]", kind="application/json", stream=True)
@example(status=500, told={}, body=b"\xff\xfe\x00", kind="application/json", stream=False)
@example(status=200, told={}, body=b"data: " + b"[" * 100_000 + b"\n\n", kind="text/event-stream", stream=True)
def test_any_status_headers_and_body_are_an_answer_or_an_error_of_ours(
    vendor: str, status: int, told: dict[str, str], body: bytes, kind: str, *, stream: bool
) -> None:
    sent = told | ({"content-type": kind} if kind else {})
    check(outcome(vendor, lambda: httpx2.Response(status, content=body, headers=sent), stream=stream))
