"""What a stream has told its caller: the events waiting to be handed out, and the text so far.

Plain bookkeeping, without I/O. A continuation's beginning is held back until it is clear what of it repeats what was
told before.
"""

from __future__ import annotations

from collections import deque

from reliable_llm.core.overlap import WINDOW, without_overlap
from reliable_llm.errors import Kind
from reliable_llm.types import Alive, Continued, Restarted, StreamEvent, TextDelta, ToolCallStarted


class Told:
    """`pending` is what the caller gets next. `structured`: a tool call or a structured answer has begun."""

    __slots__ = ("_head", "_pieces", "carried", "pending", "structured")

    def __init__(self, *, structured: bool) -> None:
        self.pending: deque[StreamEvent] = deque()
        self.structured = structured
        self.carried = ""
        self._pieces: list[str] = []
        self._head: str | None = None

    @property
    def text(self) -> str:
        """The text delivered so far."""
        return "".join(self._pieces)

    def add(self, event: StreamEvent) -> None:
        """Take an event in; pings and empty text never show."""
        if isinstance(event, TextDelta):
            self._add_text(event)
            return
        if isinstance(event, Alive):
            return
        if isinstance(event, ToolCallStarted):
            self.structured = True
        self.pending.append(event)

    def _add_text(self, event: TextDelta) -> None:
        if self._head is not None:
            self._head += event.text
            if len(self._head) >= WINDOW:
                self.release_head()
        elif event.text:
            self._pieces.append(event.text)
            self.pending.append(event)

    def release_head(self) -> None:
        """Hand out what was held back of a continuation, without what it repeats."""
        head, self._head = self._head, None
        fresh = without_overlap(self.carried, head) if head else ""
        if fresh:
            self._pieces.append(fresh)
            self.pending.append(TextDelta(fresh))

    def restart(self, cause: Kind, *, structured: bool) -> None:
        """Declare void what was told."""
        self._head = None
        self._pieces.clear()
        self.structured = structured
        self.pending.append(Restarted(cause))

    def go_on(self, cause: Kind) -> None:
        """Mark the seam after which another candidate continues the text."""
        self.release_head()
        self.carried = self.text
        self._head = ""
        self.pending.append(Continued(cause))
