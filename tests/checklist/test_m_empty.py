"""Group M: an answer that says nothing is a failed attempt, and what it cost is kept."""

from __future__ import annotations

import json

import httpx2
import pytest

from reliable_llm.chat import FailoverChat
from reliable_llm.errors import EmptyResponseError, Kind
from reliable_llm.types import FinishReason, Usage
from tests.checklist.pairs import Pair
from tests.support import STEADY, ManualClock, Vendor, anthropic_ok, openai_chunk, openai_ok, sse

TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}


def with_message(**message: object) -> httpx2.Response:
    body = json.loads(openai_ok().content)
    body["choices"][0]["message"] = {"role": "assistant", **message}
    return httpx2.Response(200, json=body)


@pytest.mark.parametrize("text", ["", "   \n", None, "<think>hm</think>", "<think>hm, and no end"])
async def test_m1_an_empty_answer_is_tried_three_times_and_then_elsewhere(text: str | None) -> None:
    pair = Pair(openai_ok(text))
    reply = await pair.ask()
    assert pair.calls == (3, 1)
    assert [attempt.kind for attempt in reply.attempts] == [Kind.EMPTY_RESPONSE] * 3 + [None]


async def test_m1_alone_it_is_raised_as_what_it_is() -> None:
    pair = Pair(openai_ok(""), alone=True)
    assert isinstance(await pair.fail(), EmptyResponseError)


async def test_m1_a_tool_call_without_text_is_an_answer() -> None:
    pair = Pair(with_message(content=None, tool_calls=[TOOL_CALL]))
    reply = await pair.ask()
    assert [call.name for call in reply.tool_calls] == ["lookup"]


async def test_m1_text_beside_the_thinking_is_an_answer() -> None:
    pair = Pair(openai_ok("<think>hm</think>The Rhine."))
    assert "The Rhine." in (await pair.ask()).text


async def test_m1_anthropics_empty_answer_counts_alike() -> None:
    vendor = Vendor(anthropic_ok(""), anthropic_ok())
    chat = FailoverChat([vendor.anthropic()], retry=STEADY, clock=ManualClock())
    assert len((await chat("hi")).attempts) == 2


@pytest.mark.parametrize("text", ["", "<think>nothing to say</think>"])
async def test_m2_the_check_can_be_turned_off_for_a_call(text: str) -> None:
    pair = Pair(openai_ok(text))
    reply = await pair.ask(allow_empty=True)
    assert (reply.finish_reason, pair.calls) == (FinishReason.STOP, (1, 0))


async def test_m2_an_answer_that_was_cut_before_its_first_word_is_a_failure_all_the_same() -> None:
    pair = Pair(openai_ok("", finish="length"))
    await pair.ask(allow_empty=True)
    assert pair.calls == (3, 1)


async def test_m2_anthropics_silence_can_be_an_answer_too() -> None:
    vendor = Vendor(anthropic_ok(""))
    chat = FailoverChat([vendor.anthropic()], clock=ManualClock())
    assert (await chat("hi", max_tokens=10, allow_empty=True)).text == ""


async def test_m2_a_silent_stream_can_be_an_answer_too() -> None:
    vendor = Vendor(sse(openai_chunk(finish="stop"), "[DONE]"))
    chat = FailoverChat([vendor.openai()], clock=ManualClock())
    async with chat.stream("hi", allow_empty=True) as stream:
        assert (await stream.reply()).text == ""


async def test_m2_where_it_is_no_failure_to_move_on_it_can_be_left_to_the_caller() -> None:
    pair = Pair(openai_ok(""), retry=STEADY.__class__(max_retries=0))
    error = await pair.fail(failover=False)
    assert isinstance(error, EmptyResponseError)
    assert pair.calls == (1, 0)


@pytest.mark.parametrize(("finish", "reason"), [("stop", FinishReason.STOP), ("length", FinishReason.LENGTH)])
async def test_m3_the_reason_for_the_end_is_told(finish: str, reason: FinishReason) -> None:
    assert (await Pair(openai_ok("The Rhi", finish=finish)).ask()).finish_reason is reason


async def test_m3_anthropics_reason_is_told_in_the_same_words() -> None:
    vendor = Vendor(anthropic_ok("The Rhi", stop="max_tokens"))
    chat = FailoverChat([vendor.anthropic()], clock=ManualClock())
    assert (await chat("hi")).finish_reason is FinishReason.LENGTH


async def test_m4_what_a_rejected_answer_cost_is_kept_apart() -> None:
    pair = Pair(openai_ok("", usage=(10, 5)), openai_ok("The Rhine.", usage=(10, 5)))
    reply = await pair.ask()
    one = Usage(input_tokens=10, output_tokens=5)
    assert reply.usage == one
    assert [attempt.usage for attempt in reply.attempts] == [one, one]
    assert reply.usage_total == Usage(input_tokens=20, output_tokens=10)


async def test_m4_on_failure_it_is_in_the_error() -> None:
    error = await Pair(openai_ok("", usage=(10, 5)), alone=True).fail()
    assert [attempt.usage for attempt in error.attempts] == [Usage(input_tokens=10, output_tokens=5)] * 3
