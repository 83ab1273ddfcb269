"""The settings: frozen, keyword-only, and impossible to hold in a bad state. All durations are seconds."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final

from reliable_llm.errors import ConfigurationError, Kind

DAY: Final = 86_400.0


def check_number(
    owner: str, name: str, value: object, *, low: float, high: float = math.inf, whole: bool = False
) -> None:
    """Raise `ConfigurationError` naming *owner.name* unless *value* is a number in [low, high]; NaN is none."""
    wanted = f"{'a whole number' if whole else 'a number'} from {low:g}" + ("" if high == math.inf else f" to {high:g}")
    is_number = isinstance(value, int) if whole else isinstance(value, int | float)
    if not is_number or isinstance(value, bool) or not low <= value <= high or value == math.inf:  # type: ignore[operator]
        raise ConfigurationError(f"{owner}.{name} must be {wanted}, got {value!r}")


def check_kinds(owner: str, name: str, kinds: object) -> None:
    """Raise `ConfigurationError` naming *owner.name* and the first of *kinds* that is no kind of failure."""
    if not isinstance(kinds, frozenset | set | tuple | list):
        raise ConfigurationError(f"{owner}.{name} must hold kinds of failure, in a list, got {kinds!r}")
    for kind in kinds:
        if kind not in set(Kind):
            known = ", ".join(difflib.get_close_matches(str(kind), list(Kind), n=1) or sorted(Kind))
            raise ConfigurationError(f"{owner}.{name} must hold kinds of failure ({known}), and {kind!r} is none")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When to try again, and how long to wait first.

    `max_retries`: further attempts on one candidate after the first. `backoff`: the first wait, multiplied by
    `multiplier` each time, at most `cap`. `jitter` 0 to 1: the share of a computed wait that is left to chance.
    `hint_jitter` 0 to 1: the same for a server's hint, to which it only adds (a share of the first five seconds), so
    that callers limited together do not return together. `patience`: the longest wait on a rate-limited candidate while
    another one is ready. `wait_for_cooldown`: with every candidate cooling, wait for the first to come back if that is
    within `cap`. `reserve`: seconds of the deadline kept for each candidate not yet tried. `failover_on`: kinds that
    are raised by default and shall move on instead (content_policy, invalid_output, output_truncated, ...).
    `retry_timeouts`: try a candidate that did not answer in time again even while another one is ready; that costs the
    whole timeout once more. `schema_retries`: repair attempts for an answer that does not fit the schema.
    """

    max_retries: int = 2
    backoff: float = 0.5
    multiplier: float = 2.0
    cap: float = 30.0
    jitter: float = 0.5
    hint_jitter: float = 0.01
    patience: float = 1.0
    wait_for_cooldown: bool = True
    reserve: float = 0.0
    failover_on: frozenset[Kind] = frozenset()
    schema_retries: int = 1
    retry_timeouts: bool = False

    def __post_init__(self) -> None:
        check_number("RetryPolicy", "max_retries", self.max_retries, low=0, high=100, whole=True)
        check_number("RetryPolicy", "backoff", self.backoff, low=0)
        check_number("RetryPolicy", "multiplier", self.multiplier, low=1, high=1000)
        check_number("RetryPolicy", "cap", self.cap, low=0)
        check_number("RetryPolicy", "jitter", self.jitter, low=0, high=1)
        check_number("RetryPolicy", "hint_jitter", self.hint_jitter, low=0, high=1)
        check_number("RetryPolicy", "patience", self.patience, low=0)
        check_number("RetryPolicy", "reserve", self.reserve, low=0)
        check_number("RetryPolicy", "schema_retries", self.schema_retries, low=0, high=10, whole=True)
        check_kinds("RetryPolicy", "failover_on", self.failover_on)
        object.__setattr__(self, "failover_on", frozenset(Kind(kind) for kind in self.failover_on))


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """How much retries and failovers that do not answer may add to the traffic of the process.

    Each call adds `share` of an attempt to the budget, which holds at most `burst`. With the defaults a total outage
    costs at most a tenth more requests than there are calls, from 500 calls on.
    """

    share: float = 0.08
    burst: float = 10.0

    def __post_init__(self) -> None:
        check_number("BudgetPolicy", "share", self.share, low=0, high=10)
        check_number("BudgetPolicy", "burst", self.burst, low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgePolicy:
    """When the next candidate is started beside one that is slow to give its first output; the first to give it wins.

    `delay` sets the wait; without it, it is the `quantile` of what the candidate took lately. At most `share` of all
    calls are hedged, and none that has left its first choice by then. Both requests are paid for.
    """

    delay: float | None = None
    quantile: float = 0.95
    share: float = 0.05

    def __post_init__(self) -> None:
        if self.delay is not None:
            check_number("HedgePolicy", "delay", self.delay, low=0)
        check_number("HedgePolicy", "quantile", self.quantile, low=0.5, high=1)
        check_number("HedgePolicy", "share", self.share, low=0, high=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much each key of a provider may be used.

    `requests_per_minute`, `tokens_per_minute` and `max_concurrency` (requests under way at once) are those of one key,
    None where they are not known. Whatever is None is learned from the vendor's rate-limit headers, where it sends any:
    `Limits()` learns everything. Tokens are input and output together. A call for which no key and no other candidate
    has room waits for its turn, within its deadline; `queue` is how many may wait for one provider, and the next one is
    a `QueueFullError`.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrency: int | None = None
    queue: int = 10_000

    def __post_init__(self) -> None:
        if self.requests_per_minute is not None:
            check_number("Limits", "requests_per_minute", self.requests_per_minute, low=0.001)
        if self.tokens_per_minute is not None:
            check_number("Limits", "tokens_per_minute", self.tokens_per_minute, low=1)
        if self.max_concurrency is not None:
            check_number("Limits", "max_concurrency", self.max_concurrency, low=1, whole=True)
        check_number("Limits", "queue", self.queue, low=0, whole=True)


# Long enough that a dead primary costs each caller nothing, short enough that nobody misses it when it is back. A probe
# of one that hangs costs its caller a whole timeout: it is sent less often.
BREAKER: Final[Mapping[Kind, float]] = MappingProxyType(
    {
        Kind.OVERLOADED: 15.0,
        Kind.SERVER_ERROR: 15.0,
        Kind.CONNECTION: 15.0,
        Kind.MALFORMED_RESPONSE: 15.0,
        Kind.TIMEOUT: 60.0,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """How long what is known to fail is left alone.

    `quota`: a key out of quota is parked this long (300 s, as in CleverAgents' StrategyActor) unless the server names a
    reset time, of which at most `max_reset` (24 h) is believed. `memory`: how long a missing model or permission, or an
    unsupported feature, is remembered. `cooldowns`: remember rate limits across calls. `breaker`: seconds that a
    candidate rests, by kind of failure, once a call has spent its retries on it without any other call succeeding there
    meanwhile; then one attempt probes. A candidate that is the only one never rests.
    """

    quota: float = 300.0
    max_reset: float = DAY
    memory: float = 3600.0
    cooldowns: bool = True
    breaker: Mapping[Kind, float] = field(default_factory=lambda: dict(BREAKER))

    def __post_init__(self) -> None:
        check_number("RecoveryPolicy", "quota", self.quota, low=0.001)
        check_number("RecoveryPolicy", "max_reset", self.max_reset, low=0.001)
        check_number("RecoveryPolicy", "memory", self.memory, low=0)
        check_kinds("RecoveryPolicy", "breaker", list(self.breaker))
        for kind, seconds in self.breaker.items():
            check_number("RecoveryPolicy.breaker", str(kind), seconds, low=0)
        object.__setattr__(
            self, "breaker", MappingProxyType({Kind(kind): float(s) for kind, s in self.breaker.items()})
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long one attempt may take.

    `attempt`: a whole answer that is not streamed. `connect`: to reach the server. `first_byte`: silence before the
    server's first byte, and between bytes. `first_token`: from the start of a streamed attempt to its first output.
    `idle`: silence within a stream; any byte, pings too, resets it. `quiet`: the same before the first output, from the
    start of the attempt, for a long `first_token`; None where that alone counts, since a model that thinks may be
    silent. The vendors' own default is 600 s, three times.
    """

    attempt: float = 120.0
    connect: float = 10.0
    first_byte: float = 60.0
    first_token: float = 60.0
    idle: float = 60.0
    quiet: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "quiet" or self.quiet is not None:
                check_number("Timeouts", each.name, getattr(self, each.name), low=0.001)
