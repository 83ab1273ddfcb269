"""Rehearse an outage in your own test suite: scripted vendors, virtual time, counts from the wire.

pytest examples/drill_in_pytest.py

The fixture `reliable_llm_drill` comes with the package. An hour of outage takes milliseconds, and a response that is
left open fails the test.
"""

from __future__ import annotations

import pytest

from reliable_llm import FailoverChat, QuotaExhaustedError, Timeouts
from reliable_llm.testing import Drill, connection_refused, hang, ok, out_of_quota, rate_limited


def summarise(drill: Drill, chat: FailoverChat, text: str) -> str:
    """Stand in for the code of yours that is tested."""
    return drill.run(chat(f"Summarise: {text}", deadline=60)).text


@pytest.fixture
def chat(reliable_llm_drill: Drill) -> FailoverChat:
    drill = reliable_llm_drill
    patient = Timeouts(attempt=20)
    openai = drill.openai(models=["gpt"], timeouts=patient)
    return FailoverChat([openai, drill.anthropic(models=["claude"], timeouts=patient)], clock=drill.clock)


def test_a_spent_key_is_left_alone_for_five_minutes(reliable_llm_drill: Drill, chat: FailoverChat) -> None:
    drill = reliable_llm_drill
    drill.answers("openai", out_of_quota(), ok("from OpenAI"))
    drill.answers("anthropic", ok("from Anthropic"))

    answers = [summarise(drill, chat, "a book") for _ in range(3)]
    drill.pass_time(300)
    answers.append(summarise(drill, chat, "a book"))

    assert answers == ["from Anthropic"] * 3 + ["from OpenAI"]
    drill.assert_requests({"openai/k1/gpt": 2, "anthropic/k1/claude": 3})


def test_nobody_waits_for_a_rate_limit_while_another_vendor_is_ready(
    reliable_llm_drill: Drill, chat: FailoverChat
) -> None:
    reliable_llm_drill.answers("openai", rate_limited(retry_after=20))
    reliable_llm_drill.answers("anthropic", ok("from Anthropic"))

    assert summarise(reliable_llm_drill, chat, "a book") == "from Anthropic"
    assert reliable_llm_drill.slept == []


def test_with_both_down_the_first_vendors_error_says_so(reliable_llm_drill: Drill, chat: FailoverChat) -> None:
    reliable_llm_drill.answers("openai", out_of_quota())
    reliable_llm_drill.answers("anthropic", connection_refused())

    with pytest.raises(QuotaExhaustedError) as caught:
        summarise(reliable_llm_drill, chat, "a book")

    assert [attempt.provider for attempt in caught.value.attempts] == ["openai"] + ["anthropic"] * 3


def test_a_server_that_hangs_costs_one_timeout(reliable_llm_drill: Drill, chat: FailoverChat) -> None:
    reliable_llm_drill.answers("openai", hang())
    reliable_llm_drill.answers("anthropic", ok("from Anthropic"))

    assert summarise(reliable_llm_drill, chat, "a book") == "from Anthropic"
    assert reliable_llm_drill.now == pytest.approx(20, abs=1)
