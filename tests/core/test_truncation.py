"""Whole turns go, never parts of one. The five worked examples are ZeroClaw's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.core.truncation import begins_turn, cut, possible_cuts, truncated
from reliable_llm.types import Message, Text, ToolCall, ToolResult

SYSTEM = Message("system", "s")
USER = Message("user", "u")
ANSWER = Message("assistant", "a")
CALLS = Message("assistant", (ToolCall(id="1", name="f", arguments="{}"), ToolCall(id="2", name="f", arguments="{}")))
FIRST = Message("tool", (ToolResult(call_id="1", content="r"),))
SECOND = Message("tool", (ToolResult(call_id="2", content="r"),))
WRITTEN_CALL = Message("assistant", "<tool_call>f</tool_call>")
WRITTEN_RESULTS = Message("user", "[Tool results]\n1")

EXAMPLES = {
    "three plain turns": ([SYSTEM, USER, ANSWER, USER, ANSWER, USER], 2),
    "a turn with tools in the middle": (
        [SYSTEM, USER, ANSWER, USER, CALLS, FIRST, SECOND, ANSWER, USER, ANSWER, USER],
        7,
    ),
    "a turn with tools at the end": ([SYSTEM, USER, ANSWER, USER, CALLS, FIRST, SECOND], 2),
    "a single turn with tools": ([SYSTEM, USER, CALLS, FIRST, SECOND], 0),
    "results written as a user message": (
        [SYSTEM, USER, ANSWER, USER, WRITTEN_CALL, WRITTEN_RESULTS, ANSWER, USER],
        6,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_C3_the_worked_examples_of_the_seed(name: str) -> None:
    messages, dropped = EXAMPLES[name]

    assert truncated(messages)[1] == dropped


def test_system_messages_stay_where_they_are() -> None:
    later = Message("system", "later")

    kept, _ = truncated([SYSTEM, USER, ANSWER, later, USER])

    assert kept == (SYSTEM, later, USER)


def test_the_same_message_object_may_stand_twice() -> None:
    kept, dropped = truncated([USER, ANSWER, USER])

    assert (kept, dropped) == ((USER,), 2)


def test_results_in_a_user_message_begin_no_turn() -> None:
    assert not begins_turn(Message("user", (ToolResult(call_id="1", content="r"), Text("and?"))))


def test_pictures_and_text_begin_a_turn() -> None:
    assert begins_turn(Message("user", (Text("look"),)))


def test_cutting_again_and_again_leaves_the_last_turn() -> None:
    messages = [SYSTEM, *[USER, ANSWER] * 8, USER]

    assert cut(messages, possible_cuts(messages)) == (SYSTEM, USER)


def test_a_history_without_a_users_turn_cannot_be_cut() -> None:
    assert possible_cuts([SYSTEM, ANSWER, ANSWER]) == 0


TURNS = st.lists(st.sampled_from([[USER, ANSWER], [USER, CALLS, FIRST, SECOND, ANSWER], [USER]]), max_size=8)


@given(TURNS, st.integers(0, 3))
def test_whatever_is_cut_calls_keep_their_results_and_the_end_stays(turns: list[list[Message]], times: int) -> None:
    messages = [SYSTEM, *(message for turn in turns for message in turn)]

    kept = cut(messages, times)

    assert kept[1:] == tuple(messages)[len(messages) - len(kept) + 1 :]
    calls = [part.id for message in kept for part in message.parts if isinstance(part, ToolCall)]
    results = [part.call_id for message in kept for part in message.parts if isinstance(part, ToolResult)]
    assert calls == results


@given(TURNS)
def test_every_possible_cut_drops_something(turns: list[list[Message]]) -> None:
    messages = [SYSTEM, *(message for turn in turns for message in turn)]

    lengths = [len(cut(messages, times)) for times in range(possible_cuts(messages) + 1)]

    assert lengths == sorted(set(lengths), reverse=True)
