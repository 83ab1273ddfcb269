"""Group O: what can be seen from outside, and what cannot."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Any

import pytest
from structlog.testing import capture_logs

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import Kind, QuotaExhaustedError
from reliable_llm.provider import Provider
from reliable_llm.telemetry.seed_events import QuotaFallbackLog
from reliable_llm.types import Usage
from tests.checklist.pairs import Pair
from tests.support import (
    STEADY,
    Listening,
    ManualClock,
    Vendor,
    anthropic_error,
    anthropic_ok,
    openai_error,
    openai_ok,
    out_of_quota,
    rate_limited,
)

DOWN = openai_error(503, "The server is overloaded")
PLAN = {"plan_id": "plan-7"}


# ---------------------------------------------------------------- O1 to O6


async def test_o1_a_failed_attempt_tells_who_which_try_what_and_what_follows() -> None:
    pair = Pair(DOWN, openai_ok())
    await pair.ask()
    failed, waits = pair.heard.of(events.AttemptFailed)[0], pair.heard.of(events.RetryScheduled)[0]
    assert (failed.provider, failed.model, failed.key) == ("openai", "gpt-5.1", "openai#1")
    assert (failed.number, failed.retries_left, failed.status, failed.request_id) == (1, 2, 503, "req_openai")
    assert (waits.delay, waits.reason) == (0.5, failed.kind)


async def test_o1_a_move_to_another_candidate_is_told_with_its_reason() -> None:
    pair = Pair(out_of_quota())
    await pair.ask()
    moved = events.Failover("openai/gpt-5.1", "anthropic/claude-sonnet-4-5", Kind.QUOTA_EXHAUSTED)
    assert pair.heard.of(events.Failover) == [moved]


async def test_o1_a_rotation_is_told_by_labels() -> None:
    pair = Pair(keys=("sk-key-a", "sk-key-b"))
    pair.primary.on("sk-key-a", rate_limited(retry_after="9"))
    await pair.ask()
    assert pair.heard.of(events.KeyRotated) == [events.KeyRotated("openai", "openai#1", "openai#2", Kind.RATE_LIMITED)]


async def test_o2_requested_and_served_are_both_in_the_reply_and_in_the_event() -> None:
    pair = Pair(out_of_quota())
    reply = await pair.ask()
    done = pair.heard.of(events.AttemptSucceeded)[0]
    assert (str(reply.requested), str(reply.served_by)) == ("openai/gpt-5.1", "anthropic/claude-sonnet-4-5")
    assert (done.requested, f"{done.provider}/{done.model}") == (str(reply.requested), str(reply.served_by))


async def test_o3_the_reply_tells_whether_a_fallback_answered() -> None:
    pair = Pair(out_of_quota(), openai_ok())
    assert (await pair.ask()).failed_over
    pair.clock.advance(300)
    assert not (await pair.ask()).failed_over


async def test_o3_a_retry_on_the_same_candidate_is_no_fallback() -> None:
    assert not (await Pair(DOWN, openai_ok()).ask()).failed_over


async def test_o3_what_one_call_met_is_not_in_the_reply_of_another() -> None:
    vendor = Vendor(openai_ok()).on("m1", openai_error(404, code="model_not_found"))
    chat = FailoverChat([vendor.openai(models=["m1", "m2"])], clock=ManualClock())
    one, other = await asyncio.gather(chat("hi"), chat("hi", model="m2"))
    assert (one.failed_over, other.failed_over) == (True, False)
    assert len(other.attempts) == 1


async def test_o4_usage_is_told_by_attempt_and_by_candidate() -> None:
    pair = Pair(openai_ok("", usage=(10, 5)))
    reply = await pair.ask()
    assert reply.usage_by == {
        "openai/gpt-5.1": Usage(input_tokens=30, output_tokens=15),
        "anthropic/claude-sonnet-4-5": Usage(input_tokens=10, output_tokens=5),
    }


async def test_o5_the_error_lists_what_was_tried_in_order() -> None:
    pair = Pair(out_of_quota(), fallback=anthropic_error(401, "authentication_error"))
    error = await pair.fail()
    assert str(error).splitlines()[1:] == [
        "  1. openai/gpt-5.1 [openai#1] quota_exhausted 429",
        "  2. anthropic/claude-sonnet-4-5 [anthropic#1] authentication 401",
    ]


async def test_o5_sixty_four_failures_are_eight_lines_two_kilobytes_and_a_count() -> None:
    vendor = Vendor(openai_error(404, "SECRET TEXT of the vendor", code="model_not_found"))
    models = [f"model-with-a-rather-long-name-{n}" for n in range(64)]
    chat = FailoverChat([vendor.openai(models=models)], clock=ManualClock())
    with pytest.raises(Exception, match="more, see") as raised:
        await chat("SECRET PROMPT")
    text = str(raised.value)
    assert len(text.encode()) <= 2_048
    assert len([line for line in text.splitlines() if "model_not_found" in line and line.startswith("  ")]) == 8
    assert "SECRET" not in text
    assert len(raised.value.attempts) == 64  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answer", "hint"), [(out_of_quota(), "top up"), (rate_limited(retry_after="90"), "worth trying again in 90 s")]
)
async def test_o6_the_message_says_what_would_help(answer: Any, hint: str) -> None:
    assert hint in str(await Pair(answer, alone=True).fail())


async def test_o8_an_address_is_shown_without_user_password_and_query() -> None:
    provider = Provider.openai(models=["m1"], keys=["sk-key-a"], base_url="https://ada:pass@host.example:8080/v1?key=k")
    chat = FailoverChat([provider], clock=ManualClock())
    assert "https://host.example:8080/v1" in str(chat.status())
    assert not [word for word in ("ada", "pass", "key=k") if word in str(chat.status()) + repr(provider)]


# ---------------------------------------------------------------- O7: the lines of the first seed


class Seed:
    """The main job with the seed's log lines, each as (level, line, fields)."""

    def __init__(self, *primary: Any, fallback: Any = None) -> None:
        self.clock = ManualClock()
        self.openai, self.claude = Vendor(*primary), Vendor(fallback or anthropic_ok())
        self.chat = FailoverChat(
            [self.openai.openai(), self.claude.anthropic()],
            retry=STEADY,
            clock=self.clock,
            listeners=[QuotaFallbackLog()],
        )

    async def ask(self) -> list[tuple[str, str, dict[str, Any]]]:
        with capture_logs() as lines, contextlib.suppress(QuotaExhaustedError):
            await self.chat("hi", tags=PLAN)
        ours = [line for line in lines if line["event"][0].isupper()]
        return [
            (line["log_level"], line["event"], {k: v for k, v in line.items() if k not in ("log_level", "event")})
            for line in ours
        ]


async def test_o7_the_first_quota_error_creates_the_fallback() -> None:
    assert await Seed(out_of_quota()).ask() == [
        (
            "warning",
            "Quota error detected on primary provider",
            PLAN | {"original_error": "quota_exhausted 429 insufficient_quota"},
        ),
        ("warning", "Creating fallback LLM instance", PLAN),
        (
            "warning",
            "Fallback recovery successful",
            PLAN | {"fallback_provider": "anthropic", "fallback_model": "claude-sonnet-4-5"},
        ),
    ]


async def test_o7_while_the_mode_lasts_the_fallback_is_reused() -> None:
    seed = Seed(out_of_quota())
    await seed.ask()
    seed.clock.advance(100)
    assert [(level, line) for level, line, _ in await seed.ask()] == [
        ("debug", "Still in quota fallback mode"),
        ("warning", "Reusing cached fallback LLM instance"),
        ("warning", "Fallback recovery successful"),
    ]


async def test_o7_the_time_remaining_is_told() -> None:
    seed = Seed(out_of_quota())
    await seed.ask()
    seed.clock.advance(100)
    assert (await seed.ask())[0][2] == PLAN | {"remaining": 200}


async def test_o7_after_the_interval_the_primary_is_attempted() -> None:
    seed = Seed(out_of_quota(), openai_ok())
    await seed.ask()
    seed.clock.advance(310)
    assert await seed.ask() == [
        ("info", "Quota recovery interval elapsed, attempting primary", PLAN | {"time_since_error": 310})
    ]
    assert await seed.ask() == []


async def test_o7_a_fallback_that_fails_too_is_an_error() -> None:
    seed = Seed(out_of_quota(), fallback=anthropic_error(401, "authentication_error"))
    assert (await seed.ask())[-1] == (
        "error",
        "Fallback provider also failed",
        PLAN
        | {
            "fallback_provider": "anthropic",
            "fallback_model": "claude-sonnet-4-5",
            "fallback_error": "authentication 401 authentication_error",
            "fallback_error_type": "AuthenticationError",
        },
    )


async def test_o7_a_fallback_that_is_retried_is_told_as_failed_once() -> None:
    seed = Seed(out_of_quota(), fallback=anthropic_error(500, "api_error"))
    assert [line for _, line, _ in await seed.ask()].count("Fallback provider also failed") == 1


async def test_o7_without_quota_errors_there_are_no_such_lines() -> None:
    seed = Seed(openai_error(500))
    assert await seed.ask() == []


async def test_o7_a_primary_that_answers_again_in_whatever_way_has_left_the_mode() -> None:
    seed = Seed(out_of_quota(), openai_ok())
    await seed.ask()
    seed.chat.reset()
    await seed.ask()
    seed.openai.on("gpt-5.1", openai_error(404, code="model_not_found"))
    assert await seed.ask() == []


async def test_o7_every_line_carries_the_plan_of_its_call() -> None:
    seed = Seed(out_of_quota())
    with capture_logs() as lines:
        await asyncio.gather(*(seed.chat("hi", tags={"plan_id": f"plan-{n}"}) for n in range(2)))
    assert {line["plan_id"] for line in lines} == {"plan-0", "plan-1"}


# ---------------------------------------------------------------- secrets

PROMPT = "wo xihuan PROMPTTEXT"


def _words(event: events.Event) -> str:
    return " ".join(str(getattr(event, field.name)) for field in dataclasses.fields(event))


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 429, 500])
async def test_o8_no_word_of_the_prompt_and_none_of_the_vendors_is_in_events_lines_or_errors(status: int) -> None:
    with capture_logs() as lines:
        pair = Pair(openai_error(status, f"You wrote: {PROMPT}. VENDORTEXT"), alone=True)
        error = await pair.fail(PROMPT, system="SYSTEMTEXT")
    shown = [str(error), repr(error), repr(error.attempts), *(_words(event) for event in pair.heard.of())]
    shown += [str(line) for line in lines]
    assert not [text for text in shown for word in ("PROMPTTEXT", "VENDORTEXT", "SYSTEMTEXT") if word in text]


async def test_o_a_listener_that_raises_does_not_stop_the_call() -> None:
    def broken(event: events.Event, tags: object, /) -> None:
        raise RuntimeError("in the listener")

    heard = Listening()
    chat = FailoverChat([Vendor(openai_ok()).openai()], clock=ManualClock(), listeners=[broken, heard])
    assert (await chat("hi")).text == "hello from gpt"
    assert "attempt_succeeded" in heard.names
