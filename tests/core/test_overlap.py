"""Where a continuation repeats what was told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.core.overlap import SHORTEST, without_overlap

TOLD = "The Rhine rises in the Alps and flows"


@pytest.mark.parametrize(
    ("head", "fresh"),
    [
        (" to the sea.", " to the sea."),
        ("the Alps and flows to the sea.", " to the sea."),
        (f"{TOLD} to the sea.", " to the sea."),
        (TOLD, ""),
        ("", ""),
        ("and flows to the sea.", "and flows to the sea."),
    ],
)
def test_what_repeats_the_end_is_cut(head: str, fresh: str) -> None:
    assert without_overlap(TOLD, head) == fresh


def test_a_short_beginning_is_not_taken_for_a_new_start() -> None:
    assert without_overlap("The", "The Rhine") == "The Rhine"


@given(told=st.text(), head=st.text())
def test_only_the_beginning_is_ever_cut(told: str, head: str) -> None:
    assert head.endswith(without_overlap(told, head))


@given(told=st.text(min_size=SHORTEST), rest=st.text(max_size=SHORTEST - 1))
def test_a_whole_repetition_leaves_the_rest(told: str, rest: str) -> None:
    assert without_overlap(told, told + rest) == rest
