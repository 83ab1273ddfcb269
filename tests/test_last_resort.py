"""The answer of last resort: after an outage, and after nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reliable_llm import (
    ChatReply,
    ChatRequest,
    FailoverChat,
    FinishReason,
    InvalidRequestError,
    Kind,
    QuotaExhaustedError,
    ReliableLLMError,
    ServedBy,
    Text,
    Usage,
)
from reliable_llm.events import CallFailed, LastResortUsed
from reliable_llm.last_resort import LastResort
from reliable_llm.types import Candidate, Started, TextDelta
from tests.support import STEADY, Fails, Listening, ManualClock, ScriptedAdapter, fails, provider

DOWN = fails(Kind.SERVER_ERROR, retry_same=False)
EMPTY = fails(Kind.QUOTA_EXHAUSTED)


def plan(_request: ChatRequest, _error: ReliableLLMError) -> str:
    return "the usual plan"


def chat_of(first: Fails, second: Fails, last_resort: LastResort | None = plan, *listeners: Listening) -> FailoverChat:
    return FailoverChat(
        [
            provider("a", ScriptedAdapter(first, streams=([first],)), models=["m"]),
            provider("b", ScriptedAdapter(second, streams=([second],)), models=["n"]),
        ],
        clock=ManualClock(),
        retry=STEADY,
        listeners=listeners,
        last_resort=last_resort,
    )


async def test_after_an_outage_the_last_resort_answers() -> None:
    assert (await chat_of(EMPTY, DOWN)("hi")).text == "the usual plan"


async def test_its_reply_is_marked_degraded_and_names_no_vendor() -> None:
    reply = await chat_of(EMPTY, DOWN)("hi")

    assert (reply.degraded, reply.served_by.provider, reply.usage) == (True, "last_resort", None)


async def test_its_reply_keeps_the_ledger() -> None:
    reply = await chat_of(EMPTY, DOWN)("hi")

    assert [(a.provider, a.kind) for a in reply.attempts] == [
        ("a", Kind.QUOTA_EXHAUSTED),
        ("b", Kind.SERVER_ERROR),
    ]


async def test_what_the_rejected_attempts_cost_is_still_counted() -> None:
    costly = fails(Kind.EMPTY_RESPONSE, retry_same=False)

    class Costly(ScriptedAdapter):
        async def complete(self, *args: object) -> object:  # type: ignore[override]
            try:
                return await super().complete(*args)  # type: ignore[arg-type]
            except ReliableLLMError as error:
                error.usage = Usage(input_tokens=10, output_tokens=0)
                raise

    chat = FailoverChat([provider("a", Costly(costly))], clock=ManualClock(), retry=STEADY, last_resort=plan)

    assert (await chat("hi")).usage_total == Usage(input_tokens=10, output_tokens=0)


async def test_the_outage_is_told_before_the_last_resort_is_used() -> None:
    told = Listening()

    await chat_of(EMPTY, DOWN, plan, told)("hi")

    assert told.of(CallFailed, LastResortUsed) == [
        replace(told.of(CallFailed)[0], primary_kind=Kind.QUOTA_EXHAUSTED, attempts=2),
        LastResortUsed(Kind.QUOTA_EXHAUSTED, 2),
    ]


async def test_it_gets_the_request_and_the_error_that_would_be_raised() -> None:
    seen: list[tuple[str, Kind]] = []

    def note(request: ChatRequest, error: ReliableLLMError) -> str:
        seen.append((request.messages[-1].text, error.kind))
        return "noted"

    await chat_of(EMPTY, DOWN, note)("hi")

    assert seen == [("hi", Kind.QUOTA_EXHAUSTED)]


async def test_a_last_resort_that_declines_lets_the_error_through() -> None:
    with pytest.raises(QuotaExhaustedError) as raised:
        await chat_of(EMPTY, DOWN, lambda _request, _error: None)("hi")

    assert len(raised.value.attempts) == 2


async def test_a_whole_reply_of_its_own_is_marked_too() -> None:
    own = ChatReply(
        parts=(Text("from the cache"),),
        served_by=ServedBy("cache", "m", ""),
        requested=Candidate("x", "y"),
        finish_reason=FinishReason.STOP,
        usage=None,
        attempts=(),
    )

    reply = await chat_of(EMPTY, DOWN, lambda _request, _error: own)("hi")

    assert (reply.text, reply.degraded, str(reply.served_by)) == ("from the cache", True, "cache/m")
    assert (str(reply.requested), len(reply.attempts)) == ("a/m", 2)


async def test_a_bad_request_is_raised_as_ever() -> None:
    with pytest.raises(InvalidRequestError):
        await chat_of(fails(Kind.INVALID_REQUEST), DOWN)("hi")


async def test_without_a_last_resort_the_outage_is_raised() -> None:
    with pytest.raises(QuotaExhaustedError):
        await chat_of(EMPTY, DOWN, None)("hi")


async def test_a_mistake_in_the_last_resort_is_not_hidden() -> None:
    def broken(_request: ChatRequest, _error: ReliableLLMError) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        await chat_of(EMPTY, DOWN, broken)("hi")

    assert isinstance(raised.value.__context__, QuotaExhaustedError)


async def test_a_stream_falls_back_on_the_last_resort_too() -> None:
    async with chat_of(EMPTY, DOWN).stream("hi") as stream:
        events = [event async for event in stream]
        reply = await stream.reply()

    assert isinstance(events[0], Started)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["the usual plan"]
    assert (reply.degraded, len(reply.attempts)) == (True, 2)


async def test_a_streams_bad_request_is_raised_as_ever() -> None:
    with pytest.raises(InvalidRequestError):
        async with chat_of(fails(Kind.INVALID_REQUEST), DOWN).stream("hi"):
            pass


async def test_a_healthy_call_never_asks_it() -> None:
    def never(_request: ChatRequest, _error: ReliableLLMError) -> str:
        raise AssertionError

    chat = FailoverChat([provider("a", ScriptedAdapter("fine"))], clock=ManualClock(), last_resort=never)

    assert (await chat("hi")).degraded is False
