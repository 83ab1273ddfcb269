"""Group D: one owner of retries, one code path, and what surrounds it."""

from __future__ import annotations

import pytest

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import Kind, QuotaExhaustedError, ServerError
from reliable_llm.policy import RetryPolicy
from reliable_llm.provider import Provider
from reliable_llm.types import AdapterReply, Usage
from tests.checklist.pairs import Pair
from tests.support import (
    STEADY,
    Listening,
    ManualClock,
    ScriptedAdapter,
    Vendor,
    anthropic_error,
    openai_error,
    openai_ok,
    out_of_quota,
    provider,
)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_d1_the_vendors_client_retries_nothing(status: int) -> None:
    once = RetryPolicy(max_retries=0, wait_for_cooldown=False)
    pair = Pair(openai_error(status), alone=True, retry=once)
    error = await pair.fail()
    assert len(pair.primary.arrivals) == len(error.attempts) == 1


async def test_d1_anthropics_client_retries_nothing_either() -> None:
    vendor = Vendor(anthropic_error(529, "overloaded_error"))
    chat = FailoverChat([vendor.anthropic()], retry=STEADY, clock=ManualClock())
    with pytest.raises(Exception, match="overloaded") as raised:
        await chat("hi")
    assert len(vendor.arrivals) == len(raised.value.attempts) == 3  # type: ignore[attr-defined]


def test_d3_it_is_written_down_that_retries_have_one_owner_gateways_included() -> None:
    assert "gateway behind `base_url` that retries or falls back by itself" in " ".join(
        (Provider.__doc__ or "").split()
    )


async def test_d6_a_last_resort_answers_after_a_total_failure_and_the_outage_is_reported_all_the_same() -> None:
    heard, vendor, stub = Listening(), Vendor(openai_error(401)), "the stub strategy"
    providers = [vendor.openai()]
    chat = FailoverChat(providers, last_resort=lambda request, error: stub, listeners=[heard], clock=ManualClock())
    reply = await chat("hi")
    assert (reply.text, reply.degraded, len(reply.attempts)) == (stub, True, 1)
    assert [event.primary_kind for event in heard.of(events.CallFailed)] == [Kind.AUTHENTICATION]


def test_d4_a_chain_with_one_vendor_only_is_warned_about() -> None:
    heard, vendor = Listening(), Vendor(openai_ok())
    FailoverChat([vendor.openai(name="a"), vendor.openai(name="b")], listeners=[heard])
    assert [event.reason for event in heard.of(events.ConfigWarning)] == [
        "all providers share one vendor, and its outages"
    ]


def test_d4_two_vendors_are_not() -> None:
    heard, vendor = Listening(), Vendor(openai_ok())
    FailoverChat([vendor.openai(), vendor.anthropic()], listeners=[heard])
    assert heard.of(events.ConfigWarning) == []


async def test_d5_a_single_candidate_has_the_same_retries_rotation_and_errors() -> None:
    pair = Pair(openai_error(500), alone=True)
    error = await pair.fail()
    assert isinstance(error, ServerError)
    assert (pair.calls, pair.slept) == ((3, 0), [0.5, 1])


async def test_d5_failover_false_makes_a_chain_a_single_candidate() -> None:
    pair = Pair(out_of_quota())
    assert isinstance(await pair.fail(failover=False), QuotaExhaustedError)
    assert pair.calls == (1, 0)


async def test_d7_usage_is_counted_once_where_one_coordinator_stands_behind_another() -> None:
    inner_vendor = Vendor(openai_ok("", usage=(7, 3)), openai_ok("The Rhine.", usage=(10, 5)))
    inner = FailoverChat([inner_vendor.openai()], retry=STEADY, clock=ManualClock())

    async def ask_inner() -> AdapterReply:
        reply = await inner("hi")
        return AdapterReply(parts=reply.parts, finish_reason=reply.finish_reason, usage=reply.usage_total)

    outer = FailoverChat([provider("inner", ScriptedAdapter(ask_inner))], clock=ManualClock())
    reply = await outer("hi")
    assert reply.usage_total == Usage(input_tokens=17, output_tokens=8)


async def test_d7_an_error_of_the_inner_one_is_read_by_its_kind() -> None:
    inner_vendor = Vendor(out_of_quota())
    inner = FailoverChat([inner_vendor.openai()], retry=STEADY, clock=ManualClock())

    async def ask_inner() -> AdapterReply:
        reply = await inner("hi")
        return AdapterReply(parts=reply.parts, finish_reason=reply.finish_reason)

    second = ScriptedAdapter("from the second")
    providers = [provider("inner", ScriptedAdapter(ask_inner)), provider("second", second)]
    reply = await FailoverChat(providers, clock=ManualClock())("hi")
    assert reply.text == "from the second"


async def test_d_warmup_asks_every_provider_and_raises_nothing() -> None:
    first, second = ScriptedAdapter(), ScriptedAdapter()
    await FailoverChat([provider("a", first), provider("b", second)]).warmup()
    assert (first.warmed, second.warmed) == (1, 1)


async def test_d_aclose_closes_what_was_built_and_nothing_else() -> None:
    first, second = ScriptedAdapter(), ScriptedAdapter()
    async with FailoverChat([provider("a", first), provider("b", second)]) as chat:
        await chat("hi")
    assert (first.closed, second.closed) == (1, 0)
