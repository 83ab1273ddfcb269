"""A time limit for many attempts with one timer: `asyncio.timeout` arms and disarms one for each, at a price.

Nearly all attempts end long before their time, and all those at one provider have the same time. So they stand in line
in the order in which they began, and only the end of the first one is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class TimeLimits:
    """The attempts under way that may each take `seconds`. Belongs to one event loop."""

    __slots__ = ("_ends", "_loop", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._ends: dict[asyncio.Timeout, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, attempt: Awaitable[T]) -> T:
        """Return what *attempt* gives; raise `TimeoutError` if that takes longer, as `asyncio.timeout` does."""
        async with asyncio.timeout(None) as limit:
            end = self._ends[limit] = self._loop.time() + self._seconds
            if self._timer is None:
                self._timer = self._loop.call_at(end, self._expire)
            try:
                return await attempt
            finally:
                self._ends.pop(limit, None)

    def _expire(self) -> None:
        """Let those expire whose time is up, and wait for the next one: the timer outlives the attempt it was for."""
        now = self._loop.time()
        self._timer = None
        while self._ends:
            limit, end = next(iter(self._ends.items()))
            if end > now:
                self._timer = self._loop.call_at(end, self._expire)
                break
            del self._ends[limit]
            limit.reschedule(now)
