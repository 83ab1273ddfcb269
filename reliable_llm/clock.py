"""The only place that reads time, sleeps, or draws chance."""

from __future__ import annotations

import random
import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Time as the coordinator sees it, in seconds."""

    def monotonic(self) -> float:
        """Return a time that never goes back; its zero means nothing."""

    def time(self) -> float:
        """Return Unix time, to read dates that servers send."""

    def random(self) -> float:
        """Return a number in [0, 1), for jitter."""

    async def sleep(self, seconds: float) -> None:
        """Wait. Cancellation passes."""


class SystemClock:
    """The machine's clock, looked up at every call, so that freezegun moves it."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    def random(self) -> float:
        return random.random()  # noqa: S311 - spreads retries; nothing secret hangs on it

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
