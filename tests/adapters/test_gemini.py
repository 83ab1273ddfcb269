"""The Gemini adapter beyond the common contract: its format, its signatures, its ways of not answering."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from google.genai.types import Content
from hypothesis import given, settings

from reliable_llm import Conversation, FailoverChat, Provider, RetryPolicy
from reliable_llm.adapters.gemini_format import NO_SIGNATURE
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    ContentPolicyError,
    InvalidRequestError,
    Kind,
    MalformedResponseError,
    StreamInterruptedError,
    UnsupportedFeatureError,
)
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
    AdapterReply,
    Candidate,
    ChatRequest,
    Document,
    FinishReason,
    Image,
    Message,
    OutputSchema,
    Reasoning,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolName,
    ToolResult,
)
from tests.adapters.backends import Call, Gemini, Said
from tests.support import Vendor, openai_error, openai_ok
from tests.test_conversation import histories

ME, OTHER = Candidate("here", "model"), Candidate("here", "other")
KEY = Credential("sk-secret", label="here#1")
HI = Message("user", "hi")
LOOKUP = Tool(name="lookup", description="Looks up.", parameters={"properties": {"q": {"type": "string"}}})
CALL = ToolCall(id="c1", name="lookup", arguments='{"q": "a"}')
RESULT = Message("tool", (ToolResult(call_id="c1", content="found"),))


def prepared(*messages: Message, without: tuple[str, ...] = (), candidate: Candidate = ME, **asked: Any) -> Any:
    from reliable_llm.adapters.base import Target

    request = ChatRequest(messages=messages or (HI,), **asked)
    target = Target(candidate=candidate, model_id="gemini-x")
    return Gemini().adapter().prepare(request, target, without=frozenset(without))


def contents(*messages: Message, **asked: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = json.loads(prepared(*messages, **asked).content)["contents"]
    return sent


async def answer(backend: Gemini, *messages: Message, **asked: Any) -> AdapterReply:
    reply: AdapterReply = await backend.adapter().complete(prepared(*messages, **asked), KEY, Timeouts())
    return reply


# ---------------------------------------------------------------- the request


def test_the_system_prompt_stands_apart() -> None:
    body = prepared(Message("system", "Be brief."), HI).body

    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_pictures_and_documents_go_as_data_and_by_url() -> None:
    parts = (
        Image(data=b"x", media_type="image/png"),
        Image(url="https://x/a.png?big"),
        Image(url="data:image/gif;base64,eA=="),
        Document(data=b"x"),
    )

    assert contents(Message("user", parts))[0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x/a.png?big"}},
        {"inlineData": {"mimeType": "image/gif", "data": "eA=="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "eA=="}},
    ]


def test_a_picture_by_url_without_a_known_type_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        contents(Message("user", (Image(url="https://x/a"),)))
    assert raised.value.feature == "vision"


def test_a_result_is_named_after_its_call_and_a_failed_one_says_so() -> None:
    failed = Message("tool", (ToolResult(call_id="c1", content="broke", is_error=True),))

    sent = contents(HI, Message("assistant", (CALL,)), failed)

    assert sent[2] == {
        "role": "user",
        "parts": [{"functionResponse": {"id": "c1", "name": "lookup", "response": {"error": "broke"}}}],
    }


def test_what_the_user_says_after_results_stands_after_them() -> None:
    sent = contents(HI, Message("assistant", (CALL,)), RESULT, Message("user", "and?"))

    assert [next(iter(part)) for part in sent[2]["parts"]] == ["functionResponse", "text"]


def test_tools_and_their_choice_are_function_declarations_and_a_mode() -> None:
    body = prepared(tools=(LOOKUP,), tool_choice=ToolName("lookup")).body

    assert body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["type"] == "object"
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["lookup"]}}


def test_a_choice_of_no_tool_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        prepared(tools=(LOOKUP,), tool_choice=ToolName("other"))


@pytest.mark.parametrize(("effort", "sent"), [("low", "low"), ("xhigh", "xhigh"), ("none", None), ("max", None)])
def test_efforts_become_thinking_levels_where_there_is_a_word_for_them(effort: str, sent: str | None) -> None:
    made = prepared(reasoning=effort)

    level = made.body.get("generationConfig", {}).get("thinkingConfig", {}).get("thinkingLevel")
    assert (level, made.dropped) == (sent, () if sent else ("reasoning",))


def test_what_has_no_word_is_reported() -> None:
    picture = Message("user", (Image(url="https://x/a.png", detail="low"),), name="ann")

    assert prepared(picture, tools=(LOOKUP,), parallel_tool_calls=False).dropped == (
        "image_detail",
        "name",
        "parallel_tool_calls",
    )


def test_a_schema_goes_natively() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}

    sent = prepared(output=OutputSchema(name="A", schema=schema)).body["generationConfig"]

    assert sent == {"responseMimeType": "application/json", "responseJsonSchema": schema}


def test_a_parameter_to_do_without_is_left_out_and_reported() -> None:
    made = prepared(temperature=0.5, top_p=0.5, without=("parameter:temperature",))

    assert (made.body["generationConfig"], made.dropped) == ({"topP": 0.5}, ("temperature",))


# ---------------------------------------------------------------- signatures


async def test_a_signature_goes_back_to_the_model_that_gave_it() -> None:
    backend = Gemini()
    call = {"functionCall": {"name": "lookup", "args": {}}, "thoughtSignature": "sig-1"}
    backend.sends(json.dumps(backend._chunk([call], "STOP", None)).encode(), "application/json")

    reply = await answer(backend, tools=(LOOKUP,))
    (made,) = reply.parts
    assert isinstance(made, ToolCall)
    told = (HI, Message("assistant", reply.parts), Message("tool", (ToolResult(call_id=made.id, content="x"),)))

    signed = [contents(*told, candidate=candidate)[1]["parts"][0]["thoughtSignature"] for candidate in (ME, OTHER)]
    assert signed == ["sig-1", NO_SIGNATURE]


def test_calls_of_another_vendor_carry_one_stand_in_per_turn() -> None:
    second = ToolCall(id="c2", name="lookup", arguments="{}")
    results = Message("tool", (ToolResult(call_id="c1"), ToolResult(call_id="c2")))

    parts = contents(HI, Message("assistant", (CALL, second)), results)[1]["parts"]

    assert [part.get("thoughtSignature") for part in parts] == [NO_SIGNATURE, None]


def test_thoughts_go_back_to_their_issuer_only() -> None:
    thought = Reasoning(text="hm", signature="s", issuer=ME)
    told = (HI, Message("assistant", (thought, Text("a"))), HI)

    assert contents(*told)[1]["parts"][0] == {"text": "hm", "thought": True, "thoughtSignature": "s"}
    assert [part["text"] for part in contents(*told, candidate=OTHER)[1]["parts"]] == ["a"]


async def test_an_answer_goes_back_as_it_came() -> None:
    backend = Gemini()
    parts = [
        {"text": "hm", "thought": True},
        {"text": "Let me see.", "thoughtSignature": "s1"},
        {"functionCall": {"id": "f1", "name": "lookup", "args": {"q": "é"}}, "thoughtSignature": "s2"},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
    ]
    backend.sends(json.dumps(backend._chunk(parts, "STOP", None)).encode(), "application/json")

    reply = await answer(backend, tools=(LOOKUP,))
    told = (HI, Message("assistant", reply.parts), Message("tool", (ToolResult(call_id="f1", content="x"),)))

    assert contents(*told)[1]["parts"] == parts


# ---------------------------------------------------------------- answers that are none


async def test_a_blocked_prompt_is_a_matter_of_policy() -> None:
    backend = Gemini()
    backend.sends(json.dumps({"promptFeedback": {"blockReason": "SAFETY"}}).encode(), "application/json")

    with pytest.raises(ContentPolicyError):
        await answer(backend)


@pytest.mark.parametrize(("reason", "error"), [("SAFETY", ContentPolicyError), ("RECITATION", ContentPolicyError)])
async def test_a_withheld_answer_is_a_matter_of_policy(reason: str, error: type[Exception]) -> None:
    backend = Gemini()
    backend.sends(json.dumps(backend._chunk([], reason, None)).encode(), "application/json")

    with pytest.raises(error):
        await answer(backend)


async def test_a_call_that_the_model_got_wrong_is_tried_again() -> None:
    backend = Gemini()
    backend.sends(json.dumps(backend._chunk([], "MALFORMED_FUNCTION_CALL", None)).encode(), "application/json")

    with pytest.raises(MalformedResponseError) as raised:
        await answer(backend, tools=(LOOKUP,))
    assert raised.value.verdict.retry_same


async def test_thoughts_count_as_output_and_are_named() -> None:
    backend = Gemini()
    usage = {"promptTokenCount": 7, "cachedContentTokenCount": 2, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    backend.sends(json.dumps(backend._chunk([{"text": "a"}], "STOP", usage)).encode(), "application/json")

    reply = await answer(backend)

    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.reasoning_tokens) == (7, 7, 4)


async def test_a_stream_cut_after_a_whole_call_is_interrupted() -> None:
    backend = Gemini()
    backend.streams(Said(("I look",), calls=(Call("lookup", ("{}",)),)), "eof")
    adapter = backend.adapter()

    seen: list[object] = []
    with pytest.raises(StreamInterruptedError) as raised:
        async with adapter.stream(prepared(tools=(LOOKUP,)), KEY, Timeouts()) as stream:
            seen += [event async for event in stream]
    assert (raised.value.partial_text, raised.value.cause_kind) == ("I look", Kind.CONNECTION)


# ---------------------------------------------------------------- one request per call


async def test_the_sdk_neither_retries_nor_asks_on_by_itself() -> None:
    backend = Gemini()
    backend.sends(json.dumps(backend._chunk([{"text": "half"}], "CONTINUATION", None)).encode(), "application/json")

    reply = await answer(backend)

    assert (len(backend.requests), reply.finish_reason) == (1, FinishReason.OTHER)


@pytest.mark.parametrize(("stream", "path"), [(False, "generateContent"), (True, "streamGenerateContent")])
async def test_the_request_is_the_sdks_with_our_body(stream: bool, path: str) -> None:
    backend = Gemini()
    backend.streams(Said(("a",))) if stream else backend.answers(Said(("a",)))
    adapter, made = backend.adapter(), prepared()
    if stream:
        async with adapter.stream(made, KEY, Timeouts()) as opened:
            assert TextDelta("a") in [event async for event in opened]
    else:
        await adapter.complete(made, KEY, Timeouts())

    request = backend.requests[0]
    assert request.url.path.endswith(f"/models/gemini-x:{path}")
    assert json.loads(request.content) == {**made.body, "generationConfig": {}}  # its own, and empty
    assert "google-genai-sdk" in request.headers["x-goog-api-client"]


# ---------------------------------------------------------------- as a provider


def gemini(backend: Gemini) -> Provider:
    made = backend.adapter()._client._settings
    return Provider.gemini(models=["gemini-x"], keys=["k"], base_url=backend.base_url, http_client=made.http_client)


async def test_gemini_goes_on_where_openai_left_off() -> None:
    backend = Gemini()
    backend.answers(Said(("It rains.",)))
    call = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    first = openai_ok(None, finish="tool_calls")
    body = json.loads(first.content)
    body["choices"][0]["message"]["tool_calls"] = [call]
    openai = Vendor(type(first)(200, json=body), openai_error(503))
    chat = FailoverChat([openai.openai(), gemini(backend)], retry=RetryPolicy(max_retries=0))
    conversation = Conversation("Weather?")

    reply = await chat(conversation, tools=[LOOKUP])
    conversation.append(reply).add_result(reply.tool_calls[0], "rain")
    last = await chat(conversation, tools=[LOOKUP])

    assert (str(last.served_by), last.text) == ("gemini/gemini-x", "It rains.")


async def test_a_structured_answer_of_geminis_is_parsed() -> None:
    backend = Gemini()
    backend.answers(Said(('{"a": 1}',)))

    reply = await FailoverChat([gemini(backend)])("hi", output={"type": "object"})

    assert reply.parsed == {"a": 1}


def test_the_key_comes_from_the_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")

    assert [key.reveal() for key in Provider.gemini(models=["m"]).keys] == ["k"]


@settings(max_examples=80, deadline=None)
@given(histories())
def test_any_legal_history_is_what_the_sdks_types_accept(history: tuple[Message, ...]) -> None:
    sent = contents(*history)

    for content in sent:
        Content.model_validate(content)
    calls = [part["functionCall"]["id"] for each in sent for part in each["parts"] if "functionCall" in part]
    results = [part["functionResponse"]["id"] for each in sent for part in each["parts"] if "functionResponse" in part]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    assert all(before["role"] != after["role"] for before, after in itertools.pairwise(sent))
