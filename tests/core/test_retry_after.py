"""How long a vendor asks to wait: every place, the most trusted first; hostile values are no hint."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.core.classify import classify
from reliable_llm.core.failure import Failure
from reliable_llm.core.retry_after import (
    LONGEST,
    seconds,
    wait_from_body,
    wait_from_buckets,
    wait_from_headers,
    window_rejected,
)
from reliable_llm.core.unwrap import unwrap

NOON = 1_767_268_800.0  # 2026-01-01 12:00:00 UTC


def said(text: str, *, local: bool = False) -> float | None:
    return wait_from_body(unwrap({"error": {"message": text}}), {}, NOON, local=local)


def stated(fields: dict[str, object]) -> float | None:
    return wait_from_body(unwrap({"error": {"message": "slow", **fields}}), {}, NOON)


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "5"}, 5),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "30s"}, 30),
        ({"retry-after": formatdate(NOON + 90, usegmt=True)}, 90),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "junk", "retry-after": "9"}, 9),
    ],
)
def test_a_header_states_the_wait(headers: dict[str, str], wait: float) -> None:
    assert wait_from_headers(headers, NOON) == wait


def test_a_date_is_counted_from_the_vendors_own_clock() -> None:
    headers = {"date": formatdate(NOON, usegmt=True), "retry-after": formatdate(NOON + 60, usegmt=True)}
    assert wait_from_headers(headers, NOON + 5_000) == 60


def test_a_date_says_nothing_where_the_time_is_not_known() -> None:
    assert wait_from_headers({"retry-after": formatdate(NOON, usegmt=True)}, 0) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "-1",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e99",
        "99999999999999999999999",
        "soon",
        "5.5.5",
        "٣",
        "\x00",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Thu, 99 Foo 2026 00:00:00 GMT",
        "Mon, 01 Jan 99999 00:00:00 GMT",
        "9" * 100_000,
    ],
)
def test_a_hostile_header_is_no_hint(value: str) -> None:
    assert wait_from_headers({"retry-after": value, "retry-after-ms": value}, NOON) is None


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans(), st.binary()))
def test_no_value_raises_or_gives_more_than_a_year_or_less_than_nothing(value: object) -> None:
    found = seconds(value)
    assert found is None or 0 < found <= LONGEST


# ---------------------------------------------------------------- bodies


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 7m12s. Visit the page", 432),
        ("Please try again in 6m0s.", 360),
        ("try again in 0m6.250s", 6.25),
        ("Please try again in 20ms.", 0.02),
        ("try again in 1.984999999s", 1.984999999),
        ("Please retry in 18.4s.", 18.4),
        ("Please retry after 9 seconds. Please go here", 9),
        ("Please wait 42911 seconds before retrying. Rate limit of 50 per 86400s", 42_911),
        ("Try again in 2 minutes.", 120),
        ("Out of call volume quota. Quota will be replenished in 2.10:30:00.", 210_600),
        ("Rate limit is exceeded. Try again in 00:01:30.", 90),
        ("Weekly usage limit reached. Resets in 6hr 29min.", 23_340),
        ("limit resets in 3 hours and 5 minutes", 11_100),
        ("please try again after 1 seconds", 1),
        ("Retry-After: 5", 5),
        ("retry_after: 2.5", 2.5),
        ("Retry-After 7", 7),
        ("upstream said retry after 30.", 30),
        ("resets at 2026-01-01T12:01:00Z (2056)", 60),
        ("resets at 2026-01-01T14:00:30+02:00", 30),
        ("You will regain access on 2026-01-02 at 00:00 UTC.", 43_200),
        ("请在30秒后重试", 30),
        ("请 2 分钟后再试", 120),
        ("요청 한도를 초과했습니다. 30초 후에 다시 시도하세요.", 30),
        ("1時間後に再試行してください", 3600),
        ("Request was throttled. Expected available in 9 seconds.", 9),
    ],
)
def test_a_sentence_states_the_wait(text: str, wait: float) -> None:
    assert said(text) == pytest.approx(wait)


def test_a_time_without_zone_is_chinas_where_the_vendor_is() -> None:
    assert said("您的限额将在 2026-01-01 21:00:00 重置。", local=True) == 3_600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "try again later",
        "try again in 0s",
        "try again in 00:00:00",
        "resets in 12:34:56:78",
        "Retry-After: 5.5.5",
        "Retry-After: 99999999999999999999999",
        "resets at 2020-01-01T00:00:00Z",
        "resets at 2026-99-99T00:00:00Z",
        "resets at 2026-01-01T99:99",
        "resets at 9999-12-31T23:59:59-23:59",
        "gpt-4.1-2025-04-14 used 300s of 600s",
        "retry after model-30b",
    ],
)
def test_a_sentence_without_a_wait_is_no_hint(text: str) -> None:
    assert said(text) is None


@pytest.mark.parametrize(
    ("fields", "wait"),
    [
        ({"resets_in_seconds": 13_872, "resets_at": 1}, 13_872),
        ({"retry_after": 2.5}, 2.5),
        ({"retry_after": "53s"}, 53),
        ({"retry_after_ms": 1_500}, 1.5),
        ({"retryAfterMs": "1500"}, 1.5),
        ({"metadata": {"retry_after_seconds": 4}}, 4),
        ({"details": {"retry_after": 8}}, 8),
        ({"details": [{"retryDelay": "34s"}]}, 34),
        ({"details": [{"retryDelay": {"seconds": 34}}]}, 34),
        ({"resets_at": NOON + 60}, 60),
        ({"resets_at": (NOON + 60) * 1000}, 60),
        ({"reset_at": "2026-01-01T12:01:00+00:00"}, 60),
        ({"reset_time": "90s"}, 90),
        ({"reset_time": 30}, 30),
        ({"metadata": {"headers": {"Retry-After": "7"}}}, 7),
        ({"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str((NOON + 9) * 1000)}}}, 9),
        ({"metadata": {"headers": {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": str((NOON + 9) * 1000)}}}, None),
        ({"retry_after": True}, None),
        ({"retry_after": [5]}, None),
        ({"details": ["odd", None, {"retryDelay": "-5s"}]}, None),
        ({"resets_at": "never"}, None),
    ],
)
def test_a_field_states_the_wait(fields: dict[str, object], wait: float | None) -> None:
    assert stated(fields) == wait


def test_a_rounded_field_gives_way_to_the_exact_sentence() -> None:
    body = unwrap({"error": {"message": "Please retry in 18.403470473s.", "details": [{"retryDelay": "18s"}]}})
    assert wait_from_body(body, {}, NOON) == 18.403470473


def test_a_header_is_trusted_more_than_a_body() -> None:
    failure = Failure(
        vendor="openai", sdk="openai", status=429, headers={"retry-after": "3"}, body={"error": {"retry_after": 9}}
    )
    assert classify(failure, wall=NOON).retry_after == 3


# ---------------------------------------------------------------- buckets


def test_only_an_empty_bucket_says_when_it_fills() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m2s",
        "x-ratelimit-remaining-tokens": "900",
        "x-ratelimit-reset-tokens": "9m",
    }
    assert wait_from_buckets(headers, NOON) == 62


def test_of_several_empty_buckets_the_last_one_counts() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "8.64",
    }
    assert wait_from_buckets(headers, NOON) == 8.64


def test_an_anthropic_bucket_is_counted_from_the_answers_date() -> None:
    headers = {
        "date": formatdate(NOON, usegmt=True),
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T12:00:07Z",
    }
    assert wait_from_buckets(headers, 0) == 7


def test_of_several_rejected_windows_the_later_one_counts() -> None:
    headers = {
        "anthropic-ratelimit-unified-5h-status": "rejected",
        "anthropic-ratelimit-unified-5h-reset": str(NOON + 50),
        "anthropic-ratelimit-unified-7d-status": "rejected",
        "anthropic-ratelimit-unified-7d-reset": str(NOON + 500),
        "anthropic-ratelimit-unified-reset": str(NOON + 1),
    }
    assert wait_from_buckets(headers, NOON) == 500


def test_an_allowed_window_is_no_wait() -> None:
    headers = {
        "anthropic-ratelimit-unified-5h-status": "allowed_warning",
        "anthropic-ratelimit-unified-5h-reset": str(NOON + 50),
    }
    assert (wait_from_buckets(headers, NOON), window_rejected(headers)) == (None, False)


def test_a_rejection_that_names_no_window_counts_by_its_only_reset() -> None:
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(NOON + 50),
    }
    assert (wait_from_buckets(headers, NOON), window_rejected(headers)) == (50, True)


@pytest.mark.parametrize("window", ["primary", "secondary"])
def test_a_full_codex_window_says_when_it_empties(window: str) -> None:
    headers = {f"x-codex-{window}-used-percent": "100", f"x-codex-{window}-reset-after-seconds": "13873"}
    assert wait_from_buckets(headers, NOON) == 13_873


@pytest.mark.parametrize("reset", ["-1", "", "soon", "nan"])
def test_a_hostile_reset_is_no_hint(reset: str) -> None:
    headers = {
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": reset,
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": reset,
        "x-codex-primary-used-percent": reset,
    }
    assert wait_from_buckets(headers, NOON) is None


@given(
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-reset-tokens"]), st.text())
)
def test_no_header_raises(headers: dict[str, str]) -> None:
    wait = wait_from_headers(headers, NOON)
    assert wait is None or 0 < wait <= LONGEST


@given(st.text(alphabet="0123456789.:-+TZhms retryaginus", max_size=200))
def test_no_sentence_raises(text: str) -> None:
    wait = said(f"try again in {text}")
    assert wait is None or 0 < wait <= LONGEST
