"""One simulated world as plain data: vendors, policies, callers, and what happens when. A seed gives one world.

A world can be taken apart: without some of its callers, deeds or meddlings it is a world still, and shrinking does so.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

from reliable_llm.errors import Kind, Scope
from reliable_llm.policy import BudgetPolicy, HedgePolicy, Limits, RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.types import Candidate

PROMPT: Final = "tell-nobody-5f1c"
KEY: Final = "sk-hush"

HINTS: Final = (None, None, 0.4, 2.0, 7.0, 25.0, 90.0, 700.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What a vendor does with one request.

    `what` is "answers", "fails" (with `kind`, `hint`, and what of the verdict is unusual), "hangs", "raises" (not an
    error of ours), or, where a stream is asked for, "breaks", "stalls" or "ends" (without a terminal event) after
    `chunks` pieces of text. A plain request takes those as a connection that breaks, hangs, or an empty answer.
    """

    what: str = "answers"
    kind: Kind | None = None
    hint: float | None = None
    rotate: bool | None = None
    scope: Scope | None = None
    delay: float = 0.0
    chunks: int = 2
    gap: float = 0.0
    bad_json: bool = False

    def __str__(self) -> str:
        parts = [self.what, *(str(x) for x in (self.kind, self.scope) if x)]
        parts += [f"{name}={value:g}" for name, value in (("hint", self.hint), ("after", self.delay)) if value]
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One vendor. `slow_to_close`: seconds that leaving a response takes."""

    name: str
    protocol: str = "openai"
    keys: int = 1
    models: tuple[str, ...] = ("m1",)
    max_concurrency: int | None = None
    limits: Limits | None = None
    slow_to_close: float = 0.0
    deeds: tuple[Deed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One caller: what it asks for, when, and what becomes of its patience. All times are seconds."""

    name: str
    at: float
    stream: bool = False
    structured: bool = False
    route: tuple[Candidate, ...] | None = None
    deadline: float | None = None
    cancel_after: float | None = None
    cancel_twice: bool = False
    leave_after: int | None = None
    dawdle: float = 0.0
    failover: bool = True
    affinity: str | None = None
    on_interrupt: str = "raise"
    retry: RetryPolicy | None = None
    failover_on: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddling:
    """Something from outside: "reset", "isolate", "look", "jump" (of the date), "pause" (of the process)."""

    what: str
    at: float
    provider: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All of it. `wired`: vendors behind the real SDKs, instead of scripted adapters."""

    seed: int
    wired: bool
    sites: tuple[Site, ...]
    retry: RetryPolicy
    recovery: RecoveryPolicy
    timeouts: Timeouts
    budget: BudgetPolicy | None = None
    hedge: HedgePolicy | None = None
    asks: tuple[Ask, ...] = ()
    meddlings: tuple[Meddling, ...] = ()
    listener_fails: bool = False

    def route(self) -> tuple[Candidate, ...]:
        """Return the computed order: models outside, providers inside."""
        models = dict.fromkeys(model for site in self.sites for model in site.models)
        return tuple(Candidate(s.name, m) for m in models for s in self.sites if m in s.models)


@dataclass
class Moods:
    """Vendors have good and bad times, not evenly strewn bad luck."""

    chance: random.Random
    mood: str = "well"
    left: int = 0
    names: tuple[str, ...] = field(
        default=("well", "well", "limited", "broke", "down", "odd", "mixed", "streams break", "slow")
    )

    def deed(self) -> Deed:
        if self.left == 0:
            self.mood, self.left = self.chance.choice(self.names), self.chance.randint(1, 12)
        self.left -= 1
        return replace(_deed(self.chance, self.mood), gap=self.chance.choice([0.0, 0.0, 0.2, 3.0]))


def _deed(chance: random.Random, mood: str) -> Deed:
    if mood != "well" and chance.random() < 0.15:
        mood = "well"
    if mood == "mixed":
        mood = chance.choice(["limited", "broke", "down", "odd", "streams break", "slow"])
    delay = chance.choice([0.0, 0.0, 0.05, 0.5, 2.0])
    match mood:
        case "limited":
            rotate = chance.choice([None, None, None, False])
            return Deed(what="fails", kind=Kind.RATE_LIMITED, hint=chance.choice(HINTS), rotate=rotate, delay=delay)
        case "broke":
            scope = chance.choice([None, None, None, Scope.MODEL, Scope.REQUEST])
            return Deed(what="fails", kind=Kind.QUOTA_EXHAUSTED, hint=chance.choice(HINTS), scope=scope, delay=delay)
        case "down":
            kind = chance.choice([Kind.SERVER_ERROR, Kind.OVERLOADED, Kind.CONNECTION, Kind.TIMEOUT])
            hint = chance.choice(HINTS) if kind in (Kind.SERVER_ERROR, Kind.OVERLOADED) else None
            return Deed(what="fails", kind=kind, hint=hint, delay=delay)
        case "odd":
            return _odd(chance, delay)
        case "streams break":
            what = chance.choice(["breaks", "stalls", "ends"])
            return Deed(what=what, delay=delay, chunks=chance.randint(0, 3))
        case "slow":
            what = chance.choice(["hangs", "answers", "answers"])
            return Deed(what=what, delay=chance.choice([1.0, 4.0, 12.0, 40.0]))
        case _:
            return Deed(delay=delay, chunks=chance.randint(1, 4), bad_json=chance.random() < 0.1)


def _odd(chance: random.Random, delay: float) -> Deed:
    kind = chance.choice(
        [
            Kind.AUTHENTICATION,
            Kind.PERMISSION,
            Kind.PERMISSION,
            Kind.MODEL_NOT_FOUND,
            Kind.INVALID_REQUEST,
            Kind.CONTENT_POLICY,
            Kind.MALFORMED_RESPONSE,
            Kind.EMPTY_RESPONSE,
            Kind.REQUEST_TOO_LARGE,
            Kind.UNSUPPORTED,
            None,
        ]
    )
    if kind is None:
        return Deed(what="raises", delay=delay)
    return Deed(what="fails", kind=kind, delay=delay)


def world(seed: int, calls: int = 100) -> World:
    """Return the world of *seed*."""
    chance = random.Random(f"world {seed}")
    wired = chance.random() < 0.1
    sites = tuple(_site(chance, index, calls) for index in range(chance.choice([1, 2, 2, 3])))
    sites = _paced(random.Random(f"limits {seed}"), sites)
    hedge = chance.random() < 0.15
    made = World(
        seed=seed,
        wired=wired,
        sites=sites,
        retry=_retry(chance),
        recovery=_recovery(chance),
        timeouts=Timeouts(attempt=30.0, connect=5.0, first_byte=20.0, first_token=20.0, idle=10.0),
        budget=BudgetPolicy(share=0.2, burst=5) if chance.random() < 0.1 else None,
        hedge=HedgePolicy(delay=chance.choice([0.3, 3.0]), share=chance.choice([0.1, 1.0])) if hedge else None,
        listener_fails=chance.random() < 0.1,
    )
    horizon = chance.choice([5.0, 100.0, 2_000.0])
    times = sorted(_moment(chance, horizon) for _ in range(calls))
    asks = tuple(_ask(chance, f"c{number}", at, made.route()) for number, at in enumerate(times, 1))
    meddlings = tuple(_meddling(chance, horizon, sites) for _ in range(chance.choice([0, 0, 2, 8])))
    return replace(made, asks=asks, meddlings=meddlings)


def _moment(chance: random.Random, horizon: float) -> float:
    # Many come at the same moment: that is where the races are.
    return (
        round(chance.uniform(0, horizon), chance.choice([0, 0, 3])) if horizon > 10 else chance.choice([0.0, 1.0, 2.5])
    )


def _site(chance: random.Random, index: int, calls: int) -> Site:
    moods = Moods(chance)
    return Site(
        name=f"p{index + 1}",
        protocol=chance.choice(["openai", "anthropic"]),
        keys=chance.choice([1, 1, 2, 3]),
        models=chance.choice([("m1",), ("m1", "m2"), ("m2", "m1")]),
        max_concurrency=chance.choice([None, None, None, 1, 3]),
        slow_to_close=chance.choice([0.0, 0.0, 0.0, 0.3]),
        deeds=tuple(moods.deed() for _ in range(chance.randint(0, 2 * calls))),
    )


def _paced(chance: random.Random, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    if chance.random() > 0.25:
        return sites
    ways = (
        None,
        Limits(max_concurrency=1),
        Limits(max_concurrency=3, queue=4),
        Limits(requests_per_minute=6),
        Limits(requests_per_minute=60, max_concurrency=2),
        Limits(requests_per_minute=60, tokens_per_minute=500, queue=20),
    )
    return tuple(replace(site, limits=chance.choice(ways)) for site in sites)


def _retry(chance: random.Random) -> RetryPolicy:
    return RetryPolicy(
        max_retries=chance.choice([0, 1, 2, 2, 4]),
        backoff=chance.choice([0.0, 0.5, 0.5, 3.0]),
        cap=chance.choice([5.0, 30.0, 30.0]),
        jitter=chance.choice([0.0, 0.5, 1.0]),
        patience=chance.choice([0.0, 1.0, 10.0]),
        wait_for_cooldown=chance.random() < 0.7,
        reserve=chance.choice([0.0, 0.0, 2.0]),
        schema_retries=chance.choice([0, 1, 1, 2]),
    )


def _recovery(chance: random.Random) -> RecoveryPolicy:
    return RecoveryPolicy(
        quota=chance.choice([5.0, 60.0, 300.0]),
        memory=chance.choice([0.0, 20.0, 3_600.0]),
        cooldowns=chance.random() < 0.8,
        breaker=chance.choice([{}, {}, {Kind.SERVER_ERROR: 30.0, Kind.TIMEOUT: 10.0}]),
    )


def _ask(chance: random.Random, name: str, at: float, route: tuple[Candidate, ...]) -> Ask:
    stream = chance.random() < 0.4
    return Ask(
        name=name,
        at=at,
        stream=stream,
        structured=not stream and chance.random() < 0.1,
        route=tuple(chance.sample(route, chance.randint(1, len(route)))) if chance.random() < 0.2 else None,
        deadline=round(chance.uniform(0.05, 60), 3) if chance.random() < 0.3 else None,
        cancel_after=round(chance.choice([0.0, 0.1, 1.0, 20.0]) * chance.random(), 3)
        if chance.random() < 0.15
        else None,
        cancel_twice=chance.random() < 0.3,
        leave_after=chance.randint(0, 3) if stream and chance.random() < 0.15 else None,
        dawdle=chance.choice([0.5, 15.0]) if stream and chance.random() < 0.1 else 0.0,
        failover=chance.random() < 0.95,
        affinity=chance.choice([None, None, None, "conversation 1", "conversation 2"]),
        on_interrupt=chance.choice(["raise", "raise", "restart", "continue"]),
        retry=_retry(chance) if chance.random() < 0.1 else None,
        failover_on=(Kind.INVALID_OUTPUT, Kind.CONTENT_POLICY) if chance.random() < 0.1 else (),
    )


def _patience(chance: random.Random) -> float:
    return round(chance.choice([0.0, 0.1, 1.0, 20.0]) * chance.random(), 3)


def _meddling(chance: random.Random, horizon: float, sites: tuple[Site, ...]) -> Meddling:
    what = chance.choice(["reset", "isolate", "look", "jump", "pause"])
    seconds = chance.choice([-3_600.0, 86_400.0]) if what == "jump" else chance.choice([0.5, 5.0, 40.0, 400.0])
    provider = chance.choice([None, *(site.name for site in sites)]) if what == "reset" else chance.choice(sites).name
    return Meddling(what=what, at=round(chance.uniform(0, horizon), 3), provider=provider, seconds=seconds)
