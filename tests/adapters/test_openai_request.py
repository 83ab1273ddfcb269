"""A neutral request in OpenAI's terms: chat completions."""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.adapters.base import AdapterSettings, Prepared, Target
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.adapters.openai_request import strict_schema
from reliable_llm.adapters.tool_ids import wire_id
from reliable_llm.errors import InvalidRequestError, UnsupportedFeatureError
from reliable_llm.types import (
    Candidate,
    ChatRequest,
    Document,
    HostedTool,
    Image,
    Message,
    Opaque,
    OutputSchema,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolName,
    ToolResult,
)

TARGET = Target(candidate=Candidate("openai", "gpt"), model_id="gpt-dated")
HELLO = Message("user", "hello")
LOOKUP = Tool(name="lookup", description="Looks up.", parameters={"type": "object", "properties": {"q": {}}})
PERSON = OutputSchema(
    name="Person",
    schema={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)


def prepared(*messages: Message, vendor: str = "openai", without: tuple[str, ...] = (), **fields: Any) -> Prepared:
    stream = fields.pop("stream", False)
    request = ChatRequest(messages=messages or (HELLO,), **fields)
    adapter = OpenAIChatAdapter(AdapterSettings(vendor=vendor))
    return adapter.prepare(request, TARGET, stream=stream, without=frozenset(without))


def body_of(*messages: Message, **fields: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(prepared(*messages, **fields).content or b"")
    return sent


def messages_of(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = body_of(*messages, **fields)["messages"]
    return sent


# ---------------------------------------------------------------- messages


def test_the_vendors_own_model_id_is_sent() -> None:
    assert body_of()["model"] == "gpt-dated"


def test_text_messages_are_sent_as_strings() -> None:
    sent = messages_of(Message("system", "be brief"), HELLO, Message("assistant", "hi", name="bot"))
    assert sent == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi", "name": "bot"},
    ]


def test_pictures_go_by_url_and_as_data() -> None:
    parts = (Text("see"), Image(url="https://x/cat.png", detail="low"), Image(data=b"\x89P", media_type="image/png"))
    assert messages_of(Message("user", parts))[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x/cat.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVA="}},
    ]


def test_a_document_goes_as_a_file_with_a_name() -> None:
    sent = messages_of(Message("user", (Document(data=b"%PDF"), Document(data=b"%PDF", name="a.pdf"))))
    assert [part["file"]["filename"] for part in sent[0]["content"]] == ["document.pdf", "a.pdf"]


def test_a_document_by_url_is_a_feature_that_chat_lacks() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepared(Message("user", (Document(url="https://x/a.pdf"),)))
    assert raised.value.feature == "documents"


def test_empty_text_parts_are_never_sent() -> None:
    sent = messages_of(Message("user", (Text(""), Text("a"), Text(""))), Message("assistant", (Text(""),)), HELLO)
    assert sent == [{"role": "user", "content": "a"}, {"role": "user", "content": "hello"}]


def test_reasoning_is_not_sent_back() -> None:
    sent = messages_of(HELLO, Message("assistant", (Reasoning(text="hm"), Text("hi"))), HELLO)
    assert sent[1] == {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize(
    ("part", "dropped"),
    [
        (Reasoning(text="hm", issuer=TARGET.candidate), ()),
        (Reasoning(text="hm", issuer=Candidate("anthropic", "claude")), ("reasoning_history",)),
        (Reasoning(text="hm"), ("reasoning_history",)),
        (Opaque(vendor="anthropic", data={"type": "x"}), ("opaque",)),
        (Opaque(vendor="openai", data={"type": "refusal", "refusal": "no"}), ()),
    ],
)
def test_what_another_vendor_left_in_the_history_is_reported_as_dropped(part: Any, dropped: tuple[str, ...]) -> None:
    assert prepared(HELLO, Message("assistant", (part, Text("hi"))), HELLO).dropped == dropped


def test_an_assistant_turn_of_reasoning_alone_is_left_out() -> None:
    assert len(messages_of(HELLO, Message("assistant", (Reasoning(text="hm"),)), HELLO)) == 2


def test_opaque_parts_go_to_their_own_vendor_only() -> None:
    parts = (Text("a"), Opaque(vendor="openai", data={"type": "input_audio", "input_audio": {}}))
    sent = {v: messages_of(Message("user", parts), vendor=v)[0]["content"] for v in ("openai", "azure", "groq")}
    assert [len(content) if isinstance(content, list) else content for content in sent.values()] == [2, 2, "a"]


def test_opaque_items_of_another_endpoint_are_not_content() -> None:
    parts = (Opaque(vendor="openai", data={"type": "web_search_call", "id": "ws_1"}), Text("a"))
    assert messages_of(HELLO, Message("assistant", parts))[1] == {"role": "assistant", "content": "a"}


def test_extra_goes_to_the_vendor_it_was_kept_for_and_to_no_other() -> None:
    part = Text("a", extra={"openai": {"prompt_cache_breakpoint": True}, "anthropic": {"cache_control": {}}})
    message = Message("user", (part,), extra={"anthropic": {"x": 1}})
    assert messages_of(message) == [
        {"role": "user", "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": True}]}
    ]
    assert messages_of(message, vendor="groq") == [{"role": "user", "content": "a"}]


# ---------------------------------------------------------------- tool loops


CALLS = Message("assistant", (ToolCall(id="id1", name="f", arguments=""), ToolCall(id="id2", name="g", arguments="{}")))


def test_tool_calls_and_their_results_keep_their_order() -> None:
    sent = messages_of(
        HELLO,
        CALLS,
        Message("tool", (ToolResult(call_id="id2", content="two"),)),
        Message("tool", (ToolResult(call_id="id1", content=(Text("o"), Text("ne"))),)),
        Message("user", "sum"),
    )
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["function"]["arguments"] for call in sent[1]["tool_calls"]] == ["{}", "{}"]
    assert [(message["tool_call_id"], message["content"]) for message in sent[2:4]] == [
        ("id2", "two"),
        ("id1", "o\nne"),
    ]


def test_a_call_without_text_has_no_empty_text() -> None:
    turn = Message("assistant", (Text(""), ToolCall(id="id1", name="f", arguments="{}")))
    sent = messages_of(HELLO, turn, Message("tool", (ToolResult(call_id="id1", content="1"),)))
    assert sent[1]["content"] is None


def test_a_failed_tool_says_so_in_its_text() -> None:
    results = Message("tool", (ToolResult(call_id="id1", content="no disk", is_error=True), ToolResult(call_id="id2")))
    assert messages_of(HELLO, CALLS, results)[2]["content"] == "Error: no disk"


def test_pictures_in_a_tool_result_move_into_a_user_message_after_all_results() -> None:
    shot = ToolResult(call_id="id1", content=(Text("shot"), Image(url="https://x/1.png")))
    sent = messages_of(
        HELLO, CALLS, Message("tool", (shot,)), Message("tool", (ToolResult(call_id="id2", content="b"),))
    )
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[4]["content"]] == ["text", "image_url"]


def test_a_tool_result_of_pictures_alone_still_has_a_text() -> None:
    shot = ToolResult(call_id="id1", content=(Image(url="https://x/1.png"),))
    sent = messages_of(
        HELLO, CALLS, Message("tool", (shot, ToolResult(call_id="id2", content="b"))), Message("user", "?")
    )
    assert sent[2]["content"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user", "user"]


def test_results_in_a_user_message_come_before_its_text() -> None:
    parts = (Text("and now?"), ToolResult(call_id="id1", content="1"), ToolResult(call_id="id2", content="2"))
    sent = messages_of(HELLO, CALLS, Message("user", parts))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]


@pytest.mark.parametrize(
    "history",
    [
        (HELLO, CALLS),
        (HELLO, CALLS, HELLO),
        (HELLO, CALLS, Message("tool", (ToolResult(call_id="id1"),))),
        (
            HELLO,
            CALLS,
            Message("tool", (ToolResult(call_id="id1"),)),
            HELLO,
            Message("tool", (ToolResult(call_id="id2"),)),
        ),
        (HELLO, Message("tool", (ToolResult(call_id="id1"),))),
        (
            HELLO,
            CALLS,
            Message("tool", (ToolResult(call_id="id1"), ToolResult(call_id="id2"), ToolResult(call_id="id2"))),
        ),
        (
            HELLO,
            Message("assistant", (ToolCall(id="a", name="f", arguments=""), ToolCall(id="a", name="f", arguments=""))),
        ),
    ],
)
def test_orphaned_calls_and_results_are_refused_before_any_request(history: tuple[Message, ...]) -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\[\d\]"):
        prepared(*history)


FOREIGN = ["toolu_01.Z", "call_" + "9" * 90, "", "日本", "a b"]


@pytest.mark.parametrize("call_id", FOREIGN)
def test_a_foreign_id_is_sent_as_a_valid_one_in_call_and_result_alike(call_id: str) -> None:
    sent = messages_of(
        HELLO,
        Message("assistant", (ToolCall(id=call_id, name="f", arguments="{}"),)),
        Message("tool", (ToolResult(call_id=call_id, content="1"),)),
    )
    called, answered = sent[1]["tool_calls"][0]["id"], sent[2]["tool_call_id"]
    assert called == answered
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", called)


@given(st.text(max_size=100), st.text(max_size=100))
def test_ids_stay_valid_stable_and_apart(left: str, right: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire_id(left))
    assert wire_id(wire_id(left)) == wire_id(left)
    assert (wire_id(left) == wire_id(right)) == (left == right)


# ---------------------------------------------------------------- tools


def test_a_tool_is_sent_as_a_function() -> None:
    sent = body_of(tools=(LOOKUP, Tool(name="now", strict=True)), parallel_tool_calls=False)
    assert sent["tools"][0] == {
        "type": "function",
        "function": {"name": "lookup", "description": "Looks up.", "parameters": LOOKUP.parameters},
    }
    assert sent["tools"][1]["function"]["strict"] is True
    assert sent["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (ToolName("lookup"), {"type": "function", "function": {"name": "lookup"}}),
    ],
)
def test_every_form_of_tool_choice_has_its_word(choice: Any, wire: object) -> None:
    assert body_of(tools=(LOOKUP,), tool_choice=choice)["tool_choice"] == wire


@pytest.mark.parametrize(
    "fields", [{"tool_choice": "required"}, {"tools": (LOOKUP,), "tool_choice": ToolName("missing")}]
)
def test_a_choice_of_no_tool_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="tool_choice"):
        prepared(**fields)


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in body_of(tool_choice="auto")


def test_an_own_hosted_tool_is_passed_as_it_is() -> None:
    body = body_of(tools=(HostedTool(vendor="openai", spec={"type": "web_search"}),))
    assert body["tools"] == [{"type": "web_search"}]


def test_a_foreign_hosted_tool_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepared(tools=(HostedTool(vendor="anthropic", spec={"type": "web_search"}),))
    assert raised.value.feature == "hosted_tool"


def test_tools_are_not_silently_left_out_where_there_may_be_none() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepared(tools=(LOOKUP,), without=("tools",))
    assert raised.value.feature == "tools"


# ---------------------------------------------------------------- structured output


def test_a_schema_with_every_property_required_is_sent_strict_and_closed() -> None:
    sent = body_of(output=PERSON)["response_format"]
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 2}]}}, "required": ["a"]},
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "string"}]},
    ],
)
def test_a_schema_that_strict_mode_would_change_is_sent_as_it_is(schema: dict[str, Any]) -> None:
    sent = body_of(output=OutputSchema(name="x", schema=schema))["response_format"]["json_schema"]
    assert (sent["strict"], sent["schema"]) == (False, schema)


def test_nested_objects_are_closed_and_notes_left_out_in_strict_mode() -> None:
    schema = {
        "type": "object",
        "$defs": {
            "Pet": {"type": "object", "properties": {"n": {"type": "string", "default": "x"}}, "required": ["n"]}
        },
        "properties": {
            "pets": {"type": "array", "items": {"$ref": "#/$defs/Pet", "description": "one"}},
            "kind": {"oneOf": [{"type": "string"}, {"type": "null"}], "discriminator": {"propertyName": "k"}},
        },
        "required": ["pets", "kind"],
    }
    assert strict_schema(schema) == {
        "type": "object",
        "$defs": {
            "Pet": {
                "type": "object",
                "properties": {"n": {"type": "string"}},
                "required": ["n"],
                "additionalProperties": False,
            }
        },
        "properties": {
            "pets": {"type": "array", "items": {"$ref": "#/$defs/Pet"}},
            "kind": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["pets", "kind"],
        "additionalProperties": False,
    }


def test_strict_is_not_forced_on_those_who_decline() -> None:
    assert body_of(output=replace(PERSON, strict=False))["response_format"]["json_schema"]["strict"] is False


def test_a_schemas_name_is_made_valid() -> None:
    assert (
        body_of(output=replace(PERSON, name="list[Person]"))["response_format"]["json_schema"]["name"] == "list_Person_"
    )


def test_without_native_schemas_the_answer_is_asked_for_as_a_forced_tool_call() -> None:
    found = prepared(output=PERSON, without=("structured_output",))
    body: Any = found.body
    assert found.answer_tool == "Person"
    assert body["tools"][0]["function"]["parameters"] == PERSON.schema
    assert body["tool_choice"] == {"type": "function", "function": {"name": "Person"}}
    assert "response_format" not in body


def test_with_tools_of_the_callers_own_any_tool_will_do() -> None:
    found = prepared(output=PERSON, tools=(LOOKUP, Tool(name="Person")), without=("structured_output",))
    assert found.body["tool_choice"] == "required"
    assert found.answer_tool == "Person_answer"


def test_without_tools_the_schema_stands_in_the_prompt() -> None:
    sent = body_of(output=PERSON, without=("structured_output", "tools"))
    assert json.dumps(PERSON.schema) in sent["messages"][-1]["content"]
    assert not {"tools", "response_format"} & set(sent)


# ---------------------------------------------------------------- parameters


def test_parameters_have_openais_names() -> None:
    sent = body_of(max_tokens=5, temperature=0.0, top_p=0.5, stop=("a", "b"), reasoning="low")
    del sent["messages"], sent["model"]
    assert sent == {
        "max_completion_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "stop": ["a", "b"],
        "reasoning_effort": "low",
    }


@pytest.mark.parametrize(
    ("vendor", "without", "field"),
    [
        ("openai", (), "max_completion_tokens"),
        ("azure", (), "max_completion_tokens"),
        ("groq", (), "max_tokens"),
        ("groq", ("parameter:max_tokens",), "max_completion_tokens"),
        ("openai", ("parameter:max_completion_tokens",), "max_tokens"),
    ],
)
def test_the_output_limit_is_spelled_as_the_host_takes_it(vendor: str, without: tuple[str, ...], field: str) -> None:
    assert {"max_tokens", "max_completion_tokens"} & set(body_of(max_tokens=5, vendor=vendor, without=without)) == {
        field
    }


def test_an_output_limit_refused_under_both_names_is_dropped_and_reported() -> None:
    both = ("parameter:max_tokens", "parameter:max_completion_tokens")
    found = prepared(max_tokens=5, without=both)
    assert (found.dropped, {"max_tokens", "max_completion_tokens"} & set(found.body)) == (("max_tokens",), set())


def test_more_stops_than_openai_takes_are_dropped_and_reported() -> None:
    found = prepared(stop=tuple("abcde"))
    assert ("stop" in found.body, found.dropped) == (False, ("stop",))


@pytest.mark.parametrize("name", ["temperature", "reasoning", "top_p"])
def test_a_refused_parameter_is_left_out_and_reported(name: str) -> None:
    found = prepared(temperature=1.0, top_p=1.0, reasoning="low", without=(f"parameter:{name}",))
    assert (found.dropped, len(found.body)) == ((name,), 4)


def test_a_parameter_refused_under_the_vendors_name_is_reported_under_ours() -> None:
    assert prepared(reasoning="low", without=("parameter:reasoning_effort",)).dropped == ("reasoning",)


def test_a_parameter_nobody_asked_for_is_not_reported() -> None:
    assert prepared(without=("parameter:temperature",)).dropped == ()


def test_a_stream_asks_for_its_usage() -> None:
    sent = body_of(stream=True)
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


def test_a_host_that_refuses_stream_options_is_spared_them() -> None:
    found = prepared(stream=True, without=("parameter:stream_options",))
    assert ("stream_options" in found.body, found.dropped) == (False, ())


def test_extra_fields_come_by_vendor_and_by_provider_and_from_no_other() -> None:
    sent = body_of(extra={"openai": {"seed": 1}, "groq": {"x": 1}})
    assert (sent["seed"], "x" in sent) == (1, False)


def test_overrides_replace_add_and_remove_for_this_candidate_only() -> None:
    mine = {"temperature": None, "max_tokens": 9, "seed": 3, "stop": "x", "user": None}
    sent = body_of(
        temperature=1.0, extra={"openai": {"user": "u"}}, overrides={"openai/gpt": mine, "other/gpt": {"seed": 4}}
    )
    del sent["messages"], sent["model"]
    assert sent == {"max_completion_tokens": 9, "seed": 3, "stop": ["x"]}


# ---------------------------------------------------------------- what has no JSON form


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"temperature": math.nan}, "temperature"),
        ({"top_p": math.inf}, "top_p"),
        ({"extra": {"openai": {"a": [{"b": object()}]}}}, r"a\[0\].b"),
        ({"extra": {"openai": {"a": {1, 2}}}}, "a is a set"),
    ],
)
def test_what_has_no_json_form_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        prepared(**fields)


def test_half_a_surrogate_pair_is_refused_by_place_and_not_quoted() -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\[1\]\.content") as raised:
        prepared(HELLO, Message("user", "secret \ud83d"))
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_request_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    with pytest.raises(InvalidRequestError, match="itself"):
        prepared(extra={"openai": loop})


def test_nothing_of_the_callers_is_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"default": 1}}, "required": ["a"]}
    extra = {"openai": {"metadata": {"a": "b"}}}
    tool = Tool(name="t", parameters={"type": "object"}, extra={"openai": {"x": {}}})
    fields = {"extra": extra, "tools": (tool,), "output": OutputSchema(name="o", schema=schema), "stream": True}
    before = copy.deepcopy((schema, extra, tool))
    body_of(HELLO, CALLS, Message("tool", (ToolResult(call_id="id1"), ToolResult(call_id="id2"))), **fields)
    assert (schema, extra, tool) == before


def test_the_same_request_is_written_as_the_same_bytes() -> None:
    assert prepared(tools=(LOOKUP,)).content == prepared(tools=(LOOKUP,)).content
