"""Which waits are worth it: for a key of the candidate that is asked, or for whichever candidate is back first.

A rate-limited candidate with no ready key is waited for where it is if the wait is within `patience`, or within `cap`
when no other candidate is ready. With every candidate resting, the first one to come back is waited for, if that is
within `cap`. No wait goes past the deadline.
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.actions import Sleep
from reliable_llm.core.backoff import spread
from reliable_llm.core.ledger import Ledger
from reliable_llm.core.visit import Visit
from reliable_llm.core.walk import Walk
from reliable_llm.errors import Kind

# How long to wait for another call's probe when there is nowhere else to go, before looking again.
PROBE_POLL: Final = 1.0


def wait_here(walk: Walk, ledger: Ledger, visit: Visit, now: float, chance: float) -> Sleep | None:
    """Wait for a key of this candidate if that is worth it; otherwise move on."""
    back = visit.back_at(now)
    if back is None or visit.is_behind_breaker or visit.waits >= visit.retry.max_retries:
        ledger.tell_resting(visit, now, back)
        return None
    wait = max(back, visit.again) - now
    if wait > walk.longest_wait(visit, wait, now) or not walk.fits(now, wait):
        ledger.tell_resting(visit, now, back)
        return None
    return _rest(walk, ledger, visit, now, wait, chance)


def wait_for_first(walk: Walk, ledger: Ledger, now: float, chance: float) -> Sleep | None:
    """Every candidate was passed: wait for the one that is back first, if that is allowed and soon enough."""
    retry = walk.retry
    first = walk.first_back(now)
    if first is not None and walk.rounds < max(1, retry.max_retries):
        wait = max(first[1] - now, 0.0)
        if wait <= retry.cap and walk.fits(now, wait):
            walk.rounds += 1
            walk.index = 0
            return _rest(walk, ledger, walk.visit(first[0]), now, wait, chance)
    if first is None and walk.a_probe_is_out(now) and walk.polled < retry.cap and walk.fits(now, PROBE_POLL):
        walk.polled += PROBE_POLL
        walk.index = 0
        return sleep(ledger, PROBE_POLL)
    return None


def _rest(walk: Walk, ledger: Ledger, visit: Visit, now: float, wait: float, chance: float) -> Sleep:
    visit.waits += 1
    padded = wait + spread(visit.retry, wait, chance)
    delay = padded if walk.fits(now, padded) else wait
    ledger.tell_retry(visit.stop, delay, Kind.RATE_LIMITED)
    return sleep(ledger, delay)


def sleep(ledger: Ledger, seconds: float) -> Sleep:
    """Return the order to wait, and write it down."""
    ledger.slept += seconds
    return Sleep(seconds)
