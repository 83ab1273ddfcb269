"""Conversations that survive a change of vendor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from reliable_llm import Conversation, FailoverChat, InvalidRequestError
from reliable_llm.adapters.anthropic_messages import AnthropicAdapter
from reliable_llm.adapters.base import AdapterSettings, Target
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.adapters.openai_responses import OpenAIResponsesAdapter
from reliable_llm.types import (
    Candidate,
    ChatReply,
    ChatRequest,
    Document,
    FinishReason,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    ServedBy,
    Text,
    ToolCall,
    ToolResult,
)
from tests.support import Vendor, openai_ok
from tests.wire_types import check_anthropic, check_openai, check_responses, check_types

GPT, CLAUDE = Candidate("openai", "gpt"), Candidate("anthropic", "claude")
FIRST, SECOND = (
    ToolCall(id="1", name="f", arguments='{"q": 1}'),
    ToolCall(id="2", name="g", arguments="{}"),
)


def reply(*parts: Part) -> ChatReply:
    return ChatReply(
        parts=parts,
        served_by=ServedBy("openai", "gpt", "openai#1"),
        requested=GPT,
        finish_reason=FinishReason.STOP,
        usage=None,
        attempts=(),
    )


# ---------------------------------------------------------------- going on


def test_a_conversation_begins_with_a_question_and_a_system_prompt() -> None:
    assert list(Conversation("hi", system="Be brief.")) == [Message("system", "Be brief."), Message("user", "hi")]


def test_an_answer_is_added_with_all_its_parts() -> None:
    thought = Reasoning(text="hm", signature="sig", issuer=CLAUDE)

    conversation = Conversation("hi").append(reply(thought, Text("hello")))

    assert conversation[-1] == Message("assistant", (thought, Text("hello")))


def test_the_user_may_show_pictures() -> None:
    picture = Image(url="https://x/a.png")

    assert Conversation().user([Text("look"), picture])[-1] == Message("user", (Text("look"), picture))


def test_results_of_one_turn_stay_in_one_message_in_whatever_order_they_come() -> None:
    conversation = Conversation("hi").append(reply(FIRST, SECOND))

    conversation.add_result(SECOND, "two").add_result(FIRST, "one")

    assert [part.call_id for part in conversation[-1].parts if isinstance(part, ToolResult)] == ["2", "1"]
    assert [message.role for message in conversation] == ["user", "assistant", "tool"]


def test_open_calls_are_pending_until_all_are_answered() -> None:
    conversation = Conversation("hi").append(reply(FIRST, SECOND))
    before = conversation.pending

    conversation.add_result("1", "one")

    assert (before, conversation.pending) == ((FIRST, SECOND), (SECOND,))


def test_a_conversation_without_calls_has_none_open() -> None:
    assert Conversation("hi").pending == ()


@pytest.mark.parametrize("call_id", ["3", "1"])
def test_a_result_without_an_open_call_is_refused(call_id: str) -> None:
    conversation = Conversation("hi").append(reply(FIRST)).add_result("1", "one")

    with pytest.raises(InvalidRequestError, match="no open tool call"):
        conversation.add_result(call_id, "again")


def test_a_branch_does_not_change_the_conversation_it_came_from() -> None:
    conversation = Conversation("hi")

    conversation.copy().user("there")

    assert len(conversation) == 1


def test_two_conversations_with_the_same_messages_are_equal() -> None:
    assert Conversation("hi") == Conversation([Message("user", "hi")])


def test_a_conversation_shows_its_size_and_not_its_words() -> None:
    assert repr(Conversation("secret")) == "Conversation(1 messages, 0 open tool calls)"


def test_a_slice_is_a_part_of_the_messages() -> None:
    assert Conversation("hi", system="s")[1:] == (Message("user", "hi"),)


async def test_a_conversation_is_a_prompt() -> None:
    vendor = Vendor(openai_ok())

    await FailoverChat([vendor.openai()])(Conversation("hi", system="Be brief."))

    assert [message["role"] for message in vendor.arrivals[0].body["messages"]] == ["system", "user"]


async def test_an_open_call_is_refused_before_any_request() -> None:
    vendor = Vendor(openai_ok())

    with pytest.raises(InvalidRequestError, match="tool call without its result"):
        await FailoverChat([vendor.openai()])(Conversation("hi").append(reply(FIRST)))
    assert vendor.arrivals == []


# ---------------------------------------------------------------- there and back

OPENAI = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "found"},
    {"role": "assistant", "content": "Here."},
]
CACHED = {"cache_control": {"type": "ephemeral"}}
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "look", **CACHED}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig-1"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "broke", "is_error": True},
            {"type": "text", "text": "and?"},
        ],
    },
]


def test_openais_format_comes_back_as_it_went() -> None:
    assert Conversation.from_openai(OPENAI).to_openai() == OPENAI


def test_anthropics_format_comes_back_as_it_went() -> None:
    assert Conversation.from_anthropic(ANTHROPIC, "Be brief.").to_anthropic() == (ANTHROPIC, "Be brief.")


def test_openais_format_is_good_for_anthropic() -> None:
    messages, system = Conversation.from_openai(OPENAI).to_anthropic()

    check_anthropic(messages)
    assert system == "Be brief."


def test_anthropics_format_is_good_for_openai() -> None:
    messages = Conversation.from_anthropic(ANTHROPIC, "Be brief.").to_openai()

    check_openai(messages)
    assert messages[3]["content"] == "Error: broke"


def test_a_detour_over_another_vendor_leaves_nothing_behind() -> None:
    conversation = Conversation.from_anthropic(ANTHROPIC)

    conversation.to_openai()

    assert conversation.to_anthropic()[0] == ANTHROPIC


# ---------------------------------------------------------------- any legal history

texts = st.text(st.characters(codec="utf-8"), max_size=12)
words = texts.filter(lambda text: bool(text.strip()))
hints = st.sampled_from([{}, {"anthropic": CACHED}, {"elsewhere": {"k": 1}}])
pictures = st.one_of(
    st.builds(Image, url=st.just("https://x/a.png"), detail=st.none() | st.just("low")),
    st.builds(Image, data=st.binary(max_size=9), media_type=st.sampled_from(["image/png", "image/webp"])),
)
documents = st.builds(Document, data=st.binary(max_size=9), name=st.none() | words)
thoughts = st.one_of(
    st.builds(Reasoning, text=texts, signature=st.just("sig"), issuer=st.sampled_from([CLAUDE, None])),
    st.builds(Reasoning, opaque=st.just("data"), issuer=st.just(CLAUDE)),
    st.builds(
        Reasoning,
        text=texts,
        opaque=st.just("enc"),
        issuer=st.just(GPT),
        extra=st.just({"openai": {"id": "rs_1", "summary": []}}),
    ),
    st.builds(Reasoning, text=words, issuer=st.just(Candidate("elsewhere", "m"))),
)
foreign = st.builds(Opaque, vendor=st.just("elsewhere"), data=st.just({"type": "hologram"}))
said = st.builds(Text, words, hints)
ids = st.sampled_from(["call_1", "toolu_01.Z", "x" * 94, "ü|x", "0"])


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """A conversation with anybody's parts, in which every call is answered in the next turn."""
    messages: list[Message] = [Message("system", draw(words))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 4))):
        asked = draw(words | st.lists(said | pictures | documents, min_size=1, max_size=3).map(tuple))
        messages.append(Message("user", asked))
        calls = [
            ToolCall(
                id=f"{draw(ids)}{number}" if draw(st.booleans()) else f"call_{turn}_{number}",
                name="f",
                arguments=draw(st.dictionaries(texts, st.integers() | texts, max_size=2).map(json.dumps)),
            )
            for number in range(draw(st.integers(0, 2)))
        ]
        before = draw(st.lists(thoughts | foreign, max_size=2))
        answer = draw(st.lists(said, min_size=0 if calls else 1, max_size=2))
        messages.append(Message("assistant", (*before, *answer, *calls)))
        if calls:
            contents = [draw(texts | st.lists(said | pictures, max_size=2).map(tuple)) for _ in calls]
            results = [
                ToolResult(call_id=call.id, content=content, is_error=draw(st.booleans()))
                for call, content in zip(calls, contents, strict=True)
            ]
            messages.append(Message("tool", tuple(draw(st.permutations(results)))))
    messages.append(Message("user", draw(words)))
    return tuple(messages)


def body(adapter: Any, candidate: Candidate, history: tuple[Message, ...]) -> dict[str, Any]:
    prepared = adapter.prepare(ChatRequest(messages=history), Target(candidate=candidate, model_id="m"))
    sent: dict[str, Any] = json.loads(prepared.content)
    return sent


@settings(max_examples=80, deadline=None)
@given(histories())
def test_any_legal_history_is_what_openais_chat_types_accept(history: tuple[Message, ...]) -> None:
    check_openai(body(OpenAIChatAdapter(AdapterSettings(vendor="openai")), GPT, history)["messages"])


@settings(max_examples=80, deadline=None)
@given(histories())
def test_any_legal_history_is_what_openais_responses_types_accept(history: tuple[Message, ...]) -> None:
    check_responses(body(OpenAIResponsesAdapter(AdapterSettings(vendor="openai")), GPT, history)["input"])


@settings(max_examples=80, deadline=None)
@given(histories())
def test_any_legal_history_is_what_anthropics_types_accept(history: tuple[Message, ...]) -> None:
    check_anthropic(body(AnthropicAdapter(AdapterSettings(vendor="anthropic")), CLAUDE, history)["messages"])


@settings(max_examples=80, deadline=None)
@given(histories())
def test_what_a_vendor_got_comes_back_to_it_as_it_was(history: tuple[Message, ...]) -> None:
    conversation = Conversation(history)

    openai, (anthropic, system) = conversation.to_openai(), conversation.to_anthropic()

    assert Conversation.from_openai(openai).to_openai() == openai
    assert Conversation.from_anthropic(anthropic, system).to_anthropic() == (anthropic, system)


@settings(max_examples=80, deadline=None)
@given(histories())
def test_what_one_vendor_got_is_good_for_the_other(history: tuple[Message, ...]) -> None:
    conversation = Conversation(history)

    check_anthropic(Conversation.from_openai(conversation.to_openai()).to_anthropic()[0])
    check_openai(Conversation.from_anthropic(*conversation.to_anthropic()).to_openai())


@settings(max_examples=80, deadline=None)
@given(histories())
def test_no_foreign_thinking_is_on_the_wire(history: tuple[Message, ...]) -> None:
    sent = body(AnthropicAdapter(AdapterSettings(vendor="anthropic")), CLAUDE, history)["messages"]

    blocks = [block for message in sent if isinstance(message["content"], list) for block in message["content"]]
    assert {block["data"] for block in blocks if block["type"] == "redacted_thinking"} <= {"data"}


@pytest.mark.parametrize(
    ("vendor", "message"),
    [
        ("openai", {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}),
        ("openai", {"role": "assistant", "content": "a", "thinking": "x"}),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "a", "detail": "low"}]}),
        ("anthropic", {"role": "tool", "content": "a"}),
        ("responses", {"type": "function_call", "call_id": "a", "name": "f", "parameters": "{}"}),
    ],
)
def test_the_validators_refuse_what_the_types_do_not_allow(vendor: str, message: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        check_types(vendor, [message])
