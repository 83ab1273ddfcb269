"""The error of a call that nobody answered: plain, bounded, without a word of the vendor's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reliable_llm.core.recovery import Fault
from reliable_llm.core.summary import MAX_BYTES, describe, from_fault, headline
from reliable_llm.errors import ERROR_CLASSES, Kind, QuotaExhaustedError, ReliableLLMError, default_verdict
from reliable_llm.types import Attempt
from tests.core.trips import World, fail


def attempt(number: int = 1, *, provider: str = "openai", kind: Kind | None = Kind.SERVER_ERROR) -> Attempt:
    return Attempt(
        number=number,
        provider=provider,
        model="m1",
        key_label=f"{provider}#1",
        started=0,
        elapsed=0,
        kind=kind,
        status=500,
    )


def placed(kind: Kind, **verdict: object) -> ReliableLLMError:
    error = fail(kind, **verdict)
    error.provider, error.model = "openai", "m1"
    return error


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_headline(kind: Kind) -> None:
    assert headline(kind, "openai/m1", 500, "code").startswith("openai/m1 ")


def test_a_headline_tells_status_and_code() -> None:
    text = headline(Kind.QUOTA_EXHAUSTED, "openai/m1", 429, "insufficient_quota")
    assert text.endswith("(429 insufficient_quota)")


def test_a_headline_without_status_has_no_empty_brackets() -> None:
    assert "(" not in headline(Kind.TIMEOUT, "openai/m1", None, None)


def test_quota_and_rate_limit_do_not_read_alike() -> None:
    assert "top up" in headline(Kind.QUOTA_EXHAUSTED, "a/m", None, None)
    assert "top up" not in headline(Kind.RATE_LIMITED, "a/m", None, None)


def test_a_single_attempt_needs_no_list() -> None:
    text = describe(placed(Kind.SERVER_ERROR, status=500), [attempt()], [])
    assert text == "openai/m1 failed on the vendor's side (500)"


def test_the_time_to_come_back_is_told() -> None:
    assert describe(placed(Kind.RATE_LIMITED, retry_after=40.2), [attempt()], []).endswith("worth trying again in 40 s")


def test_several_attempts_are_listed_in_order() -> None:
    text = describe(placed(Kind.SERVER_ERROR), [attempt(1), attempt(2, provider="anthropic")], [])
    assert text.splitlines()[1:] == [
        "  1. openai/m1 [openai#1] server_error 500",
        "  2. anthropic/m1 [anthropic#1] server_error 500",
    ]


def test_what_was_not_tried_is_told() -> None:
    assert "not tried: anthropic/m2" in describe(placed(Kind.DEADLINE), [attempt()], ["anthropic/m2"])


def test_an_error_from_nowhere_has_no_place() -> None:
    assert describe(fail(Kind.DEADLINE), [], []) == "had not answered when the deadline passed"


def test_what_the_error_says_itself_is_told_where_it_is_more_than_its_kind() -> None:
    error = placed(Kind.EMPTY_RESPONSE)
    error.args = ("the answer holds no text",)
    assert describe(error, [attempt()], []) == "openai/m1 sent an empty answer: the answer holds no text"
    error.args = ("empty response (status 200)",)
    assert describe(error, [attempt()], []) == "openai/m1 sent an empty answer"


def test_an_error_from_nowhere_says_what_it_has_to_say() -> None:
    error = fail(Kind.UNSUPPORTED)
    error.args = ("no candidate can serve this request (a/m1: vision)",)
    assert describe(error, [], []) == "no candidate can serve this request (a/m1: vision)"


def test_at_most_eight_attempts_are_listed_and_the_rest_counted() -> None:
    text = describe(placed(Kind.SERVER_ERROR), [attempt(n) for n in range(1, 65)], [])
    assert len([line for line in text.splitlines() if "server_error" in line]) == 8
    assert "and 56 more" in text


@pytest.mark.parametrize("name", ["p" * 1000, "Ü" * 1000])
def test_the_message_is_never_longer_than_two_kilobytes(name: str) -> None:
    text = describe(placed(Kind.SERVER_ERROR), [attempt(n, provider=name) for n in range(1, 65)], [name] * 20)
    assert len(text.encode()) <= MAX_BYTES
    assert text.endswith(" ...")


def test_a_remembered_failure_is_an_error_of_its_kind() -> None:
    stop = World(openai=1).stop("openai/m1")
    error = from_fault(stop, Fault(kind=Kind.QUOTA_EXHAUSTED, at=0, status=429, code="insufficient_quota"))
    assert isinstance(error, QuotaExhaustedError)
    assert (error.provider, error.model, error.status, error.code) == ("openai", "m1", 429, "insufficient_quota")


def test_a_missing_feature_is_named() -> None:
    verdict = replace(default_verdict(Kind.UNSUPPORTED), feature="image_input")
    error = ERROR_CLASSES[Kind.UNSUPPORTED](verdict=verdict, provider="openai", model="m")

    assert describe(error, [], []) == "openai/m cannot serve what the request needs: image_input"
