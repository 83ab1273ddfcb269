"""What a failure means: the order of the decision, users' own rules, and what a verdict allows."""

from __future__ import annotations

import pytest

from reliable_llm.core.classify import CODES, PHRASES, Rule, classify, reason_of
from reliable_llm.core.failure import Failure
from reliable_llm.core.rules import answers
from reliable_llm.core.rules.rule import NO_STATUS
from reliable_llm.core.rules.statuses import BY_CLASS, BY_STATUS_CLASS, BY_TRANSPORT, kind_of_status
from reliable_llm.errors import Kind, Scope, Verdict

NOON = 1_767_268_800.0


def failed(
    status: int | None = None,
    body: object = None,
    *,
    vendor: str = "openai",
    headers: dict[str, str] | None = None,
    message: str = "",
    exceptions: tuple[str, ...] = (),
    transport: str | None = None,
    output_started: bool = False,
) -> Failure:
    return Failure(
        vendor=vendor,
        sdk="openai",
        status=status,
        body=body,
        headers=headers or {},
        message=message,
        exceptions=exceptions,
        transport=transport,
        output_started=output_started,
    )


def error(message: str = "", *, code: object = None, type: str | None = None, param: str | None = None) -> object:
    return {"error": {"message": message, "type": type, "code": code, "param": param}}


def actions(verdict: Verdict) -> tuple[bool, bool, bool]:
    return verdict.rotate_key, verdict.retry_same, verdict.failover


# ---------------------------------------------------------------- the order of the decision


def test_a_users_rule_beats_every_built_in_one() -> None:
    own = Rule(kind=Kind.QUOTA_EXHAUSTED, name="acme.budget", statuses=(401,), codes=("TEAM_BUDGET",), retry_after=3600)
    verdict = classify(failed(401, error("no", code="team_budget")), rules=[own])
    assert (verdict.kind, verdict.rule, verdict.retry_after) == (Kind.QUOTA_EXHAUSTED, "acme.budget", 3600)


def test_a_users_rule_may_override_each_action() -> None:
    own = Rule(kind=Kind.RATE_LIMITED, rotate_key=False, retry_same=False, failover=False, scope=Scope.MODEL)
    verdict = classify(failed(429, {}), rules=[own])
    assert (actions(verdict), verdict.scope) == ((False, False, False), Scope.MODEL)


def test_a_users_rule_reads_transport_failures_too() -> None:
    own = Rule(kind=Kind.CONFIGURATION, name="vpn")
    assert classify(failed(transport="dns"), rules=[own]).kind is Kind.CONFIGURATION


@pytest.mark.parametrize(
    "rule",
    [
        Rule(kind=Kind.TIMEOUT, vendors=("groq",)),
        Rule(kind=Kind.TIMEOUT, statuses=(500,)),
        Rule(kind=Kind.TIMEOUT, codes=("other",)),
        Rule(kind=Kind.TIMEOUT, pattern="^nothing of the kind"),
    ],
)
def test_a_users_rule_that_misses_one_condition_decides_nothing(rule: Rule) -> None:
    assert classify(failed(429, error("slow", code="mine")), rules=[rule]).kind is Kind.RATE_LIMITED


def test_a_rule_for_a_family_covers_its_members() -> None:
    own = Rule(kind=Kind.TIMEOUT, vendors=("zhipu",))
    assert classify(failed(400, {}, vendor="zai"), rules=[own]).kind is Kind.TIMEOUT


def test_the_vendors_own_code_beats_what_the_same_code_means_elsewhere() -> None:
    body = error("Allocated quota exceeded", code="insufficient_quota")
    kinds = [classify(failed(429, body, vendor=vendor)).kind for vendor in ("dashscope", "openai")]
    assert kinds == [Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED]


def test_a_stable_code_beats_the_status() -> None:
    assert classify(failed(403, error(code="insufficient_quota"))).kind is Kind.QUOTA_EXHAUSTED


def test_a_phrase_beats_an_umbrella_type() -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "You've hit your monthly spend limit"}}
    assert classify(failed(429, body, vendor="anthropic")).kind is Kind.QUOTA_EXHAUSTED


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_the_endpoints_fault_and_another_provider_may_answer(status: int) -> None:
    verdict = classify(failed(status, None))
    assert (verdict.kind, *actions(verdict)) == (Kind.CONFIGURATION, False, False, True)


def test_a_loop_of_redirects_is_the_endpoints_fault_too() -> None:
    assert classify(failed(transport="redirects")).failover


def test_a_phrase_counts_only_under_a_status_that_it_fits() -> None:
    assert classify(failed(502, error("upstream overloaded"))).kind is Kind.SERVER_ERROR


def test_an_umbrella_type_beats_the_status() -> None:
    assert classify(failed(503, error("unavailable", type="server_error"))).kind is Kind.SERVER_ERROR


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (307, Kind.CONFIGURATION),
        (400, Kind.INVALID_REQUEST),
        (401, Kind.AUTHENTICATION),
        (402, Kind.QUOTA_EXHAUSTED),
        (403, Kind.PERMISSION),
        (408, Kind.TIMEOUT),
        (409, Kind.SERVER_ERROR),
        (413, Kind.REQUEST_TOO_LARGE),
        (418, Kind.INVALID_REQUEST),
        (429, Kind.RATE_LIMITED),
        (500, Kind.SERVER_ERROR),
        (503, Kind.OVERLOADED),
        (504, Kind.TIMEOUT),
        (522, Kind.CONNECTION),
        (524, Kind.TIMEOUT),
        (529, Kind.OVERLOADED),
        (599, Kind.SERVER_ERROR),
    ],
)
def test_where_nothing_else_is_known_the_status_decides(status: int, kind: Kind) -> None:
    assert classify(failed(status, {"odd": True})).kind is kind


def test_a_status_alone_is_reported_as_a_guess() -> None:
    assert classify(failed(429, {})).confidence == "guess"


@pytest.mark.parametrize("cause", sorted(BY_TRANSPORT))
def test_a_transport_failure_is_told_by_its_cause(cause: str) -> None:
    verdict = classify(failed(transport=cause, exceptions=("APIConnectionError",)))
    assert (verdict.kind, verdict.rule) == (BY_TRANSPORT[cause].kind, f"transport.{cause}")


def test_an_unheard_of_transport_cause_is_a_connection_failure() -> None:
    assert classify(failed(transport="gremlins")).kind is Kind.CONNECTION


def test_a_full_pool_of_our_own_is_no_strike_against_the_provider() -> None:
    assert classify(failed(transport="pool")).scope is Scope.LOCAL


def test_a_certificate_that_does_not_verify_is_not_tried_again() -> None:
    assert not classify(failed(transport="certificate")).retry_same


@pytest.mark.parametrize(("name", "kind"), sorted({**BY_CLASS, **BY_STATUS_CLASS}.items()))
def test_an_exception_without_answer_is_told_by_its_class(name: str, kind: Kind) -> None:
    assert classify(failed(exceptions=("OwnSubclass", name, "OpenAIError"))).kind is kind


def test_the_nearest_class_along_the_mro_decides() -> None:
    names = ("APITimeoutError", "APIConnectionError", "APIError", "OpenAIError")
    assert classify(failed(exceptions=names)).kind is Kind.TIMEOUT


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("insufficient_quota", Kind.QUOTA_EXHAUSTED),
        ("Quota reached", Kind.QUOTA_EXHAUSTED),
        ("RATE_LIMIT", Kind.RATE_LIMITED),
        ("got a 429", Kind.RATE_LIMITED),
        ("connection reset", Kind.CONNECTION),
        ("it went wrong", Kind.SERVER_ERROR),
    ],
)
def test_a_text_without_status_or_code_is_told_by_the_predecessors_substrings(text: str, kind: Kind) -> None:
    verdict = classify(failed(message=text, exceptions=("RuntimeError",)))
    assert (verdict.kind, verdict.confidence) == (kind, "guess")


# ---------------------------------------------------------------- answers that are none, frames


@pytest.mark.parametrize(
    "body",
    [None, "", "\n\n\n", [], {}, "plain words", {"id": "x"}, {"choices": []}, {"choices": None}, {"base_resp": None}],
)
def test_a_success_status_without_an_answer_is_malformed(body: object) -> None:
    assert classify(failed(200, body)).kind is Kind.MALFORMED_RESPONSE


def test_an_error_inside_a_200_that_says_no_more_is_no_answer() -> None:
    assert classify(failed(200, error("odd"))).kind is Kind.MALFORMED_RESPONSE


def test_a_page_under_a_success_status_is_not_tried_again() -> None:
    verdict = classify(failed(200, "<!doctype html><html><title>429 quota</title></html>"))
    assert (verdict.kind, verdict.retry_same) == (Kind.MALFORMED_RESPONSE, False)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(429, Kind.RATE_LIMITED), ("401", Kind.AUTHENTICATION), (502, Kind.SERVER_ERROR), (402, Kind.QUOTA_EXHAUSTED)],
)
def test_the_status_inside_a_200_decides(code: object, kind: Kind) -> None:
    assert classify(failed(200, error("Provider returned error", code=code))).kind is kind


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}]},
        {"choices": [{"finish_reason": "content_filter: PROHIBITED_CONTENT", "message": None}]},
        {"candidates": [{"finishReason": "SAFETY"}]},
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        {"stop_reason": "refusal", "content": []},
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
    ],
)
def test_an_answer_that_a_filter_ended_is_a_refusal(body: object) -> None:
    assert classify(failed(200, body)).kind is Kind.CONTENT_POLICY


def test_a_frame_that_says_no_more_broke_the_stream() -> None:
    assert classify(failed(None, {"error": "oops"})).kind is Kind.STREAM_INTERRUPTED


def test_a_frame_is_told_by_its_type() -> None:
    assert classify(failed(None, {"error": {"type": "overloaded_error"}})).kind is Kind.OVERLOADED


def test_what_breaks_after_output_is_an_interruption_whatever_its_kind() -> None:
    verdict = classify(failed(None, {"error": {"type": "overloaded_error"}}, output_started=True))
    assert (verdict.kind, verdict.rule) == (Kind.STREAM_INTERRUPTED, "after_output:code.overloaded")


def test_a_refusal_after_output_stays_a_refusal() -> None:
    verdict = classify(failed(None, error(code="content_filter"), output_started=True))
    assert verdict.kind is Kind.CONTENT_POLICY


# ---------------------------------------------------------------- what a verdict allows


def test_a_short_wait_is_worth_the_same_request_again() -> None:
    assert classify(failed(429, {}, headers={"retry-after": "60"})).retry_same


def test_a_wait_of_over_a_minute_is_not() -> None:
    verdict = classify(failed(429, {}, headers={"retry-after": "61"}))
    assert (actions(verdict), verdict.retry_after) == ((True, False, True), 61)


def test_a_long_wait_of_an_overloaded_vendor_moves_on_with_the_key_untouched() -> None:
    assert actions(classify(failed(529, {}, headers={"retry-after": "300"}))) == (False, False, True)


def test_a_short_wait_beside_spent_money_is_no_hint() -> None:
    verdict = classify(failed(429, error(code="insufficient_quota"), headers={"retry-after": "5"}))
    assert verdict.retry_after is None


def test_a_long_wait_beside_spent_money_is_when_the_period_ends() -> None:
    verdict = classify(failed(429, error(code="insufficient_quota"), headers={"retry-after": "5000"}))
    assert verdict.retry_after == 5000


def test_a_wait_means_nothing_where_waiting_cannot_help() -> None:
    verdict = classify(failed(400, error("Missing field"), headers={"retry-after": "5"}))
    assert verdict.retry_after is None


def test_asking_for_more_than_a_whole_minutes_allowance_is_too_large_in_spite_of_a_stated_wait() -> None:
    text = (
        "Rate limit reached on tokens per minute (TPM): Limit 7000, Used 0, Requested ~12903. Please try again in 50s."
    )
    verdict = classify(failed(429, error(text, code="rate_limit_exceeded")))
    assert (verdict.kind, verdict.retry_after) == (Kind.REQUEST_TOO_LARGE, None)


def test_a_daily_limit_with_a_short_wait_is_a_rate() -> None:
    text = "Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s."
    assert classify(failed(429, error(text, code="rate_limit_exceeded"))).kind is Kind.RATE_LIMITED


def test_a_daily_limit_without_a_short_wait_is_spent() -> None:
    assert classify(failed(429, error("Requests per day limit exceeded"))).kind is Kind.QUOTA_EXHAUSTED


def test_googles_quota_of_a_minute_is_a_rate_though_the_sentence_speaks_of_billing() -> None:
    verdict = classify(failed(429, google("GenerateRequestsPerMinutePerProject", "34s"), vendor="gemini"))
    assert (verdict.kind, verdict.retry_after, verdict.scope) == (Kind.RATE_LIMITED, 34, Scope.MODEL)


def test_googles_quota_of_a_day_is_spent_though_a_short_wait_is_stated() -> None:
    verdict = classify(failed(429, google("GenerateRequestsPerDayPerProject", "34s"), vendor="gemini"))
    assert (verdict.kind, verdict.retry_after) == (Kind.QUOTA_EXHAUSTED, None)


def test_a_quota_of_zero_is_no_rate() -> None:
    body = [
        {"error": {"code": 429, "message": "Quota exceeded for metric: x, limit: 0, model: y. Please retry in 9s."}}
    ]
    verdict = classify(failed(429, body, vendor="gemini"))
    assert (verdict.kind, verdict.retry_after) == (Kind.QUOTA_EXHAUSTED, None)


def google(quota: str, delay: str) -> object:
    text = "You exceeded your current quota, please check your plan and billing details."
    details = [{"violations": [{"quotaId": quota}]}, {"retryDelay": delay}, {"metadata": {"quota_limit": quota}}]
    return [{"error": {"code": 429, "message": text, "status": "RESOURCE_EXHAUSTED", "details": details}}]


def test_a_used_up_subscription_window_is_spent_and_says_until_when() -> None:
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-5h-status": "rejected",
        "anthropic-ratelimit-unified-5h-reset": str(int(NOON) + 7_999),
    }
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "would exceed your rate limit"}}
    verdict = classify(failed(429, body, vendor="anthropic", headers=headers), wall=NOON)
    assert (verdict.kind, verdict.retry_after) == (Kind.QUOTA_EXHAUSTED, 7_999)


@pytest.mark.parametrize("code", ["invalid_value", "model_rate_limit_exceeded_for_the_tier_2", "a.b-c/d:e"])
def test_a_code_that_is_a_word_is_reported(code: str) -> None:
    assert classify(failed(400, error(code=code))).code == code


@pytest.mark.parametrize(
    "code",
    [
        "sk-live-123",
        "two words",
        "invalid_key:sk-proj-a",
        "key/sk-1",
        "AIzaSyD4f6",
        "hf_a",
        "ABSKa",
        "3f9c1d2e4b5a69788796",
    ],
)
def test_what_looks_like_a_key_is_reported_as_no_code(code: str) -> None:
    assert classify(failed(400, error(code=code))).code is None


def test_the_http_status_is_reported_as_it_was() -> None:
    assert classify(failed(200, error(code=429))).status == 200


# ---------------------------------------------------------------- features


@pytest.mark.parametrize(
    ("message", "feature"),
    [
        ("model does not support image input", "vision"),
        ("Invalid content type: image_url is not supported by this model", "vision"),
        ("PDF input is not supported", "documents"),
        ("this response_format type is unavailable", "structured_output"),
        ("registry/x does not support tools", "tools"),
        ("This model only support stream mode", "streaming"),
    ],
)
def test_what_a_model_cannot_do_is_named(message: str, feature: str) -> None:
    verdict = classify(failed(400, error(message, type="invalid_request_error")))
    assert (verdict.kind, verdict.feature) == (Kind.UNSUPPORTED, feature)


@pytest.mark.parametrize(
    ("body", "feature"),
    [
        (error("Unsupported value", code="unsupported_value", param="temperature"), "parameter:temperature"),
        (error("Unsupported parameter: 'top_k' is not supported with this model."), "parameter:top_k"),
        (error("Unrecognized request argument supplied: seed"), "parameter:seed"),
        (error("no", code="unsupported_parameter", param="tool_choice"), "tools"),
        (error("no", code="unsupported_parameter", param="<odd>"), "parameter"),
        (error("temperature is deprecated for this model."), "parameter:temperature"),
        (error("42", code="unsupported_parameter"), "parameter"),
    ],
)
def test_a_refused_parameter_is_an_invalid_request_that_names_it(body: object, feature: str) -> None:
    verdict = classify(failed(400, body))
    assert (verdict.kind, verdict.feature) == (Kind.INVALID_REQUEST, feature)


def test_thinking_of_another_issuer_is_named_so_that_it_can_be_left_out() -> None:
    text = "messages.1.content.0: Invalid `signature` in `thinking` block"
    verdict = classify(failed(400, {"error": {"type": "invalid_request_error", "message": text}}))
    assert (verdict.kind, verdict.feature) == (Kind.INVALID_REQUEST, "reasoning_history")


def test_an_image_over_one_vendors_limit_is_worth_another_candidate() -> None:
    verdict = classify(failed(400, error("image exceeds 5 MB maximum: 6500712 bytes")))
    assert (verdict.kind, verdict.feature, verdict.failover) == (Kind.REQUEST_TOO_LARGE, "image_size", True)


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("message", "limit", "used"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000, 210_000),
        ("input length and max_tokens exceed context limit: 141632 + 64000 > 200000", 200_000, 205_632),
        ("maximum context length is 4096 tokens. However, you requested 5,000 tokens", 4_096, 5_000),
        ("This model's maximum context length is 32768 tokens and your request has 5121 input (32000 > 32768 - 5121)",
         32_768, 37_121),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072, 537_812),
        ("The input token count (90) exceeds the maximum number of tokens allowed (80).", 80, 90),
        ("Range of input length should be [1, 983616]", 983_616, None),
        ("prompt is too long", None, None),
    ],
)  # fmt: skip
def test_the_window_and_the_size_are_read_from_the_sentence(message: str, limit: int | None, used: int | None) -> None:
    verdict = classify(failed(400, error(message)))
    assert (verdict.kind, verdict.limit_tokens, verdict.used_tokens) == (Kind.CONTEXT_WINDOW, limit, used)


def test_the_window_and_the_size_are_read_from_the_fields() -> None:
    fields = {"type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 9_000, "n_ctx": 8_192}
    verdict = classify(failed(500, {"error": fields}))
    assert (verdict.limit_tokens, verdict.used_tokens) == (8_192, 9_000)


# ---------------------------------------------------------------- the tables


def test_every_built_in_rule_has_a_name_and_a_reason() -> None:
    unexplained = [rule for rule in (*CODES, *PHRASES) if not rule.name or not rule.reason]
    assert [rule.name for rule in unexplained if not rule.name.startswith("zh.")] == []


def test_no_two_built_in_rules_share_a_name() -> None:
    names = [rule.name for rule in (*CODES, *PHRASES, *answers.UNTYPED)]
    assert len(names) == len(set(names))


def test_a_rules_reason_can_be_looked_up_also_after_output() -> None:
    assert reason_of("code.ramp_limit") == reason_of("after_output:code.ramp_limit") != ""


def test_an_unheard_of_rule_has_no_reason() -> None:
    assert reason_of("acme.budget") == ""


def test_no_built_in_phrase_is_bound_to_a_2xx() -> None:
    assert not [rule.name for rule in PHRASES if any(NO_STATUS < status < 300 for status in rule.statuses)]


def test_an_unknown_4xx_is_never_tried_again_and_an_unknown_5xx_may_be() -> None:
    assert (kind_of_status(499 - 20), kind_of_status(555)) == (Kind.INVALID_REQUEST, Kind.SERVER_ERROR)


def test_an_error_where_the_choice_of_an_answer_should_be_is_that_error() -> None:
    broken = {"index": 0, "finish_reason": "error", "error": {"code": 429, "message": "Rate limited"}}
    whole = {"index": 0, "finish_reason": "stop", "error": None, "message": {"content": "429 rate limited"}}
    answers_of = (broken, whole, "odd")
    kinds = [classify(failed(200, {"choices": [choice]}, vendor="openrouter")).kind for choice in answers_of]

    assert kinds == [Kind.RATE_LIMITED, Kind.MALFORMED_RESPONSE, Kind.MALFORMED_RESPONSE]
