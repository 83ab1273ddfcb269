"""Group E: what a failure is, and what follows from it on the wire."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest

from reliable_llm.core.classify import Rule
from reliable_llm.diagnosis import diagnose
from reliable_llm.errors import Kind, PermissionDeniedError, QuotaExhaustedError
from tests.checklist.pairs import Pair
from tests.support import (
    STEADY,
    Vendor,
    anthropic_error,
    anthropic_ok,
    openai_error,
    openai_ok,
    out_of_quota,
    rate_limited,
)

# seeds: ZeroClaw's business hints for a 429 that waiting does not mend.
BUSINESS = [
    "Your plan does not include this model",
    "The plan doesn't include access to it",
    "This model is not included in your plan",
    "Insufficient balance",
    "insufficient_balance",
    "Insufficient quota",
    "insufficient_quota",
    "Quota exhausted",
    "You are out of credits",
    "No available package",
    "Package not active",
    "Please purchase package",
    "Model not available for your plan",
]
AUTH = [
    "Invalid API key",
    "Incorrect API key provided",
    "Missing API key",
    "API key not set",
    "Authentication failed",
    "Auth failed",
    "Unauthorized",
    "Forbidden",
    "Permission denied",
    "Access denied",
    "Invalid token",
]
TOOLS = [
    "tool call validation failed: attempted to call tool 'x'",
    "parameters for tool x did not match schema, tool 'x' was not in request",
    "tool x not found in tool list",
    "invalid_tool_call",
]


# ---------------------------------------------------------------- E1, E2


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, "upstream model backend unknown failure"),
        (503, "The model is overloaded; invalid response from worker"),
        (500, "request took 412 ms"),
        (502, "used 450 tokens, error 404 upstream"),
        (500, "https://host:443/v1: connection reset"),
        (500, "code 1311 in worker 429"),
    ],
)
async def test_e1_the_status_counts_and_digits_in_the_text_do_not(status: int, text: str) -> None:
    pair = Pair(openai_error(status, text))
    await pair.ask()
    assert pair.calls == (3, 1)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_e2_what_retrying_cannot_mend_gets_one_call_and_moves_on(status: int) -> None:
    pair = Pair(openai_error(status))
    await pair.ask()
    assert pair.calls == (1, 1)


@pytest.mark.parametrize("status", [400, 422])
async def test_e2_a_request_that_is_wrong_gets_one_call_and_is_raised(status: int) -> None:
    pair = Pair(openai_error(status, "messages: field required"))
    assert (await pair.fail()).kind is Kind.INVALID_REQUEST
    assert pair.calls == (1, 0)


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529])
async def test_e2_what_retrying_can_mend_is_retried(status: int) -> None:
    pair = Pair(openai_error(status), openai_ok(), alone=True)
    await pair.ask()
    assert pair.calls == (2, 0)


async def test_e2_a_rate_limit_is_retried() -> None:
    pair = Pair(rate_limited(), openai_ok(), alone=True)
    await pair.ask()
    assert pair.calls == (2, 0)


# ---------------------------------------------------------------- E3 to E8


async def test_e3_a_402_is_never_a_matter_of_context() -> None:
    pair = Pair(openai_error(402, "Payment required: this exceeds the maximum context length of your plan"))
    await pair.ask()
    assert pair.chat.status().providers[0].keys[0].health.reason is Kind.QUOTA_EXHAUSTED


async def test_e3_a_refused_key_is_not_a_matter_of_quota() -> None:
    pair = Pair(openai_error(401, "Incorrect API key provided. Check your quota and billing."), alone=True)
    assert (await pair.fail()).kind is Kind.AUTHENTICATION


async def test_e3_money_comes_before_the_rate_limit() -> None:
    pair = Pair(openai_error(429, "Rate limit: you exceeded your current quota", code="insufficient_quota"), alone=True)
    assert (await pair.fail()).kind is Kind.QUOTA_EXHAUSTED


async def test_e3_a_rate_limit_comes_before_context() -> None:
    pair = Pair(openai_error(429, "Too many tokens per minute, reduce the length of the context"), alone=True)
    assert (await pair.fail()).kind is Kind.RATE_LIMITED


@pytest.mark.parametrize(
    "text",
    ["too many requests", "Too Many Requests", "slow down", "", "Too many tokens, please wait before trying again."],
)
async def test_e4_any_429_that_is_not_about_money_is_a_rate_limit(text: str) -> None:
    pair = Pair(openai_error(429, text), alone=True)
    assert (await pair.fail()).kind is Kind.RATE_LIMITED


async def test_e4_a_throttle_does_not_touch_the_history() -> None:
    pair = Pair(openai_error(429, "Too many tokens, please wait before trying again."), openai_ok(), alone=True)
    await pair.ask()
    first, second = pair.primary.arrivals
    assert first.body == second.body


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (404, "Not found", None),
        (404, "The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"),
        (503, "No worker", "model_not_found"),
        (400, "The model `gpt-9` does not exist", None),
        (400, "Unknown model: gpt-9", None),
    ],
)
async def test_e5_a_missing_model_gets_one_call_and_moves_on(status: int, message: str, code: str | None) -> None:
    pair = Pair(openai_error(status, message, code=code))
    await pair.ask()
    assert pair.calls == (1, 1)


async def test_e6_insufficient_quota_gets_one_call_and_moves_on_without_a_sleep() -> None:
    pair = Pair(out_of_quota())
    await pair.ask()
    assert (pair.calls, pair.slept) == ((1, 1), [])


@pytest.mark.parametrize("text", BUSINESS)
async def test_e6_a_429_that_speaks_of_money_or_plan_gets_one_call_and_moves_on(text: str) -> None:
    pair = Pair(openai_error(429, text))
    await pair.ask()
    assert (pair.calls, pair.slept) == ((1, 1), [])


@pytest.mark.parametrize("code", ["1113", "1311"])
async def test_e6_zhipus_codes_count_as_codes(code: str) -> None:
    pair = Pair(openai_error(429, "error", code=code), vendor="zhipu", alone=True)
    error = await pair.fail()
    assert error.kind in (Kind.QUOTA_EXHAUSTED, Kind.PERMISSION)
    assert pair.calls == (1, 0)


@pytest.mark.parametrize("text", ["TPM: Limit 30000, Used 1311", "Limit 1113 requests"])
async def test_e6_the_same_numbers_in_a_text_do_not(text: str) -> None:
    pair = Pair(openai_error(429, text), vendor="zhipu", alone=True)
    assert (await pair.fail()).kind is Kind.RATE_LIMITED


async def test_e6_anthropics_credit_balance_is_quota_although_it_is_a_400() -> None:
    vendor = Vendor(anthropic_error(400, "invalid_request_error", "Your credit balance is too low to access the API."))
    pair = Pair()
    pair.chat = type(pair.chat)([vendor.anthropic(name="claude")], clock=pair.clock)
    assert isinstance(await pair.fail(), QuotaExhaustedError)
    assert len(vendor.arrivals) == 1


async def test_e6_a_403_about_a_budget_is_quota() -> None:
    pair = Pair(openai_error(403, "Budget limit exceeded for this key"), alone=True)
    assert (await pair.fail()).kind is Kind.QUOTA_EXHAUSTED


async def test_e6_every_key_is_asked_once_at_most() -> None:
    pair = Pair(out_of_quota(), keys=("sk-key-a", "sk-key-b"))
    await pair.ask()
    assert pair.primary.keys == ["sk-key-a", "sk-key-b"]


async def test_e7_a_402_is_quota() -> None:
    pair = Pair(openai_error(402, "Payment required"), alone=True)
    assert (await pair.fail()).kind is Kind.QUOTA_EXHAUSTED


@pytest.mark.parametrize("text", ["You hit your usage limit, try again later", "Try again in 20s", "Retry after 5 s"])
async def test_e7_a_402_that_says_when_to_come_back_is_a_rate_limit(text: str) -> None:
    pair = Pair(openai_error(402, text), alone=True)
    assert (await pair.fail()).kind is Kind.RATE_LIMITED


async def test_e8_dashscopes_insufficient_quota_is_a_throttle() -> None:
    pair = Pair(out_of_quota(), openai_ok(), vendor="dashscope", alone=True)
    await pair.ask()
    assert pair.calls == (2, 0)


async def test_e8_a_users_own_rule_wins() -> None:
    own = Rule(kind=Kind.RATE_LIMITED, name="own", codes=("insufficient_quota",))
    pair = Pair(out_of_quota(), openai_ok(), classify=(own,), alone=True)
    await pair.ask()
    assert pair.calls == (2, 0)


# ---------------------------------------------------------------- E9 to E14

BROKEN = [
    httpx2.ConnectError("connection refused"),
    httpx2.ConnectError("[Errno -2] Name or service not known"),
    httpx2.ConnectError("All connection attempts failed"),
    httpx2.ReadError("connection reset"),
    httpx2.RemoteProtocolError("server disconnected without sending a response"),
]
SILENT = [httpx2.ReadTimeout("read"), httpx2.ConnectTimeout("connect"), httpx2.PoolTimeout("pool")]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: f"{type(broken).__name__}:{broken}")
async def test_e9_a_broken_way_is_retried_then_left(broken: Exception) -> None:
    pair = Pair(broken)
    await pair.ask()
    assert pair.calls == (3, 1)


@pytest.mark.parametrize("silent", SILENT, ids=lambda silent: type(silent).__name__)
async def test_e9_silence_is_not_waited_for_twice_while_another_candidate_is_ready(silent: Exception) -> None:
    pair = Pair(silent)
    await pair.ask()
    assert pair.calls == (1, 1)


@pytest.mark.parametrize("silent", SILENT, ids=lambda silent: type(silent).__name__)
async def test_e9_silence_is_retried_where_there_is_nobody_else_or_the_policy_says_so(silent: Exception) -> None:
    alone = Pair(silent, alone=True)
    await alone.fail()
    insistent = Pair(silent, retry=replace(STEADY, retry_timeouts=True))
    await insistent.ask()
    assert (alone.calls, insistent.calls) == ((3, 0), (3, 1))


@pytest.mark.parametrize("text", ["[SSL: WRONG_VERSION_NUMBER]", "[SSL: CERTIFICATE_VERIFY_FAILED] mismatch"])
async def test_e9_tls_that_fails_once_fails_always_and_is_left_at_once(text: str) -> None:
    pair = Pair(httpx2.ConnectError(text))
    await pair.ask()
    assert pair.calls == (1, 1)


@pytest.mark.parametrize("status", [500, 520, 529, 599])
async def test_e9_an_unknown_server_error_is_retried_then_left(status: int) -> None:
    pair = Pair(openai_error(status, "upstream_error"))
    await pair.ask()
    assert pair.calls == (3, 1)


async def test_e10_a_success_is_never_read_for_failures() -> None:
    text = "Error 429: insufficient_quota, invalid api key, maximum context length"
    pair = Pair(openai_ok(text))
    assert (await pair.ask()).text == text


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("text", AUTH)
async def test_e11_a_key_that_may_not_is_left_for_the_next_key_then_the_next_provider(status: int, text: str) -> None:
    pair = Pair(openai_error(status, text), keys=("sk-key-a", "sk-key-b"))
    await pair.ask()
    assert (pair.primary.keys, pair.calls[1], pair.slept) == (["sk-key-a", "sk-key-b"], 1, [])


async def test_e11_the_next_key_may_do() -> None:
    pair = Pair(keys=("sk-key-a", "sk-key-b"))
    pair.primary.on("sk-key-a", openai_error(401, "Incorrect API key provided"))
    assert (await pair.ask()).served_by.key_label == "openai#2"


@pytest.mark.parametrize("text", TOOLS)
async def test_e12_a_malformed_tool_call_of_the_model_is_not_the_callers_fault(text: str) -> None:
    pair = Pair(openai_error(400, text))
    assert (await pair.ask()).text == "hello from claude"


@pytest.mark.parametrize(
    "text", ["Error code: 429", "HTTP 429 Too Many Requests", "INSUFFICIENT_QUOTA", "Quota exceeded", "RATE_LIMIT hit"]
)
def test_e13_the_seeds_patterns_in_an_untyped_exception_allow_the_fallback(text: str) -> None:
    verdict = diagnose(Exception(text))
    assert verdict.failover
    assert verdict.kind in (Kind.QUOTA_EXHAUSTED, Kind.RATE_LIMITED)


async def test_e14_a_message_is_read_beyond_its_first_500_characters() -> None:
    message = "x" * 600 + ". You exceeded your current quota, please check your plan and billing details."
    pair = Pair(openai_error(429, message), alone=True)
    assert (await pair.fail()).kind is Kind.QUOTA_EXHAUSTED


async def test_e_permission_is_its_own_kind() -> None:
    pair = Pair(openai_error(403, "You are not allowed to sample from this model"), alone=True)
    assert isinstance(await pair.fail(), PermissionDeniedError)


async def test_e2_anthropics_statuses_are_read_alike() -> None:
    vendor = Vendor(anthropic_error(529, "overloaded_error"), anthropic_ok())
    pair = Pair()
    pair.chat = type(pair.chat)([vendor.anthropic()], clock=pair.clock)
    assert (await pair.ask()).text == "hello from claude"
    assert len(vendor.arrivals) == 2
