"""`diagnose`: the taxonomy alone, on any exception; and the vendors that a base URL tells."""

from __future__ import annotations

import asyncio
import json

import anthropic
import botocore.eventstream
import botocore.exceptions
import google.auth.exceptions
import httpx2
import openai
import pytest

from reliable_llm.diagnosis import Rule, body_in_text, diagnose
from reliable_llm.errors import Kind, ServerError
from reliable_llm.vendors import VENDORS, vendor_from_base_url


def status_error(
    status: int, body: object, *, url: str = "https://api.openai.com/v1/chat/completions"
) -> openai.APIError:
    response = httpx2.Response(status, request=httpx2.Request("POST", url), json=body)
    return openai.APIStatusError("failed", response=response, body=body)


def test_a_vendors_exception_gives_a_verdict() -> None:
    verdict = diagnose(status_error(429, {"error": {"code": "insufficient_quota", "message": "x"}}))
    assert (verdict.kind, verdict.status) == (Kind.QUOTA_EXHAUSTED, 429)


def test_the_vendor_is_guessed_from_the_host_that_was_called() -> None:
    url = "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"
    verdict = diagnose(status_error(429, {"error": {"code": "insufficient_quota", "message": "x"}}, url=url))
    assert verdict.kind is Kind.RATE_LIMITED


def test_a_stated_vendor_beats_the_guess() -> None:
    exc = status_error(429, {"error": {"code": "insufficient_quota", "message": "x"}})
    assert diagnose(exc, vendor="dashscope").kind is Kind.RATE_LIMITED


def test_without_a_host_the_sdk_tells_the_vendor() -> None:
    exc = anthropic.APIConnectionError(request=httpx2.Request("POST", "http://10.0.0.1/v1"))
    assert diagnose(exc).kind is Kind.CONNECTION


def test_own_rules_are_tried_first() -> None:
    exc = status_error(403, {"code": "TEAM_BUDGET", "message": "x"})
    assert diagnose(exc, rules=[Rule(kind=Kind.QUOTA_EXHAUSTED, codes=("team_budget",))]).kind is Kind.QUOTA_EXHAUSTED


def test_an_error_of_ours_keeps_its_verdict() -> None:
    own = ServerError("x")
    assert diagnose(own) is own.verdict


@pytest.mark.parametrize("exc", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit()])
def test_cancellation_is_no_failure_of_a_vendor(exc: BaseException) -> None:
    assert diagnose(exc).kind is Kind.CANCELLED


@pytest.mark.parametrize(
    "exc", [TypeError("x"), KeyError("choices"), ValueError("bad"), AttributeError("x"), ZeroDivisionError()]
)
def test_a_programming_error_is_the_callers_own(exc: Exception) -> None:
    verdict = diagnose(exc)
    assert (verdict.kind, verdict.rule) == (Kind.INVALID_REQUEST, f"caller.{type(exc).__name__}")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error code: 429 - {'error': {'code': 'insufficient_quota', 'message': 'x'}}", Kind.QUOTA_EXHAUSTED),
        ('Error code: 400 - {"error": {"message": "prompt is too long"}}', Kind.CONTEXT_WINDOW),
        ("429 Too Many Requests", Kind.RATE_LIMITED),
        ("HTTP 503: busy", Kind.OVERLOADED),
        ("RateLimitError: 429 slow down", Kind.RATE_LIMITED),
        ("insufficient_quota", Kind.QUOTA_EXHAUSTED),
        ("You have no quota", Kind.QUOTA_EXHAUSTED),
        ("hit the rate_limit", Kind.RATE_LIMITED),
        ("(https://host:443/v1): connection reset", Kind.CONNECTION),
        ("boom", Kind.SERVER_ERROR),
    ],
)
def test_an_untyped_exception_is_read_by_its_text(text: str, kind: Kind) -> None:
    assert diagnose(RuntimeError(text)).kind is kind


def test_a_bare_value_error_of_a_wrapper_gets_its_chance() -> None:
    assert diagnose(ValueError("429 quota exceeded")).kind is Kind.RATE_LIMITED


@pytest.mark.parametrize("text", ["took 412 ms", "port 443", "gpt-4.1 429abc", "x" * 300 + " 429"])
def test_a_number_that_is_no_status_is_not_read_as_one(text: str) -> None:
    assert body_in_text(text) == (None, None)


def test_a_typed_500_with_telling_numbers_stays_a_server_error() -> None:
    exc = status_error(500, {"error": {"message": "upstream model backend unknown failure, took 412 ms at :443"}})
    assert diagnose(exc).kind is Kind.SERVER_ERROR


class _Wrapped(Exception):  # noqa: N818 - stands for another library's own naming
    def __init__(self, status: int, body: object) -> None:
        super().__init__(json.dumps(body))
        self.status_code = status
        self.body = body


def test_another_librarys_exception_is_read_by_status_and_body() -> None:
    verdict = diagnose(_Wrapped(400, {"error": {"message": "credit balance is too low"}}), vendor="anthropic")
    assert (verdict.kind, verdict.status) == (Kind.QUOTA_EXHAUSTED, 400)


# ---------------------------------------------------------------- vendors


@pytest.mark.parametrize(
    ("url", "vendor"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://my-resource.openai.azure.com/openai/v1/", "azure"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "bedrock"),
        ("https://us-central1-aiplatform.googleapis.com/v1", "vertex"),
        ("https://aiplatform.googleapis.com/v1", "vertex"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"),
        ("https://API.GROQ.com/openai/v1", "groq"),
        ("https://api.z.ai/api/paas/v4", "zhipu"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://127.0.0.1:8000/v1", "vllm"),
        ("http://localhost:9999", "unknown"),
        ("https://evil-api.openai.com.example.org/v1", "unknown"),
        ("https://notopenai.com", "unknown"),
        ("http://[::1", "unknown"),
        ("http://x:99999", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_host_tells_the_vendor(url: str, vendor: str) -> None:
    assert vendor_from_base_url(url) == vendor


def test_every_preset_with_a_base_url_is_found_by_it() -> None:
    named = {preset.name: vendor_from_base_url(preset.base_url) for preset in VENDORS.values() if preset.base_url}
    assert {name: found for name, found in named.items() if name != found} == {}


def test_only_servers_of_ones_own_do_without_a_key() -> None:
    keyless = {preset.name for preset in VENDORS.values() if not preset.needs_key}
    assert keyless == {"ollama", "vllm", "llamacpp", "lmstudio", "litellm"}


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (botocore.exceptions.NoCredentialsError(), Kind.AUTHENTICATION),
        (botocore.exceptions.UnauthorizedSSOTokenError(), Kind.AUTHENTICATION),
        (botocore.exceptions.CredentialRetrievalError(provider="p", error_msg="m"), Kind.AUTHENTICATION),
        (botocore.exceptions.ProfileNotFound(profile="p"), Kind.CONFIGURATION),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="https://x"), Kind.CONNECTION),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="https://x"), Kind.TIMEOUT),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="https://x"), Kind.TIMEOUT),
        (botocore.eventstream.ChecksumMismatch(1, 2), Kind.MALFORMED_RESPONSE),
        (google.auth.exceptions.DefaultCredentialsError("none were found"), Kind.AUTHENTICATION),
        (google.auth.exceptions.RefreshError("invalid_grant: revoked"), Kind.AUTHENTICATION),
        (google.auth.exceptions.TransportError("refused"), Kind.CONNECTION),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_the_clouds_own_packages_raise_is_known(exc: Exception, kind: Kind) -> None:
    assert diagnose(exc).kind is kind
