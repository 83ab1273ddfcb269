"""Tool-call ids that every vendor accepts."""

from __future__ import annotations

import hashlib
import re
from typing import Final

# Anthropic's pattern and OpenAI's length.
_WIRE_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")


class WireIds:
    """Tool-call ids that are good on the wire, unique within one conversation.

    A good id stays. Another one is replaced by a function of itself, so that the same id is the same in every request.
    An id that comes again (some vendors count from zero in each turn) gets a number; results go to the oldest call
    with that id that has none yet.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._open: dict[str, list[str]] = {}

    def call(self, original: str) -> str:
        """Return the id under which a call goes out."""
        wire = base = wire_id(original)
        number = 1
        while wire in self._taken:
            number += 1
            wire = f"{base[:56]}_{number}"
        self._taken.add(wire)
        self._open.setdefault(original, []).append(wire)
        return wire

    def result(self, original: str) -> str:
        """Return the id of the call that a result belongs to."""
        waiting = self._open.get(original)
        return waiting.pop(0) if waiting else wire_id(original)


def wire_id(original: str) -> str:
    """Return *original* where it is good as an id, else an id made from it."""
    if _WIRE_ID.fullmatch(original):
        return original
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_FOREIGN.sub('_', original)[:48]}_{digest}"
