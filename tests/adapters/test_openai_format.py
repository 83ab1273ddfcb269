"""Conversations in OpenAI's chat format, there and back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from reliable_llm.adapters.openai_messages import from_openai, to_openai
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import Document, Image, Message, Opaque, Text, ToolCall, ToolResult

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
PNG = "data:image/png;base64,iVBORw0KGgo="

CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "plain": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi", "name": "ann"},
        {"role": "assistant", "content": "hello"},
    ],
    "developer": [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}],
    "empty user": [{"role": "user", "content": ""}],
    "text in a list": [
        {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}, {"type": "refusal", "refusal": "no"}]},
    ],
    "parts": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see", "prompt_cache_breakpoint": {"type": "x"}},
                {"type": "image_url", "image_url": {"url": "https://x/cat.png"}},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,not base64"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            ],
        }
    ],
    "tool loop": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "let me see", "tool_calls": [CALL, {**CALL, "id": "call_2"}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "call_3"}]},
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
    ],
    "custom tool": [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "n"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ],
    "fields of tomorrow": [
        {"role": "user", "content": "hi", "mood": {"deep": [1]}},
        {"role": "assistant", "content": "x", "audio": {"id": "a"}, "refusal": "no"},
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "extra_content": {"google": {"sig": "s"}}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "one", "note": "n"},
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_comes_back_as_it_went(name: str) -> None:
    assert to_openai(from_openai(CONVERSATIONS[name])) == CONVERSATIONS[name]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_reading_changes_nothing_of_the_callers(name: str) -> None:
    before = copy.deepcopy(CONVERSATIONS[name])
    to_openai(from_openai(CONVERSATIONS[name]))
    assert CONVERSATIONS[name] == before


def test_every_part_that_is_understood_becomes_a_neutral_one() -> None:
    (message,) = from_openai(CONVERSATIONS["parts"])
    assert [type(part) for part in message.parts] == [Text, Image, Image, Image, Document, Opaque, Opaque]


def test_a_data_url_becomes_bytes_that_other_vendors_take() -> None:
    (message,) = from_openai([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}])
    assert message.content == (Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png"),)


def test_tool_calls_and_results_become_parts() -> None:
    messages = from_openai(CONVERSATIONS["tool loop"])
    assert messages[1].parts[1] == ToolCall(id="call_1", name="f", arguments='{"a": 1}')
    assert messages[2] == Message("tool", (ToolResult(call_id="call_1", content="one"),))


def test_the_sdks_own_message_objects_are_read() -> None:
    message = ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [CALL]})
    assert from_openai([message])[0].parts == (ToolCall(id="call_1", name="f", arguments='{"a": 1}'),)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
data = st.dictionaries(texts, st.one_of(st.integers(), texts, st.none().map(lambda _: True)), max_size=2)
user_parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text}),
    texts.map(lambda text: {"type": "image_url", "image_url": {"url": f"https://x/{text}"}}),
    st.binary(max_size=9).map(lambda raw: {"type": "input_audio", "input_audio": {"data": raw.hex()}}),
)
users = st.one_of(texts, st.lists(user_parts, min_size=1, max_size=4)).map(lambda c: {"role": "user", "content": c})
answers = texts.map(lambda text: {"role": "assistant", "content": text})


@st.composite
def loops(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 3))
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": json.dumps(draw(data))}}
        for n in range(count)
    ]
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": draw(texts)} for n in range(count)]
    return [
        {"role": "assistant", "content": draw(st.none() | texts), "tool_calls": calls},
        *draw(st.permutations(results)),
    ]


@given(st.lists(st.one_of(users.map(lambda m: [m]), answers.map(lambda m: [m]), loops()), max_size=6))
def test_any_legal_conversation_comes_back_as_it_went(turns: list[list[dict[str, Any]]]) -> None:
    conversation = [message for turn in turns for message in turn]
    assert to_openai(from_openai(conversation)) == conversation


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ("hello", r"messages\[0\]"),
        ({"content": "x"}, r"messages\[0\]\.role"),
        ({"role": "wizard", "content": "x"}, r"messages\[0\]\.role"),
        ({"role": "user"}, r"messages\[0\]\.content"),
        ({"role": "user", "content": 5}, r"messages\[0\]\.content"),
        ({"role": "user", "content": [5]}, r"messages\[0\]\.content\[0\]"),
        ({"role": "user", "content": [{"text": "x"}]}, r"messages\[0\]\.content\[0\]\.type"),
        ({"role": "tool", "content": "x"}, r"messages\[0\]\.tool_call_id"),
        ({"role": "assistant", "tool_calls": "x"}, r"messages\[0\]\.tool_calls"),
        ({"role": "assistant", "tool_calls": [{"type": "function"}]}, r"messages\[0\]\.tool_calls\[0\]\.id"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": 1}}]}, r"tool_calls\[0\]\.function"),
    ],
)
def test_what_is_no_message_is_refused_by_place(message: Any, where: str) -> None:
    with pytest.raises(InvalidRequestError, match=where):
        from_openai([message])
