"""The dry run says where a call would go, what would be lost, and how long it may take; and `strict` acts on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliable_llm import (
    Capabilities,
    ContextWindowError,
    FailoverChat,
    InvalidRequestError,
    Limits,
    Plan,
    ReliableLLMError,
    RetryPolicy,
    Timeouts,
    UnsupportedFeatureError,
)
from reliable_llm.errors import Kind
from reliable_llm.types import AdapterReply, HostedTool, Image, Message, Text, Tool, ToolCall
from tests.support import (
    CLAUDE,
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

PICTURE = [Message("user", (Text("look"), Image(url="https://x/a.png")))]


def told(plan: Plan) -> dict[str, str | None]:
    return {str(each.candidate): each.out for each in plan.candidates}


# ---------------------------------------------------------------- where it would go


def test_candidates_come_in_the_order_in_which_they_would_be_tried() -> None:
    chat = FailoverChat([provider("a", ScriptedAdapter(), models=["m1", "m2"]), provider("b", ScriptedAdapter())])

    assert [str(each.candidate) for each in chat.plan("hi").candidates] == ["a/m1", "b/m1", "a/m2"]


def test_a_plan_takes_the_routes_of_a_call() -> None:
    chat = FailoverChat([provider("a", ScriptedAdapter(), models=["m1", "m2"]), provider("b", ScriptedAdapter())])

    plans = [chat.plan("hi", route=["b/m1"]), chat.plan("hi", model="m2"), chat.plan("hi", failover=False)]

    assert [[str(each.candidate) for each in plan.candidates] for plan in plans] == [["b/m1"], ["a/m2"], ["a/m1"]]


def test_a_plan_sends_nothing_and_changes_nobodys_health() -> None:
    adapter = ScriptedAdapter()
    chat = FailoverChat([provider("a", adapter, keys=2)])
    before = chat.status()

    chat.plan("hi")

    assert (adapter.sent, chat.status()) == ([], before)


async def test_a_plan_does_not_move_the_round_of_the_keys() -> None:
    adapter = ScriptedAdapter()
    chat = FailoverChat([provider("a", adapter, keys=2)], clock=ManualClock())

    await chat("hi")
    chat.plan("hi")
    await chat("hi")

    assert adapter.keys == ["a#1", "a#2"]


@pytest.mark.parametrize(
    ("able", "asked", "out"),
    [
        (Capabilities(vision=False), {"prompt": PICTURE}, "vision"),
        (Capabilities(tools=False), {"prompt": "hi", "tools": [Tool(name="f")]}, "tools"),
        (Capabilities(max_output=100), {"prompt": "hi", "max_tokens": 101}, "max_output:101"),
        (Capabilities(), {"prompt": "hi", "tools": [HostedTool(vendor="x", spec={})]}, "hosted_tool:x"),
        (Capabilities(tools=False, prompt_tools=True), {"prompt": "hi", "tools": [Tool(name="f")]}, None),
        (Capabilities(max_output=100), {"prompt": "hi", "max_tokens": 100}, None),
        (Capabilities(vision=False), {"prompt": "hi"}, None),
    ],
)
def test_why_a_candidate_is_out_is_told(able: Capabilities, asked: dict[str, Any], out: str | None) -> None:
    chat = FailoverChat([provider("a", ScriptedAdapter(), capabilities=able)])

    assert told(chat.plan(**asked)) == {"a/m1": out}


def test_what_the_adapter_cannot_express_is_out() -> None:
    adapter = ScriptedAdapter()
    adapter.refuses = UnsupportedFeatureError("no")

    assert told(FailoverChat([provider("a", adapter)]).plan("hi")) == {"a/m1": "unsupported"}


def test_a_request_that_nobody_could_take_is_refused_as_in_a_call() -> None:
    call = Message("assistant", (ToolCall(id="1", name="f", arguments="{}"),))

    with pytest.raises(InvalidRequestError):
        FailoverChat([Vendor().openai()]).plan([Message("user", "hi"), call])


async def test_a_resting_candidate_is_told_with_the_seconds_it_rests() -> None:
    clock = ManualClock()
    adapter = ScriptedAdapter(fails(Kind.RATE_LIMITED, retry_after=90.0))
    chat = FailoverChat([provider("a", adapter)], clock=clock, retry=STEADY)
    with pytest.raises(ReliableLLMError):
        await chat("hi")

    clock.advance(30)

    assert chat.plan("hi").candidates[0].rests == 60.0


async def test_a_candidate_whose_limits_leave_no_room_is_told_with_the_seconds_in_the_queue() -> None:
    limited = provider("a", ScriptedAdapter(), limits=Limits(requests_per_minute=6))
    chat = FailoverChat([limited, provider("b", ScriptedAdapter())], clock=ManualClock())
    before = chat.plan("hi").candidates
    await chat("hi")
    after = chat.plan("hi").candidates

    assert [each.queues for each in before] == [0.0, 0.0]
    assert [each.queues for each in after] == [pytest.approx(10.0), 0.0]
    assert "queues for about 10 s" in str(after[0])
    assert "queues" not in str(after[1])


async def test_a_candidate_all_of_whose_places_are_taken_queues_until_another_request_ends() -> None:
    plans: list[Plan] = []

    async def looking() -> AdapterReply:
        plans.append(chat.plan("hi"))
        return answer()

    chat = FailoverChat([provider("a", ScriptedAdapter(looking), limits=Limits(max_concurrency=1))])
    await chat("hi")

    assert plans[0].candidates[0].queues is None
    assert "queues until another request ends" in str(plans[0])


async def test_a_learned_lack_is_in_the_plan() -> None:
    adapter = ScriptedAdapter(fails(Kind.UNSUPPORTED, feature="vision"))
    chat = FailoverChat([provider("a", adapter)], clock=ManualClock())
    with pytest.raises(ReliableLLMError):
        await chat(PICTURE)

    assert told(chat.plan(PICTURE)) == {"a/m1": "vision"}


def test_what_would_be_asked_for_in_another_form_is_named() -> None:
    able = Capabilities(structured_output=False)
    chat = FailoverChat([provider("a", ScriptedAdapter(), capabilities=able)])

    assert chat.plan("hi", output={"type": "object"}).candidates[0].emulated == ("structured_output",)


def test_what_would_be_lost_in_translation_is_named() -> None:
    chat = FailoverChat([Vendor().openai(), Vendor().anthropic()])

    plan = chat.plan("hi", temperature=0.5)

    assert [each.dropped for each in plan.candidates] == [(), ("temperature",)]


def test_a_plan_can_be_read() -> None:
    able = Capabilities(vision=False)
    chat = FailoverChat([provider("a", ScriptedAdapter()), provider("b", ScriptedAdapter(), capabilities=able)])

    assert "b/m1: out (vision)" in str(chat.plan(PICTURE))


# ---------------------------------------------------------------- how long it may take


def test_a_deadline_bounds_the_plan() -> None:
    assert FailoverChat([provider("a", ScriptedAdapter())]).plan("hi", deadline=5).worst_case == 5


def test_a_call_that_can_go_nowhere_takes_no_time() -> None:
    chat = FailoverChat([provider("a", ScriptedAdapter(), capabilities=Capabilities(vision=False))])

    assert chat.plan(PICTURE).worst_case == 0


FAILURES = st.sampled_from(
    [
        fails(Kind.SERVER_ERROR),
        fails(Kind.RATE_LIMITED),
        fails(Kind.RATE_LIMITED, retry_after=25.0),
        fails(Kind.SERVER_ERROR, retry_after=29.0),
        fails(Kind.AUTHENTICATION),
        fails(Kind.UNSUPPORTED, feature="structured_output"),
        fails(Kind.UNSUPPORTED, feature="tools"),
        fails(Kind.CONTEXT_WINDOW),
        "not json",
    ]
)


class Slow(ScriptedAdapter):
    """Every attempt takes all the time that it has."""

    def __init__(self, clock: ManualClock, *script: Any) -> None:
        super().__init__(*script)
        self._clock = clock

    async def complete(self, *args: Any) -> Any:
        self._clock.advance(10)
        return await super().complete(*args)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(FAILURES, min_size=1, max_size=8), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(0, 3),
    st.booleans(),
)
def test_no_call_takes_longer_than_its_plan(scripts: list[list[Any]], keys: int, retries: int, truncate: bool) -> None:
    clock = ManualClock(chance=0.99)
    limits = Timeouts(attempt=10)
    made = [
        provider(f"p{place}", Slow(clock, *script), keys=keys, timeouts=limits) for place, script in enumerate(scripts)
    ]
    chat = FailoverChat(made, clock=clock, retry=RetryPolicy(max_retries=retries, jitter=1))
    talk = [Message("user", "u"), Message("assistant", "a")] * 3 + [Message("user", "u")]
    asked: Any = {"output": {"type": "object"}, "failover_on": ["invalid_output"], "truncate": truncate}
    plan = chat.plan(talk, output=asked["output"], truncate=truncate)
    started = clock.now

    async def call() -> None:
        with pytest.raises(ReliableLLMError):
            await chat(talk, **asked)

    asyncio.run(call())
    assert clock.now - started <= plan.worst_case


# ---------------------------------------------------------------- strict


async def test_strict_passes_by_a_candidate_that_would_lose_something() -> None:
    openai, anthropic = Vendor(openai_error(503)), Vendor(anthropic_ok())
    chat = FailoverChat([anthropic.anthropic(), openai.openai()], retry=RetryPolicy(max_retries=0))

    with pytest.raises(ReliableLLMError) as raised:
        await chat("hi", temperature=0.5, strict=True)
    assert (raised.value.provider, anthropic.arrivals) == ("openai", [])


async def test_without_strict_what_is_lost_is_told_on_the_reply() -> None:
    reply = await FailoverChat([Vendor(anthropic_ok()).anthropic()])("hi", temperature=0.5)

    assert reply.dropped == ("temperature",)


async def test_strict_with_nobody_left_says_what_would_be_lost_where() -> None:
    vendor = Vendor(anthropic_ok())

    with pytest.raises(UnsupportedFeatureError, match=f"anthropic/{CLAUDE}: no word for temperature"):
        await FailoverChat([vendor.anthropic()])("hi", temperature=0.5, strict=True)
    assert vendor.arrivals == []


def test_a_strict_plan_says_so_too() -> None:
    plan = FailoverChat([Vendor().anthropic()]).plan("hi", temperature=0.5, strict=True)

    assert plan.usable == ()


# ---------------------------------------------------------------- parameters that were refused

NO_TEMPERATURE = openai_error(
    400, "Unsupported value: 'temperature' does not support 0 with this model.", code="unsupported_value"
)


async def test_a_refused_parameter_sends_the_call_on_and_is_remembered() -> None:
    first, second = Vendor(NO_TEMPERATURE, openai_ok("first")), Vendor(openai_ok("second"))
    chat = FailoverChat([first.openai(name="one"), second.openai(name="two")], retry=RetryPolicy(max_retries=0))

    texts = [(await chat("hi", temperature=0)).text, (await chat("hi", temperature=0)).text, (await chat("hi")).text]

    assert (texts, len(first.arrivals)) == (["second", "second", "first"], 2)


async def test_an_override_that_leaves_it_out_makes_the_candidate_good_again() -> None:
    vendor = Vendor(NO_TEMPERATURE, openai_ok("first"))
    chat = FailoverChat([vendor.openai(name="one")], retry=RetryPolicy(max_retries=0))
    with pytest.raises(ReliableLLMError):
        await chat("hi", temperature=0)

    reply = await chat("hi", temperature=0, overrides={"one": {"temperature": None}})

    assert (reply.text, "temperature" in vendor.arrivals[1].body) == ("first", False)


async def test_a_refused_spelling_of_the_output_limit_is_respelt_at_once_and_from_then_on() -> None:
    refused = openai_error(400, "Unsupported parameter: 'max_completion_tokens'", code="unsupported_parameter")
    vendor = Vendor(refused, openai_ok())
    chat = FailoverChat([vendor.openai()], retry=RetryPolicy(max_retries=0))

    await chat("hi", max_tokens=5)
    await chat("hi", max_tokens=5)

    sent = [sorted({"max_tokens", "max_completion_tokens"} & arrival.body.keys()) for arrival in vendor.arrivals]
    assert sent == [["max_completion_tokens"], ["max_tokens"], ["max_tokens"]]


async def test_a_refused_field_of_the_vendors_own_is_remembered_for_requests_that_set_it() -> None:
    refused = openai_error(400, "Unrecognized request argument supplied: seed", type="invalid_request_error")
    vendor = Vendor(refused, openai_ok())
    chat = FailoverChat([vendor.openai()], retry=RetryPolicy(max_retries=0))
    for _ in range(2):
        with pytest.raises(ReliableLLMError):
            await chat("hi", extra={"openai": {"seed": 1}})

    assert ((await chat("hi")).text, len(vendor.arrivals)) == ("hello from gpt", 2)


async def test_an_output_limit_above_what_the_model_writes_goes_elsewhere_and_is_not_held_against_it() -> None:
    capped = openai_error(400, "max_tokens is too large: 64000. This model supports at most 16384 completion tokens")
    first, second = Vendor(capped, openai_ok("first")), Vendor(openai_ok("second"))
    chat = FailoverChat([first.openai(name="one"), second.openai(name="two")], retry=RetryPolicy(max_retries=0))

    texts = [(await chat("hi", max_tokens=64_000)).text, (await chat("hi", max_tokens=10)).text]

    assert texts == ["second", "first"]


# ---------------------------------------------------------------- histories that are too long

LONG = [
    Message("user", "one"),
    Message("assistant", "1"),
    Message("user", "two"),
    Message("assistant", "2"),
    Message("user", "three"),
]
TOO_LONG = fails(Kind.CONTEXT_WINDOW)


async def test_C2_nothing_is_cut_unless_the_caller_allows_it() -> None:
    adapter = ScriptedAdapter(TOO_LONG, "short")

    with pytest.raises(ContextWindowError):
        await FailoverChat([provider("a", adapter)])(LONG)
    assert len(adapter.sent) == 1


async def test_C3_allowed_to_the_oldest_turns_go_and_the_reply_says_so() -> None:
    adapter = ScriptedAdapter(TOO_LONG, "short")
    listening = Listening()
    clock = ManualClock()

    reply = await FailoverChat([provider("a", adapter)], clock=clock, listeners=[listening])(LONG, truncate=True)

    assert [message.text for message in adapter.sent[1].request.messages] == ["two", "2", "three"]
    assert (reply.context_truncated, clock.slept) == (True, [])
    assert [event.messages for event in listening.of() if event.event == "context_truncated"] == [2]


async def test_what_was_not_cut_is_not_flagged() -> None:
    reply = await FailoverChat([provider("a", ScriptedAdapter("fits"))])(LONG, truncate=True)

    assert not reply.context_truncated


async def test_C4_a_larger_candidate_gets_the_whole_history() -> None:
    small, large = ScriptedAdapter(TOO_LONG), ScriptedAdapter("fits")
    chat = FailoverChat(
        [
            provider("a", small, capabilities=Capabilities(context_window=8_000)),
            provider("b", large, capabilities=Capabilities(context_window=200_000)),
        ]
    )

    reply = await chat(LONG, truncate=True)

    assert (len(large.sent[0].request.messages), reply.context_truncated, len(small.sent)) == (5, False, 1)


async def test_with_only_the_last_turn_left_the_error_stands() -> None:
    adapter = ScriptedAdapter(TOO_LONG)

    with pytest.raises(ContextWindowError):
        await FailoverChat([provider("a", adapter)])(LONG, truncate=True)
    assert [len(sent.request.messages) for sent in adapter.sent] == [5, 3, 1]


def test_models_are_named_as_in_the_chain() -> None:
    assert str(FailoverChat([Vendor().openai()]).plan("hi").candidates[0].candidate) == f"openai/{GPT}"
