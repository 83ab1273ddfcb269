"""Chat completions, answered in process: what is an answer, and what is raised as what it is."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from reliable_llm.adapters.base import AdapterSettings, Target
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.credentials import Credential
from reliable_llm.drill import loop as virtual
from reliable_llm.errors import (
    ConfigurationError,
    ContentPolicyError,
    EmptyResponseError,
    MalformedResponseError,
    OutputTruncatedError,
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
    Tool,
    ToolCall,
    Usage,
)

HERE = Candidate("openai", "gpt")
KEY = Credential("sk-test", label="openai#1")
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
SCHEMA = OutputSchema(name="Person", schema={"type": "object"})


def completion(content: object = "hi", *, finish: object = "stop", usage: object = USAGE, **message: object) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-dated"}
    return {**head, "choices": [choice], "usage": usage}


def call(name: str = "f", arguments: object = '{"a":1}', call_id: object = "call_1") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def ask(host: Any, *, without: tuple[str, ...] = (), key: Credential = KEY, **fields: Any) -> AdapterReply:
    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=host.client()))
    request = ChatRequest(messages=(Message("user", "hello"),), **fields)
    prepared = adapter.prepare(request, Target(candidate=HERE, model_id="gpt-dated"), without=frozenset(without))
    return await adapter.complete(prepared, key, Timeouts())


async def failure(host: Any, body: object, **headers: str) -> ReliableLLMError:
    host.answer(body, **headers)
    with pytest.raises(ReliableLLMError) as raised:
        await ask(host)
    return raised.value


# ---------------------------------------------------------------- answers


async def test_an_answer_has_its_text_model_usage_and_request_id(host: Any) -> None:
    reply = await ask(host.answer(completion(), x_request_id="req-1"))
    assert reply.parts == (Text("hi"),)
    assert (reply.model, reply.request_id, reply.finish_reason) == ("gpt-dated", "req-1", FinishReason.STOP)
    assert reply.usage == Usage(input_tokens=3, output_tokens=2)


async def test_rate_limit_headers_are_kept(host: Any) -> None:
    reply = await ask(host.answer(completion(), **{"X-RateLimit-Remaining-Requests": "7"}))
    assert dict(reply.headers)["x-ratelimit-remaining-requests"] == "7"


async def test_the_key_of_the_call_is_the_one_on_the_wire(host: Any) -> None:
    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=host.answer(completion()).client()))
    prepared = adapter.prepare(ChatRequest(messages=(Message("user", "x"),)), Target(candidate=HERE, model_id="m"))
    for secret in ("sk-a", "sk-b"):
        await adapter.complete(prepared, Credential(secret, label=secret), Timeouts())
    assert [request.headers.get_list("authorization") for request in host.requests] == [
        ["Bearer sk-a"],
        ["Bearer sk-b"],
    ]


async def test_base_url_and_headers_of_the_provider_are_used(host: Any) -> None:
    settings = AdapterSettings(
        vendor="groq", base_url="https://host/openai/v1", headers={"X-Team": "a"}, http_client=host.client()
    )
    adapter = OpenAIChatAdapter(settings)
    host.answer(completion())
    prepared = adapter.prepare(ChatRequest(messages=(Message("user", "x"),)), Target(candidate=HERE, model_id="m"))
    await adapter.complete(prepared, KEY, Timeouts())
    assert (str(host.requests[0].url), host.requests[0].headers["x-team"]) == (
        "https://host/openai/v1/chat/completions",
        "a",
    )


async def test_every_phase_of_the_request_is_bounded_by_the_given_timeouts(host: Any) -> None:
    host.answer(completion())
    await ask(host)
    timeout = host.requests[0].extensions["timeout"]
    assert timeout == {"connect": 10.0, "read": 60.0, "write": 60.0, "pool": 120.0}


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (None, None),
        ("nonsense", None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(input_tokens=0, output_tokens=0)),
        ({"prompt_tokens": 5, "completion_tokens_details": None}, Usage(input_tokens=5)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input_tokens=9, output_tokens=4, cache_read_tokens=7, cache_write_tokens=0, reasoning_tokens=3),
        ),
    ],
)
async def test_zero_is_zero_and_missing_is_unknown(host: Any, raw: object, usage: Usage | None) -> None:
    assert (await ask(host.answer(completion(usage=raw)))).usage == usage


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("brand_new", FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
async def test_every_finish_reason_has_a_neutral_word(host: Any, reason: object, finish: FinishReason) -> None:
    assert (await ask(host.answer(completion(finish=reason)))).finish_reason is finish


async def test_a_refusal_is_an_answer_marked_as_such(host: Any) -> None:
    reply = await ask(host.answer(completion(None, refusal="I cannot.")))
    assert (reply.parts, reply.finish_reason) == ((Text("I cannot."),), FinishReason.REFUSAL)


async def test_azures_note_that_nothing_was_filtered_leaves_a_good_answer(host: Any) -> None:
    body = completion()
    body["choices"][0]["content_filter_results"] = {
        "error": {"code": "content_filter_error", "message": "not filtered"}
    }
    body["error"] = None
    assert (await ask(host.answer(body))).parts == (Text("hi"),)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_of_compatible_hosts_is_kept_apart(host: Any, field: str) -> None:
    reply = await ask(host.answer(completion(**{field: "hm"})))
    assert reply.parts == (Reasoning(text="hm", issuer=HERE), Text("hi"))


async def test_content_in_parts_is_read(host: Any) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hi"}]
    assert (await ask(host.answer(completion(parts)))).parts == (Reasoning(text="hm", issuer=HERE), Text("hi"))


# ---------------------------------------------------------------- tool calls


async def test_tool_calls_are_read_in_order(host: Any) -> None:
    calls = [call(), call("g", "{}", "call_2")]
    reply = await ask(host.answer(completion(None, finish="tool_calls", tool_calls=calls)))
    assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["f", "g"]
    assert reply.finish_reason is FinishReason.TOOL_CALLS


async def test_a_call_that_ends_with_stop_is_still_a_call(host: Any) -> None:
    assert (await ask(host.answer(completion(tool_calls=[call()])))).finish_reason is FinishReason.TOOL_CALLS


async def test_arguments_sent_as_an_object_become_json_text(host: Any) -> None:
    reply = await ask(host.answer(completion(None, tool_calls=[call(arguments={"a": 1})])))
    assert isinstance(reply.parts[0], ToolCall)
    assert reply.parts[0].parsed() == {"a": 1}


async def test_a_call_without_id_gets_one_that_is_the_same_for_the_same_answer(host: Any) -> None:
    host.answer(completion(None, tool_calls=[call(call_id=""), call(call_id=None)]))
    first, second = await ask(host), await ask(host)
    ids = [part.id for part in first.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert first.parts == second.parts


async def test_a_call_of_another_kind_is_kept_as_it_is(host: Any) -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}
    reply = await ask(host.answer(completion(None, finish="tool_calls", tool_calls=[custom])))
    assert reply.parts == (Opaque(vendor="openai", data=custom),)


async def test_a_call_cut_by_the_output_limit_is_not_handed_out(host: Any) -> None:
    host.answer(completion("so far", finish="length", tool_calls=[call(), call("g", '{"a', "call_2")]))
    reply = await ask(host)
    assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["f"]
    assert reply.finish_reason is FinishReason.LENGTH


async def test_an_answer_that_is_only_a_cut_call_is_raised_as_cut(host: Any) -> None:
    error = await failure(host, completion(None, finish="length", tool_calls=[call(arguments='{"a')]))
    assert isinstance(error, OutputTruncatedError)
    assert error.usage == Usage(input_tokens=3, output_tokens=2)


async def test_an_answer_forced_through_a_tool_comes_back_as_text(host: Any) -> None:
    host.answer(completion(None, finish="tool_calls", tool_calls=[call("Person", '{"name":"Ada"}')]))
    reply = await ask(host, output=SCHEMA, without=("structured_output",))
    assert (reply.parts, reply.finish_reason) == ((Text('{"name":"Ada"}'),), FinishReason.STOP)


async def test_a_tool_of_the_callers_own_stays_a_call_beside_the_forced_answer(host: Any) -> None:
    host.answer(completion(None, finish="tool_calls", tool_calls=[call("lookup")]))
    reply = await ask(host, output=SCHEMA, tools=(Tool(name="lookup"),), without=("structured_output",))
    assert reply.finish_reason is FinishReason.TOOL_CALLS


# ---------------------------------------------------------------- 200, and no answer


@pytest.mark.parametrize("content", [None, "", "  \n", "<think>let me see</think>\n", "<think>never closed", []])
async def test_an_answer_that_says_nothing_is_empty_and_keeps_its_usage(host: Any, content: object) -> None:
    error = await failure(host, completion(content), x_request_id="req-9")
    assert isinstance(error, EmptyResponseError)
    assert (error.usage, error.request_id) == (Usage(input_tokens=3, output_tokens=2), "req-9")


async def test_reasoning_alone_is_no_answer(host: Any) -> None:
    assert isinstance(await failure(host, completion("", reasoning_content="hm")), EmptyResponseError)


async def test_thinking_before_the_answer_is_left_in_its_text(host: Any) -> None:
    assert (await ask(host.answer(completion("<think>a</think>b")))).parts == (Text("<think>a</think>b"),)


@pytest.mark.parametrize("reason", ["content_filter", "content_filter: PROHIBITED_CONTENT"])
@pytest.mark.parametrize("message", [None, {"role": "assistant", "content": ""}])
async def test_a_filtered_answer_without_text_is_a_policy_refusal(host: Any, reason: str, message: object) -> None:
    body = completion(finish=reason)
    body["choices"][0]["message"] = message
    error = await failure(host, body)
    assert isinstance(error, ContentPolicyError)
    assert error.usage == Usage(input_tokens=3, output_tokens=2)


@pytest.mark.parametrize(
    "body",
    [
        "<!doctype html><html><title>Sign in</title></html>",
        "",
        "\n\n\n",
        '{"id": "chatcmpl-1", "choi',
        "null",
        "[]",
        '"hello"',
        b"\xff\xfe",
        {"id": "x"},
        {"id": "x", "choices": []},
        {"id": "x", "choices": "nope"},
        {"id": "x", "choices": [None]},
        completion() | {"choices": [{"index": 0, "finish_reason": "stop"}]},
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
async def test_a_success_that_is_no_answer_is_malformed(host: Any, body: object, content_type: str) -> None:
    assert isinstance(await failure(host, body, content_type=content_type), MalformedResponseError)


async def test_the_usage_of_a_success_without_choices_is_kept(host: Any) -> None:
    error = await failure(host, completion() | {"choices": []})
    assert error.usage == Usage(input_tokens=3, output_tokens=2)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited"),
        ({"error": {"message": "bad key", "code": 401}}, "authentication"),
        ({"error": {"message": "upstream", "code": 502}}, "server_error"),
        (completion(None, finish="error") | {"error": {"message": "x", "code": 429}}, "rate_limited"),
    ],
)
async def test_an_error_inside_a_success_is_raised_as_what_it_is(host: Any, body: object, kind: str) -> None:
    assert (await failure(host, body)).kind == kind


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"code": "invalid_api_key"}, "authentication"),
        (429, {"code": "rate_limit_exceeded"}, "rate_limited"),
        (429, {"type": "insufficient_quota", "code": "insufficient_quota"}, "quota_exhausted"),
        (503, {"type": "server_error"}, "server_error"),
    ],
)
async def test_a_refused_request_is_classified(host: Any, status: int, error: dict[str, str], kind: str) -> None:
    host.answer({"error": {"message": "no", **error}}, status=status, x_request_id="req-5")
    with pytest.raises(ReliableLLMError) as raised:
        await ask(host)
    assert (raised.value.kind, raised.value.request_id) == (kind, "req-5")
    assert isinstance(raised.value.__cause__, openai.APIStatusError)


async def test_a_failed_request_is_sent_once(host: Any) -> None:
    host.answer({"error": {"message": "no"}}, status=503)
    with pytest.raises(ReliableLLMError):
        await ask(host)
    assert len(host.requests) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx2.ConnectError("refused"), "connection"),
        (httpx2.ReadError("reset"), "connection"),
        (httpx2.ReadTimeout("slow"), "timeout"),
        (ConnectionResetError("reset"), "connection"),
    ],
)
async def test_a_broken_connection_is_classified(host: Any, error: Exception, kind: str) -> None:
    with pytest.raises(ReliableLLMError) as raised:
        await ask(host.fail(error))
    assert raised.value.kind == kind


async def test_neither_key_nor_prompt_is_in_what_is_raised(host: Any) -> None:
    host.answer({"error": {"message": "cannot answer hello with sk-test", "code": "x"}}, status=400)
    with pytest.raises(ReliableLLMError) as raised:
        await ask(host)
    shown = f"{raised.value!r} {raised.value} {pickle.dumps(raised.value)!r}"
    assert "sk-test" not in shown
    assert "hello" not in shown


@pytest.mark.parametrize("error", [RuntimeError("app bug"), KeyError("hook"), ZeroDivisionError()])
async def test_an_application_error_passes_untouched(host: Any, error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await ask(host.fail(error))
    assert raised.value is error


async def test_a_closed_http_client_is_a_configuration_error(host: Any) -> None:
    http = host.answer(completion()).client()
    await http.aclose()
    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=http))
    prepared = adapter.prepare(ChatRequest(messages=(Message("user", "x"),)), Target(candidate=HERE, model_id="m"))
    with pytest.raises(ConfigurationError):
        await adapter.complete(prepared, KEY, Timeouts())


async def test_cancellation_passes_untouched(host: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await ask(host.fail(asyncio.CancelledError()))


# ---------------------------------------------------------------- the vendor's own object

BODIES: list[Callable[[], Any]] = [
    completion,
    lambda: completion(None, finish="tool_calls", tool_calls=[call(), call("g", "{}", "call_2")]),
    lambda: completion(None, refusal="no"),
    lambda: completion("x", usage=None),
    lambda: completion("x", annotations=[{"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}]),
    lambda: completion("x", reasoning_content="hm", unknown={"deep": [1, {"a": None}]}),
    lambda: completion("x") | {"service_tier": "flex", "brand_new": [1, 2], "system_fingerprint": None},
    lambda: completion("x", finish="brand_new"),
    lambda: completion("x", tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "n", "input": "i"}}]),
    lambda: completion("x") | {"created": "not a number"},
    lambda: completion(
        "x", usage={"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    ),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
async def test_the_typed_object_equals_what_create_returns(host: Any, number: int) -> None:
    host.answer(BODIES[number](), x_request_id="req-1")
    reply = await ask(host)
    client = openai.AsyncOpenAI(api_key="k", http_client=host.client())
    created = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert reply.raw is not None
    typed: Any = reply.raw.typed()
    assert typed == created
    assert typed.to_dict(warnings=False) == created.to_dict(warnings=False)
    assert (type(typed), typed._request_id) == (type(created), created._request_id)


async def test_the_raw_body_is_the_answer_as_decoded(host: Any) -> None:
    reply = await ask(host.answer(completion()))
    assert reply.raw is not None
    assert reply.raw.body == completion()


# ---------------------------------------------------------------- loops


def test_one_adapter_serves_one_loop_after_another(host: Any) -> None:
    host.answer(completion())
    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=host.client()))
    prepared = adapter.prepare(ChatRequest(messages=(Message("user", "x"),)), Target(candidate=HERE, model_id="m"))
    replies = [asyncio.run(adapter.complete(prepared, KEY, Timeouts())) for _ in range(3)]
    assert [reply.parts for reply in replies] == [(Text("hi"),)] * 3


def test_it_answers_on_a_virtual_time_loop(host: Any) -> None:
    assert virtual.run(ask(host.answer(completion()))).parts == (Text("hi"),)


async def test_warmup_makes_no_request(host: Any) -> None:
    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=host.client()))
    await adapter.warmup()
    await adapter.aclose()
    assert host.requests == []
