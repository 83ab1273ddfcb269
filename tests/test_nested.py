"""A coordinator as one provider of another."""

from __future__ import annotations

from typing import Any

import pytest

from reliable_llm import (
    AuthenticationError,
    FailoverChat,
    FinishReason,
    InvalidRequestError,
    Kind,
    QuotaExhaustedError,
    ReliableLLMError,
    StreamInterruptedError,
    Usage,
)
from reliable_llm.nested import provider_of
from reliable_llm.types import Finished, TextDelta
from tests.support import STEADY, ManualClock, ScriptedAdapter, answer, fails, provider

DOWN = fails(Kind.SERVER_ERROR, retry_same=False)


def nested(
    *inner: ScriptedAdapter, spare: ScriptedAdapter | None = None, clock: ManualClock | None = None
) -> FailoverChat:
    clock = clock or ManualClock()
    team = FailoverChat(
        [provider(f"in{n}", adapter, models=[f"m{n}"]) for n, adapter in enumerate(inner)], clock=clock, retry=STEADY
    )
    own = [provider("own", spare, models=["mine"])] if spare else []
    return FailoverChat([provider_of(team, name="team"), *own], clock=clock, retry=STEADY)


def rows(attempts: Any) -> list[tuple[int, str, Kind | None]]:
    return [(a.number, a.provider, a.kind) for a in attempts]


async def test_an_inner_answer_is_the_answer() -> None:
    reply = await nested(ScriptedAdapter("inner"))("hi")

    assert (reply.text, str(reply.served_by), reply.failed_over) == ("inner", "team/m0", False)


async def test_inner_attempts_stand_in_the_ledger_once_each() -> None:
    reply = await nested(ScriptedAdapter(DOWN), ScriptedAdapter("second"))("hi")

    assert rows(reply.attempts) == [(1, "in0", Kind.SERVER_ERROR), (2, "in1", None)]


async def test_usage_is_counted_once() -> None:
    reply = await nested(ScriptedAdapter(answer("hi", Usage(input_tokens=10, output_tokens=5))))("hi")

    assert reply.usage == reply.usage_total == Usage(input_tokens=10, output_tokens=5)


async def test_what_inner_rejected_attempts_cost_is_counted_too_and_once() -> None:
    class Costly(ScriptedAdapter):
        async def complete(self, *args: Any) -> Any:
            try:
                return await super().complete(*args)
            except ReliableLLMError as error:
                error.usage = Usage(input_tokens=10, output_tokens=5)
                raise

    empty = fails(Kind.EMPTY_RESPONSE, retry_same=False)
    good = answer("hi", Usage(input_tokens=10, output_tokens=5))

    reply = await nested(Costly(empty), ScriptedAdapter(good))("hi")

    assert reply.usage == Usage(input_tokens=10, output_tokens=5)
    assert reply.usage_total == Usage(input_tokens=20, output_tokens=10)


async def test_when_the_inner_one_is_down_the_outer_one_moves_on_without_retrying_it() -> None:
    inner = ScriptedAdapter(fails(Kind.SERVER_ERROR))

    reply = await nested(inner, spare=ScriptedAdapter("spare"))("hi")

    assert (reply.text, len(inner.sent)) == ("spare", 3)
    assert rows(reply.attempts)[-2:] == [(3, "in0", Kind.SERVER_ERROR), (4, "own", None)]


async def test_when_all_are_down_the_inner_kind_is_raised_with_the_whole_story() -> None:
    chat = nested(ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED)), ScriptedAdapter(DOWN), spare=ScriptedAdapter(DOWN))

    with pytest.raises(QuotaExhaustedError) as raised:
        await chat("hi")

    assert [a.provider for a in raised.value.attempts] == ["in0", "in1", "own"]
    assert "own/mine" in str(raised.value)


async def test_times_and_waits_of_inner_attempts_count_from_the_start_of_the_outer_call() -> None:
    inner = ScriptedAdapter(fails(Kind.SERVER_ERROR), "late")

    reply = await nested(inner)("hi")

    assert [(a.started, a.waited) for a in reply.attempts] == [(0.0, 0.0), (0.5, 0.5)]


async def test_a_key_refused_inside_does_not_shut_the_inner_coordinator_out() -> None:
    inner = ScriptedAdapter(fails(Kind.AUTHENTICATION))
    other = ScriptedAdapter(DOWN, "back")
    chat = nested(inner, other)

    with pytest.raises(AuthenticationError):
        await chat("hi")

    assert (await chat("hi")).text == "back"


async def test_the_memory_of_quota_is_the_inner_ones() -> None:
    clock = ManualClock()
    inner = ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED), "back")
    chat = nested(inner, spare=ScriptedAdapter("spare"), clock=clock)
    first = await chat("hi")
    second = await chat("hi")
    clock.advance(300)

    assert [first.text, second.text, (await chat("hi")).text] == ["spare", "spare", "back"]
    assert len(inner.sent) == 2


async def test_a_bad_request_is_raised_through_both() -> None:
    spare = ScriptedAdapter("never")

    with pytest.raises(InvalidRequestError):
        await nested(ScriptedAdapter(fails(Kind.INVALID_REQUEST)), spare=spare)("hi")

    assert spare.sent == []


async def test_a_stream_goes_through_both_and_is_counted_once() -> None:
    usage = Usage(input_tokens=10, output_tokens=5)
    events: list[Any] = [TextDelta("a"), TextDelta("b"), Finished(FinishReason.STOP, usage)]
    chat = nested(ScriptedAdapter(streams=([DOWN],)), ScriptedAdapter(streams=(events,)))

    async with chat.stream("hi") as stream:
        told = [event.text async for event in stream if isinstance(event, TextDelta)]
        reply = await stream.reply()

    assert (told, reply.text, reply.usage_total) == (["a", "b"], "ab", usage)
    assert rows(reply.attempts) == [(1, "in0", Kind.SERVER_ERROR), (2, "in1", None)]


async def test_a_stream_fails_over_from_the_inner_one_to_the_next() -> None:
    events: list[Any] = [TextDelta("spare"), Finished(FinishReason.STOP, None)]
    chat = nested(ScriptedAdapter(streams=([DOWN],)), spare=ScriptedAdapter(streams=(events,)))

    async with chat.stream("hi") as stream:
        reply = await stream.reply()

    assert (reply.text, str(reply.served_by)) == ("spare", "own/mine")


async def test_a_stream_that_breaks_inside_after_output_is_interrupted_with_what_came() -> None:
    chat = nested(ScriptedAdapter(streams=([TextDelta("half"), fails(Kind.CONNECTION)],)))

    with pytest.raises(StreamInterruptedError) as raised:
        async with chat.stream("hi") as stream:
            await stream.reply()

    assert raised.value.partial_text == "half"


async def test_a_stream_that_is_left_is_left_inside_too() -> None:
    adapter = ScriptedAdapter(streams=([TextDelta("a"), TextDelta("b"), Finished(FinishReason.STOP, None)],))

    async with nested(adapter).stream("hi") as stream:
        await anext(stream)

    assert adapter.streams_closed == 1


async def test_a_model_of_the_inner_chain_can_be_chosen() -> None:
    clock = ManualClock()
    team = FailoverChat(
        [
            provider("in", ScriptedAdapter("never"), models=["m0"]),
            provider("in2", ScriptedAdapter("two"), models=["m1"]),
        ],
        clock=clock,
    )
    chat = FailoverChat([provider_of(team, name="team", models=["m0", "m1"])], clock=clock)

    assert (await chat("hi", model="m1")).text == "two"


async def test_closing_the_outer_one_leaves_the_inner_one_open() -> None:
    team = FailoverChat([provider("in", ScriptedAdapter("still here"))], clock=ManualClock())
    async with FailoverChat([provider_of(team, name="team")], clock=ManualClock()) as chat:
        await chat("hi")

    assert (await team("hi")).text == "still here"
