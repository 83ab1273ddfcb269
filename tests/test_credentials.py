"""Keys are carried and never shown."""

from __future__ import annotations

import copy
import pickle

import pytest

from reliable_llm.credentials import Credential, credentials
from reliable_llm.errors import ConfigurationError

SECRET = "sk-proj-SECRETsecret42"


def test_a_key_reveals_itself_on_request_only() -> None:
    assert Credential(SECRET, label="openai#1").reveal() == SECRET


@pytest.mark.parametrize("show", [repr, str, lambda key: f"{key}", lambda key: f"{[key]}"])
def test_a_key_shows_its_label_alone(show: object) -> None:
    shown = show(Credential(SECRET, label="openai#1"))  # type: ignore[operator]
    assert "openai#1" in shown
    assert "SECRET" not in shown


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy, copy.copy])
def test_a_key_is_neither_pickled_nor_copied(duplicate: object) -> None:
    with pytest.raises(TypeError, match="openai#1") as raised:
        duplicate(Credential(SECRET, label="openai#1"))  # type: ignore[operator]
    assert "SECRET" not in str(raised.value)


def test_white_space_around_a_key_is_taken_off() -> None:
    assert Credential(f"  {SECRET}\n", label="openai#1").reveal() == SECRET


@pytest.mark.parametrize("bad", ["", "   ", "sk-a\nsk-b", "sk a", "sk-\x00", "sk-é", "sk-\tb"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(bad: str) -> None:
    with pytest.raises(ConfigurationError, match="openai#2") as raised:
        Credential(bad, label="openai#2")
    assert not bad.strip() or bad not in str(raised.value)


@pytest.mark.parametrize("bad", [None, 3, b"sk-key"])
def test_what_is_no_text_is_refused(bad: object) -> None:
    with pytest.raises(ConfigurationError, match="must be a string"):
        Credential(bad, label="openai#1")  # type: ignore[arg-type]


def test_keys_are_labelled_in_order() -> None:
    assert [(key.label, key.index) for key in credentials("azure", ["a", "b"])] == [("azure#1", 0), ("azure#2", 1)]


def test_one_string_is_not_a_list_of_keys() -> None:
    with pytest.raises(ConfigurationError, match="must be a list"):
        credentials("openai", SECRET)


def test_the_same_key_twice_is_refused_by_label() -> None:
    with pytest.raises(ConfigurationError, match="openai#1 and openai#3 are the same") as raised:
        credentials("openai", [SECRET, "other", f" {SECRET} "])
    assert "SECRET" not in str(raised.value)
