"""The queue for a provider whose pace is limited: higher priorities first, in order of arrival within one.

Only who is first looks at the time; all others wait to become first. Leaving, for whatever reason, wakes the next.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final

from reliable_llm.clock import Clock
from reliable_llm.core.actions import AwaitTurn
from reliable_llm.core.ending import late_in_queue
from reliable_llm.core.pacing import Pace
from reliable_llm.errors import QueueFullError

# Who is first looks again after this long: attempts under way end, and those never sent give back what they held.
_LOOK: Final = 1.0


class Line:
    """One provider's queue on one event loop."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self._pace = pace
        self._clock = clock
        self._heap: list[tuple[int, int, asyncio.Event]] = []
        self._arrivals = itertools.count()
        pace.waiting = 0

    async def turn(self, action: AwaitTurn) -> None:
        """Wait for room; the call has to use it at once. Raises `QueueFullError`, or `DeadlineExceededError`."""
        if len(self._heap) >= self._pace.limits.queue:
            error = QueueFullError("too many calls wait for this provider already (limits.queue)")
            error.retry_after = self._wait_of(action)
            raise error
        place = (-action.demand.priority, next(self._arrivals), asyncio.Event())
        heapq.heappush(self._heap, place)
        self._pace.waiting = len(self._heap)
        try:
            async with asyncio.timeout(None if action.until is None else action.until - self._clock.monotonic()):
                await self._become_first(place, action)
        except TimeoutError:
            raise late_in_queue() from None
        finally:
            self._leave(place)
        action.demand.turn = True

    async def _become_first(self, place: tuple[int, int, asyncio.Event], action: AwaitTurn) -> None:
        news = place[2]
        while True:
            first = self._heap[0] is place
            wait = self._wait_of(action) if first else None
            if wait is not None and wait <= 0:
                return
            news.clear()
            try:
                async with asyncio.timeout((_LOOK if wait is None else min(wait, _LOOK)) if first else None):
                    await news.wait()
            except TimeoutError:
                continue

    def _wait_of(self, action: AwaitTurn) -> float | None:
        now = self._clock.monotonic()
        at = action.visit.turn_at(now)
        return None if at is None else max(0.0, at - now)

    def _leave(self, place: tuple[int, int, asyncio.Event]) -> None:
        self._heap.remove(place)
        heapq.heapify(self._heap)
        self._pace.waiting = len(self._heap)
        self.look()

    def look(self) -> None:
        """Let who is first look again: an attempt has ended, or somebody has left."""
        if self._heap:
            self._heap[0][2].set()
