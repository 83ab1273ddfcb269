"""Against `llmock`, a server that we did not write, over real sockets: it plays both vendors, breaks, and judges us.

Its verdict groups equal requests into a call with retries. With one key a provider, a clean verdict means: waited as
long as was asked, backed off, retried what can be retried, and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reliable_llm import (
    ContextWindowError,
    FailoverChat,
    OverloadedError,
    Provider,
    RetryPolicy,
    Timeouts,
)

if TYPE_CHECKING:
    from tests.conftest import Llmock

SHORT = 0.1  # the server's hint, in seconds; real time passes here
QUICK = RetryPolicy(backoff=0.05)


def coordinator(vendors: Llmock, *, retry: RetryPolicy = QUICK, timeouts: Timeouts | None = None) -> FailoverChat:
    """OpenAI first, Anthropic behind it, one key each."""
    return FailoverChat(
        [
            Provider.openai(
                keys=["sk-a"], models=["gpt-5.1"], base_url=vendors.env["OPENAI_BASE_URL"], timeouts=timeouts
            ),
            Provider.anthropic(keys=["sk-b"], models=["claude-sonnet-4-5"], base_url=vendors.env["ANTHROPIC_BASE_URL"]),
        ],
        retry=retry,
    )


async def ask(chat: FailoverChat, prompt: str = "Name three rivers.") -> str:
    """Return who answered."""
    async with chat:
        return str((await chat(prompt)).served_by)


async def test_a_healthy_primary_answers_at_its_first_request(vendors: Llmock) -> None:
    assert await ask(coordinator(vendors)) == "openai/gpt-5.1"
    assert len(vendors.requests()) == 1


async def test_a_short_rate_limit_is_waited_out_for_exactly_as_long_as_asked(vendors: Llmock) -> None:
    vendors.add("fail", status=429, retry_after=SHORT, times=2, provider="openai")

    assert await ask(coordinator(vendors)) == "openai/gpt-5.1"
    assert vendors.findings() == []


async def test_a_long_rate_limit_is_answered_by_the_other_vendor_at_once(vendors: Llmock) -> None:
    vendors.add("fail", status=429, retry_after=20, times=None, provider="openai")

    assert await ask(coordinator(vendors)) == "anthropic/claude-sonnet-4-5"
    assert len(vendors.requests("openai")) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
async def test_an_outage_is_retried_twice_and_then_answered_by_the_other_vendor(vendors: Llmock, status: int) -> None:
    vendors.add("fail", status=status, retry_after=SHORT, times=None, provider="openai")

    assert await ask(coordinator(vendors)) == "anthropic/claude-sonnet-4-5"
    assert len(vendors.requests("openai")) == 3
    assert vendors.findings() == []


async def test_an_outage_of_the_fallback_vendor_goes_unnoticed(vendors: Llmock) -> None:
    vendors.add("fail", status=503, times=None, provider="anthropic")

    assert await ask(coordinator(vendors)) == "openai/gpt-5.1"
    assert vendors.requests("anthropic") == []


async def test_an_outage_of_both_vendors_is_raised_as_the_primarys_with_every_attempt(vendors: Llmock) -> None:
    vendors.add("fail", status=503, retry_after=SHORT, times=None)

    with pytest.raises(OverloadedError) as caught:
        await ask(coordinator(vendors))

    assert [attempt.provider for attempt in caught.value.attempts] == ["openai"] * 3 + ["anthropic"] * 3
    assert vendors.findings() == []


async def test_a_silent_primary_is_left_for_the_other_vendor(vendors: Llmock) -> None:
    vendors.add("delay", seconds=5, times=None, provider="openai")
    impatient = coordinator(vendors, retry=RetryPolicy(max_retries=0), timeouts=Timeouts(attempt=0.3, first_byte=0.3))

    assert await ask(impatient) == "anthropic/claude-sonnet-4-5"


async def test_a_slow_primary_within_its_timeout_is_waited_for(vendors: Llmock) -> None:
    vendors.add("delay", seconds=0.2, provider="openai")

    assert await ask(coordinator(vendors)) == "openai/gpt-5.1"
    assert vendors.findings() == []


async def test_an_overlong_prompt_is_raised_and_never_sent_again(vendors: Llmock) -> None:
    overflow = "This model's maximum context length is 10 tokens. However, your messages resulted in 20 tokens."
    vendors.add("fail", status=400, code="context_length_exceeded", message=overflow, times=None, provider="openai")

    with pytest.raises(ContextWindowError):
        await ask(coordinator(vendors))

    assert len(vendors.requests()) == 1
    assert vendors.findings() == []


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_no_retry_can_mend_is_answered_by_the_other_vendor_after_one_request(
    vendors: Llmock, status: int
) -> None:
    vendors.add("fail", status=status, times=None, provider="openai")

    assert await ask(coordinator(vendors)) == "anthropic/claude-sonnet-4-5"
    assert len(vendors.requests("openai")) == 1
    assert vendors.findings() == []


async def test_a_mix_of_http_errors_does_not_keep_ten_calls_from_their_answers(vendors: Llmock) -> None:
    for status in (500, 429, 503, 502, 529, 504, 500, 429):
        vendors.add("fail", status=status, retry_after=SHORT, provider="openai")

    async with coordinator(vendors) as chat:
        replies = [await chat(f"Question {n}?") for n in range(10)]

    assert all(reply.text for reply in replies)
    assert vendors.findings() == []


# ---------------------------------------------------------------- the command line


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "reliable_llm", *arguments]
    return subprocess.run(run, capture_output=True, text=True, timeout=50, check=False, env=dict(os.environ))


@pytest.mark.parametrize("model", ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"])
def test_the_command_line_answers_through_each_vendor(vendors: Llmock, model: str) -> None:
    vendors.add("reply", text="The Rhine.")

    run = command("chat", "Name a river.", "--model", model)

    assert (run.returncode, run.stdout) == (0, "The Rhine.\n")
    assert run.stderr.startswith(f"answered by {model}")


@pytest.mark.parametrize("model", ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"])
def test_the_command_line_streams_through_each_vendor(vendors: Llmock, model: str) -> None:
    vendors.add("reply", text="The Rhine, of course.")

    run = command("chat", "Name a river.", "--model", model, "--stream")

    assert (run.returncode, run.stdout) == (0, "The Rhine, of course.\n")


def test_the_command_line_answers_from_the_fallback_and_tells_what_was_tried(vendors: Llmock) -> None:
    vendors.add("fail", status=401, times=None, provider="openai")

    run = command("chat", "hi", "--model", "openai/gpt-5.1", "--model", "anthropic/claude-sonnet-4-5")

    assert run.returncode == 0
    assert "openai/gpt-5.1 [openai#1] authentication 401" in run.stderr
    assert "anthropic/claude-sonnet-4-5 [anthropic#1] answered" in run.stderr


def test_a_refused_key_is_named_with_its_remedy(vendors: Llmock) -> None:
    vendors.add("fail", status=401, times=None, provider="openai")

    run = command("chat", "hi", "--model", "openai/gpt-5.1")

    assert run.returncode == 2
    assert "OPENAI_API_KEY" in run.stderr
    assert "Traceback" not in run.stderr


def test_an_unknown_model_is_named_with_its_remedy(vendors: Llmock) -> None:
    vendors.add("fail", status=404, code="model_not_found", times=None, provider="openai")

    run = command("chat", "hi", "--model", "openai/gpt-9")

    assert run.returncode == 2
    assert "openai/gpt-9" in run.stderr
    assert "--model" in run.stderr
    assert "Traceback" not in run.stderr
