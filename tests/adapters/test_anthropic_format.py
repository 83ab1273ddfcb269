"""Conversations in Anthropic's format: what goes in comes out, and what comes out is legal."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from anthropic.types import Message as VendorMessage
from anthropic.types import MessageParam, TextBlock
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from reliable_llm.adapters.anthropic_format import from_anthropic, to_anthropic
from reliable_llm.errors import InvalidRequestError, UnsupportedFeatureError
from reliable_llm.types import (
    Candidate,
    Document,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

VALIDATOR: TypeAdapter[Any] = TypeAdapter(MessageParam)
PIXEL = base64.b64encode(b"\x89PNG pixel").decode()


def conversation(*messages: dict[str, object]) -> list[dict[str, object]]:
    return list(messages)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def assistant(content: object) -> dict[str, object]:
    return {"role": "assistant", "content": content}


# ---------------------------------------------------------------- there and back

LOSSLESS: Mapping[str, list[dict[str, object]]] = {
    "plain_text": [user("hi"), assistant("hello"), user("bye")],
    "text_blocks": [user([{"type": "text", "text": "hi"}])],
    "cache_hint": [user([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}])],
    "citations": [user("q"), assistant([{"type": "text", "text": "a", "citations": [{"type": "page_location"}]}])],
    "image_url": [user([{"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}])],
    "image_bytes": [user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}])],
    "image_file": [user([{"type": "image", "source": {"type": "file", "file_id": "file_1"}}])],
    "image_with_odd_base64": [
        user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AB=="}}])
    ],
    "pdf": [
        user(
            [
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PIXEL},
                    "title": "report",
                    "citations": {"enabled": True},
                }
            ]
        )
    ],
    "text_document": [
        user([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}}])
    ],
    "document_of_blocks": [user([{"type": "document", "source": {"type": "content", "content": "x"}}])],
    "thinking": [
        user("q"),
        assistant(
            [
                {"type": "thinking", "thinking": "hm", "signature": "sig=="},
                {"type": "redacted_thinking", "data": "opaque=="},
                {"type": "text", "text": "a"},
            ]
        ),
    ],
    "tools": [
        user("q"),
        assistant(
            [
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1.5, "b": [None, "ü"]}},
                {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}, "caller": {"type": "direct"}},
            ]
        ),
        user(
            [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [
                        {"type": "text", "text": "two"},
                        {"type": "image", "source": {"type": "url", "url": "https://x/b.png"}},
                    ],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "text", "text": "and now?"},
            ]
        ),
    ],
    "tool_result_without_content": [
        user("q"),
        assistant([{"type": "tool_use", "id": "t", "name": "f", "input": {}}]),
        user([{"type": "tool_result", "tool_use_id": "t"}]),
    ],
    "tool_result_with_blocks_unknown_here": [
        user("q"),
        assistant([{"type": "tool_use", "id": "t", "name": "f", "input": {}}]),
        user(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "search_result", "source": "s", "title": "t", "content": []}],
                }
            ]
        ),
    ],
    "server_tools": [
        user("q"),
        assistant(
            [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "text", "text": "found"},
            ]
        ),
    ],
    "block_of_tomorrow": [user([{"type": "hologram", "depth": 3}])],
    "system_in_the_middle": [user("a"), {"role": "system", "content": "from now on: French"}, user("b")],
    "unknown_field_of_a_message": [{"role": "user", "content": "hi", "annotations": {"a": 1}}],
}


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_conversation_comes_back_as_it_went_in(name: str) -> None:
    given_ = LOSSLESS[name]
    kept = copy.deepcopy(given_)
    back, system = to_anthropic(from_anthropic(given_))
    assert back == kept
    assert system is None


@pytest.mark.parametrize("name", LOSSLESS)
def test_reading_changes_nothing_of_the_callers(name: str) -> None:
    given_ = LOSSLESS[name]
    kept = copy.deepcopy(given_)
    to_anthropic(from_anthropic(given_))
    assert given_ == kept


@pytest.mark.parametrize(
    "system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]]
)
def test_a_system_prompt_comes_back_as_it_went_in(system: object) -> None:
    assert to_anthropic(from_anthropic([user("hi")], system=system)) == ([user("hi")], system)


def test_the_sdks_own_objects_are_read_like_dicts() -> None:
    block = TextBlock(type="text", text="hello")
    assert to_anthropic(from_anthropic([user("hi"), assistant([block])]))[0][1] == assistant(
        [{"type": "text", "text": "hello"}]
    )


def test_a_whole_answer_of_the_sdk_is_read_as_its_turn() -> None:
    answer = VendorMessage.construct(
        None,
        id="msg_1",
        type="message",
        role="assistant",
        model="m",
        content=[{"type": "text", "text": "hello"}],
        usage={"input_tokens": 1, "output_tokens": 1},
        stop_reason="end_turn",
    )
    assert to_anthropic(from_anthropic([user("hi"), answer]))[0][1] == assistant([{"type": "text", "text": "hello"}])


def test_tool_results_become_a_message_of_their_own() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "1"}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    read = from_anthropic([user("q"), assistant([call]), user([result, {"type": "text", "text": "so?"}])])
    assert [message.role for message in read] == ["user", "assistant", "tool", "user"]


def test_thinking_is_bound_to_the_issuer_that_the_caller_names() -> None:
    issuer = Candidate("anthropic", "m")
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    (message,) = from_anthropic([assistant([thinking])], issuer=issuer)
    assert message.parts == (Reasoning(text="hm", signature="s", issuer=issuer),)


@pytest.mark.parametrize("raw", ["hi", {"role": "user"}, {"role": "robot", "content": "x"}, {"content": "x"}, user(3)])
def test_what_is_no_message_is_refused(raw: object) -> None:
    with pytest.raises(InvalidRequestError):
        from_anthropic([raw])


def test_a_block_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        from_anthropic([user(["hi"])])


# ---------------------------------------------------------------- put right on the way out


def rendered(*messages: Message) -> list[dict[str, object]]:
    return to_anthropic(messages)[0]


CALL = ToolCall(id="c1", name="f", arguments='{"a": 1}')


@pytest.mark.parametrize("blank", ["", " \n\t"])
def test_blank_text_blocks_are_left_out(blank: str) -> None:
    wire = rendered(Message("user", (Text(blank), Text("hi"), Text(blank))))
    assert wire == [user([{"type": "text", "text": "hi"}])]


def test_a_message_without_content_is_left_out_and_its_neighbours_merge() -> None:
    wire = rendered(Message("user", "a"), Message("assistant", ""), Message("user", "b"))
    assert wire == [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]


def test_FS_079_results_go_first_in_one_user_message_and_the_text_follows() -> None:
    wire = rendered(
        Message("user", "go"),
        Message(
            "assistant",
            (Text(""), ToolCall(id="1", name="f", arguments=""), ToolCall(id="2", name="f", arguments="{}")),
        ),
        Message("tool", (ToolResult(call_id="1", content="one"),)),
        Message("user", "sum them"),
        Message("tool", (ToolResult(call_id="2", content="two"),)),
    )
    assert wire == [
        user("go"),
        assistant(
            [
                {"type": "tool_use", "id": "1", "name": "f", "input": {}},
                {"type": "tool_use", "id": "2", "name": "f", "input": {}},
            ]
        ),
        user(
            [
                {"type": "tool_result", "tool_use_id": "1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "2", "content": "two"},
                {"type": "text", "text": "sum them"},
            ]
        ),
    ]


def exchange(call_id: str) -> tuple[Message, Message]:
    return (
        Message("assistant", (ToolCall(id=call_id, name="f", arguments="{}"),)),
        Message("tool", (ToolResult(call_id=call_id, content="x"),)),
    )


def ids(wire: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    blocks = [block for message in wire for block in message["content"] if isinstance(block, dict)]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("foreign", ["call_" + "9" * 90, "toolu_01.Z", "", "ü|x", "a b"])
def test_FS_078_a_foreign_id_is_replaced_alike_in_every_request(foreign: str) -> None:
    first, later = rendered(*exchange(foreign)), rendered(*exchange("c0"), *exchange(foreign))
    (call,), (result,) = ids(first)
    assert call == result
    assert call.replace("-", "").replace("_", "").isalnum()
    assert call.isascii()
    assert len(call) <= 64
    assert ids(later)[0][1] == call


def test_a_good_id_stays() -> None:
    assert ids(rendered(*exchange("toolu_01AbC-9")))[0] == ["toolu_01AbC-9"]


def test_two_foreign_ids_that_look_alike_stay_apart() -> None:
    calls, _ = ids(rendered(*exchange("a.b"), *exchange("a|b")))
    assert len(set(calls)) == 2


def test_an_id_that_comes_again_in_a_later_turn_is_told_apart() -> None:
    calls, results = ids(rendered(*exchange("call_0"), *exchange("call_0")))
    assert calls == results == ["call_0", "call_0_2"]


def test_an_issuers_reasoning_of_another_vendor_is_left_out() -> None:
    openai = Reasoning(text="t", opaque="enc", extra={"openai": {"id": "rs_1"}})
    assert rendered(Message("assistant", (openai, Text("a")))) == [assistant([{"type": "text", "text": "a"}])]


def test_another_vendors_blocks_and_hints_are_left_out() -> None:
    message = Message("user", (Opaque(vendor="openai", data={"type": "x"}), Text("a", {"openai": {"k": 1}})))
    assert rendered(message) == [user([{"type": "text", "text": "a"}])]


def test_system_texts_are_joined_at_the_top() -> None:
    messages = (Message("system", "A."), Message("user", "hi"), Message("system", "B."))
    assert to_anthropic(messages) == ([user("hi")], "A.\n\nB.")


def test_a_system_text_with_a_cache_hint_stays_a_block() -> None:
    hint = {"cache_control": {"type": "ephemeral"}}
    messages = (Message("system", "A."), Message("system", (Text("B.", {"anthropic": hint}),)), Message("user", "hi"))
    assert to_anthropic(messages)[1] == [{"type": "text", "text": "A."}, {"type": "text", "text": "B.", **hint}]


def test_a_picture_in_a_system_message_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        to_anthropic([Message("system", (Image(url="https://x"),)), Message("user", "hi")])


def test_a_data_url_is_sent_as_bytes() -> None:
    (message,) = rendered(Message("user", (Image(url=f"data:image/jpg;base64,{PIXEL}"),)))
    source = {"type": "base64", "media_type": "image/jpeg", "data": PIXEL}
    assert message == user([{"type": "image", "source": source}])


def test_a_text_document_of_any_kind_is_sent_as_plain_text() -> None:
    (message,) = rendered(Message("user", (Document(data=b"a,b", media_type="text/csv", name="t"),)))
    source = {"type": "text", "media_type": "text/plain", "data": "a,b"}
    assert message == user([{"type": "document", "source": source, "title": "t"}])


@pytest.mark.parametrize(
    "part", [Image(data=b"x", media_type="image/tiff"), Document(data=b"x", media_type="application/zip")]
)
def test_media_that_anthropic_does_not_take_are_unsupported(part: Part) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        to_anthropic([Message("user", (part,))])
    assert raised.value.feature in ("image_type", "document_type")


@pytest.mark.parametrize("arguments", ["[1]", "{", '"x"', "nonsense"])
def test_arguments_that_are_no_object_are_refused_by_the_tools_name(arguments: str) -> None:
    call = ToolCall(id="1", name="lookup", arguments=arguments)
    with pytest.raises(InvalidRequestError, match="lookup"):
        to_anthropic([Message("assistant", (call,))])


@pytest.mark.parametrize(
    "message", [Message("user", (CALL,)), Message("assistant", (ToolResult(call_id="c1"),)), Message("system", (CALL,))]
)
def test_a_part_where_it_cannot_stand_is_refused(message: Message) -> None:
    with pytest.raises(InvalidRequestError):
        to_anthropic([message])


# ---------------------------------------------------------------- any legal history

text = st.text(st.characters(codec="utf-8"), max_size=12)
said = text.filter(lambda value: bool(value.strip()))
hint = st.sampled_from([{}, {"anthropic": {"cache_control": {"type": "ephemeral"}}}])
json_value = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
texts = st.builds(Text, said, hint)
images = st.one_of(
    st.builds(Image, url=st.just("https://example.com/a.png"), extra=hint),
    st.builds(Image, data=st.binary(max_size=9), media_type=st.sampled_from(["image/png", "image/webp"]), extra=hint),
)
documents = st.one_of(
    st.builds(Document, url=st.just("https://example.com/a.pdf"), name=st.none() | said),
    st.builds(Document, data=st.binary(max_size=9), extra=hint),
    st.builds(Document, data=text.map(str.encode), media_type=st.just("text/plain")),
)
reasoning = st.one_of(
    st.builds(Reasoning, text=text, signature=st.just("sig")), st.builds(Reasoning, opaque=st.just("data"))
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """A conversation in which every call is answered in the next turn."""
    messages: list[Message] = [Message("system", draw(said))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 4))):
        asked = draw(said | st.lists(texts | images | documents, min_size=1, max_size=3).map(tuple))
        messages.append(Message("user", asked))
        calls = draw(st.integers(0, 2))
        parts: list[Part] = [*draw(st.lists(reasoning, max_size=2)), *draw(st.lists(texts, min_size=1, max_size=2))]
        made = [
            ToolCall(
                id=draw(st.sampled_from(["call", "toolu_é", "x" * 80])) + f"{turn}.{number}" * draw(st.integers(0, 1)),
                name="f",
                arguments=draw(st.dictionaries(text, json_value, max_size=2).map(json.dumps)),
            )
            for number in range(calls)
        ]
        messages.append(Message("assistant", (*parts, *made)))
        for call in made:
            content = draw(text | st.lists(texts | images, max_size=2).map(tuple))
            result = ToolResult(call_id=call.id, content=content, is_error=draw(st.booleans()))
            messages.append(Message("tool", (result,)))
        if draw(st.booleans()):
            messages.append(Message("user", draw(said)))
    return tuple(messages)


def exhaust(value: object) -> None:
    """Walk through *value*: pydantic checks what is typed `Iterable` only as it is read."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for inner in value:
            exhaust(inner)


def validate(message: object) -> None:
    exhaust(VALIDATOR.validate_python(message, strict=True, extra="forbid"))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "hologram"},
        {"type": "text"},
        {"type": "text", "text": "a", "detail": "low"},
        {"type": "tool_use", "id": "a", "name": "f", "input": "{}"},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]},
    ],
)
def test_the_validator_refuses_what_the_types_do_not_allow(block: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        validate(user([block]))


def check_legal(wire: list[dict[str, Any]]) -> None:
    """The rules of the API that its types do not express."""
    pending: list[str] = []
    for number, message in enumerate(wire):
        validate(message)
        assert number == 0 or message["role"] != wire[number - 1]["role"]
        blocks = message["content"] if isinstance(message["content"], list) else []
        assert message["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == [block.get("tool_use_id") for block in blocks[: len(results)]]
        assert sorted(results) == sorted(pending)
        for block in blocks:
            assert block["type"] != "text" or block["text"].strip()
        pending = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(len(call) <= 64 and call.isascii() for call in pending)
    assert not pending


@settings(max_examples=150, deadline=None)
@given(histories())
def test_any_legal_history_renders_into_what_the_sdks_types_accept(history: tuple[Message, ...]) -> None:
    check_legal(rendered(*history))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_what_was_rendered_reads_and_renders_the_same(history: tuple[Message, ...]) -> None:
    wire, system = to_anthropic(history)
    assert to_anthropic(from_anthropic(wire, system)) == (wire, system)


def shape(value: object) -> object:
    """Return a deep copy of plain data."""
    if is_dataclass(value):
        return {each.name: shape(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, tuple | list) else value


@settings(max_examples=50, deadline=None)
@given(histories())
def test_rendering_changes_nothing_of_the_callers(history: tuple[Message, ...]) -> None:
    kept = shape(history)
    to_anthropic(history)
    assert shape(history) == kept
