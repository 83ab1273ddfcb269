"""Plain answers: read, or raised as what they are. The transport is a fake, the SDK is the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from hypothesis import given, settings
from hypothesis import strategies as st

from reliable_llm.adapters.anthropic_messages import AnthropicAdapter
from reliable_llm.adapters.anthropic_reply import AnthropicRaw
from reliable_llm.adapters.base import AdapterSettings, Target
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    ConfigurationError,
    EmptyResponseError,
    MalformedResponseError,
    ReliableLLMError,
)
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
    AdapterReply,
    Candidate,
    ChatRequest,
    FinishReason,
    Message,
    Opaque,
    OutputSchema,
    Reasoning,
    Text,
    ToolCall,
)

ME = Candidate("anthropic", "claude")
KEY = Credential("sk-ant-secret", label="anthropic#1")
Handler = Callable[[httpx2.Request], httpx2.Response]


def message(*content: object, **fields: object) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
        **fields,
    }


def text(value: str) -> dict[str, object]:
    return {"type": "text", "text": value}


def client(handler: Handler) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.MockTransport(handler))


def adapter_for(handler: Handler, **fields: Any) -> AnthropicAdapter:
    return AnthropicAdapter(
        AdapterSettings(vendor="anthropic", base_url="http://vendor.test", http_client=client(handler), **fields)
    )


async def complete(handler: Handler, *, without: frozenset[str] = frozenset(), **fields: Any) -> AdapterReply:
    adapter = adapter_for(handler)
    request = ChatRequest(messages=(Message("user", "hi"),), **fields)
    prepared = adapter.prepare(request, Target(candidate=ME, model_id="claude-sonnet-4-5"), without=without)
    return await adapter.complete(prepared, KEY, Timeouts())


async def answered(body: object, headers: dict[str, str] | None = None, **fields: Any) -> AdapterReply:
    return await complete(lambda _: httpx2.Response(200, json=body, headers=headers), **fields)


# ---------------------------------------------------------------- the request on the wire


async def sent(**fields: Any) -> httpx2.Request:
    seen: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=message(text("a")))

    await complete(handler, **fields)
    return seen[0]


async def test_a_request_goes_to_the_messages_endpoint_as_json() -> None:
    request = await sent()
    assert (request.method, str(request.url)) == ("POST", "http://vendor.test/v1/messages")
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content)["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "base", ["http://gateway.test", "http://gateway.test/", "http://gateway.test/a", "http://gateway.test/a/"]
)
async def test_an_address_may_end_in_a_slash_or_not(base: str) -> None:
    seen: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.path)
        return httpx2.Response(200, json=message(text("a")))

    adapter = AnthropicAdapter(AdapterSettings(vendor="anthropic", base_url=base, http_client=client(handler)))
    prepared = adapter.prepare(ChatRequest(messages=(Message("user", "hi"),)), Target(candidate=ME, model_id="m"))
    await adapter.complete(prepared, KEY, Timeouts())
    assert seen == ["/a/v1/messages" if "/a" in base.removeprefix("http://") else "/v1/messages"]


async def test_the_key_travels_in_one_header_only() -> None:
    request = await sent()
    assert request.headers["authorization"] == "Bearer sk-ant-secret"
    assert "x-api-key" not in request.headers


async def test_a_key_header_from_the_environment_is_not_sent_beside_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Api-Key: stray")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "stray")
    request = await sent()
    assert "x-api-key" not in request.headers
    assert request.headers["authorization"] == "Bearer sk-ant-secret"


async def test_the_environments_address_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://stray.test")
    assert (await sent()).url.host == "vendor.test"


async def test_an_opt_in_version_travels_in_its_header() -> None:
    request = await sent(temperature=0.1, extra={"anthropic": {"anthropic_version": "2023-06-01"}})
    assert request.headers["anthropic-version"] == "2023-06-01"


async def test_without_opt_in_the_sdks_own_version_is_sent() -> None:
    assert (await sent()).headers["anthropic-version"] >= "2026-10-21"


async def test_an_address_that_is_none_is_a_configuration_error() -> None:
    adapter = AnthropicAdapter(AdapterSettings(vendor="anthropic", base_url="http://vendor:port"))
    with pytest.raises(ConfigurationError, match="base_url"):
        await adapter.warmup()


# ---------------------------------------------------------------- the answer


async def test_text_usage_model_and_request_id_are_read() -> None:
    reply = await answered(message(text("hello")), headers={"request-id": "req_1"})
    assert reply.parts == (Text("hello"),)
    assert (reply.model, reply.request_id, reply.status) == ("claude-sonnet-4-5-20250929", "req_1", 200)
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.partial) == (3, 5, False)


async def test_rate_limit_headers_are_kept_with_lower_case_names() -> None:
    reply = await answered(message(text("a")), headers={"Anthropic-RateLimit-Requests-Remaining": "7"})
    assert reply.headers["anthropic-ratelimit-requests-remaining"] == "7"
    assert all(name == name.lower() for name in reply.headers)


async def test_input_tokens_include_what_went_through_the_cache() -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 100,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    counted = (await answered(message(text("a"), usage=usage))).usage
    assert counted is not None
    assert (counted.input_tokens, counted.cache_write_tokens, counted.cache_read_tokens) == (113, 10, 100)
    assert counted.reasoning_tokens == 2


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": None, "output_tokens": None}, {"input_tokens": "3"}, []])
async def test_counts_that_are_missing_are_none(usage: object) -> None:
    counted = (await answered(message(text("a"), usage=usage))).usage
    assert counted is None or counted.input_tokens is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("refusal", FinishReason.REFUSAL),
        ("pause_turn", FinishReason.PAUSE),
        ("brand_new", FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
async def test_why_the_answer_ended(reason: str | None, finish: FinishReason) -> None:
    reply = await answered(message(text("a"), stop_reason=reason))
    assert (reply.finish_reason, reply.finish_detail) == (finish, reason)


async def test_a_refusal_is_a_reply_even_without_text() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    reply = await answered(message(stop_reason="refusal", stop_details=details))
    assert (reply.parts, reply.finish_reason, reply.finish_detail) == ((), FinishReason.REFUSAL, "cyber")


async def test_tool_calls_keep_their_order_and_arguments() -> None:
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": {"n": n, "é": None}} for n in (1, 2)]
    reply = await answered(message(text("look"), *calls, stop_reason="tool_use"))
    assert [part.id for part in reply.parts if isinstance(part, ToolCall)] == ["toolu_1", "toolu_2"]
    assert [part.parsed() for part in reply.parts if isinstance(part, ToolCall)] == [
        {"n": 1, "é": None},
        {"n": 2, "é": None},
    ]


async def test_thinking_is_bound_to_its_issuer() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    reply = await answered(message(thinking, {"type": "redacted_thinking", "data": "x"}, text("a")))
    assert reply.parts[:2] == (Reasoning(text="hm", signature="sig", issuer=ME), Reasoning(opaque="x", issuer=ME))


async def test_an_unknown_block_is_kept_as_it_is() -> None:
    block = {"type": "hologram", "depth": 3}
    assert (await answered(message(block, text("a")))).parts[0] == Opaque(vendor="anthropic", data=block)


async def test_a_forced_tools_input_is_the_answer() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Person", "input": {"age": 3}}
    output = OutputSchema(name="Person", schema={"type": "object"})
    reply = await answered(
        message(text("Here:"), call, stop_reason="tool_use"), output=output, without=frozenset({"structured_output"})
    )
    assert (reply.parts, reply.finish_reason) == ((Text('{"age": 3}'),), FinishReason.STOP)


# ---------------------------------------------------------------- what is no answer

THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize("content", [[], [text("")], [text(" \n")], [THINKING], [{"type": "hologram"}]])
async def test_an_answer_that_says_nothing_is_empty_and_keeps_its_usage(content: list[object]) -> None:
    with pytest.raises(EmptyResponseError) as raised:
        await answered(message(*content), headers={"request-id": "req_1"})
    assert raised.value.usage is not None
    assert (raised.value.usage.output_tokens, raised.value.request_id, raised.value.status) == (5, "req_1", 200)


async def test_a_paused_turn_needs_no_text() -> None:
    block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    assert (await answered(message(block, stop_reason="pause_turn"))).finish_reason is FinishReason.PAUSE


async def test_warming_the_cache_needs_no_text() -> None:
    assert (await answered(message(stop_reason="max_tokens"), max_tokens=0)).parts == ()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b"<html>Bad gateway? secret prompt</html>"),
        ("application/json", b'{"id": "msg_1", "content": [{"ty'),
        ("application/json", b""),
        ("application/json", b"null"),
        ("application/json", b"[]"),
        ("application/json", b'"hello"'),
        ("application/json", b"\xff\xfe"),
        ("application/json", b'{"id": "msg_1"}'),
        ("application/json", b'{"content": "text"}'),
        ("application/json", b'{"content": ["text"]}'),
        ("application/json", b'{"content": null}'),
    ],
)
async def test_a_success_that_is_no_answer_is_malformed(content_type: str, body: bytes) -> None:
    headers = {"content-type": content_type, "request-id": "req_1"}
    with pytest.raises(MalformedResponseError) as raised:
        await complete(lambda _: httpx2.Response(200, content=body, headers=headers))
    assert (raised.value.request_id, raised.value.status) == ("req_1", 200)
    assert "secret" not in str(raised.value)


async def test_a_success_with_an_error_inside_is_raised_as_an_error() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "secret prompt"}}
    with pytest.raises(ReliableLLMError) as raised:
        await answered(body)
    assert "secret" not in str(raised.value)


async def test_a_failure_keeps_the_vendors_exception_as_its_cause() -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "secret"}}
    with pytest.raises(ReliableLLMError) as raised:
        await complete(lambda _: httpx2.Response(429, json=body, headers={"request-id": "req_9", "retry-after": "7"}))
    assert type(raised.value.__cause__).__name__ == "RateLimitError"
    assert (raised.value.status, raised.value.request_id) == (429, "req_9")
    assert "secret" not in str(raised.value)


async def test_one_request_is_one_request_whatever_the_answer() -> None:
    seen: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(529, json={"type": "error", "error": {"type": "overloaded_error", "message": "m"}})

    with pytest.raises(ReliableLLMError):
        await complete(handler)
    assert len(seen) == 1


# ---------------------------------------------------------------- the typed object

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=3,
)
block_values = st.one_of(
    st.builds(text, st.text(max_size=5)),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": st.text(max_size=3), "name": st.just("f"), "input": json_values}
    ),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": st.text(max_size=3), "signature": st.just("s")}),
    st.fixed_dictionaries({"type": st.sampled_from(["hologram", "text"]), "text": json_values, "depth": json_values}),
)
messages = st.builds(
    lambda content, fields: message(*content, **fields),
    st.lists(block_values, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "usage": json_values,
            "stop_reason": st.sampled_from(["end_turn", "brand_new"]),
            "context": json_values,
            "container": json_values,
            "model": json_values,
        },
    ),
)


@settings(max_examples=60, deadline=None)
@given(messages)
async def test_the_typed_object_equals_what_create_returns(body: dict[str, Any]) -> None:
    answer = httpx2.Response(200, json=body, headers={"request-id": "req_1"})
    async with client(lambda _: answer) as http:
        sdk = AsyncAnthropic(api_key="k", base_url="http://vendor.test", http_client=http)
        theirs = await sdk.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}])
    ours: Any = AnthropicRaw(json.loads(answer.content), "req_1").typed()
    assert ours == theirs
    assert (type(ours), repr(ours), ours._request_id) == (type(theirs), repr(theirs), theirs._request_id)


async def test_the_raw_reply_holds_the_body_and_shows_none_of_it() -> None:
    body = message(text("secret"))
    raw = (await answered(body)).raw
    assert raw is not None
    assert raw.body == body
    assert "secret" not in repr(raw)
