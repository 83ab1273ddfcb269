"""A time limit for many attempts with one timer: `asyncio.timeout` arms and disarms one for each, at a price.

Nearly all attempts end long before their time, and all those at one provider have the same time. So they stand in line
in the order in which they began, and only the end of the first one is waited for.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class TimeLimits:
    """The attempts under way that may each take `seconds`. Each event loop has a line of its own."""

    __slots__ = ("_line", "_loop", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: dict[TimeLimit, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> TimeLimit:
        """Return the limit of an attempt that begins now, to use with `with`."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._line, self._timer = loop, {}, None
        end = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(end, self._expire, loop, self._line)
        return TimeLimit(self._line, asyncio.current_task(loop), end)

    def _expire(self, loop: asyncio.AbstractEventLoop, line: dict[TimeLimit, None]) -> None:
        """Let those expire whose time is up, and wait for the next one: the timer outlives the attempt it was for."""
        now, timer = loop.time(), None
        while line:
            first = next(iter(line))
            if first.end > now:
                timer = loop.call_at(first.end, self._expire, loop, line)
                break
            first.expire()
        if line is self._line:
            self._timer = timer


class TimeLimit:
    """Raises `TimeoutError` where the time was up, as `asyncio.timeout` does: a caller who cancels goes before it."""

    __slots__ = ("_asked", "_expired", "_line", "_task", "end")

    def __init__(self, line: dict[TimeLimit, None], task: asyncio.Task[object] | None, end: float) -> None:
        if task is None:
            raise RuntimeError("an attempt is made in a task")
        self.end = end
        self._line = line
        self._task = task
        self._asked = task.cancelling()
        self._expired = False

    def __enter__(self) -> None:
        self._line[self] = None

    def expire(self) -> None:
        """End the attempt."""
        del self._line[self]
        self._expired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._expired:
            del self._line[self]
        elif self._task.uncancel() <= self._asked and kind is asyncio.CancelledError:
            raise TimeoutError from error
