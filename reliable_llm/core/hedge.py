"""When a second candidate may be started beside a slow first one, and how often."""

from __future__ import annotations

from collections import deque
from typing import Final

from reliable_llm.policy import HedgePolicy

# How many answers are remembered for the quantile, and how few are too few to tell one.
WINDOW: Final = 200
ENOUGH: Final = 20


class Hedges:
    """What hedging knows: how long answers take by candidate, and how many calls were hedged."""

    __slots__ = ("_calls", "_hedged", "_policy", "_seen")

    def __init__(self, policy: HedgePolicy) -> None:
        self._policy = policy
        self._seen: dict[str, deque[float]] = {}
        self._calls = 0
        self._hedged = 0

    def observe(self, candidate: str, seconds: float) -> None:
        """Remember how long *candidate* took to its first output."""
        self._seen.setdefault(candidate, deque(maxlen=WINDOW)).append(seconds)

    def delay(self, candidate: str) -> float | None:
        """Count a call and return how long to wait for *candidate*; None where it is not known yet."""
        self._calls += 1
        if self._policy.delay is not None:
            return self._policy.delay
        seen = self._seen.get(candidate, ())
        if len(seen) < ENOUGH:
            return None
        return sorted(seen)[min(len(seen) - 1, int(len(seen) * self._policy.quantile))]

    def allow(self) -> bool:
        """Count a hedge if the share of hedged calls permits one; the first call may be one, unless the share is 0."""
        if self._policy.share == 0 or self._hedged + 1 > max(1.0, self._calls * self._policy.share):
            return False
        self._hedged += 1
        return True
