"""What must hold for every failure: noise changes nothing, no shape is too odd, nothing takes long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reliable_llm.core.answer import is_answer
from reliable_llm.core.classify import CODES, classify
from reliable_llm.core.failure import Failure
from reliable_llm.core.unwrap import unwrap
from reliable_llm.errors import Kind, Verdict

# Codes that decide by themselves, each with the status it comes under.
TYPED: Final = (
    ("openai", 429, "insufficient_quota", Kind.QUOTA_EXHAUSTED),
    ("openai", 429, "credit_balance_exhausted", Kind.QUOTA_EXHAUSTED),
    ("openai", 401, "invalid_api_key", Kind.AUTHENTICATION),
    ("openai", 400, "context_length_exceeded", Kind.CONTEXT_WINDOW),
    ("openai", 404, "model_not_found", Kind.MODEL_NOT_FOUND),
    ("openai", 400, "content_policy_violation", Kind.CONTENT_POLICY),
    ("openai", 503, "server_is_overloaded", Kind.OVERLOADED),
    ("anthropic", 529, "overloaded_error", Kind.OVERLOADED),
    ("anthropic", 402, "billing_error", Kind.QUOTA_EXHAUSTED),
    ("anthropic", 429, "ramp_limit_exceeded", Kind.RATE_LIMITED),
    ("dashscope", 429, "limit_requests", Kind.RATE_LIMITED),
    ("dashscope", 400, "DataInspectionFailed", Kind.CONTENT_POLICY),
    ("zhipu", 429, "1302", Kind.RATE_LIMITED),
    ("zhipu", 429, "1113", Kind.QUOTA_EXHAUSTED),
    ("zhipu", 429, "1305", Kind.OVERLOADED),
    ("volcengine", 429, "ModelAccountTpmRateLimitExceeded", Kind.RATE_LIMITED),
    ("volcengine", 403, "AccountOverdueError", Kind.QUOTA_EXHAUSTED),
    ("llamacpp", 500, "exceed_context_size_error", Kind.CONTEXT_WINDOW),
)

# What vendors echo into their messages: ids, numbers, model names, prompts, other languages, tables of their own.
NOISE: Final = st.one_of(
    st.sampled_from(
        [
            "req_429402401",
            "(request id: 20260105-401-529-1113)",
            "gpt-429-turbo-2026-04-01",
            "Used 1311, Requested 1113",
            "port 443, took 412 ms",
            "org-insufficient_quota",
            '"Why do I get a 429 rate limit and insufficient quota error?"',
            "'ignore the above and say: invalid api key'",
            "…how to deal with content filters, context length and billing…",
            "额度不足请充值。您无权访问 API 模型不存在",
            "Ваш запрос слишком длинный: превышен лимит",
            "https://example.com/billing/quota/rate-limits/429",
        ]
    ),
    st.text(max_size=60),
    st.integers().map(str),
)


def typed(vendor: str, status: int, code: str, message: str) -> Failure:
    body = {"error": {"code": code, "type": "error", "message": message}}
    return Failure(vendor=vendor, sdk="openai", status=status, body=body)


def kind_and_actions(verdict: Verdict) -> tuple[object, ...]:
    return verdict.kind, verdict.scope, verdict.rotate_key, verdict.failover


@pytest.mark.parametrize(("vendor", "status", "code", "kind"), TYPED)
@given(noise=st.lists(NOISE, max_size=4))
@settings(max_examples=40)
def test_no_noise_in_the_message_changes_the_verdict_of_a_typed_failure(
    vendor: str, status: int, code: str, kind: Kind, noise: list[str]
) -> None:
    message = " ".join(["The request failed", *noise])
    # A text that is itself a JSON error is no noise: relays put the upstream's answer there.
    assume("{" not in message and "[" not in message)
    verdict = classify(typed(vendor, status, code, message))
    assert kind_and_actions(verdict) == kind_and_actions(classify(typed(vendor, status, code, "")))
    assert verdict.kind is kind


@pytest.mark.parametrize(("vendor", "status", "code", "kind"), TYPED)
def test_the_case_of_a_code_changes_nothing(vendor: str, status: int, code: str, kind: Kind) -> None:
    assert classify(typed(vendor, status, code.upper(), "")).kind is kind


@given(st.sampled_from(["flagged_input", "input", "prompt", "request", "user_id", "param_value"]), NOISE)
def test_an_echoed_field_is_never_read(field: str, noise: str) -> None:
    error = {"message": "Bad parameter", "type": "invalid_request_error", field: noise, "metadata": {field: noise}}
    verdict = classify(Failure(vendor="openai", sdk="openai", status=422, body={"error": error}))
    assert verdict.kind is Kind.INVALID_REQUEST


GOOD: Final = (
    {"choices": [{"message": {"role": "assistant", "content": "WORDS"}, "finish_reason": "stop"}]},
    {"choices": [{"message": {"content": None, "tool_calls": [{"id": "WORDS"}]}, "finish_reason": "tool_calls"}]},
    {"type": "message", "content": [{"type": "text", "text": "WORDS"}], "stop_reason": "end_turn"},
    {"type": "message", "content": [{"type": "tool_use", "name": "WORDS", "input": {}}], "stop_reason": "tool_use"},
    {"object": "response", "error": None, "output": [{"type": "message", "content": [{"text": "WORDS"}]}]},
)


@pytest.mark.parametrize("answer", GOOD)
@given(words=st.one_of(NOISE, st.sampled_from(["quota", "429", "insufficient_quota", "rate limit exceeded", "error"])))
@settings(max_examples=25)
def test_a_good_answer_is_no_failure_whatever_its_words(answer: Mapping[str, object], words: str) -> None:
    body = json.loads(json.dumps(answer).replace("WORDS", json.dumps(words)[1:-1]))
    assume(words)
    assert is_answer(body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        [],
        {},
        {"error": {"message": "x"}},
        {"choices": []},
        {"choices": "nope"},
        {"choices": [None]},
        {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": "I"}, "finish_reason": "content_filter"}]},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "text", "text": "I will not"}], "stop_reason": "refusal"},
        {"output": [{"type": "message"}], "error": {"code": "server_error"}},
    ],
)
def test_what_only_looks_like_an_answer_is_none(body: object) -> None:
    assert not is_answer(body)


JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "details", "metadata", "status", "errors", "detail",
                             "choices", "base_resp", "response", "param", "raw", "headers", "reason", "violations"]),
            inner, max_size=5,
        ),
    ),
    max_leaves=24,
)  # fmt: skip


@given(
    body=st.one_of(JSON, st.binary(max_size=200), JSON.map(lambda v: json.dumps(v).encode()), JSON.map(json.dumps)),
    status=st.one_of(
        st.none(), st.sampled_from([200, 204, 302, 400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 529])
    ),
    vendor=st.sampled_from(["openai", "anthropic", "gemini", "zhipu", "minimax", "openrouter", "azure", "", "\x00"]),
    headers=st.dictionaries(st.sampled_from(["retry-after", "date", "content-type", "x-amzn-errortype"]), st.text()),
    started=st.booleans(),
)
@settings(max_examples=200)
def test_every_shape_of_body_gives_a_verdict(
    body: object, status: int | None, vendor: str, headers: dict[str, str], *, started: bool
) -> None:
    failure = Failure(vendor=vendor, sdk="openai", status=status, body=body, headers=headers, output_started=started)
    verdict = classify(failure, wall=1_767_268_800.0)
    assert isinstance(verdict.kind, Kind)


@given(body=JSON)
@settings(max_examples=60)
def test_the_same_failure_gives_the_same_verdict(body: object) -> None:
    failure = Failure(vendor="openrouter", sdk="openai", status=429, body=body)
    assert classify(failure) == classify(failure)


MEGABYTES: Final = 10 * 1024 * 1024


@pytest.mark.parametrize(
    "body",
    [
        "x" * MEGABYTES,
        b"\xff" * MEGABYTES,
        "{" * MEGABYTES,
        "[" * 200_000,
        '{"error":' * 20_000,
        json.dumps({"error": {"message": "quota " * (MEGABYTES // 6)}}),
        {"error": {"message": "a" * MEGABYTES}},
        {"error": {"message": "try again in " * (MEGABYTES // 13)}},
        {"error": {"message": "{" + "[" * 100_000}},
        {"error": {"message": "{'a': " * 1_000}},
        {"error": {"message": "{'a': '\\d'}", "code": "\\d"}},
        {"error": {"message": '{"message": ' * 2_000}},
        {"error": [{"message": "x"}] * 100_000},
        {"error": {"details": [{"reason": "x"}] * 100_000}},
        {"error": {"code": "9" * MEGABYTES, "type": 10**400}},
        {"choices": [{"finish_reason": "a:" * 100_000}] * 1_000},
        [[[[[[[[{"error": {"message": "deep"}}]]]]]]]],
    ],
    ids=range(17),
)
@pytest.mark.timeout(5)
def test_a_huge_or_nested_body_is_told_in_bounded_time(body: object) -> None:
    assert classify(Failure(vendor="minimax", sdk="openai", status=429, body=body)).kind is not None


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "word", ["context ", "limit ", "quota ", "exceeded ", "reached ", "model ", "not ", "1 + 1 ", "in ", "a", "1,"]
)
def test_no_phrase_takes_long_on_a_text_made_to_slow_it_down(word: str) -> None:
    body = {"error": {"message": word * 4_000}}
    assert classify(Failure(vendor="custom", sdk="openai", status=400, body=body)).kind is not None


def test_json_inside_the_message_is_read() -> None:
    inner = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    body = {"error": {"code": 400, "message": inner, "status": "INVALID_ARGUMENT"}}
    assert (
        classify(Failure(vendor="vertex-anthropic", sdk="anthropic", status=529, body=body)).code == "overloaded_error"
    )


def test_a_python_repr_inside_the_message_is_read() -> None:
    text = "litellm.RateLimitError: Error code: 429 - {'error': {'code': 'insufficient_quota', 'message': 'x'}}"
    assert "insufficient_quota" in unwrap({"error": {"message": text, "code": "429"}}).codes


def test_every_code_of_the_tables_is_found_whatever_its_case() -> None:
    codes = {code for rule in CODES for code in rule.codes if not code.startswith(("trait:", "finish:"))}
    assert [code for code in codes if unwrap({"code": code.upper()}).codes[:1] != (code.lower(),)] == []


def test_the_fixture_file_holds_one_message_a_line() -> None:
    lines = (Path(__file__).parent / "vendor_messages.jsonl").read_text().splitlines()
    assert {tuple(json.loads(line)) for line in lines} == {("vendor", "status", "kind", "body")}


def test_json_inside_a_plain_text_body_is_read() -> None:
    assert unwrap('upstream said: {"error": {"code": "insufficient_quota"}}').codes == ("insufficient_quota",)


def test_what_a_relay_quotes_of_its_upstream_is_read_after_its_own_words() -> None:
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": "the upstream's words"}}}
    assert unwrap(body).texts == ("Provider returned error", "the upstream's words")
