"""Structured answers: what is asked, what is accepted, how a bad answer is repaired, and what all that costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from reliable_llm import FailoverChat, RetryPolicy
from reliable_llm.errors import (
    InvalidOutputError,
    InvalidRequestError,
    Kind,
    OutputTruncatedError,
    ServerError,
    UnsupportedFeatureError,
)
from reliable_llm.structured import as_output, complaint, value_of
from reliable_llm.types import Capabilities, ChatReply, FinishReason, OutputSchema, Tool, ToolCall, Usage
from tests.support import (
    GPT,
    STEADY,
    Listening,
    ManualClock,
    ScriptedAdapter,
    Vendor,
    answer,
    anthropic_ok,
    fails,
    openai_error,
    openai_ok,
    provider,
)


class Person(BaseModel):
    name: str
    age: int


ADA = Person(name="Ada", age=36)
GOOD = ADA.model_dump_json()
BAD = '{"name": 5}'
SCHEMA = Person.model_json_schema()
ONE_RETRY = RetryPolicy(jitter=0, max_retries=1, backoff=1)


def chat_of(*adapters: ScriptedAdapter, retry: RetryPolicy = STEADY, **fields: Any) -> FailoverChat:
    names = "abc"
    made = [provider(names[place], adapter, **fields) for place, adapter in enumerate(adapters)]
    return FailoverChat(made, retry=retry, clock=ManualClock())


async def ask(chat: FailoverChat, output: Any = Person, **asked: Any) -> ChatReply:
    return await chat("Who?", output=output, **asked)


# ---------------------------------------------------------------- what is asked for


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (Person, "Person"),
        (Point, "Point"),
        (SCHEMA, "Person"),
        ({"type": "object"}, "answer"),
        ({"type": "json_schema", "json_schema": {"name": "mine", "schema": {"type": "object"}}}, "mine"),
        (OutputSchema(name="own", schema=SCHEMA), "own"),
    ],
)
def test_a_type_a_json_schema_or_openais_response_format_says_what_is_wanted(output: object, name: str) -> None:
    made = as_output(output)

    assert (made.name, made.schema["type"]) == (name, "object")


@pytest.mark.parametrize("output", ["Person", 5, int, object()])
def test_what_is_no_schema_is_refused(output: object) -> None:
    with pytest.raises(InvalidRequestError, match="output"):
        as_output(output)


async def test_what_is_no_schema_is_refused_before_any_request() -> None:
    adapter = ScriptedAdapter(GOOD)

    with pytest.raises(InvalidRequestError):
        await ask(chat_of(adapter), output=int)
    assert adapter.sent == []


# ---------------------------------------------------------------- what comes out


async def test_a_model_class_in_gives_an_instance_out() -> None:
    assert (await ask(chat_of(ScriptedAdapter(GOOD)))).parsed == ADA


async def test_a_schema_in_gives_plain_data_out() -> None:
    assert (await ask(chat_of(ScriptedAdapter(GOOD)), output=SCHEMA)).parsed == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"Here it is:\n```\n{GOOD}\n```\nAnything else?",
        f"<think>Who is it?</think>\n{GOOD}",
        f"  {GOOD}\n",
        f"Here: ```json\r\n\r\n{GOOD}\r\n  ```",
        # Cubic expressions never come to an end here.
        "```\n" + "\n" * 100_000 + f"{GOOD}\n```" + "\n" * 100_000 + "That is it.",
    ],
)
def test_a_value_may_be_wrapped_as_models_like_to(text: str) -> None:
    assert value_of(text, as_output(Person)) == (ADA, [])


@pytest.mark.parametrize(
    "text", ["Sure! The person is Ada.", f"```json\n{GOOD}\n```\nor\n```json\n{GOOD}\n```", f"{GOOD} {GOOD}", "null"]
)
@pytest.mark.parametrize("output", [Person, SCHEMA])
def test_what_holds_no_single_value_is_wrong(text: str, output: Any) -> None:
    value, wrong = value_of(text, as_output(output))

    assert value is None or wrong


async def test_a_refusal_is_an_answer_without_a_value() -> None:
    refusal = answer("I will not.", finish_reason=FinishReason.REFUSAL)

    assert (await ask(chat_of(ScriptedAdapter(refusal)))).parsed is None


async def test_a_tool_call_comes_before_the_value() -> None:
    call = ToolCall(id="1", name="lookup", arguments="{}")
    calling = answer("", finish_reason=FinishReason.TOOL_CALLS)
    adapter = ScriptedAdapter(type(calling)(parts=(call,), finish_reason=FinishReason.TOOL_CALLS))

    reply = await ask(chat_of(adapter), tools=[Tool(name="lookup")])

    assert (reply.tool_calls, reply.parsed) == ((call,), None)


async def test_FS_093_prose_is_raised_with_its_text_by_default() -> None:
    prose = "Sure! The person is Ada."

    with pytest.raises(InvalidOutputError) as raised:
        await ask(chat_of(ScriptedAdapter(prose), retry=RetryPolicy(schema_retries=0)))
    assert (raised.value.text, raised.value.provider) == (prose, "a")


async def test_the_errors_message_does_not_quote_the_answer() -> None:
    with pytest.raises(InvalidOutputError) as raised:
        await ask(chat_of(ScriptedAdapter('{"name": "secret"}')))
    assert "secret" not in str(raised.value)


async def test_the_error_names_every_problem() -> None:
    with pytest.raises(InvalidOutputError) as raised:
        await ask(chat_of(ScriptedAdapter(BAD)))
    assert [problem.split(":")[0] for problem in raised.value.problems] == ["name", "age"]


async def test_an_answer_cut_by_the_output_limit_is_told_as_that_and_not_repaired() -> None:
    adapter = ScriptedAdapter(answer('{"name": "A', finish_reason=FinishReason.LENGTH))

    with pytest.raises(OutputTruncatedError) as raised:
        await ask(chat_of(adapter))
    assert (raised.value.text, len(adapter.sent)) == ('{"name": "A', 1)


async def test_a_whole_value_is_taken_even_at_the_output_limit() -> None:
    adapter = ScriptedAdapter(answer(GOOD, finish_reason=FinishReason.LENGTH))

    assert (await ask(chat_of(adapter))).parsed == ADA


async def test_moving_on_from_a_cut_answer_is_opt_in() -> None:
    cut = ScriptedAdapter(answer('{"name": "A', finish_reason=FinishReason.LENGTH))

    reply = await ask(chat_of(cut, ScriptedAdapter(GOOD)), failover_on=[Kind.OUTPUT_TRUNCATED])

    assert (reply.served_by.provider, reply.parsed) == ("b", ADA)


# ---------------------------------------------------------------- the repair


async def test_a_bad_answer_goes_back_with_a_word_about_it() -> None:
    adapter = ScriptedAdapter(BAD, GOOD)

    await ask(chat_of(adapter))

    told = adapter.sent[1].request.messages
    assert [message.role for message in told] == ["user", "assistant", "user"]
    assert told[1].text == BAD
    assert "age" in told[2].text


async def test_FS_095_a_repair_and_a_retry_have_a_budget_each() -> None:
    unwell = fails(Kind.SERVER_ERROR)
    adapter = ScriptedAdapter(unwell, answer(BAD, Usage(input_tokens=30)), unwell, answer(GOOD, Usage(input_tokens=45)))
    clock = ManualClock()
    chat = FailoverChat([provider("a", adapter)], retry=ONE_RETRY, clock=clock)

    reply = await ask(chat)

    assert (reply.parsed, len(adapter.sent), clock.slept) == (ADA, 4, [1.0, 1.0])


async def test_a_retry_of_a_repair_carries_the_word_too() -> None:
    adapter = ScriptedAdapter(BAD, fails(Kind.SERVER_ERROR), GOOD)

    await ask(chat_of(adapter))

    assert [len(sent.request.messages) for sent in adapter.sent] == [1, 3, 3]


async def test_FS_095_the_answers_usage_holds_what_its_repair_cost() -> None:
    adapter = ScriptedAdapter(
        answer(BAD, Usage(input_tokens=30, output_tokens=5)), answer(GOOD, Usage(input_tokens=45, output_tokens=9))
    )

    reply = await ask(chat_of(adapter))

    assert reply.usage == Usage(input_tokens=75, output_tokens=14)


async def test_the_total_counts_every_answer_once() -> None:
    adapter = ScriptedAdapter(answer(BAD, Usage(input_tokens=30)), answer(GOOD, Usage(input_tokens=45)))

    reply = await ask(chat_of(adapter))

    assert reply.usage_total == Usage(input_tokens=75)


async def test_a_bad_answer_stands_in_the_ledger() -> None:
    reply = await ask(chat_of(ScriptedAdapter(BAD, GOOD)))

    assert [attempt.kind for attempt in reply.attempts] == [Kind.INVALID_OUTPUT, None]


async def test_a_repair_is_not_waited_for() -> None:
    clock = ManualClock()

    await ask(FailoverChat([provider("a", ScriptedAdapter(BAD, GOOD))], clock=clock))

    assert clock.slept == []


@pytest.mark.parametrize(("schema_retries", "requests"), [(0, 1), (1, 2), (3, 4)])
async def test_repairs_are_as_many_as_the_policy_says(schema_retries: int, requests: int) -> None:
    adapter = ScriptedAdapter(BAD)

    with pytest.raises(InvalidOutputError):
        await ask(chat_of(adapter, retry=RetryPolicy(schema_retries=schema_retries)))
    assert len(adapter.sent) == requests


async def test_the_next_candidate_gets_the_callers_own_request() -> None:
    first, second = ScriptedAdapter(BAD), ScriptedAdapter(GOOD)

    reply = await ask(chat_of(first, second), failover_on=["invalid_output"])

    assert (reply.served_by.provider, len(second.sent[0].request.messages)) == ("b", 1)


async def test_another_candidates_bad_answers_are_not_in_the_answers_usage() -> None:
    first = ScriptedAdapter(answer(BAD, Usage(input_tokens=100)))
    second = ScriptedAdapter(answer(GOOD, Usage(input_tokens=7)))

    reply = await ask(chat_of(first, second), failover_on=["invalid_output"])

    assert reply.usage == Usage(input_tokens=7)


async def test_a_bad_answer_says_nothing_about_the_keys_health() -> None:
    adapter = ScriptedAdapter(BAD, BAD, GOOD)
    chat = chat_of(adapter)

    with pytest.raises(InvalidOutputError):
        await ask(chat)
    assert (await ask(chat)).parsed == ADA


async def test_without_output_nothing_is_parsed() -> None:
    reply = await chat_of(ScriptedAdapter(GOOD))("Who?")

    assert reply.parsed is None


def test_a_long_list_of_problems_is_cut_short() -> None:
    told = complaint([f"field {number}: is wrong" for number in range(40)])

    assert (told.count("is wrong"), "and 30 more" in told) == (10, True)


# ---------------------------------------------------------------- over the vendors' own clients


async def test_FS_090_the_schema_travels_with_the_failover() -> None:
    openai, anthropic = Vendor(openai_error(503)), Vendor(anthropic_ok(GOOD))
    chat = FailoverChat([openai.openai(), anthropic.anthropic()], retry=RetryPolicy(max_retries=0))

    reply = await ask(chat)

    assert reply.parsed == ADA
    assert anthropic.arrivals[0].body["output_config"]["format"]["type"] == "json_schema"


REFUSED = openai_error(400, "this response_format type is unavailable", type="invalid_request_error")
FORCED = {
    "id": "1",
    "type": "function",
    "function": {"name": "Person", "arguments": GOOD},
}


def called(**call: Any) -> Any:
    made = openai_ok(None, finish="tool_calls")
    body = json.loads(made.content)
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [FORCED | call]}
    return type(made)(200, json=body)


async def test_FS_091_a_refused_schema_is_asked_for_as_a_tool_at_once_and_from_then_on() -> None:
    vendor = Vendor(REFUSED, called())
    chat = FailoverChat([vendor.openai()], retry=RetryPolicy(max_retries=0), clock=ManualClock())

    replies = [await ask(chat), await ask(chat)]

    assert [reply.parsed for reply in replies] == [ADA, ADA]
    assert ["response_format" in arrival.body for arrival in vendor.arrivals] == [True, False, False]
    assert vendor.arrivals[1].body["tool_choice"] == {"type": "function", "function": {"name": "Person"}}


async def test_FS_091_listeners_are_told_that_the_native_form_is_missing() -> None:
    listening = Listening()
    vendor = Vendor(REFUSED, called())

    await ask(FailoverChat([vendor.openai()], listeners=[listening]))

    assert [event.missing for event in listening.of() if event.event == "capability_learned"] == ["json_schema"]


async def test_where_tools_are_refused_too_the_schema_is_asked_for_in_words() -> None:
    no_tools = openai_error(400, "tool calling is not supported by this model", type="invalid_request_error")
    vendor = Vendor(REFUSED, no_tools, openai_ok(f"```json\n{GOOD}\n```"))
    chat = FailoverChat([vendor.openai()], retry=RetryPolicy(max_retries=0))

    replies = [await ask(chat), await ask(chat)]

    assert [reply.parsed for reply in replies] == [ADA, ADA]
    assert [bool({"tools", "response_format"} & arrival.body.keys()) for arrival in vendor.arrivals] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("tools", [None, False])
async def test_what_is_declared_is_not_asked_for_first(tools: bool | None) -> None:
    vendor = Vendor(called() if tools is None else openai_ok(GOOD))
    able = Capabilities(structured_output=False, tools=tools)
    chat = FailoverChat([vendor.openai(capabilities={GPT: able})])

    assert (await ask(chat)).parsed == ADA
    assert len(vendor.arrivals) == 1


# ---------------------------------------------------------------- streams


async def test_a_streamed_answer_is_parsed_at_its_end() -> None:
    able = Capabilities(streaming=False)
    chat = chat_of(ScriptedAdapter(GOOD), capabilities=able)

    async with chat.stream("Who?", output=Person) as stream:
        reply = await stream.reply()

    assert reply.parsed == ADA


async def test_a_streamed_answer_that_does_not_fit_is_raised_at_its_end_not_repaired() -> None:
    adapter = ScriptedAdapter(BAD)
    chat = chat_of(adapter, capabilities=Capabilities(streaming=False))

    with pytest.raises(InvalidOutputError) as raised:
        async with chat.stream("Who?", output=Person) as stream:
            await stream.reply()
    assert (raised.value.text, [a.kind for a in raised.value.attempts]) == (BAD, [Kind.INVALID_OUTPUT])
    assert len(adapter.sent) == 1


# ---------------------------------------------------------------- not served anywhere


async def test_V3_no_candidate_that_can_is_an_error_before_any_request_naming_what_is_missing_where() -> None:
    adapter = ScriptedAdapter("hi")
    chat = chat_of(adapter, capabilities=Capabilities(tools=False))

    with pytest.raises(UnsupportedFeatureError, match="a/m1: tools"):
        await chat("hi", tools=[Tool(name="f")])
    assert adapter.sent == []


async def test_transport_failures_of_a_structured_call_are_raised_as_what_they_are() -> None:
    with pytest.raises(ServerError):
        await ask(chat_of(ScriptedAdapter(fails(Kind.SERVER_ERROR))))
