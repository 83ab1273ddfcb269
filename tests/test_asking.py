"""From what a caller writes to a request."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from reliable_llm.asking import as_messages, as_request, check_deadline
from reliable_llm.errors import ConfigurationError, InvalidRequestError
from reliable_llm.types import ChatRequest, Message, ToolCall


def test_a_string_is_one_user_message() -> None:
    assert as_messages("hi") == (Message("user", "hi"),)


def test_messages_are_taken_as_they_are() -> None:
    messages = [Message("user", "hi"), Message("assistant", "ho"), Message("user", "hi")]
    assert as_messages(messages) == tuple(messages)


def test_dicts_are_read_as_openai_writes_them_and_may_be_mixed() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    read = as_messages(
        [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]}, Message("user", "x")]
    )
    assert [message.role for message in read] == ["user", "assistant", "user"]
    assert read[1].parts == (ToolCall(id="c1", name="lookup", arguments="{}"),)


@pytest.mark.parametrize("prompt", ["", "   ", "\n\t"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        as_request(prompt)


@pytest.mark.parametrize("prompt", [[], [Message("system", "be brief")], ChatRequest(messages=())])
def test_messages_without_anything_to_answer_are_refused(prompt: Any) -> None:
    with pytest.raises(InvalidRequestError, match="messages are empty"):
        as_request(prompt)


@pytest.mark.parametrize("prompt", [None, 3, b"hi", {"role": "user", "content": "hi"}, {1, 2}])
def test_what_is_no_prompt_is_refused_by_its_type(prompt: Any) -> None:
    with pytest.raises(InvalidRequestError, match=type(prompt).__name__):
        as_request(prompt)


@pytest.mark.parametrize("message", [3, None, "hi"])
def test_what_is_no_message_is_refused_by_its_type(message: Any) -> None:
    with pytest.raises(InvalidRequestError, match=type(message).__name__):
        as_request([Message("user", "hi"), message])


def test_the_system_prompt_comes_first() -> None:
    request = as_request("hi", system="Be brief.")
    assert [(message.role, message.text) for message in request.messages] == [("system", "Be brief."), ("user", "hi")]


def test_one_stop_word_may_be_given_alone() -> None:
    assert as_request("hi", stop="END").stop == ("END",)
    assert as_request("hi", stop=["A", "B"]).stop == ("A", "B")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "9"])
def test_max_tokens_is_a_whole_number_from_one(count: Any) -> None:
    with pytest.raises(InvalidRequestError, match="max_tokens"):
        as_request("hi", max_tokens=count)


def test_an_unknown_effort_is_refused_and_the_known_are_named() -> None:
    with pytest.raises(InvalidRequestError, match="medium"):
        as_request("hi", reasoning="a bit")


def test_a_prepared_request_keeps_its_tags_and_gets_more() -> None:
    request = ChatRequest(messages=(Message("user", "hi"),), tags={"a": "1", "b": "2"})
    assert as_request(request, tags={"b": "3"}).tags == {"a": "1", "b": "3"}
    assert as_request(request) is request


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), True, "9"])
def test_a_deadline_is_a_positive_number(deadline: Any) -> None:
    with pytest.raises(ConfigurationError, match="deadline"):
        check_deadline(deadline)


@pytest.mark.parametrize("deadline", [None, 1, 0.5])
def test_a_sensible_deadline_passes(deadline: float | None) -> None:
    check_deadline(deadline)


def test_a_refusal_does_not_quote_the_prompt() -> None:
    with pytest.raises(InvalidRequestError) as raised:
        as_request([{"role": "user", "content": "PROMPTTEXT"}, 3])  # type: ignore[list-item]
    assert "PROMPTTEXT" not in "".join(traceback.format_exception_only(raised.value))


def test_arguments_beside_a_request_are_refused_and_not_ignored() -> None:
    request = ChatRequest(messages=(Message("user", "hi"),))
    with pytest.raises(InvalidRequestError, match=r"dataclasses\.replace"):
        as_request(request, temperature=0.5)
