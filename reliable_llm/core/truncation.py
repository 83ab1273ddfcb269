"""A history that is too long for every candidate, cut at the beginning of a user's turn. Opt-in.

ZeroClaw's rule: system messages stay; of the rest, the older half goes, and as much more as it takes to begin with a
user's turn. Calls of tools stay with their results, because a turn is never split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reliable_llm.types import Message, ToolResult

# How ZeroClaw begins the user message that holds the results of tools described in the prompt.
_RESULTS: Final = "[Tool results]"


def truncated(messages: Sequence[Message]) -> tuple[tuple[Message, ...], int]:
    """Return *messages* without their oldest turns, and how many messages were dropped (0: nothing can be)."""
    talk = [place for place, message in enumerate(messages) if message.role != "system"]
    turns = [number for number, place in enumerate(talk) if begins_turn(messages[place])]
    half = len(talk) // 2
    drop = next((number for number in turns if number >= half), turns[-1] if turns else 0)
    gone = set(talk[:drop])
    return tuple(message for place, message in enumerate(messages) if place not in gone), drop


def begins_turn(message: Message) -> bool:
    """Tell whether *message* is something the user says, and not what tools gave back."""
    if message.role != "user" or message.text.startswith(_RESULTS):
        return False
    return isinstance(message.content, str) or not any(isinstance(part, ToolResult) for part in message.content)


def cut(messages: Sequence[Message], times: int) -> tuple[Message, ...]:
    """Return *messages* truncated as often as that."""
    shorter = tuple(messages)
    for _ in range(times):
        shorter, _dropped = truncated(shorter)
    return shorter


def possible_cuts(messages: Sequence[Message]) -> int:
    """Return how often *messages* can be truncated before only the last turn is left."""
    times, shorter, dropped = 0, tuple(messages), 1
    while dropped:
        shorter, dropped = truncated(shorter)
        times += bool(dropped)
    return times
