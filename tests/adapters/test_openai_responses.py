"""The Responses API: requests, answers, streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from reliable_llm.adapters.base import AdapterSettings, Prepared, Target
from reliable_llm.adapters.openai_responses import OpenAIResponsesAdapter
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    ContentPolicyError,
    EmptyResponseError,
    Kind,
    OutputTruncatedError,
    ReliableLLMError,
    StreamInterruptedError,
    UnsupportedFeatureError,
)
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
    AdapterReply,
    Alive,
    Candidate,
    ChatRequest,
    Document,
    Finished,
    FinishReason,
    HostedTool,
    Image,
    Message,
    Opaque,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolName,
    ToolResult,
    Usage,
    UsageUpdate,
)

Sse = Callable[..., bytes]

HERE = Candidate("openai", "gpt")
KEY = Credential("sk-test", label="openai#1")
HELLO = Message("user", "hello")
SEARCH = HostedTool(vendor="openai", spec={"type": "web_search"})
PERSON = OutputSchema(name="Person", schema={"type": "object", "properties": {"n": {}}, "required": ["n"]})
USAGE = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9, "input_tokens_details": {"cached_tokens": 3}}
COUNTED = Usage(input_tokens=7, output_tokens=2, cache_read_tokens=3)


def adapter_on(host: Any) -> OpenAIResponsesAdapter:
    return OpenAIResponsesAdapter(AdapterSettings(vendor="openai", http_client=host.client()))


def prepared(*messages: Message, without: tuple[str, ...] = (), stream: bool = False, **fields: Any) -> Prepared:
    adapter = OpenAIResponsesAdapter(AdapterSettings(vendor="openai"))
    request = ChatRequest(messages=messages or (HELLO,), **fields)
    target = Target(candidate=HERE, model_id="gpt-dated")
    return adapter.prepare(request, target, stream=stream, without=frozenset(without))


def body_of(*messages: Message, **fields: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(prepared(*messages, **fields).content or b"")
    return sent


async def ask(host: Any, **fields: Any) -> AdapterReply:
    return await adapter_on(host).complete(prepared(**fields), KEY, Timeouts())


async def failure(host: Any, body: object) -> ReliableLLMError:
    host.answer(body)
    with pytest.raises(ReliableLLMError) as raised:
        await ask(host)
    return raised.value


def message_item(text: str = "hi") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def call_item(arguments: str = '{"a":1}', status: str = "completed", name: str = "f") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": name,
        "arguments": arguments,
        "status": status,
    }


REASONING_ITEM = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "sealed",
}


def response(*output: object, status: str = "completed", **fields: object) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-dated", "error": None}
    return {**head, "status": status, "output": list(output), "usage": USAGE, **fields}


# ---------------------------------------------------------------- requests


def test_leading_system_messages_become_instructions() -> None:
    sent = body_of(Message("system", "be brief"), Message("system", "be kind"), HELLO, Message("system", "now"))
    assert sent["instructions"] == "be brief\n\nbe kind"
    assert sent["input"] == [{"role": "user", "content": "hello"}, {"role": "system", "content": "now"}]


def test_a_tool_loop_becomes_items() -> None:
    sent = body_of(
        HELLO,
        Message("assistant", (Text("let me see"), ToolCall(id="toolu_01.Z", name="f", arguments=""))),
        Message("tool", (ToolResult(call_id="toolu_01.Z", content="no", is_error=True),)),
    )["input"]
    assert sent[1] == {"role": "assistant", "content": "let me see"}
    assert sent[2] == {"type": "function_call", "call_id": sent[3]["call_id"], "name": "f", "arguments": "{}"}
    assert sent[3]["output"] == "Error: no"


def test_pictures_and_documents_are_input_parts_in_messages_and_in_results() -> None:
    picture, document = Image(data=b"\x89P", media_type="image/png"), Document(url="https://x/a.pdf")
    sent = body_of(
        Message("user", (Text("see"), picture, document)),
        Message("assistant", (ToolCall(id="c", name="f", arguments="{}"),)),
        Message("tool", (ToolResult(call_id="c", content=(Text("shot"), picture)),)),
    )["input"]
    assert [part["type"] for part in sent[0]["content"]] == ["input_text", "input_image", "input_file"]
    assert sent[0]["content"][2]["file_url"] == "https://x/a.pdf"
    assert [part["type"] for part in sent[2]["output"]] == ["input_text", "input_image"]


def test_chats_own_marks_do_not_reach_this_endpoint() -> None:
    text = Text("a", extra={"openai": {"type": "text"}})
    file = Opaque(vendor="openai", data={"type": "file", "file": {"file_id": "f-1"}})
    assert body_of(Message("user", (text, file)))["input"][0]["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_file", "file_id": "f-1"},
    ]


@pytest.mark.parametrize(
    ("part", "goes_back"),
    [
        (Reasoning(text="hm", opaque="sealed", issuer=HERE), True),
        (Reasoning(text="hm", opaque="sealed", issuer=Candidate("openai", "other")), False),
        (Reasoning(text="hm", opaque="sealed"), False),
        (Reasoning(text="hm", issuer=HERE), False),
        (Reasoning(text="hm", signature="sig", issuer=Candidate("anthropic", "claude")), False),
    ],
)
def test_reasoning_goes_back_to_its_issuer_only_and_only_when_sealed(part: Reasoning, *, goes_back: bool) -> None:
    kinds = [item.get("type") for item in body_of(HELLO, Message("assistant", (part, Text("a"))))["input"]]
    assert ("reasoning" in kinds) is goes_back


def test_reasoning_that_was_refused_is_left_out_and_reported() -> None:
    turn = Message("assistant", (Reasoning(text="hm", opaque="sealed", issuer=HERE), Text("a")))
    found = prepared(HELLO, turn, without=("reasoning_history",))
    assert found.dropped == ("reasoning_history",)
    assert b"sealed" not in (found.content or b"")


def test_hosted_tools_of_openai_are_passed_on() -> None:
    sent = body_of(tools=(SEARCH, Tool(name="f")), tool_choice=ToolName("web_search"))
    assert (sent["tools"][0], sent["tool_choice"]) == ({"type": "web_search"}, {"type": "web_search"})
    assert sent["tools"][1]["name"] == "f"


def test_hosted_tools_of_others_are_a_feature_that_is_missing() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepared(tools=(HostedTool(vendor="anthropic", spec={"type": "web_search"}),))
    assert raised.value.feature == "hosted_tool"


def test_a_tool_that_does_not_ask_for_strict_does_not_get_it() -> None:
    assert body_of(tools=(Tool(name="f"),))["tools"][0]["strict"] is False


def test_parameters_have_this_endpoints_names() -> None:
    sent = body_of(max_tokens=5, temperature=0.5, top_p=0.5, reasoning="low", output=PERSON)
    del sent["input"], sent["model"]
    assert sent == {
        "max_output_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.5,
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "text": {
            "format": {
                "type": "json_schema",
                "name": "Person",
                "schema": {**PERSON.schema, "additionalProperties": False},
                "strict": True,
            }
        },
    }


def test_stop_sequences_have_no_word_here_and_are_reported() -> None:
    assert prepared(stop=("a",)).dropped == ("stop",)


# ---------------------------------------------------------------- answers


async def test_an_answer_has_its_text_model_and_usage(host: Any) -> None:
    reply = await ask(host.answer(response(message_item()), x_request_id="req-1"))
    assert (reply.parts, reply.finish_reason, reply.usage) == ((Text("hi"),), FinishReason.STOP, COUNTED)
    assert (reply.model, reply.request_id) == ("gpt-dated", "req-1")


async def test_reasoning_calls_and_hosted_calls_keep_their_order(host: Any) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    reply = await ask(host.answer(response(REASONING_ITEM, search, message_item(), call_item())))
    assert [type(part) for part in reply.parts] == [Reasoning, Opaque, Text, ToolCall]
    assert reply.finish_reason is FinishReason.TOOL_CALLS


async def test_reasoning_comes_back_exactly_as_it_was_issued(host: Any) -> None:
    reply = await ask(host.answer(response(REASONING_ITEM, call_item())))
    history = (HELLO, Message("assistant", reply.parts), Message("tool", (ToolResult(call_id="call_1", content="1"),)))
    assert body_of(*history)["input"][1] == REASONING_ITEM


async def test_a_refusal_is_an_answer_marked_as_such(host: Any) -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    reply = await ask(host.answer(response(item)))
    assert (reply.parts, reply.finish_reason) == ((Text("I cannot."),), FinishReason.REFUSAL)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("steered", FinishReason.OTHER),
    ],
)
async def test_an_incomplete_answer_says_why(host: Any, reason: str, finish: FinishReason) -> None:
    reply = await ask(host.answer(response(message_item(), status="incomplete", incomplete_details={"reason": reason})))
    assert (reply.finish_reason, reply.finish_detail) == (finish, reason)


async def test_an_answer_forced_through_a_tool_comes_back_as_text(host: Any) -> None:
    host.answer(response(call_item('{"n":1}', name="Person")))
    reply = await ask(host, output=PERSON, without=("structured_output",))
    assert (reply.parts, reply.finish_reason) == ((Text('{"n":1}'),), FinishReason.STOP)


CUT = {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"}
NO_ANSWERS: list[tuple[Any, type[ReliableLLMError]]] = [
    (response(), EmptyResponseError),
    (response(REASONING_ITEM), EmptyResponseError),
    (response({"type": "web_search_call", "id": "ws_1"}), EmptyResponseError),
    (response(message_item(" ")), EmptyResponseError),
    (response(status="incomplete", incomplete_details={"reason": "content_filter"}), ContentPolicyError),
    (response(call_item('{"a', "incomplete"), **CUT), OutputTruncatedError),
]


@pytest.mark.parametrize(("body", "error"), NO_ANSWERS)
async def test_a_response_that_says_nothing_is_raised_with_its_usage(
    host: Any, body: Any, error: type[ReliableLLMError]
) -> None:
    raised = await failure(host, body)
    assert (type(raised), raised.usage) == (error, COUNTED)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (response(status="failed", error={"code": "rate_limit_exceeded", "message": "x"}), Kind.RATE_LIMITED),
        (response(status="failed", error={"code": "server_error", "message": "x"}), Kind.SERVER_ERROR),
        ({"error": {"message": "x", "code": 429}}, Kind.RATE_LIMITED),
        ({"id": "resp_1"}, Kind.MALFORMED_RESPONSE),
        ("<html></html>", Kind.MALFORMED_RESPONSE),
        ("{broken", Kind.MALFORMED_RESPONSE),
    ],
)
async def test_a_success_that_is_no_answer_is_raised_as_what_it_is(host: Any, body: Any, kind: Kind) -> None:
    assert (await failure(host, body)).kind == kind


BODIES = [
    response(message_item()),
    response(REASONING_ITEM, call_item()),
    response(message_item(), brand_new={"a": [1]}),
    response({"type": "type_of_tomorrow", "id": "x"}, message_item()),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
async def test_the_typed_object_equals_what_create_returns(host: Any, number: int) -> None:
    host.answer(BODIES[number], x_request_id="req-1")
    reply = await ask(host)
    created = await openai.AsyncOpenAI(api_key="k", http_client=host.client()).responses.create(model="m", input="x")
    assert reply.raw is not None
    typed: Any = reply.raw.typed()
    assert typed == created
    assert typed._request_id == created._request_id


# ---------------------------------------------------------------- streams


def said(kind: str, **fields: object) -> dict[str, object]:
    return {"type": f"response.{kind}", **fields}


CREATED = said("created", response={"id": "resp_1", "model": "gpt-dated", "status": "in_progress"})


async def listen(host: Any, **fields: Any) -> tuple[list[StreamEvent], ReliableLLMError | None, AdapterReply | None]:
    events: list[StreamEvent] = []
    stream: Any = None
    error: ReliableLLMError | None = None
    try:
        async with adapter_on(host).stream(prepared(stream=True, **fields), KEY, Timeouts()) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what came before an error shall stay
    except ReliableLLMError as raised:
        error = raised
    return [event for event in events if not isinstance(event, Alive)], error, stream and stream.reply()


async def test_a_whole_stream_gives_reasoning_text_usage_and_its_end(host: Any, sse: Sse) -> None:
    host.stream(
        sse(CREATED, said("reasoning_summary_text.delta", delta="hm"), said("output_item.done", item=REASONING_ITEM)),
        sse(said("output_text.delta", delta="h"), said("output_text.delta", delta="i")),
        sse(
            said("output_item.done", item=message_item()),
            said("completed", response=response(REASONING_ITEM, message_item())),
        ),
    )
    events, error, reply = await listen(host)
    assert events == [
        ReasoningDelta("hm"),
        TextDelta("h"),
        TextDelta("i"),
        UsageUpdate(COUNTED),
        Finished(FinishReason.STOP, COUNTED),
    ]
    assert error is None
    assert reply is not None
    assert [type(part) for part in reply.parts] == [Reasoning, Text]


async def test_a_function_call_begins_grows_and_ends(host: Any, sse: Sse) -> None:
    host.stream(
        sse(CREATED, said("output_item.added", output_index=0, item=call_item("", "in_progress"))),
        sse(said("function_call_arguments.delta", output_index=0, delta='{"a":1}')),
        sse(
            said("output_item.done", output_index=0, item=call_item()),
            said("completed", response=response(call_item())),
        ),
    )
    events, _, _ = await listen(host)
    assert events[:3] == [
        ToolCallStarted(0, "call_1", "f"),
        ToolCallDelta(0, '{"a":1}'),
        ToolCallEnded(0, ToolCall(id="call_1", name="f", arguments='{"a":1}')),
    ]
    assert events[-1] == Finished(FinishReason.TOOL_CALLS, COUNTED)


async def test_an_answer_forced_through_a_tool_is_streamed_as_text(host: Any, sse: Sse) -> None:
    item = call_item('{"n":1}', name="Person")
    host.stream(
        sse(CREATED, said("output_item.added", output_index=0, item=item)),
        sse(said("function_call_arguments.delta", output_index=0, delta='{"n":1}')),
        sse(said("output_item.done", output_index=0, item=item), said("completed", response=response(item))),
    )
    events, _, reply = await listen(host, output=PERSON, without=("structured_output",))
    assert events[0] == TextDelta('{"n":1}')
    assert reply is not None
    assert reply.parts == (Text('{"n":1}'),)


async def test_an_answer_that_comes_only_with_its_end_is_still_told(host: Any, sse: Sse) -> None:
    host.stream(sse(CREATED, said("completed", response=response(message_item("all at once"), call_item()))))
    events, _, _ = await listen(host)
    assert [type(event) for event in events] == [TextDelta, ToolCallStarted, ToolCallEnded, UsageUpdate, Finished]


async def test_events_of_tomorrow_are_passed_over(host: Any, sse: Sse) -> None:
    host.stream(
        sse(
            CREATED,
            said("brand.new"),
            said("output_text.delta", delta="a"),
            said("completed", response=response(message_item("a"))),
        )
    )
    events, _, _ = await listen(host)
    assert [type(event) for event in events] == [TextDelta, UsageUpdate, Finished]


FAILED = response(status="failed", error={"code": "rate_limit_exceeded", "message": "x"})
BREAKS: list[tuple[Any, Kind]] = [
    (said("failed", response=FAILED), Kind.RATE_LIMITED),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "x", "param": None}, Kind.RATE_LIMITED),
    ({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "x"}}, Kind.RATE_LIMITED),
    ({"error": {"code": 429, "message": "x"}}, Kind.RATE_LIMITED),
    ("{broken", Kind.MALFORMED_RESPONSE),
    ("[DONE]", Kind.CONNECTION),
    ("null", Kind.CONNECTION),
]


@pytest.mark.parametrize(("trouble", "kind"), BREAKS, ids=str)
async def test_before_any_output_a_break_is_what_it_is(host: Any, sse: Sse, trouble: Any, kind: Kind) -> None:
    host.stream(sse(CREATED), sse(trouble))
    events, error, _ = await listen(host)
    assert (events, error and error.kind) == ([], kind)


@pytest.mark.parametrize(("trouble", "kind"), BREAKS, ids=str)
async def test_after_output_a_break_carries_what_had_come(host: Any, sse: Sse, trouble: Any, kind: Kind) -> None:
    host.stream(sse(CREATED, said("output_text.delta", delta="half")), sse(trouble))
    _, error, reply = await listen(host)
    assert isinstance(error, StreamInterruptedError)
    assert (error.partial_text, error.cause_kind) == ("half", kind)
    assert reply is not None
    assert reply.parts == (Text("half"),)


async def test_a_cut_inside_arguments_hands_out_no_finished_call(host: Any, sse: Sse) -> None:
    host.stream(
        sse(CREATED, said("output_item.added", output_index=0, item=call_item("", "in_progress"))),
        sse(said("function_call_arguments.delta", output_index=0, delta='{"a')),
        httpx2.ReadError("reset"),
    )
    events, error, _ = await listen(host)
    assert isinstance(error, StreamInterruptedError)
    assert [call.arguments for call in error.partial_tool_calls] == ['{"a']
    assert not [event for event in events if isinstance(event, ToolCallEnded)]


@pytest.mark.parametrize(("body", "error"), NO_ANSWERS)
async def test_a_stream_that_says_nothing_is_raised_with_its_usage(
    host: Any, sse: Sse, body: Any, error: type[ReliableLLMError]
) -> None:
    kind = "incomplete" if body["status"] == "incomplete" else "completed"
    host.stream(sse(CREATED, said(kind, response=body)))
    events, raised, _ = await listen(host)
    assert (events, type(raised), raised and raised.usage) == ([], error, COUNTED)
