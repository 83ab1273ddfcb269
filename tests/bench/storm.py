"""A total outage: how many requests do 1,000 callers send, with and without the retry budget?

    python tests/bench/storm.py            # prints Markdown

Two candidates, both answering 503 to everything, in virtual time: every caller asks once a minute for three minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import structlog

from reliable_llm import FailoverChat
from reliable_llm.adapters.base import Prepared
from reliable_llm.credentials import Credential
from reliable_llm.drill import loop
from reliable_llm.drill.clock import DrillClock
from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.policy import BudgetPolicy, RecoveryPolicy, Timeouts
from reliable_llm.types import AdapterReply
from tests.support import ScriptedAdapter, failure, provider

CALLERS = 1_000
MINUTES = 3
SETTINGS = {
    "no budget": None,
    "`BudgetPolicy()`": BudgetPolicy(),
    "`BudgetPolicy(share=0.2)`": BudgetPolicy(share=0.2),
}


class Down(ScriptedAdapter):
    """Counts requests by minute and answers none."""

    def __init__(self, requests: Counter[int]) -> None:
        super().__init__()
        self._requests = requests

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        self._requests[int(asyncio.get_running_loop().time() // 60)] += 1
        raise failure(Kind.SERVER_ERROR, status=503)


def storm(
    budget: BudgetPolicy | None, *, breaker: bool, callers: int = CALLERS, minutes: int = MINUTES
) -> Counter[int]:
    """Return the requests of each minute."""
    requests: Counter[int] = Counter()
    chat = FailoverChat(
        [provider(name, Down(requests), keys=3) for name in ("a", "b")],
        clock=DrillClock(),
        budget=budget,
        recovery=RecoveryPolicy() if breaker else RecoveryPolicy(breaker={}),
    )

    async def caller(number: int) -> None:
        for minute in range(minutes):
            until = minute * 60 + 60 * number / callers
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))
            try:
                await chat("hi")
            except ReliableLLMError:
                continue

    async def everybody() -> None:
        await asyncio.gather(*(caller(number) for number in range(callers)))

    loop.run(everybody())
    return requests


def main() -> None:
    """Print the table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(f"Total outage, {CALLERS:,} callers, one call a minute each for {MINUTES} minutes: requests per call.\n")
    print("| retry budget | breaker | first minute | last minute | all | added by retries |")
    print("|---|---|---|---|---|---|")
    for breaker in (False, True):
        for name, budget in SETTINGS.items():
            sent = storm(budget, breaker=breaker)
            calls = CALLERS * MINUTES
            first, last, total = sent[0] / CALLERS, sent[MINUTES - 1] / CALLERS, sent.total() / calls
            print(
                f"| {name} | {'on' if breaker else 'off'} | {first:.2f} | {last:.2f} | {total:.3f} | {total - 1:+.1%} |"
            )


if __name__ == "__main__":
    main()
