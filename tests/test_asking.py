"""What a caller may write for a prompt, and what is refused with a word on what to change."""

from __future__ import annotations

import pytest

from reliable_llm.asking import as_messages, as_request, check_deadline
from reliable_llm.errors import ConfigurationError, InvalidRequestError
from reliable_llm.types import ChatRequest, Message


def test_a_string_is_a_user_message() -> None:
    assert as_messages("hi") == (Message("user", "hi"),)


def test_messages_may_be_dicts_in_the_chat_format() -> None:
    assert as_messages([{"role": "user", "content": "hi"}]) == (Message("user", "hi"),)


def test_the_system_text_goes_first() -> None:
    assert as_request("hi", system="be brief").messages[0] == Message("system", "be brief")


@pytest.mark.parametrize("prompt", ["", "  \n", [], [Message("system", "alone")]])
def test_an_empty_prompt_is_refused(prompt: str | list[Message]) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        as_request(prompt)


@pytest.mark.parametrize("prompt", [5, b"bytes", {"role": "user"}, [5]])
def test_what_is_no_prompt_is_refused_by_its_type(prompt: object) -> None:
    with pytest.raises(InvalidRequestError, match="not (int|bytes|dict)"):
        as_messages(prompt)


@pytest.mark.parametrize("tokens", [0, -1, True, 2.5])
def test_max_tokens_is_a_whole_number_from_one(tokens: int) -> None:
    with pytest.raises(InvalidRequestError, match="max_tokens must be a whole number from 1"):
        as_request("hi", max_tokens=tokens)


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="reasoning must be one of"):
        as_request("hi", reasoning="hard")


def test_a_request_is_taken_as_it_is() -> None:
    request = ChatRequest(messages=(Message("user", "hi"),))
    assert as_request(request) is request


def test_tags_are_added_to_a_request() -> None:
    request = ChatRequest(messages=(Message("user", "hi"),), tags={"a": "1"})
    assert as_request(request, tags={"b": "2"}).tags == {"a": "1", "b": "2"}


def test_arguments_beside_a_request_are_refused_and_not_ignored() -> None:
    request = ChatRequest(messages=(Message("user", "hi"),))
    with pytest.raises(InvalidRequestError, match=r"dataclasses\.replace"):
        as_request(request, temperature=0.5)


@pytest.mark.parametrize("deadline", [0, -1, True, "5", float("nan")])
def test_a_deadline_is_a_positive_number(deadline: object) -> None:
    with pytest.raises(ConfigurationError, match="deadline must be a positive number of seconds"):
        check_deadline(deadline)
