"""What this process has to tell the store: names of gates, not copies of them, so that it never grows beyond those."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class News:
    """Gates that changed, with the local time of it, and probes that are over, with the time their right ends."""

    def __init__(self) -> None:
        self.changed: dict[str, float] = {}
        self.over: dict[str, float] = {}
        self._waiting = asyncio.Event()

    def attach(self) -> None:
        """Belong to the running loop from now on."""
        self._waiting = asyncio.Event()
        self._waiting.set()

    def add(self, names: Iterable[str], at: float) -> None:
        """Note that these gates have changed."""
        self.changed.update(dict.fromkeys(names, at))
        self._waiting.set()

    def release(self, names: Iterable[str], until: float) -> None:
        """Note that the probes of these gates are over, whose right would have ended at *until*."""
        self.over.update(dict.fromkeys(names, until))
        self._waiting.set()

    def take(self) -> tuple[dict[str, float], dict[str, float]]:
        """Hand over what there is to tell."""
        taken = self.changed, self.over
        self.changed, self.over = {}, {}
        return taken

    def put_back(self, changed: dict[str, float], over: dict[str, float]) -> None:
        """Take back what could not be told; what was noted since counts."""
        self.changed = changed | self.changed
        self.over = over | self.over

    def poke(self) -> None:
        """Have a look at the store, soon."""
        self._waiting.set()

    async def wait(self) -> None:
        """Wait for something to tell."""
        await self._waiting.wait()
        self._waiting.clear()
