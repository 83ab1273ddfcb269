"""Where a continuation repeats the end of what it continues."""

from __future__ import annotations

from typing import Final

# How much of a continuation is held back to look for a repetition, in characters: about two sentences.
WINDOW: Final = 240

# Shorter repetitions are left alone: a short suffix matches by chance.
SHORTEST: Final = 12


def without_overlap(told: str, head: str) -> str:
    """Return *head* without the part at its beginning that repeats the end of *told*.

    A continuation that starts the answer anew (*head* begins as *told* does) loses all that was told already.
    """
    if len(told) >= SHORTEST and head.startswith(told):
        return head[len(told) :]
    for length in range(min(len(told), len(head)), SHORTEST - 1, -1):
        if told.endswith(head[:length]):
            return head[length:]
    return head
