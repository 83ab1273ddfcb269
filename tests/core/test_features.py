"""What is asked for, what is lacking, and what can be had in another form."""

from __future__ import annotations

import pytest

from reliable_llm.core.features import can_do_without, done_without, parameter, parameters_of, refused_feature
from reliable_llm.errors import Kind
from reliable_llm.types import ChatRequest, Message
from tests.support import failure

NONE: frozenset[str] = frozenset()


def set_by(**fields: object) -> set[str]:
    return set(parameters_of(ChatRequest(messages=(Message("user", "hi"),), **fields)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"temperature": 0.0}, "parameter:temperature"),
        ({"top_p": 0.5}, "parameter:top_p"),
        ({"stop": ("END",)}, "parameter:stop"),
        ({"reasoning": "low"}, "parameter:reasoning"),
        ({"parallel_tool_calls": False}, "parameter:parallel_tool_calls"),
        ({"max_tokens": 5}, "parameter:max_tokens"),
        ({"max_tokens": 5}, "parameter:max_completion_tokens"),
        ({"max_tokens": 5}, "max_output:5"),
    ],
)
def test_a_parameter_that_is_set_is_a_feature(fields: dict[str, object], feature: str) -> None:
    assert feature in set_by(**fields)


def test_a_plain_request_needs_no_parameter() -> None:
    assert set_by() == set()


@pytest.mark.parametrize(
    ("vendors", "neutral"),
    [("reasoning_effort", "reasoning"), ("thinking", "reasoning"), ("stop_sequences", "stop"), ("seed", "seed")],
)
def test_a_vendors_spelling_is_remembered_under_the_neutral_name(vendors: str, neutral: str) -> None:
    assert parameter(vendors) == f"parameter:{neutral}"


@pytest.mark.parametrize("kind", [Kind.UNSUPPORTED, Kind.INVALID_REQUEST])
def test_a_refusal_that_names_a_feature_is_about_that_feature(kind: Kind) -> None:
    assert refused_feature(failure(kind, feature="parameter:stop_sequences")) == "parameter:stop"


def test_a_refusal_without_a_name_is_about_none() -> None:
    assert refused_feature(failure(Kind.INVALID_REQUEST)) is None


def test_another_kind_of_failure_names_no_feature() -> None:
    assert refused_feature(failure(Kind.REQUEST_TOO_LARGE, feature="image_size")) is None


@pytest.mark.parametrize(
    ("feature", "without", "needs", "prompt_tools", "can"),
    [
        ("structured_output", NONE, {"structured_output"}, False, True),
        ("structured_output", {"structured_output"}, {"structured_output"}, False, False),
        ("vision", NONE, {"vision"}, False, False),
        ("tools", NONE, {"tools"}, False, False),
        ("tools", NONE, {"tools"}, True, True),
        ("tools", {"structured_output"}, {"structured_output"}, False, True),
        ("tools", {"structured_output"}, {"structured_output", "tools"}, False, False),
        ("parameter:temperature", NONE, {"parameter:temperature"}, False, False),
        ("parameter:max_tokens", NONE, NONE, False, True),
        ("parameter:max_completion_tokens", {"parameter:max_tokens"}, NONE, False, False),
    ],
)
def test_what_can_be_asked_for_in_another_form(
    feature: str, without: set[str], needs: set[str], prompt_tools: bool, can: bool
) -> None:
    given = {"without": frozenset(without), "needs": frozenset(needs), "prompt_tools": prompt_tools}

    assert can_do_without(feature, **given) is can  # type: ignore[arg-type]


def test_without_tools_a_structured_answer_is_asked_for_in_words() -> None:
    missing = frozenset({"structured_output"})

    assert done_without(missing, missing, missing | {"tools"}) == {"structured_output", "tools"}


def test_tools_in_the_prompt_are_not_streamed() -> None:
    needs = frozenset({"tools", "streaming"})

    assert done_without(frozenset({"tools"}), needs, frozenset({"tools"})) == {"tools", "streaming"}
