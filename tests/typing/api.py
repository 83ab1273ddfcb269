"""The public API as a user's type checker sees it. Checked by mypy --strict, never run."""

from __future__ import annotations

from typing import assert_type

import reliable_llm
from reliable_llm import (
    ChatReply,
    ChatRequest,
    ChatStream,
    FailoverChat,
    Message,
    Provider,
    QuotaExhaustedError,
    RecoveryPolicy,
    ReliableLLMError,
    RetryPolicy,
    ServedBy,
    TextDelta,
    Timeouts,
    Usage,
    Verdict,
    diagnose,
)

assert_type(reliable_llm.__version__, str)

_ = reliable_llm.FailoverChatt  # type: ignore[attr-defined]  # a misspelt name is an error


def build() -> FailoverChat:
    return FailoverChat(
        [
            Provider.openai(keys=["sk-a", "sk-b"], models=["gpt-5.1"], timeouts=Timeouts(attempt=60)),
            Provider.anthropic(models={"claude-sonnet-4-5": "claude-sonnet-4-5-20250929"}),
        ],
        route=[("openai", "gpt-5.1"), ("anthropic", "claude-sonnet-4-5")],
        retry=RetryPolicy(max_retries=3),
        recovery=RecoveryPolicy(quota=60),
    )


async def call(chat: FailoverChat) -> None:
    reply = await chat("Name three rivers.", system="Be brief.", deadline=30)
    assert_type(reply, ChatReply)
    assert_type(reply.text, str)
    assert_type(reply.served_by, ServedBy)
    assert_type(reply.usage, Usage | None)
    await chat([Message("user", "hi")])
    await chat(ChatRequest(messages=(Message("user", "hi"),)))


def what_it_means(exc: Exception) -> float | None:
    verdict = diagnose(exc, vendor="groq")
    assert_type(verdict, Verdict)
    return verdict.retry_after


async def stream(chat: FailoverChat) -> None:
    async with chat.stream("Tell me a story.", on_interrupt="restart") as stream:
        assert_type(stream, ChatStream)
        async for event in stream:
            if isinstance(event, TextDelta):
                assert_type(event.text, str)
        assert_type(await stream.reply(), ChatReply)


async def fail(chat: FailoverChat) -> float | None:
    try:
        await chat("hi")
    except QuotaExhaustedError as error:
        return error.retry_after
    except ReliableLLMError as error:
        assert_type(error.provider, str | None)
    return None
