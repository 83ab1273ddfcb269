"""How long to wait between attempts on one candidate."""

from __future__ import annotations

from typing import Final

from reliable_llm.policy import RetryPolicy

# ZeroClaw's floor: below it a retry is a hammer, whatever the configuration says.
FLOOR: Final = 0.05

# The jitter of a hint is a share of at most this many seconds of it: it spreads, it does not delay.
HINT_SPREAD: Final = 5.0

# ZeroClaw's default cooldown: how long a limited key rests without a hint where another key takes its turns meanwhile.
REST_WITHOUT_HINT: Final = 10.0

# 2.0 ** 1024 overflows; with any sane cap the delay stopped growing long before.
_MAX_DOUBLINGS: Final = 64


def backoff_delay(policy: RetryPolicy, waits: int, chance: float) -> float:
    """Return the wait after *waits* earlier waits; *chance* in [0, 1) takes away up to the policy's jitter."""
    full = min(policy.cap, policy.backoff * policy.multiplier ** min(waits, _MAX_DOUBLINGS))
    return max(FLOOR, full * (1.0 - policy.jitter * chance))


def spread(policy: RetryPolicy, hint: float, chance: float) -> float:
    """Return what to add to a server's *hint*, so that callers limited together do not return together."""
    return policy.hint_jitter * chance * min(hint, HINT_SPREAD)
