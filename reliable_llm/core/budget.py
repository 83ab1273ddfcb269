"""A bound on what retries and failovers may add to the traffic of a process when nothing answers any more.

A token bucket: every call deposits `share`, every attempt after a call's first one costs 1, and gets it back when it
answers. While a fallback is healthy its attempts pay for themselves; in a total outage the bucket runs dry, and calls
fail after their first attempt instead of multiplying the load (Finagle's retry budget; the refund is botocore's).
"""

from __future__ import annotations

from reliable_llm.policy import BudgetPolicy


class RetryBudget:
    """Shared by all calls of one coordinator. Holds at most `burst`, and starts with that much."""

    __slots__ = ("_burst", "_share", "balance")

    def __init__(self, policy: BudgetPolicy) -> None:
        self._share = policy.share
        self._burst = policy.burst
        self.balance = policy.burst

    def deposit(self) -> None:
        """A call begins."""
        self.balance = min(self._burst, self.balance + self._share)

    def withdraw(self) -> bool:
        """Pay for one more attempt; tell whether the balance allows it."""
        if self.balance < 1.0:
            return False
        self.balance -= 1.0
        return True

    def refund(self) -> None:
        """The attempt paid for has answered."""
        self.balance = min(self._burst, self.balance + 1.0)
