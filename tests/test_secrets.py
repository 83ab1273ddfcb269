"""Neither a key nor a prompt is in anything that is printed, logged, pickled or shown of a traceback's locals."""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
import ssl
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from structlog.testing import capture_logs

import reliable_llm
from reliable_llm.adapters.http import ssl_context
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import Kind, ReliableLLMError, StreamInterruptedError
from reliable_llm.policy import RetryPolicy
from reliable_llm.provider import Provider
from reliable_llm.types import Message, Text, Tool, ToolCall, ToolResult
from tests.support import (
    ManualClock,
    Response,
    ScriptedAdapter,
    Vendor,
    anthropic_error,
    fails,
    openai_chunk,
    openai_error,
    openai_ok,
    out_of_quota,
    provider,
    rate_limited,
    sse,
)

ROOT = str(Path(reliable_llm.__file__).parent)
KEY = "sk-proj-Zq7xWv3kPm9t"
PROMPT = "KQXJ-prompt"
SYSTEM = "KQXJ-system"
ANSWER = "KQXJ-answer"

# Four characters of the key's secret part, and every text of ours.
SECRETS = [*(KEY[8:][n : n + 4] for n in range(len(KEY) - 11)), PROMPT, SYSTEM, ANSWER, "KQXJ"]

HISTORY = [
    Message("system", SYSTEM),
    Message("user", (Text(PROMPT),)),
    Message("assistant", (ToolCall(id="c1", name="lookup", arguments=f'{{"q": "{PROMPT}"}}'),)),
    Message("tool", (ToolResult(call_id="c1", content=PROMPT),)),
    Message("user", PROMPT),
]
QUOTES = f"You said: {PROMPT}; your key {KEY} is wrong"


def failures(text: str) -> dict[str, Response]:
    """Return every kind of failure, in which the vendor says *text*."""
    return {
        "bad request": openai_error(400, text),
        "authentication": openai_error(401, text),
        "permission": openai_error(403, text),
        "model": openai_error(404, text),
        "too large": openai_error(413, text),
        "context": openai_error(400, text, code="context_length_exceeded"),
        "policy": openai_error(400, text, code="content_policy_violation"),
        "unsupported": openai_error(400, text, code="unsupported_parameter"),
        "rate limit": rate_limited(retry_after="90"),
        "quota": out_of_quota(),
        "server": openai_error(500, text),
        "overloaded": openai_error(503, text),
        "a page": httpx2.Response(200, text=f"<html>{text}</html>", headers={"content-type": "text/html"}),
        "broken JSON": httpx2.Response(200, text='{"choices": [' + text),
        "an error under 200": httpx2.Response(200, json={"error": {"message": text}}),
        "empty": openai_ok(""),
        "connection": httpx2.ConnectError(text),
        "silence": httpx2.ReadTimeout(text),
    }


KINDS = list(failures(""))


def our_locals(error: BaseException) -> str:
    """Return the locals of our own frames, as structlog shows them in a traceback, along all causes."""
    tracebacks = structlog.tracebacks.extract(
        type(error), error, error.__traceback__, show_locals=True, locals_max_string=10_000, locals_max_length=1_000
    )
    frames = [frame for stack in tracebacks.stacks for frame in stack.frames if frame.filename.startswith(ROOT)]
    assert frames
    return "\n".join(f"{frame.name}: {frame.locals}" for frame in frames)


def found(*texts: str) -> list[str]:
    return [secret for secret in SECRETS for text in texts if secret in text]


async def broken_call(ask: Callable[[], Any]) -> tuple[ReliableLLMError, str]:
    """Return the error that *ask* ends with, and what was logged meanwhile."""
    with capture_logs() as lines:
        try:
            await ask()
        except ReliableLLMError as error:
            return error, str(lines)
    raise AssertionError("it answered")


def chat_of(*answers: Response) -> FailoverChat:
    return FailoverChat([Vendor(*answers).openai(KEY)], retry=RetryPolicy(max_retries=0), clock=ManualClock())


@pytest.mark.parametrize("name", KINDS)
async def test_no_failure_shows_a_key_or_a_prompt(name: str) -> None:
    chat = chat_of(failures(QUOTES)[name])
    error, logged = await broken_call(lambda: chat(HISTORY, tools=[Tool(name="lookup")]))
    pickled = pickle.dumps(error).decode("latin-1")
    assert found(str(error), repr(error), str(vars(error)), pickled, logged, str(chat.status()), repr(chat)) == []


@pytest.mark.parametrize("name", KINDS)
async def test_no_local_of_ours_shows_one_in_a_traceback(name: str) -> None:
    error, _ = await broken_call(lambda: chat_of(failures("no")[name])(HISTORY, tools=[Tool(name="lookup")]))
    assert found(our_locals(error)) == []


async def test_anthropics_failures_show_none_either() -> None:
    vendor = Vendor(anthropic_error(401, "authentication_error", "no"))
    chat = FailoverChat([vendor.anthropic(KEY)], clock=ManualClock())
    error, logged = await broken_call(lambda: chat(HISTORY))
    assert found(str(error), repr(error), str(vars(error)), logged, our_locals(error)) == []


@pytest.mark.parametrize("prompt", [PROMPT, HISTORY, [{"role": "user", "content": PROMPT}]])
async def test_a_prompt_in_whatever_form_is_in_no_local(prompt: Any) -> None:
    error, _ = await broken_call(lambda: chat_of(out_of_quota())(prompt, system=SYSTEM))
    assert found(our_locals(error)) == []


@pytest.mark.parametrize(
    "bad", [{"max_tokens": 0}, {"reasoning": "a bit"}, {"deadline": -1}, {"failover_on": ["politics"]}]
)
async def test_a_wrong_call_shows_no_prompt(bad: dict[str, Any]) -> None:
    error, _ = await broken_call(lambda: chat_of(openai_ok())(PROMPT, system=SYSTEM, **bad))
    assert found(str(error), our_locals(error)) == []


async def test_a_broken_stream_shows_what_came_nowhere_but_in_its_field() -> None:
    cut = sse(openai_chunk(ANSWER))
    chat = chat_of(cut)

    async def read() -> None:
        async with chat.stream(HISTORY) as stream:
            await stream.reply()

    error, logged = await broken_call(read)
    assert isinstance(error, StreamInterruptedError)
    assert error.partial_text == ANSWER
    assert found(str(error), repr(error), logged) == []


async def test_geminis_failures_show_none_either() -> None:
    pytest.importorskip("google.genai")
    vendor = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(401, json={"error": {}})))
    chat = FailoverChat([Provider.gemini(models=["m1"], keys=[KEY], http_client=vendor)], clock=ManualClock())
    error, logged = await broken_call(lambda: chat(HISTORY))
    assert found(str(error), repr(error), str(vars(error)), logged, our_locals(error)) == []


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.CANCELLED])
async def test_no_kind_of_failure_shows_a_label_that_is_a_key(kind: Kind) -> None:
    chat = FailoverChat(
        [provider("a", ScriptedAdapter(fails(kind)))], retry=RetryPolicy(max_retries=0), clock=ManualClock()
    )
    error, logged = await broken_call(lambda: chat(PROMPT))
    assert found(str(error), repr(error), logged, our_locals(error), pickle.dumps(error).decode("latin-1")) == []


async def test_a_printed_traceback_quotes_the_vendor_only_in_the_vendors_own_exception() -> None:
    error, _ = await broken_call(lambda: chat_of(openai_error(401, QUOTES))(PROMPT))
    error.__cause__ = None
    printed = io.StringIO()
    traceback.print_exception(error, file=printed, chain=False)
    assert found(printed.getvalue()) == []


@pytest.mark.parametrize("make", [Provider.openai, Provider.anthropic])
async def test_the_sdks_own_logs_show_no_key_at_any_level(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    refuse = httpx2.MockTransport(lambda _: httpx2.Response(401, json={"error": {"message": "wrong key"}}))
    key = make(models=["m"], keys=[KEY], http_client=httpx2.AsyncClient(transport=refuse))

    with pytest.raises(ReliableLLMError):
        await FailoverChat([key])("hi", max_tokens=5)

    assert "_base_client" in caplog.text
    assert KEY not in caplog.text


def test_settings_show_no_key() -> None:
    chosen = Vendor(openai_ok()).openai(
        KEY, headers={"x-secret": KEY}, base_url=f"https://u:{KEY}@h.example/v1?k={KEY}"
    )
    assert found(repr(chosen), str(chosen), repr(chosen.keys), chosen.endpoint) == []


async def test_what_a_vendor_says_writes_no_line_of_its_own_into_a_log() -> None:
    forged = "x\n2026-01-01 [info] all_is_well \x1b[31m"
    error = {"error": {"message": forged, "type": forged, "code": forged, "param": forged}}
    told = {"x-request-id": "req\x1b[31m_1"}
    refused = httpx2.Response(429, headers=told, content=json.dumps(error).encode())

    raised, logged = await broken_call(lambda: chat_of(refused)("hi"))

    shown = logged + str(raised) + repr(raised) + repr(raised.attempts)
    assert "all_is_well" not in shown
    assert "x1b" not in shown
    assert raised.request_id == "req[31m_1"


def test_nothing_turns_off_the_check_of_a_certificate() -> None:
    off = re.compile(r"verify\s*=\s*False|CERT_NONE|check_hostname\s*=\s*False|_create_unverified_context")
    assert [str(path) for path in Path(ROOT).rglob("*.py") if off.search(path.read_text(encoding="utf-8"))] == []


def test_the_connections_of_a_client_of_ours_check_certificates() -> None:
    context = ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
