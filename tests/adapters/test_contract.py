"""What every adapter promises, held against each of them (`backends.py`)."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import httpx2
import pytest

from reliable_llm.adapters.base import Adapter, Prepared, Target
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    AttemptTimeoutError,
    ConnectionFailedError,
    EmptyResponseError,
    InvalidRequestError,
    Kind,
    MalformedResponseError,
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
    Finished,
    FinishReason,
    HostedTool,
    Image,
    Message,
    Opaque,
    OutputSchema,
    Reasoning,
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
)
from tests.adapters.backends import (
    BACKENDS,
    SECRET,
    Anthropic,
    Backend,
    Call,
    Ending,
    HttpBackend,
    OpenAIChat,
    OpenAIResponses,
    Said,
)


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = request.param()
    return made


# ---------------------------------------------------------------- asking

ME = Candidate("here", "model")
KEY = Credential("sk-secret", label="here#1")
LOOKUP = Tool(name="lookup", description="d", parameters={"type": "object", "properties": {"q": {"type": "string"}}})
PERSON = OutputSchema(
    name="Person",
    schema={
        "type": "object",
        "properties": {"age": {"type": "integer"}},
        "required": ["age"],
        "additionalProperties": False,
    },
)
HI = (Message("user", SECRET),)


def prepared_by(
    adapter: Adapter,
    messages: tuple[Message, ...] = HI,
    *,
    without: Iterable[str] = (),
    stream: bool = False,
    **asked: Any,
) -> Prepared:
    request = ChatRequest(messages=messages, **asked)
    target = Target(candidate=ME, model_id="model-id")
    return adapter.prepare(request, target, stream=stream, without=frozenset(without))


async def ask(
    backend: Backend, messages: tuple[Message, ...] = HI, key: Credential = KEY, **asked: Any
) -> AdapterReply:
    adapter = backend.adapter()
    return await adapter.complete(prepared_by(adapter, messages, **asked), key, Timeouts())


async def listen(
    backend: Backend, events: list[StreamEvent] | None = None, **asked: Any
) -> tuple[list[StreamEvent], AdapterReply]:
    """Read a whole stream; *events* holds what came, also when it breaks."""
    heard = [] if events is None else events
    adapter = backend.adapter()
    async with adapter.stream(prepared_by(adapter, stream=True, **asked), KEY, Timeouts()) as stream:
        async for event in stream:
            heard.append(event)
        return heard, stream.reply()


async def broken(backend: Backend, **asked: Any) -> tuple[list[StreamEvent], ReliableLLMError]:
    events: list[StreamEvent] = []
    with pytest.raises(ReliableLLMError) as raised:
        await listen(backend, events, **asked)
    return events, raised.value


async def failure(backend: Backend, **asked: Any) -> ReliableLLMError:
    with pytest.raises(ReliableLLMError) as raised:
        await ask(backend, **asked)
    return raised.value


def of(kind: type | tuple[type, ...], events: Iterable[StreamEvent]) -> list[StreamEvent]:
    return [event for event in events if isinstance(event, kind)]


def shape(value: object) -> object:
    """Return a deep copy of plain data."""
    if is_dataclass(value):
        return {each.name: shape(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [shape(inner) for inner in value]
    return {key: shape(inner) for key, inner in value.items()} if hasattr(value, "items") else value


# ---------------------------------------------------------------- preparing

EVERYTHING = ChatRequest(
    messages=(
        Message("system", "Be brief."),
        Message("user", (Text("look"), Image(url="https://x/a.png"), Image(data=b"x", media_type="image/png"))),
        Message(
            "assistant", (Reasoning(text="hm"), Text("ok"), ToolCall(id="c.1", name="lookup", arguments='{"q": "a"}'))
        ),
        Message("tool", (ToolResult(call_id="c.1", content="found", is_error=True),)),
        Message("user", "so?"),
    ),
    tools=(LOOKUP,),
    tool_choice="auto",
    parallel_tool_calls=False,
    output=PERSON,
    max_tokens=5,
    temperature=0.5,
    top_p=0.5,
    stop=("END",),
    reasoning="low",
    extra={"here": {"metadata": {"user_id": "u"}}},
    overrides={"here/model": {"max_tokens": 6}},
)


@pytest.mark.parametrize(
    "without", [(), ("structured_output",), ("structured_output", "tools"), ("reasoning_history",)]
)
def test_preparing_changes_nothing_of_the_callers(backend: Backend, without: tuple[str, ...]) -> None:
    request = replace(EVERYTHING, tools=()) if "tools" in without else EVERYTHING
    kept = shape(request)
    backend.adapter().prepare(request, Target(candidate=ME, model_id="m"), without=frozenset(without))
    assert shape(request) == kept


def test_preparing_twice_gives_the_same(backend: Backend) -> None:
    adapter, target = backend.adapter(), Target(candidate=ME, model_id="m")
    assert adapter.prepare(EVERYTHING, target).body == adapter.prepare(EVERYTHING, target).body


def test_a_prepared_request_shows_nothing_of_the_prompt(backend: Backend) -> None:
    assert SECRET not in repr(prepared_by(backend.adapter()))


def test_a_parameter_is_sent_or_reported_as_dropped(backend: Backend) -> None:
    prepared = prepared_by(backend.adapter(), temperature=0.5, top_p=0.9, stop=("END",), reasoning="low")
    body = json.dumps(dict(prepared.body))
    for name, wire in (("temperature", "0.5"), ("top_p", "0.9"), ("stop", "END"), ("reasoning", "low")):
        assert (name in prepared.dropped) != (wire in body), name


def test_an_override_to_none_takes_the_field_out(backend: Backend) -> None:
    overrides = {"here/model": {"max_tokens": None, "stop": None}, "other/model": {"max_tokens": 1}}
    body = json.dumps(dict(prepared_by(backend.adapter(), max_tokens=4711, stop=("E.N.D",), overrides=overrides).body))
    assert "4711" not in body
    assert "E.N.D" not in body


def test_FS_127_an_override_replaces_the_field(backend: Backend) -> None:
    overrides = {"here/model": {"max_tokens": 4712}}
    body = json.dumps(dict(prepared_by(backend.adapter(), max_tokens=4711, overrides=overrides).body))
    assert "4712" in body
    assert "4711" not in body


def test_extra_fields_go_to_the_provider_that_they_name(backend: Backend) -> None:
    extra = {"here": {"custom": {"a": 1}}, "elsewhere": {"foreign": 1}}
    body = prepared_by(backend.adapter(), extra=extra).body
    assert body["custom"] == {"a": 1}
    assert "foreign" not in body


def test_doing_without_a_parameter_takes_it_out(backend: Backend) -> None:
    extra = {"here": {"custom": 1}}
    assert "custom" not in prepared_by(backend.adapter(), extra=extra, without={"parameter:custom"}).body


def test_FS_080_a_tool_hosted_elsewhere_is_unsupported(backend: Backend) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepared_by(backend.adapter(), tools=(HostedTool(vendor="elsewhere", spec={"type": "web_search"}),))
    assert raised.value.feature == "hosted_tool"


ORPHANS = {
    "call": (*HI, Message("assistant", (ToolCall(id="a", name="f", arguments="{}"),)), Message("user", "go on")),
    "last_call": (*HI, Message("assistant", (ToolCall(id="a", name="f", arguments="{}"),))),
    "result": (*HI, Message("assistant", "no"), Message("tool", (ToolResult(call_id="a", content="x"),))),
}


@pytest.mark.parametrize("orphan", ORPHANS)
def test_an_orphaned_call_or_result_is_refused_before_any_request(backend: Backend, orphan: str) -> None:
    with pytest.raises(InvalidRequestError):
        prepared_by(backend.adapter(), ORPHANS[orphan])


@pytest.mark.parametrize("choice", ["required", ToolName("lookup")])
def test_asking_for_a_tool_without_tools_is_refused(backend: Backend, choice: Any) -> None:
    with pytest.raises(InvalidRequestError):
        prepared_by(backend.adapter(), tool_choice=choice)


def tool_history(identifier: str) -> tuple[Message, ...]:
    call = ToolCall(id=identifier, name="lookup", arguments='{"q": "a"}')
    return (*HI, Message("assistant", (call,)), Message("tool", (ToolResult(call_id=identifier, content="x"),)))


def values(body: object, name: str) -> Iterator[object]:
    """Yield every value of a field called *name*, wherever it stands."""
    if isinstance(body, dict):
        yield from (value for key, value in body.items() if key == name)
        for value in body.values():
            yield from values(value, name)
    elif isinstance(body, list | tuple):
        for value in body:
            yield from values(value, name)


@pytest.mark.parametrize("identifier", ["call_" + "9" * 90, "toolu_01.Z", "a|b"])
def test_FS_078_a_foreign_id_is_good_on_the_wire_and_the_same_each_time(backend: Backend, identifier: str) -> None:
    bodies = [prepared_by(backend.adapter(), tool_history(identifier), tools=(LOOKUP,)).body for _ in range(2)]
    assert bodies[0] == bodies[1]
    results = [
        *values(dict(bodies[0]), "tool_call_id"),
        *values(dict(bodies[0]), "tool_use_id"),
        *values(dict(bodies[0]), "call_id"),
        *(result["id"] for result in values(dict(bodies[0]), "functionResponse") if isinstance(result, dict)),
    ]
    assert results
    for wire in results:
        assert isinstance(wire, str)
        assert len(wire) <= 64
        assert json.dumps(dict(bodies[0])).count(json.dumps(wire)) == 2


def test_FS_096_a_foreign_signature_is_never_on_the_wire(backend: Backend) -> None:
    foreign = Reasoning(text="hm", signature="foreign-sig", opaque=None, issuer=Candidate("elsewhere", "model"))
    history = (*HI, Message("assistant", (foreign, Text("a"))), Message("user", "b"))
    assert "foreign-sig" not in json.dumps(dict(prepared_by(backend.adapter(), history).body))


def test_another_vendors_blocks_and_hints_are_never_on_the_wire(backend: Backend) -> None:
    parts = (Opaque(vendor="elsewhere", data={"k": "foreign"}), Text("a", {"elsewhere": {"hint": "foreign"}}))
    message = Message("user", parts, extra={"elsewhere": {"hint": "foreign"}})
    assert "foreign" not in json.dumps(dict(prepared_by(backend.adapter(), (message,)).body))


def test_FS_081_a_request_with_tools_is_never_sent_without_them(backend: Backend) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepared_by(backend.adapter(), tools=(LOOKUP,), without={"tools"})
    assert raised.value.feature == "tools"


# ---------------------------------------------------------------- plain answers


async def test_an_answer_has_its_text_and_everything_around_it(backend: Backend) -> None:
    backend.answers(Said(("Hel", "lo")))
    reply = await ask(backend)
    assert [part.text for part in reply.parts if isinstance(part, Text)] == ["Hello"]
    assert (reply.finish_reason, reply.model, reply.request_id) == (FinishReason.STOP, "model-dated", "req_1")
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.partial) == (7, 3, False)


async def test_headers_are_kept_under_lower_case_names(backend: Backend) -> None:
    backend.answers(Said(("a",)))
    reply = await ask(backend)
    assert reply.headers["x-ratelimit-remaining"] == "5"
    assert all(name == name.lower() for name in reply.headers)


async def test_the_raw_answer_is_there_and_shows_nothing(backend: Backend) -> None:
    backend.answers(Said((SECRET,)))
    reply = await ask(backend)
    assert reply.raw is not None
    assert SECRET in json.dumps(dict(reply.raw.body))
    assert SECRET not in repr(reply.raw) + repr(reply)
    assert "model-dated" in repr(reply.raw.typed())


async def test_what_was_dropped_is_on_the_reply(backend: Backend) -> None:
    backend.answers(Said(("a",)))
    adapter = backend.adapter()
    prepared = replace(prepared_by(adapter), dropped=("seed",))
    assert (await adapter.complete(prepared, KEY, Timeouts())).dropped == ("seed",)


async def test_tool_calls_are_read_in_order(backend: Backend) -> None:
    backend.answers(Said(calls=(Call("f", ('{"a": 1}',)), Call("g", ("{}",), id="call_2")), finish="tool"))
    reply = await ask(backend, tools=(Tool(name="f"), Tool(name="g")))
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    assert [(call.id, call.name, call.parsed()) for call in calls] == [("call_1", "f", {"a": 1}), ("call_2", "g", {})]
    assert reply.finish_reason is FinishReason.TOOL_CALLS


async def test_an_answer_cut_by_the_limit_says_so(backend: Backend) -> None:
    backend.answers(Said(("half an",), finish="length"))
    assert (await ask(backend)).finish_reason is FinishReason.LENGTH


async def test_a_reply_goes_back_as_history(backend: Backend) -> None:
    backend.answers(Said(("look",), calls=(Call("f", ('{"a": 1}',)),), finish="tool"))
    reply = await ask(backend, tools=(Tool(name="f"),))
    history = (*HI, Message("assistant", reply.parts), Message("tool", (ToolResult(call_id="call_1", content="x"),)))
    await ask(backend, history, tools=(Tool(name="f"),))
    assert len(backend.bodies) == 2


@pytest.mark.parametrize("without", [(), ("structured_output",)])
async def test_FS_090_a_structured_answer_is_its_json_as_text(backend: Backend, without: tuple[str, ...]) -> None:
    adapter = backend.adapter()
    prepared = prepared_by(adapter, output=PERSON, without=without)
    assert "age" in json.dumps(dict(prepared.body))
    if prepared.answer_tool is None:
        backend.answers(Said(('{"age": 3}',)))
    else:
        backend.answers(Said(calls=(Call(prepared.answer_tool, ('{"age": 3}',)),), finish="tool"))
    reply = await adapter.complete(prepared, KEY, Timeouts())
    assert json.loads("".join(part.text for part in reply.parts if isinstance(part, Text))) == {"age": 3}
    assert not [part for part in reply.parts if isinstance(part, ToolCall)]
    assert reply.finish_reason is FinishReason.STOP


def test_FS_091_without_schema_and_tools_the_schema_is_in_the_prompt(backend: Backend) -> None:
    prepared = prepared_by(backend.adapter(), output=PERSON, without={"structured_output", "tools"})
    assert prepared.answer_tool is None
    assert not {"tools", "response_format", "output_config", "text"} & prepared.body.keys()
    assert "age" in json.dumps(dict(prepared.body))


# ---------------------------------------------------------------- what is no answer


async def test_an_empty_answer_is_a_failure_that_keeps_its_usage(backend: Backend) -> None:
    backend.answers(Said())
    error = await failure(backend)
    assert isinstance(error, EmptyResponseError)
    assert error.usage is not None
    assert (error.usage.input_tokens, error.request_id, error.status) == (7, "req_1", 200)


NO_ANSWERS = [
    (b"<html>" + SECRET.encode() + b"</html>", "text/html"),
    (b'{"id": "x", "cho', "application/json"),
    (b"", "application/json"),
    (b"null", "application/json"),
    (b"[]", "application/json"),
    (b'"' + SECRET.encode() + b'"', "application/json"),
    (b"\xff\xfe", "application/json"),
    (b'{"id": "x"}', "application/json"),
]


@pytest.mark.parametrize(("body", "content_type"), NO_ANSWERS)
async def test_a_success_without_an_answer_is_malformed(backend: Backend, body: bytes, content_type: str) -> None:
    backend.sends(body, content_type)
    error = await failure(backend)
    assert isinstance(error, MalformedResponseError)
    assert (error.status, error.request_id) == (200, "req_1")
    assert SECRET not in str(error)


@pytest.mark.parametrize(("body", "content_type"), [*NO_ANSWERS[:2], NO_ANSWERS[7]])
async def test_a_document_instead_of_a_stream_is_malformed(backend: Backend, body: bytes, content_type: str) -> None:
    backend.sends(body, content_type)
    events, error = await broken(backend)
    assert isinstance(error, MalformedResponseError)
    assert not of((TextDelta, Finished), events)
    assert error.request_id == "req_1"
    assert backend.open_responses == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_within_a_success_is_that_error(backend: Backend, stream: bool) -> None:
    assert isinstance(backend, HttpBackend)
    backend.sends(json.dumps(backend.error("overloaded")).encode(), "application/json")
    error = (await broken(backend))[1] if stream else await failure(backend)
    assert error.kind is Kind.OVERLOADED
    assert SECRET not in str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Kind.AUTHENTICATION),
        (403, Kind.PERMISSION),
        (429, Kind.RATE_LIMITED),
        (500, Kind.SERVER_ERROR),
        (503, Kind.OVERLOADED),
        (529, Kind.OVERLOADED),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_status_is_told_for_what_it_is(backend: Backend, status: int, kind: Kind, stream: bool) -> None:
    backend.refuses(status, retry_after="7")
    error = (await broken(backend))[1] if stream else await failure(backend)
    assert (error.kind, error.status, error.request_id) == (kind, status, "req_1")
    assert error.retry_after == 7.0 or kind in (Kind.AUTHENTICATION, Kind.PERMISSION)
    assert error.__cause__ is not None
    assert SECRET not in str(error) + repr(error)
    assert pickle.loads(pickle.dumps(error)).kind is kind
    assert len(backend.bodies) == 1


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpx2.ConnectError("refused"), ConnectionFailedError),
        (httpx2.RemoteProtocolError("cut"), ConnectionFailedError),
        (httpx2.ReadTimeout("silent"), AttemptTimeoutError),
    ],
)
async def test_a_broken_transport_is_told_for_what_it_is(
    backend: Backend, raised: Exception, expected: type[ReliableLLMError]
) -> None:
    backend.raises(raised)
    error = await failure(backend)
    assert isinstance(error, expected)
    assert len(backend.bodies) == 1


async def test_FS_043_a_callers_own_error_passes_as_raised(backend: Backend) -> None:
    backend.raises(LookupError("a bug in a hook"))
    with pytest.raises(LookupError):
        await ask(backend)


@pytest.mark.parametrize("stream", [False, True])
async def test_cancellation_passes_as_it_is(backend: Backend, stream: bool) -> None:
    asked = backend.hangs()
    task: asyncio.Task[object] = asyncio.ensure_future(listen(backend) if stream else ask(backend))
    await asyncio.wait_for(asked.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---------------------------------------------------------------- keys and connections


async def test_each_call_carries_its_own_key(backend: Backend) -> None:
    backend.answers(Said(("a",)))
    adapter = backend.adapter()
    prepared = prepared_by(adapter)
    for secret in ("sk-a", "sk-b", "sk-a"):
        await adapter.complete(prepared, Credential(secret, label=secret), Timeouts())
    assert backend.keys == ["sk-a", "sk-b", "sk-a"]


async def test_a_stray_key_in_the_environment_is_not_used(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "stray")
    backend.answers(Said(("a",)))
    await ask(backend)
    assert backend.keys == ["sk-secret"]


@pytest.mark.parametrize("backend_class", [OpenAIChat, OpenAIResponses, Anthropic])
@pytest.mark.parametrize(
    "base", ["http://vendor.test", "http://vendor.test/", "http://vendor.test/p", "http://vendor.test/p/"]
)
async def test_an_address_may_end_in_a_slash_or_not(backend_class: type[HttpBackend], base: str) -> None:
    backend = backend_class()
    backend.base_url = base
    backend.answers(Said(("a",)))
    await ask(backend)
    assert str(backend.requests[0].url).startswith(base.rstrip("/") + "/")


async def test_an_adapter_may_be_warmed_closed_and_used_again(backend: Backend) -> None:
    backend.answers(Said(("a",)))
    adapter = backend.adapter()
    await adapter.warmup()
    prepared = prepared_by(adapter)
    for _ in range(2):
        await adapter.complete(prepared, KEY, Timeouts())
        await adapter.aclose()
    assert len(backend.bodies) == 2


def test_an_adapter_works_in_a_second_event_loop(backend: Backend) -> None:
    backend.answers(Said(("a",)))
    adapter = backend.adapter()
    prepared = prepared_by(adapter)
    for _ in range(2):
        asyncio.run(adapter.complete(prepared, KEY, Timeouts()))
    assert len(backend.bodies) == 2


# ---------------------------------------------------------------- streams


async def test_a_stream_gives_its_text_in_pieces_and_ends_after_finished(backend: Backend) -> None:
    backend.streams(Said(("Hel", "lo")))
    events, reply = await listen(backend)
    assert of(TextDelta, events) == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(events[-1], Finished)
    assert len(of(Finished, events)) == 1
    assert "".join(part.text for part in reply.parts if isinstance(part, Text)) == "Hello"
    assert (reply.finish_reason, reply.model, reply.request_id) == (FinishReason.STOP, "model-dated", "req_1")


async def test_a_streams_usage_is_final_at_its_end(backend: Backend) -> None:
    backend.streams(Said(("a",)))
    events, reply = await listen(backend)
    (finished,) = of(Finished, events)
    assert isinstance(finished, Finished)
    assert finished.usage == reply.usage
    assert finished.usage is not None
    assert (finished.usage.input_tokens, finished.usage.output_tokens, finished.usage.partial) == (7, 3, False)


async def test_a_finished_stream_stays_finished(backend: Backend) -> None:
    backend.streams(Said(("a",)))
    adapter = backend.adapter()
    async with adapter.stream(prepared_by(adapter, stream=True), KEY, Timeouts()) as stream:
        assert [event async for event in stream]
        assert [event async for event in stream] == []


async def test_streamed_tool_calls_begin_grow_and_end_in_order(backend: Backend) -> None:
    said = Said(("x",), calls=(Call("f", ('{"a"', ": 1}")), Call("g", ("{}",), id="call_2")), finish="tool")
    backend.streams(said)
    events, reply = await listen(backend, tools=(Tool(name="f"), Tool(name="g")))
    for index, call in enumerate(said.calls):
        own = [
            e for e in of((ToolCallStarted, ToolCallDelta, ToolCallEnded), events) if getattr(e, "index", None) == index
        ]
        assert own[0] == ToolCallStarted(index, call.id, call.name)
        assert "".join(event.arguments for event in own if isinstance(event, ToolCallDelta)) == call.arguments
        assert isinstance(own[-1], ToolCallEnded)
        assert (own[-1].call.id, own[-1].call.name, own[-1].call.arguments) == (call.id, call.name, call.arguments)
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    assert [call.id for call in calls] == ["call_1", "call_2"]
    assert reply.finish_reason is FinishReason.TOOL_CALLS


async def test_a_stream_and_a_plain_answer_give_the_same_reply(backend: Backend) -> None:
    said = Said(("Hel", "lo"), calls=(Call("f", ('{"a": 1}',)),), finish="tool")
    backend.answers(said)
    plain = await ask(backend, tools=(Tool(name="f"),))
    backend.streams(said)
    _, streamed = await listen(backend, tools=(Tool(name="f"),))
    assert [shape(part) for part in streamed.parts] == [shape(part) for part in plain.parts]
    assert (streamed.finish_reason, streamed.usage) == (plain.finish_reason, plain.usage)


@pytest.mark.parametrize("without", [(), ("structured_output",)])
async def test_a_structured_answer_streams_as_text(backend: Backend, without: tuple[str, ...]) -> None:
    name = prepared_by(backend.adapter(), output=PERSON, without=without).answer_tool
    pieces = ('{"age"', ": 3}")
    backend.streams(Said(pieces) if name is None else Said(calls=(Call(name, pieces),), finish="tool"))
    events, reply = await listen(backend, output=PERSON, without=without)
    assert json.loads("".join(event.text for event in events if isinstance(event, TextDelta))) == {"age": 3}
    assert not of((ToolCallStarted, ToolCallEnded), events)
    assert json.loads("".join(part.text for part in reply.parts if isinstance(part, Text))) == {"age": 3}


async def test_an_empty_stream_is_a_failure_that_keeps_its_usage(backend: Backend) -> None:
    backend.streams(Said())
    events, error = await broken(backend)
    assert isinstance(error, EmptyResponseError)
    assert error.usage is not None
    assert not of(Finished, events)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("eof", Kind.CONNECTION),
        ("cut", Kind.CONNECTION),
        ("error", Kind.OVERLOADED),
        ("bad_json", Kind.MALFORMED_RESPONSE),
    ],
)
async def test_a_break_before_output_is_told_as_what_it_is(backend: Backend, ending: Ending, kind: Kind) -> None:
    backend.streams(Said(), ending)
    events, error = await broken(backend)
    assert error.kind is kind
    assert not [event for event in events if isinstance(event, TextDelta | ToolCallStarted | Finished)]
    assert error.request_id == "req_1"
    assert backend.open_responses == 0


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("eof", Kind.CONNECTION),
        ("cut", Kind.CONNECTION),
        ("error", Kind.OVERLOADED),
        ("bad_json", Kind.MALFORMED_RESPONSE),
    ],
)
async def test_FS_047_a_break_after_output_is_an_interruption(backend: Backend, ending: Ending, kind: Kind) -> None:
    backend.streams(Said(("half ", "an")), ending)
    events, error = await broken(backend)
    assert isinstance(error, StreamInterruptedError)
    assert (error.partial_text, error.cause_kind, error.request_id) == ("half an", kind, "req_1")
    assert of(TextDelta, events) == [TextDelta("half "), TextDelta("an")]
    assert not of(Finished, events)
    assert SECRET not in str(error)
    assert pickle.loads(pickle.dumps(error)).partial_text == "half an"
    assert backend.open_responses == 0


@pytest.mark.parametrize("ending", ["eof", "cut", "error", "bad_json"])
async def test_FS_082_a_cut_tool_call_is_never_whole(backend: Backend, ending: Ending) -> None:
    if backend.whole_calls:
        pytest.skip("calls come in one piece")
    backend.streams(Said(calls=(Call("write", ('{"path": "/a", "text": "hal',)),)), ending)
    events, error = await broken(backend, tools=(Tool(name="write"),))
    assert isinstance(error, StreamInterruptedError)
    assert not of((ToolCallEnded, Finished), events)
    assert [call.name for call in error.partial_tool_calls] == ["write"]
    assert pickle.loads(pickle.dumps(error)).partial_tool_calls == error.partial_tool_calls


@pytest.mark.parametrize("stop_at", [TextDelta, Alive, None])
async def test_leaving_a_stream_closes_its_response(backend: Backend, stop_at: type | None) -> None:
    backend.streams(Said(("a", "b", "c")))
    adapter = backend.adapter()
    async with adapter.stream(prepared_by(adapter, stream=True), KEY, Timeouts()) as stream:
        if stop_at is not None:
            async for event in stream:
                if isinstance(event, stop_at):
                    break
    assert backend.open_responses == 0


async def test_an_error_in_the_consumer_passes_and_closes_the_response(backend: Backend) -> None:
    backend.streams(Said(("a", "b", "c")))
    adapter = backend.adapter()
    with pytest.raises(LookupError):
        async with adapter.stream(prepared_by(adapter, stream=True), KEY, Timeouts()):
            raise LookupError
    assert backend.open_responses == 0


async def test_the_reply_so_far_can_be_had_at_any_time(backend: Backend) -> None:
    backend.streams(Said(("Hel", "lo")))
    adapter = backend.adapter()
    async with adapter.stream(prepared_by(adapter, stream=True), KEY, Timeouts()) as stream:
        assert stream.reply().parts == ()
        replies = [stream.reply() async for event in stream if isinstance(event, TextDelta)]
    assert {"".join(part.text for part in reply.parts if isinstance(part, Text)) for reply in replies} <= {
        "Hel",
        "Hello",
    }
