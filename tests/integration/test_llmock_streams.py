"""Streams against `llmock` over real sockets: broken in every way it knows, for both vendors, and judged by it.

Before the first output the other vendor answers, and nobody notices; after it, the stream ends in a typed error with
what came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reliable_llm import FailoverChat, Kind, Provider, RetryPolicy, StreamInterruptedError, Timeouts

if TYPE_CHECKING:
    from tests.conftest import Llmock

OTHER = {"openai": "anthropic", "anthropic": "openai"}
MODELS = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
BREAKS = ("disconnect", "truncate", "malformed", "stall")

# The start events that come before any output: OpenAI's role chunk; Anthropic's message and block starts.
PREAMBLE = {"openai": 1, "anthropic": 2}


def first(vendors: Llmock, primary: str) -> FailoverChat:
    """*primary* first, the other vendor behind it; silence is cut after a third of a second."""
    quick = Timeouts(first_token=0.3, idle=0.3)
    providers = {
        "openai": Provider.openai(
            keys=["sk-a"], models=[MODELS["openai"]], base_url=vendors.env["OPENAI_BASE_URL"], timeouts=quick
        ),
        "anthropic": Provider.anthropic(
            keys=["sk-b"], models=[MODELS["anthropic"]], base_url=vendors.env["ANTHROPIC_BASE_URL"], timeouts=quick
        ),
    }
    retry = RetryPolicy(backoff=0.1, retry_timeouts=True)
    return FailoverChat([providers[primary], providers[OTHER[primary]]], retry=retry)


def break_stream(vendors: Llmock, provider: str, kind: str, after: int, times: int | None = None) -> None:
    vendors.add("stream_fault", kind=kind, after_chunks=after, stall_seconds=2.0, times=times, provider=provider)


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("primary", ["openai", "anthropic"])
@pytest.mark.parametrize("started", [False, True])
async def test_what_breaks_before_the_first_output_is_tried_again_and_the_server_finds_no_fault(
    vendors: Llmock, primary: str, kind: str, started: bool
) -> None:
    break_stream(vendors, primary, kind, PREAMBLE[primary] if started else 0, times=1)

    assert await answered_by(vendors, primary) == f"{primary}/{MODELS[primary]}"
    assert len(vendors.requests(primary)) == 2
    # A short stream is in the socket's buffer before anybody can leave it at its broken chunk: read on, it says.
    assert [each["code"] for each in vendors.findings() if each["code"] != "malformed_chunk_ignored"] == []


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("primary", ["openai", "anthropic"])
async def test_what_breaks_before_it_every_time_is_answered_by_the_other_vendor(
    vendors: Llmock, primary: str, kind: str
) -> None:
    break_stream(vendors, primary, kind, PREAMBLE[primary])

    assert await answered_by(vendors, primary) == f"{OTHER[primary]}/{MODELS[OTHER[primary]]}"
    assert len(vendors.requests(primary)) == 3


async def answered_by(vendors: Llmock, primary: str) -> str:
    """Read a whole stream and return who gave it; what was told and what was assembled must be the same."""
    async with first(vendors, primary) as chat:
        await chat.warmup()
        async with chat.stream("Name three rivers.") as stream:
            texts = [text async for text in stream.text_stream]
            reply = await stream.reply()
    assert "".join(texts) == reply.text != ""
    return str(reply.served_by)


CAUSES: dict[str, set[Kind]] = {
    "disconnect": {Kind.CONNECTION},
    "truncate": {Kind.CONNECTION},
    "malformed": {Kind.MALFORMED_RESPONSE},
    "stall": {Kind.TIMEOUT},
}


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("primary", ["openai", "anthropic"])
async def test_what_breaks_after_it_is_a_typed_error_with_what_came(vendors: Llmock, primary: str, kind: str) -> None:
    break_stream(vendors, primary, kind, PREAMBLE[primary] + 2)
    texts: list[str] = []

    async with first(vendors, primary) as chat:
        await chat.warmup()
        with pytest.raises(StreamInterruptedError) as broken:
            await read(chat, texts)

    assert broken.value.cause_kind in CAUSES[kind]
    assert broken.value.partial_text == "".join(texts) != ""
    assert [attempt.provider for attempt in broken.value.attempts] == [primary]


async def read(chat: FailoverChat, texts: list[str]) -> None:
    async with chat.stream("Name three rivers.") as stream:
        async for text in stream.text_stream:
            texts.append(text)  # noqa: PERF401 - what came before the error counts


@pytest.mark.parametrize("primary", ["openai", "anthropic"])
async def test_a_slow_first_token_within_its_timeout_is_waited_for(vendors: Llmock, primary: str) -> None:
    vendors.add("slow_first_token", seconds=0.05, times=None, provider=primary)
    texts: list[Any] = []

    async with first(vendors, primary) as chat:
        await chat.warmup()
        async with chat.stream("Name three rivers.") as stream:
            texts = [text async for text in stream.text_stream]
            served_by = str(stream.served_by)

    assert (bool(texts), served_by) == (True, f"{primary}/{MODELS[primary]}")
    assert vendors.findings() == []
