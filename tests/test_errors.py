"""The taxonomy: one class per kind, plain data, picklable."""

from __future__ import annotations

import copy
import pickle

import pytest

from reliable_llm import errors
from reliable_llm.errors import (
    ERROR_CLASSES,
    ConfigurationError,
    DeadlineExceededError,
    Kind,
    RateLimitedError,
    ReliableLLMError,
    Scope,
    StreamInterruptedError,
    Verdict,
    default_verdict,
    error_from_verdict,
)
from reliable_llm.types import Attempt, ToolCall, Usage

ATTEMPT = Attempt(number=1, provider="openai", model="m1", key_label="openai#1", started=0.0, elapsed=1.0)


def full(kind: Kind) -> ReliableLLMError:
    """Return an error of *kind* with every field set."""
    error = ERROR_CLASSES[kind](
        "what happened",
        verdict=Verdict(kind, Scope.KEY, True, False, True, retry_after=3.0, status=429, code="x", feature="vision"),
        provider="openai",
        model="m1",
        key_label="openai#1",
        request_id="req_1",
        usage=Usage(input_tokens=1),
    )
    error.attempts = (ATTEMPT,)
    return error


def test_every_kind_but_cancellation_has_its_class() -> None:
    assert set(ERROR_CLASSES) == set(Kind) - {Kind.CANCELLED}
    assert all(cls.kind is kind for kind, cls in ERROR_CLASSES.items())


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_usual_verdict(kind: Kind) -> None:
    assert default_verdict(kind).kind is kind


@pytest.mark.parametrize("kind", sorted(ERROR_CLASSES))
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_copying_and_pickling(kind: Kind, duplicate: object) -> None:
    error = full(kind)
    twin = duplicate(error)  # type: ignore[operator]
    assert type(twin) is type(error)
    assert (str(twin), vars(twin)) == (str(error), vars(error))


def test_the_partial_text_survives_pickling() -> None:
    error = StreamInterruptedError()
    error.partial_text = "The Rhi"
    error.partial_tool_calls = (ToolCall(id="1", name="lookup", arguments="{"),)
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.partial_text, twin.partial_tool_calls) == ("The Rhi", error.partial_tool_calls)


@pytest.mark.parametrize("kind", sorted(ERROR_CLASSES))
def test_an_error_is_caught_by_the_root(kind: Kind) -> None:
    assert issubclass(ERROR_CLASSES[kind], ReliableLLMError)


@pytest.mark.parametrize(
    ("specific", "usual"),
    [(ConfigurationError, ValueError), (DeadlineExceededError, TimeoutError), (errors.ClosedError, RuntimeError)],
)
def test_some_errors_are_caught_by_the_usual_classes_too(specific: type, usual: type) -> None:
    assert issubclass(specific, usual)


def test_an_error_without_a_message_says_its_kind() -> None:
    assert str(RateLimitedError()) == "rate_limited"


def test_the_fields_come_from_the_verdict() -> None:
    error = full(Kind.RATE_LIMITED)
    assert (error.scope, error.status, error.code, error.retry_after) == (Scope.KEY, 429, "x", 3.0)


def test_retry_after_can_be_corrected() -> None:
    error = full(Kind.RATE_LIMITED)
    error.retry_after = 9.0
    assert (error.retry_after, error.verdict.retry_after) == (9.0, 9.0)


def test_an_error_made_from_a_verdict_is_of_its_kind() -> None:
    error = error_from_verdict(default_verdict(Kind.QUOTA_EXHAUSTED), "spent", request_id="req_1")
    assert (type(error), str(error), error.request_id) == (errors.QuotaExhaustedError, "spent", "req_1")


def test_kinds_are_their_values() -> None:
    assert f"{Kind.RATE_LIMITED}" == "rate_limited" == Kind("rate_limited")


def test_the_taxonomy_is_drawn_in_full() -> None:
    drawn = errors.__doc__ or ""
    assert [cls.__name__ for cls in ERROR_CLASSES.values() if cls.__name__ not in drawn] == []
