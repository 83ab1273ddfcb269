"""Tools described in the prompt, for candidates that have none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reliable_llm import Capabilities, Conversation, FailoverChat, RetryPolicy
from reliable_llm.adapters.prompted import in_words, with_calls
from reliable_llm.errors import InvalidRequestError, MalformedResponseError, UnsupportedFeatureError
from reliable_llm.types import (
    ChatRequest,
    FinishReason,
    Image,
    Message,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolName,
    ToolResult,
)
from tests.support import GPT, Vendor, answer, openai_error, openai_ok

LOOKUP = Tool(name="lookup", description="Looks up.", parameters={"type": "object", "properties": {"q": {}}})
CALL = '<tool_call>{"name": "lookup", "arguments": {"q": "Oslo"}}</tool_call>'
ABLE = {GPT: Capabilities(tools=False, prompt_tools=True)}
HI = Message("user", "hi")


def said(*messages: Message, **fields: Any) -> list[Message]:
    fields.setdefault("tools", (LOOKUP,))
    return list(in_words(ChatRequest(messages=messages or (HI,), **fields)).messages)


# ---------------------------------------------------------------- what the model is told


def test_tools_are_described_after_the_callers_own_instructions() -> None:
    messages = said(Message("system", "Be brief."), HI)

    assert [message.role for message in messages] == ["system", "system", "user"]
    assert json.dumps({"q": {}}) in messages[1].text


def test_calls_and_results_so_far_are_told_in_the_same_words() -> None:
    call = ToolCall(id="1", name="lookup", arguments='{"q": "Oslo"}')
    result = ToolResult(call_id="1", name="lookup", content="rain", is_error=True)

    messages = said(HI, Message("assistant", (Text("Let me see."), call)), Message("tool", (result,)))

    assert messages[2].text == f"Let me see.{CALL}"
    assert (messages[3].role, messages[3].text) == ("user", '<tool_result name="lookup" failed>rain</tool_result>\n')


def test_pictures_in_a_result_stay_pictures() -> None:
    picture = Image(url="https://x/a.png")
    history = (HI, Message("assistant", (ToolCall(id="1", name="f", arguments="{}"),)))

    (*_, last) = said(*history, Message("tool", (ToolResult(call_id="1", content=(Text("see"), picture)),)))

    assert picture in last.parts


@pytest.mark.parametrize(
    ("choice", "told"), [("required", "Call at least one tool now."), (ToolName("lookup"), "Call the tool lookup now.")]
)
def test_a_wish_for_a_call_is_told(choice: Any, told: str) -> None:
    assert told in said(tool_choice=choice)[0].text


def test_tools_that_may_not_be_called_are_not_described() -> None:
    assert said(tool_choice="none") == [HI]


def test_a_choice_of_no_tool_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="'other'"):
        said(tool_choice=ToolName("other"))


def test_orphaned_calls_are_refused_as_they_are_elsewhere() -> None:
    with pytest.raises(InvalidRequestError, match="without its result"):
        said(HI, Message("assistant", (ToolCall(id="1", name="f", arguments="{}"),)))


# ---------------------------------------------------------------- what the model writes


def test_a_call_in_the_text_becomes_a_call() -> None:
    reply = with_calls(answer(f"I look it up.\n{CALL}"), turn=1)

    assert (reply.parts[0], reply.finish_reason) == (Text("I look it up."), FinishReason.TOOL_CALLS)
    assert isinstance(reply.parts[1], ToolCall)
    assert (reply.parts[1].name, reply.parts[1].parsed()) == ("lookup", {"q": "Oslo"})


def test_several_calls_have_ids_of_their_own() -> None:
    reply = with_calls(answer(CALL + CALL), turn=1)

    assert len({part.id for part in reply.parts if isinstance(part, ToolCall)}) == 2


def test_the_same_call_in_another_turn_has_another_id() -> None:
    ids = {with_calls(answer(CALL), turn=turn).parts[0].id for turn in (1, 3)}  # type: ignore[union-attr]

    assert len(ids) == 2


def test_a_call_whose_end_is_missing_is_read_all_the_same() -> None:
    (call,) = with_calls(answer(CALL.removesuffix("</tool_call>")), turn=1).parts

    assert isinstance(call, ToolCall)


def test_white_space_around_a_call_means_nothing_however_much_it_is() -> None:
    spaced = CALL.replace("<tool_call>", "<tool_call>" + " " * 300_000 + "\n").replace("</", "\n" * 300_000 + "</")
    (call,) = with_calls(answer(spaced), turn=1).parts

    assert isinstance(call, ToolCall)
    assert call.arguments == '{"q": "Oslo"}'


def test_reasoning_beside_a_call_stays() -> None:
    reply = answer(CALL)
    thinking = type(reply)(parts=(Reasoning(text="hm"), *reply.parts), finish_reason=reply.finish_reason)

    assert with_calls(thinking, turn=1).parts[0] == Reasoning(text="hm")


def test_an_answer_without_a_call_is_untouched() -> None:
    reply = answer("It rains.")

    assert with_calls(reply, turn=1) is reply


@pytest.mark.parametrize("inner", ["{", "[]", '{"name": 5}', '{"arguments": {}}', ""])
def test_a_call_that_cannot_be_read_is_no_answer(inner: str) -> None:
    with pytest.raises(MalformedResponseError) as raised:
        with_calls(answer(f"<tool_call>{inner}</tool_call>"), turn=1)
    assert inner == "" or inner not in str(raised.value)


# ---------------------------------------------------------------- in a call


async def test_a_candidate_without_tools_calls_them_in_words_and_reads_their_results() -> None:
    vendor = Vendor(openai_ok(CALL), openai_ok("It rains."))
    chat = FailoverChat([vendor.openai(capabilities=ABLE)])
    conversation = Conversation("Weather in Oslo?")

    reply = await chat(conversation, tools=[LOOKUP])
    conversation.append(reply).add_result(reply.tool_calls[0], "rain")
    last = await chat(conversation, tools=[LOOKUP])

    assert (reply.finish_reason, last.text) == (FinishReason.TOOL_CALLS, "It rains.")
    assert not any("tools" in arrival.body for arrival in vendor.arrivals)
    assert "rain</tool_result>" in json.dumps(vendor.arrivals[1].body)


async def test_a_stream_of_such_a_candidate_gives_whole_calls_and_never_their_spelling() -> None:
    vendor = Vendor(openai_ok(f"I look. {CALL}"))
    chat = FailoverChat([vendor.openai(capabilities=ABLE)])

    async with chat.stream("Weather?", tools=[LOOKUP]) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        reply = await stream.reply()

    assert (text, [call.name for call in reply.tool_calls]) == ("I look.", ["lookup"])
    assert not vendor.arrivals[0].body.get("stream")


async def test_tools_are_described_once_they_were_refused() -> None:
    refused = openai_error(400, "tool calling is not supported by this model", type="invalid_request_error")
    vendor = Vendor(refused, openai_ok(CALL))
    able = {GPT: Capabilities(prompt_tools=True)}
    chat = FailoverChat([vendor.openai(capabilities=able)], retry=RetryPolicy(max_retries=0))

    replies = [await chat("hi", tools=[LOOKUP]), await chat("hi", tools=[LOOKUP])]

    assert [len(reply.tool_calls) for reply in replies] == [1, 1]
    assert ["tools" in arrival.body for arrival in vendor.arrivals] == [True, False, False]


async def test_FS_081_without_the_wish_tools_are_never_described() -> None:
    vendor = Vendor(openai_ok())
    chat = FailoverChat([vendor.openai(capabilities={GPT: Capabilities(tools=False)})])

    with pytest.raises(UnsupportedFeatureError, match="tools"):
        await chat("hi", tools=[LOOKUP])
    assert vendor.arrivals == []


async def test_a_plain_call_to_such_a_candidate_is_left_alone() -> None:
    vendor = Vendor(openai_ok(CALL))
    chat = FailoverChat([vendor.openai(capabilities=ABLE)])

    assert (await chat("How do you write a call?")).text == CALL
