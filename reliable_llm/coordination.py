"""What a coordinator and its callers share: providers and their health, candidates, the driver, and one life."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reliable_llm import events
from reliable_llm.asking import check_deadline
from reliable_llm.candidates import Candidates, RouteLike
from reliable_llm.clock import Clock, SystemClock
from reliable_llm.core.route import Stop
from reliable_llm.driver import Driver
from reliable_llm.errors import ClosedError, ConfigurationError, ReliableLLMError
from reliable_llm.policy import BudgetPolicy, HedgePolicy, RecoveryPolicy, RetryPolicy
from reliable_llm.upkeep import Upkeep
from reliable_llm.wishes import Wishes

if TYPE_CHECKING:
    from reliable_llm.events import Event, Listener
    from reliable_llm.last_resort import LastResort
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import HealthStore

# How long `warmup()` waits for what a store of health knows.
STORE_PATIENCE: Final = 1.0

_POLICIES: Final[Mapping[str, type]] = {
    "retry": RetryPolicy,
    "recovery": RecoveryPolicy,
    "budget": BudgetPolicy,
    "hedge": HedgePolicy,
}


class Coordination:
    """Built once for a `FailoverChat`; every `CallerChat` made from it holds the same one."""

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        route: RouteLike | None,
        fallbacks: Mapping[str, Sequence[str]] | None,
        retry: RetryPolicy | None,
        recovery: RecoveryPolicy | None,
        budget: BudgetPolicy | None,
        hedge: HedgePolicy | None,
        health: HealthStore | None,
        clock: Clock | None,
        listeners: Iterable[Listener],
        last_resort: LastResort | None,
    ) -> None:
        _check_policies({"retry": retry, "recovery": recovery, "budget": budget, "hedge": hedge})
        listeners = _check_parts(health, clock, listeners, last_resort)
        self.providers = _by_name(providers)
        self.retry = retry or RetryPolicy()
        self.last_resort = last_resort
        self.wishes = Wishes()
        self.driver = Driver(
            self.providers,
            clock=clock or SystemClock(),
            recovery=recovery or RecoveryPolicy(),
            budget=budget,
            hedge=hedge,
            listeners=listeners,
        )
        self.upkeep = Upkeep(self.providers, self.driver.clock)
        if health is not None:
            member = health.join(self.upkeep.shared(), self.driver.clock, self.tell)
            self.upkeep.member = member
            self.driver.join(member)
        self.candidates = Candidates(
            self.providers, self.upkeep.health, route=route, fallbacks=fallbacks, tell=self.tell
        )
        self._closed = False
        self._told_of_timeouts = False
        for event in _doubts(self.providers):
            self.tell(event)

    def tell(self, event: Event, tags: Mapping[str, str] | None = None) -> None:
        """Hand an event to the log and to the listeners."""
        self.driver.announcer.emit([event], tags or {})

    # ---------------------------------------------------------------- a call begins

    def begin(self, deadline: float | None, stops: Sequence[Stop], policy: RetryPolicy) -> float | None:
        """Return the time at which *deadline* seconds are over; raise `ClosedError` after `aclose()`."""
        if self._closed:
            raise ClosedError("this FailoverChat was closed: make a new one, or call it before aclose()")
        if deadline is None:
            return None
        check_deadline(deadline)
        if not self._told_of_timeouts and len(stops) > 1 and not policy.reserve:
            self._warn_about_timeouts(deadline, stops[0])
        return self.driver.clock.monotonic() + deadline

    def _warn_about_timeouts(self, deadline: float, first: Stop) -> None:
        """Say once that a first candidate which hangs would use up the deadline, as if there were no failover."""
        timeout = self.providers[first.provider].timeouts.attempt
        if timeout < deadline:
            return
        self._told_of_timeouts = True
        reason = f"attempt timeout {timeout:g} s >= deadline {deadline:g} s: a candidate that hangs leaves no time for"
        remedy = "the next; shorten Timeouts(attempt=...) or set RetryPolicy(reserve=...)"
        self.tell(events.ConfigWarning(first.provider, f"{reason} {remedy}"))

    # ---------------------------------------------------------------- life

    async def warmup(self) -> None:
        """Import the vendors' SDKs, build their clients and read the store of health, if any, now."""
        for name in self.providers:
            try:
                await self.driver.entrance.access(name).adapter.warmup()
            except ReliableLLMError as error:
                self.tell(events.ConfigWarning(name, f"warmup failed: {error.kind}"))
        if self.upkeep.member is not None:
            await self.upkeep.member.ready(STORE_PATIENCE)

    async def aclose(self) -> None:
        """Close the connection pools."""
        self._closed = True
        await self.driver.aclose()


# ---------------------------------------------------------------- what a set-up gets wrong


def _check_policies(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        wanted = _POLICIES[name]
        if value is not None and not isinstance(value, wanted):
            raise ConfigurationError(
                f"{name} must be a {wanted.__name__}, got {type(value).__name__}: write {name}={wanted.__name__}(...)"
            )


def _check_parts(health: object, clock: object, listeners: object, last_resort: object) -> tuple[Listener, ...]:
    """Return *listeners* as a tuple; refuse what is no store, no clock, no listeners or no function."""
    if health is not None and not hasattr(health, "join"):
        raise ConfigurationError(f"health must be a store: write health=RedisHealth(...), got {type(health).__name__}")
    if clock is not None and not all(hasattr(clock, name) for name in ("monotonic", "time", "random", "sleep")):
        raise ConfigurationError(f"clock must have monotonic, time, random and sleep, got {type(clock).__name__}")
    heard = tuple(listeners) if isinstance(listeners, Iterable) else None
    if heard is None or not all(map(callable, heard)):
        raise ConfigurationError(
            f"listeners must be a list of functions: write listeners=[...], got {type(listeners).__name__}"
        )
    if last_resort is not None and (not callable(last_resort) or inspect.iscoroutinefunction(last_resort)):
        raise ConfigurationError(
            "last_resort must be a plain function of the request and the error, not an asynchronous one, "
            f"got {type(last_resort).__name__}"
        )
    return heard


def _by_name(providers: Sequence[Provider]) -> dict[str, Provider]:
    from reliable_llm.provider import Provider

    if isinstance(providers, Provider):
        raise ConfigurationError("FailoverChat takes a list of providers: write FailoverChat([provider])")
    for each in providers:
        if not isinstance(each, Provider):
            raise ConfigurationError(
                f"a provider is made by Provider.openai(...) and the like, got {type(each).__name__}"
            )
    named = {provider.name: provider for provider in providers}
    if not named:
        raise ConfigurationError(
            "FailoverChat needs at least one provider: FailoverChat([Provider.openai(models=[...])])"
        )
    if len(named) < len(providers):
        raise ConfigurationError("two providers have the same name: give each its own, Provider.openai(name=...)")
    return named


def _doubts(providers: Mapping[str, Provider]) -> Iterator[Event]:
    """Yield what is allowed, and probably not meant. Raises `ConfigurationError` where nothing could ever answer."""
    keyless = [name for name, provider in providers.items() if not provider.keys]
    if len(keyless) == len(providers):
        raise ConfigurationError(
            f"no API key for any provider ({', '.join(keyless)}): "
            f"pass keys=[...], or set {_variables(providers.values())}"
        )
    for name in keyless:
        yield events.ConfigWarning(name, "no key")
    vendors = {provider.vendor for provider in providers.values()}
    if len(providers) > 1 and len(vendors) == 1 and vendors != {"unknown"}:
        yield events.ConfigWarning(next(iter(providers)), "all providers share one vendor, and its outages")


def _variables(providers: Iterable[Provider]) -> str:
    """Return the environment variables that would hold the keys of *providers*."""
    from reliable_llm.vendors import VENDORS

    presets = (VENDORS.get(provider.vendor) for provider in providers)
    names = dict.fromkeys(preset.key_variable for preset in presets if preset is not None and preset.key_variable)
    return " or ".join(names) or "the vendor's environment variable"
