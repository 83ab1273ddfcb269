"""The least that a coordinator does, in 20 lines: the yardstick for ours, which depends on the machine as ours does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from reliable_llm.credentials import Credential


class Minimal:
    """Skips keys that cool down, takes the least busy one, bounds the time, and writes the outcome down."""

    def __init__(self, keys: Sequence[Credential]) -> None:
        self.keys = keys
        self.busy = [0] * len(keys)
        self.cooling = [0.0] * len(keys)
        self.outcomes: list[bool] = []

    async def __call__(self, ask: Callable[[Credential], Awaitable[object]]) -> object:
        now = time.monotonic()
        ready = [place for place in range(len(self.keys)) if self.cooling[place] <= now]
        place = min(ready, key=self.busy.__getitem__)
        self.busy[place] += 1
        try:
            async with asyncio.timeout(60):
                answer = await ask(self.keys[place])
        except Exception:
            self.cooling[place] = time.monotonic() + 30
            self.outcomes.append(False)
            raise
        finally:
            self.busy[place] -= 1
        self.outcomes.append(True)
        return answer
