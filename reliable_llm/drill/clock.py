"""The clock of a drill: virtual time, a fixed date, seeded chance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

# 2026-01-01 00:00:00 UTC: what the simulated machine believes at second 0.
EPOCH: Final = 1_767_225_600.0


class DrillClock:
    """A `Clock` on the running loop's time; use it on a `VirtualTimeLoop`. While no loop runs it shows `at_rest`.

    `slept` is told of every sleep that the coordinator takes, with its real length (shorter where it was cancelled).
    """

    def __init__(self, *, seed: int = 0, epoch: float = EPOCH, slept: Callable[[float], None] | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._epoch = epoch
        self._slept = slept
        self.at_rest = 0.0

    def monotonic(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return self.at_rest

    def time(self) -> float:
        return self._epoch + self.monotonic()

    def random(self) -> float:
        return self._random.random()

    async def sleep(self, seconds: float) -> None:
        started = self.monotonic()
        try:
            await asyncio.sleep(seconds)
        finally:
            if self._slept is not None:
                self._slept(self.monotonic() - started)

    def jump(self, seconds: float) -> None:
        """Move the date, forwards or back, as an NTP step or a suspended laptop does. `monotonic` is not touched."""
        self._epoch += seconds
