"""ChatStream over a scripted adapter: what the caller sees, and when a stream goes on elsewhere."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import (
    ClosedError,
    ConfigurationError,
    EmptyResponseError,
    InvalidRequestError,
    Kind,
    ServerError,
    StreamInterruptedError,
)
from reliable_llm.policy import RetryPolicy
from reliable_llm.types import (
    Alive,
    Capabilities,
    Continued,
    Finished,
    FinishReason,
    ReasoningDelta,
    Restarted,
    Started,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)
from tests.support import (
    STEADY,
    Listening,
    ManualClock,
    ScriptedAdapter,
    StreamItem,
    answer,
    fails,
    provider,
)

USED = Usage(input_tokens=10, output_tokens=5)
END = Finished(FinishReason.STOP, USED)
HELLO: list[StreamItem] = [TextDelta("Hel"), TextDelta("lo"), END]
CALL = ToolCall(id="c1", name="lookup", arguments="{}")


class Site:
    """One or two scripted providers, and what a stream over them gives."""

    def __init__(
        self, *first: list[StreamItem], second: list[StreamItem] | None = None, retry: RetryPolicy = STEADY
    ) -> None:
        self.first = ScriptedAdapter(streams=first)
        self.second = ScriptedAdapter(streams=(second or HELLO,), vendor="anthropic")
        self.clock, self.heard = ManualClock(), Listening()
        providers = [provider("a", self.first)] + ([provider("b", self.second)] if second is not None else [])
        self.chat = FailoverChat(providers, retry=retry, clock=self.clock, listeners=[self.heard])

    async def events(self, **asked: Any) -> list[Any]:
        async with self.chat.stream("hi", **asked) as stream:
            return [event async for event in stream]


# ---------------------------------------------------------------- what the caller sees


async def test_events_come_in_order_beginning_with_who_answers() -> None:
    seen = await Site(HELLO).events()
    assert isinstance(seen[0], Started)
    assert str(seen[0].served_by) == "a/m1"
    assert seen[1:] == HELLO


async def test_signs_of_life_and_empty_text_are_not_shown() -> None:
    seen = await Site([Alive(), TextDelta("Hello"), Alive(), TextDelta(""), END]).events()
    assert seen[1:] == [TextDelta("Hello"), END]


async def test_usage_before_the_first_output_is_shown_when_the_output_comes() -> None:
    update = UsageUpdate(Usage(input_tokens=10))
    assert (await Site([update, *HELLO]).events())[1:] == [update, *HELLO]


async def test_reasoning_is_output_too() -> None:
    assert (await Site([ReasoningDelta("hm"), *HELLO]).events())[1] == ReasoningDelta("hm")


async def test_tool_calls_are_output_too() -> None:
    items: list[StreamItem] = [ToolCallStarted(0, "c1", "lookup"), ToolCallDelta(0, "{}"), ToolCallEnded(0, CALL), END]
    assert (await Site(items).events())[1:] == items


async def test_the_text_alone_can_be_read() -> None:
    async with Site([ReasoningDelta("hm"), *HELLO]).chat.stream("hi") as stream:
        assert [text async for text in stream.text_stream] == ["Hel", "lo"]
        assert stream.text == "Hello"


async def test_the_whole_answer_can_be_asked_for_at_any_time() -> None:
    async with Site(HELLO).chat.stream("hi") as stream:
        await anext(stream)
        reply = await stream.reply()
    assert (reply.text, reply.usage, str(reply.served_by)) == ("Hello", USED, "a/m1")
    assert await stream.reply() is reply


async def test_after_the_end_there_is_nothing_more() -> None:
    async with Site(HELLO).chat.stream("hi") as stream:
        await stream.reply()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_stream_that_was_left_has_no_whole_answer() -> None:
    async with Site(HELLO).chat.stream("hi") as stream:
        pass
    with pytest.raises(StreamInterruptedError, match="left before its end"):
        await stream.reply()


async def test_usage_is_known_as_far_as_it_was_told() -> None:
    update = UsageUpdate(Usage(input_tokens=10))
    async with Site([update, *HELLO]).chat.stream("hi") as stream:
        assert stream.usage == update.usage
        await stream.reply()
        assert stream.usage == USED


async def test_a_candidate_that_cannot_stream_gives_its_answer_in_one_piece() -> None:
    adapter = ScriptedAdapter(answer("In one piece.", USED))
    blocked = provider("a", adapter, capabilities=Capabilities(streaming=False))
    chat = FailoverChat([blocked], clock=ManualClock())
    async with chat.stream("hi") as stream:
        seen = [event async for event in stream]
    assert seen[1:] == [TextDelta("In one piece."), Finished(FinishReason.STOP, USED)]


# ---------------------------------------------------------------- before the first output


@pytest.mark.parametrize("items", [[fails(Kind.SERVER_ERROR)], [Alive(), fails(Kind.SERVER_ERROR)]])
async def test_a_failure_before_the_first_output_is_retried_and_then_left(items: list[StreamItem]) -> None:
    site = Site(items, second=HELLO)
    assert str((await site.events())[0].served_by) == "b/m1"
    assert (len(site.first.sent), len(site.second.sent), site.clock.slept) == (3, 1, [0.5, 1])


async def test_with_nobody_left_the_error_is_raised_on_entering() -> None:
    with pytest.raises(ServerError):
        await Site([fails(Kind.SERVER_ERROR)]).events()


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.TOOL_CALLS])
async def test_an_end_without_output_is_no_answer(reason: FinishReason) -> None:
    with pytest.raises(EmptyResponseError):
        await Site([Finished(reason, USED)]).events()


@pytest.mark.parametrize("reason", [FinishReason.REFUSAL, FinishReason.CONTENT_FILTER, FinishReason.LENGTH])
async def test_some_answers_may_be_empty(reason: FinishReason) -> None:
    assert (await Site([Finished(reason, USED)]).events())[-1] == Finished(reason, USED)


async def test_a_stream_that_just_ends_is_no_answer() -> None:
    with pytest.raises(EmptyResponseError):
        await Site([Alive()]).events()


@pytest.mark.parametrize("items", [HELLO, [TextDelta("Hel"), fails(Kind.CONNECTION)], [fails(Kind.SERVER_ERROR)]])
async def test_every_stream_that_was_opened_is_closed(items: list[StreamItem]) -> None:
    site = Site(items)
    with contextlib.suppress(StreamInterruptedError, ServerError):
        await site.events()
    opened = 0 if items and not isinstance(items[0], TextDelta) else 1
    assert site.first.streams_closed == opened


# ---------------------------------------------------------------- after it


@pytest.mark.parametrize("kind", [Kind.CONNECTION, Kind.SERVER_ERROR, Kind.OVERLOADED])
async def test_a_failure_after_output_is_an_interruption_with_its_cause(kind: Kind) -> None:
    site = Site([TextDelta("Hel"), UsageUpdate(USED), fails(kind)], second=HELLO)
    with pytest.raises(StreamInterruptedError) as raised:
        await site.events()
    error = raised.value
    assert (error.partial_text, error.cause_kind, site.second.sent) == ("Hel", kind, [])
    assert error.usage is not None
    assert error.usage.partial


async def test_a_stream_that_just_ends_after_output_is_an_interruption() -> None:
    with pytest.raises(StreamInterruptedError) as raised:
        await Site([TextDelta("Hel")]).events()
    assert raised.value.cause_kind is Kind.CONNECTION


async def test_a_bug_of_the_adapter_passes_as_raised() -> None:
    site = Site([TextDelta("Hel"), ZeroDivisionError("a bug")])
    with pytest.raises(ZeroDivisionError):
        await site.events()
    assert site.first.streams_closed == 1


async def test_an_interruption_is_in_the_ledger_and_told() -> None:
    site = Site([TextDelta("Hel"), fails(Kind.CONNECTION)])
    with pytest.raises(StreamInterruptedError) as raised:
        await site.events()
    assert [attempt.kind for attempt in raised.value.attempts] == [Kind.STREAM_INTERRUPTED]
    assert [event.primary_kind for event in site.heard.of(events.CallFailed)] == [Kind.STREAM_INTERRUPTED]


# ---------------------------------------------------------------- going on elsewhere

ONE = RetryPolicy(max_retries=0, jitter=0)
LONG = "The Rhine rises in the Alps and flows "


async def test_a_restart_is_announced_and_begins_from_the_beginning() -> None:
    site = Site([TextDelta("Hel"), fails(Kind.CONNECTION)], second=HELLO, retry=ONE)
    seen = await site.events(on_interrupt="restart")
    kinds = [type(event) for event in seen]
    assert kinds == [Started, TextDelta, Restarted, Started, TextDelta, TextDelta, Finished]
    assert seen[2] == Restarted(Kind.CONNECTION)


async def test_after_a_restart_the_text_is_the_second_answers_alone() -> None:
    site = Site([TextDelta("Hel"), fails(Kind.CONNECTION)], second=HELLO, retry=ONE)
    async with site.chat.stream("hi", on_interrupt="restart") as stream:
        reply = await stream.reply()
    assert (stream.text, reply.text, len(reply.attempts)) == ("Hello", "Hello", 2)


async def test_a_continuation_goes_on_where_the_text_ended() -> None:
    rest: list[StreamItem] = [TextDelta("flows to the "), TextDelta("sea."), END]
    site = Site([TextDelta(LONG), fails(Kind.CONNECTION)], second=rest, retry=ONE)
    async with site.chat.stream("hi", on_interrupt="continue") as stream:
        seen = [event async for event in stream]
        reply = await stream.reply()
    assert Continued(Kind.CONNECTION) in seen
    assert reply.text == stream.text == LONG + "flows to the sea."
    assert [message.role for message in site.second.sent[0].request.messages] == ["user", "assistant", "user"]


async def test_what_a_continuation_repeats_is_not_shown_twice() -> None:
    rest: list[StreamItem] = [TextDelta("in the Alps and flows "), TextDelta("to the sea."), END]
    site = Site([TextDelta(LONG), fails(Kind.CONNECTION)], second=rest, retry=ONE)
    async with site.chat.stream("hi", on_interrupt="continue") as stream:
        await stream.reply()
    assert stream.text == LONG + "to the sea."


async def test_a_long_continuation_is_shown_before_its_end() -> None:
    rest: list[StreamItem] = [TextDelta("x" * 300), TextDelta("y"), END]
    site = Site([TextDelta(LONG), fails(Kind.CONNECTION)], second=rest, retry=ONE)
    seen = await site.events(on_interrupt="continue")
    assert [event.text for event in seen if isinstance(event, TextDelta)] == [LONG, "x" * 300, "y"]


@pytest.mark.parametrize("first", [ToolCallStarted(0, "c1", "lookup"), ReasoningDelta("hm")])
async def test_what_is_no_plain_text_is_not_continued(first: StreamItem) -> None:
    site = Site([first, fails(Kind.CONNECTION)], second=HELLO, retry=ONE)
    with pytest.raises(StreamInterruptedError):
        await site.events(on_interrupt="continue")
    assert site.second.sent == []


async def test_with_nobody_to_go_on_the_interruption_is_raised() -> None:
    site = Site([TextDelta("Hel"), fails(Kind.CONNECTION)], retry=ONE)
    with pytest.raises(StreamInterruptedError) as raised:
        await site.events(on_interrupt="restart")
    assert raised.value.partial_text == "Hel"


# ---------------------------------------------------------------- asking for one


def test_an_unknown_way_to_go_on_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="restart"):
        Site(HELLO).chat.stream("hi", on_interrupt="guess")  # type: ignore[arg-type]


async def test_a_stream_that_was_never_opened_says_how_to() -> None:
    with pytest.raises(ConfigurationError, match=r"async with chat\.stream"):
        async for _ in Site(HELLO).chat.stream("hi"):
            pass


async def test_a_stream_that_was_left_has_no_more_to_say() -> None:
    async with Site(HELLO).chat.stream("hi") as stream:
        pass
    assert [event async for event in stream if isinstance(event, Finished)] == []


def test_a_wrong_request_is_refused_at_once() -> None:
    with pytest.raises(InvalidRequestError):
        Site(HELLO).chat.stream("")


async def test_a_stream_under_way_opens_nothing_once_the_coordinator_is_closed() -> None:
    site = Site([TextDelta("Hel"), lambda: site.chat.aclose(), fails(Kind.CONNECTION)], second=HELLO)
    with pytest.raises(ClosedError):
        await site.events(on_interrupt="restart")
    assert site.second.sent == []


async def test_a_closed_coordinator_streams_nothing() -> None:
    site = Site(HELLO)
    await site.chat.aclose()
    with pytest.raises(ClosedError):
        site.chat.stream("hi")
