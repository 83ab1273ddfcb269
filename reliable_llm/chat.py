"""FailoverChat: asks the core what to do, does it, reports back; nothing else.

One coordinator belongs to one event loop at a time. It may be used from a second loop after the first (connection pools
are kept per loop); what it knows about keys stays. It is not safe to share between threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self, Unpack

from reliable_llm import events
from reliable_llm.asking import Asked, OutputLike, Prompt, ToolLike, as_request, check_deadline
from reliable_llm.clock import Clock, SystemClock
from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.pacing import Pace
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.route import Stop, chain_from, checked_route, computed_order
from reliable_llm.driver import Driver
from reliable_llm.errors import ClosedError, ConfigurationError, Kind, ReliableLLMError
from reliable_llm.last_resort import stand_in
from reliable_llm.policy import BudgetPolicy, HedgePolicy, RecoveryPolicy, RetryPolicy
from reliable_llm.stand_in_stream import StandInStream
from reliable_llm.status import Status, provider_status
from reliable_llm.stream import ChatStream, OnInterrupt
from reliable_llm.types import (
    NOTHING,
    Candidate,
    Capabilities,
    ChatReply,
    ChatRequest,
    Json,
    ToolChoice,
)
from reliable_llm.wishes import Wishes

if TYPE_CHECKING:
    from reliable_llm.callers import CallerChat, CallerKey
    from reliable_llm.events import Event, Listener
    from reliable_llm.last_resort import LastResort
    from reliable_llm.plan import Plan
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import HealthStore, Shared

# How long `warmup()` waits for what a store of health knows.
STORE_PATIENCE: Final = 1.0

RouteLike = Iterable[Candidate | Sequence[str] | str]


class FailoverChat:
    """Gets an answer from the first model, provider and key that can give one, and tells exactly what it took.

    `providers` in order of preference. `route` replaces the computed order (model chain > provider chain). `fallbacks`
    maps a model to the models that may stand in for it, where the order of the models does not say it. `last_resort`
    answers when nobody could (`reliable_llm.last_resort`); such a reply is marked `degraded`.
    `health` shares with other processes what is known about keys (`reliable_llm.state.redis.RedisHealth`).
    Use it as `async with`, or call `aclose()`.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        route: RouteLike | None = None,
        fallbacks: Mapping[str, Sequence[str]] | None = None,
        retry: RetryPolicy | None = None,
        recovery: RecoveryPolicy | None = None,
        budget: BudgetPolicy | None = None,
        hedge: HedgePolicy | None = None,
        health: HealthStore | None = None,
        clock: Clock | None = None,
        listeners: Iterable[Listener] = (),
        last_resort: LastResort | None = None,
    ) -> None:
        self._providers = _by_name(providers)
        self._last_resort = last_resort
        self._wishes = Wishes()
        self._retry = retry or RetryPolicy()
        self._fallbacks = dict(fallbacks or {})
        self._driver = Driver(
            self._providers,
            clock=clock or SystemClock(),
            recovery=recovery or RecoveryPolicy(),
            budget=budget,
            hedge=hedge,
            listeners=listeners,
        )
        self._health = {name: self._health_of(provider) for name, provider in self._providers.items()}
        if health is not None:
            self._driver.member = health.join(self._shared_health(), self._driver.clock, self._tell)
        self._closed = False
        self._told_of_timeouts = False
        self._models = {name: tuple(p.models) for name, p in self._providers.items()}
        self._order = self._checked(route) if route is not None else computed_order(self._models)
        self._stops = {candidate: self._stop(candidate) for candidate in computed_order(self._models)}
        self._route = tuple(self._stops[candidate] for candidate in self._order)
        self._warn_about_setup()

    @classmethod
    def from_env(cls, *, models: Sequence[str] | None = None) -> Self:
        """Build from OPENAI_API_KEY(S), ANTHROPIC_API_KEY(S), their BASE_URLs and RELIABLE_LLM_MODELS or *models*."""
        from reliable_llm.config import from_env

        settings = from_env(models=models)
        return cls(settings.providers, route=settings.route, retry=settings.retry, recovery=settings.recovery)

    @classmethod
    def from_toml(cls, path: str) -> Self:
        """Build from a TOML file. Every `ConfigurationError` names the file, the place and the remedy."""
        from reliable_llm.config import load

        settings = load(path)
        return cls(settings.providers, route=settings.route, retry=settings.retry, recovery=settings.recovery)

    # ---------------------------------------------------------------- calls

    async def __call__(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        tools: Iterable[ToolLike] = (),
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        output: OutputLike | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: str | Iterable[str] = (),
        reasoning: str | None = None,
        extra: Mapping[str, Json] = NOTHING,
        overrides: Mapping[str, Json] = NOTHING,
        tags: Mapping[str, str] | None = None,
        strict: bool = False,
        truncate: bool = False,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        failover_on: Iterable[Kind | str] = (),
        affinity: str | None = None,
        priority: int = 0,
    ) -> ChatReply:
        """Return the answer to *prompt*: a string, messages (a `Conversation`, too), or a `ChatRequest`.

        `tools` are `Tool`s, or functions with types and a docstring. `output` (a pydantic model class, a JSON schema or
        an `OutputSchema`) asks for a structured answer, to be found in `reply.parsed`. `strict` passes by candidates
        that have no word for something in the request; otherwise `reply.dropped` names what was left out. `truncate`
        allows the oldest turns to be dropped when the history is too long for every candidate
        (`reply.context_truncated`).
        `deadline` bounds the whole call, in seconds. `model` starts the chain there; `route` replaces it for this call.
        `failover=False` stays with the first candidate. `failover_on` adds kinds of failure that shall move on instead
        of being raised. `affinity` keeps all calls with the same text (a conversation's id) on the same key while that
        is well, for the sake of the vendor's prompt cache. Where a provider has `limits` and no room, higher
        `priority` goes first. Raises the primary candidate's `ReliableLLMError` when
        nobody answers; its `attempts` is the whole story. `CancelledError` passes at once and changes nobody's health.
        """
        try:
            request = as_request(
                prompt,
                system=system,
                tools=tools,
                tool_choice=tool_choice,
                parallel_tool_calls=parallel_tool_calls,
                output=output,
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                stop=stop,
                reasoning=reasoning,
                extra=extra,
                overrides=overrides,
                tags=tags,
                strict=strict,
                truncate=truncate,
            )
        except ReliableLLMError as error:
            # Without the frames below, which hold the prompt: tracebacks may show locals.
            raise error.with_traceback(None) from error.__cause__
        finally:
            del prompt, system
        stops = self._chosen(model=model, route=route, failover=failover)
        try:
            policy = self._policy(retry, failover_on)
            until = self._begin(deadline, stops, policy)
            return await self._driver.run(request, stops, policy, until, affinity=affinity, priority=priority)
        except ReliableLLMError as error:
            reply = self._stand_in(request, error, stops[0].candidate)
            if reply is None:
                raise
            return reply

    def stream(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        tools: Iterable[ToolLike] = (),
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        output: OutputLike | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: str | Iterable[str] = (),
        reasoning: str | None = None,
        extra: Mapping[str, Json] = NOTHING,
        overrides: Mapping[str, Json] = NOTHING,
        tags: Mapping[str, str] | None = None,
        strict: bool = False,
        truncate: bool = False,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        failover_on: Iterable[Kind | str] = (),
        affinity: str | None = None,
        priority: int = 0,
        on_interrupt: OnInterrupt = "raise",
    ) -> ChatStream:
        """Return the answer as a stream, to use with `async with`; arguments as for a plain call.

        `on_interrupt` says what happens when it breaks after the first output: `raise` (`StreamInterruptedError` with
        what came), `restart` (a `Restarted` event, then another answer from its beginning) or `continue` (a `Continued`
        event, then the rest from another candidate; plain text only, otherwise it raises).
        """
        if on_interrupt not in ("raise", "restart", "continue"):
            raise ConfigurationError(f"on_interrupt must be 'raise', 'restart' or 'continue', got {on_interrupt!r}")
        try:
            request = as_request(
                prompt,
                system=system,
                tools=tools,
                tool_choice=tool_choice,
                parallel_tool_calls=parallel_tool_calls,
                output=output,
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                stop=stop,
                reasoning=reasoning,
                extra=extra,
                overrides=overrides,
                tags=tags,
                strict=strict,
                truncate=truncate,
            )
        except ReliableLLMError as error:
            # Without the frames below, which hold the prompt: tracebacks may show locals.
            raise error.with_traceback(None) from error.__cause__
        finally:
            del prompt, system
        stops = self._chosen(model=model, route=route, failover=failover)
        policy = self._policy(retry, failover_on)
        make = ChatStream if self._last_resort is None else partial(StandInStream, stand_in=self._stand_in)
        return make(
            self._driver,
            request,
            stops,
            policy,
            self._begin(deadline, stops, policy),
            on_interrupt,
            affinity=affinity,
            priority=priority,
        )

    def plan(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        stream: bool = False,
        **asked: Unpack[Asked],
    ) -> Plan:
        """Return what a call with these arguments would do now: where it goes, what is lost, how long it may take.

        Sends nothing and changes nobody's health. Raises `InvalidRequestError` for what no candidate could take.
        """
        from reliable_llm.plan import Planner

        check_deadline(deadline)
        stops = self._chosen(model=model, route=route, failover=failover)
        planner = Planner(self._driver, self._providers, retry or self._retry, stream=stream)
        return planner.plan(as_request(prompt, **asked), stops, deadline)

    def _begin(self, deadline: float | None, stops: Sequence[Stop], policy: RetryPolicy) -> float | None:
        """Return the time at which *deadline* seconds are over; raise `ClosedError` after `aclose()`."""
        if self._closed:
            raise ClosedError("this FailoverChat was closed: make a new one, or call it before aclose()")
        check_deadline(deadline)
        if deadline is None:
            return None
        if not self._told_of_timeouts and len(stops) > 1 and not policy.reserve:
            self._warn_about_timeouts(deadline, stops[0])
        return self._driver.clock.monotonic() + deadline

    def _warn_about_timeouts(self, deadline: float, first: Stop) -> None:
        """Say once that a first candidate which hangs would use up the deadline, as if there were no failover."""
        timeout = self._providers[first.provider].timeouts.attempt
        if timeout < deadline:
            return
        self._told_of_timeouts = True
        reason = f"attempt timeout {timeout:g} s >= deadline {deadline:g} s: a candidate that hangs leaves no time for"
        remedy = "the next; shorten Timeouts(attempt=...) or set RetryPolicy(reserve=...)"
        self._driver.emit([events.ConfigWarning(first.provider, f"{reason} {remedy}")], {})

    def _stand_in(self, request: ChatRequest, error: ReliableLLMError, requested: Candidate) -> ChatReply | None:
        """Return the answer of last resort in place of *error*, where there is one."""
        if self._last_resort is None:
            return None
        reply = stand_in(self._last_resort, request, error, requested)
        if reply is not None:
            self._driver.emit([events.LastResortUsed(error.kind, len(error.attempts))], request.tags)
        return reply

    @property
    def route(self) -> tuple[Candidate, ...]:
        """The candidates in the order in which they are tried."""
        return self._order

    @property
    def retry(self) -> RetryPolicy:
        """The policy of calls that bring none of their own."""
        return self._retry

    # ---------------------------------------------------------------- callers

    def for_caller(self, key: CallerKey) -> CallerChat:
        """Return this coordinator as the caller *key* uses it, with a start of the chain of its own.

        *key* is a path such as `team-a/ada`: the most specific wish counts (`reliable_llm.callers`).
        """
        from reliable_llm.callers import CallerChat

        return CallerChat(self, key)

    # ---------------------------------------------------------------- routes and policies

    def _chosen(self, *, model: str | None, route: RouteLike | None, failover: bool) -> tuple[Stop, ...]:
        """Return the candidates of one call, in order."""
        if model is None and route is None:
            chosen = self._route
        elif route is not None:
            chosen = tuple(self._stops[candidate] for candidate in self._checked(route))
        else:
            chain = chain_from(self._order, model or "", self._fallbacks)
            chosen = tuple(self._stops[candidate] for candidate in chain)
        return chosen if failover else chosen[:1]

    def _policy(self, retry: RetryPolicy | None, failover_on: Iterable[Kind | str]) -> RetryPolicy:
        """Return the policy of one call."""
        policy = retry or self._retry
        return replace(policy, failover_on=policy.failover_on | _kinds(failover_on)) if failover_on else policy

    def _checked(self, route: RouteLike) -> tuple[Candidate, ...]:
        order, repeated = checked_route(route, self._models)
        for candidate in repeated:
            self._driver.emit([events.ConfigWarning(candidate.provider, f"duplicate candidate {candidate}")], {})
        return order

    def _stop(self, candidate: Candidate) -> Stop:
        provider = self._providers[candidate.provider]
        return Stop(
            candidate=candidate,
            health=self._health[candidate.provider],
            model_id=provider.models[candidate.model],
            vendor=provider.vendor,
            capabilities=provider.capabilities.get(candidate.model) or Capabilities(),
        )

    def _warn_about_setup(self) -> None:
        keyless = [name for name, provider in self._providers.items() if not provider.keys]
        if len(keyless) == len(self._providers):
            raise ConfigurationError(
                f"no API key for any provider ({', '.join(keyless)}): "
                f"pass keys=[...], or set {_variables(self._providers.values())}"
            )
        found: list[Event] = [events.ConfigWarning(name, "no key") for name in keyless]
        vendors = {provider.vendor for provider in self._providers.values()}
        if len(self._providers) > 1 and len(vendors) == 1 and vendors != {"unknown"}:
            found.append(
                events.ConfigWarning(next(iter(self._providers)), "all providers share one vendor, and its outages")
            )
        self._driver.emit(found, {})

    # ---------------------------------------------------------------- health

    def _health_of(self, provider: Provider) -> ProviderHealth:
        now, limits = self._driver.clock.monotonic(), provider.limits
        pace = None if limits is None else Pace(limits, len(provider.keys), now)
        return ProviderHealth(provider.name, [key.label for key in provider.keys], pace)

    def _shared_health(self) -> dict[str, Shared]:
        """Return what a store has to know of each provider."""
        from reliable_llm.state.base import Shared

        return {
            name: Shared(
                endpoint=provider.endpoint,
                keys=provider.keys,
                models=tuple(provider.models),
                health=self._health[name],
            )
            for name, provider in self._providers.items()
        }

    def _tell(self, event: Event) -> None:
        self._driver.emit([event], {})

    def status(self) -> Status:
        """Return what is known about every provider, model and key, as an immutable snapshot."""
        now = self._driver.clock.monotonic()
        return Status(
            providers=tuple(
                provider_status(self._health[name], provider.endpoint, tuple(provider.models), now)
                for name, provider in self._providers.items()
            )
        )

    def reset(self, provider: str | None = None) -> None:
        """Forget what is known to fail: at one provider, or everywhere."""
        for name in self._named(provider):
            self._health[name].reset()
            if self._driver.member is not None:
                self._driver.member.forget(name)

    def isolate(self, provider: str, *, model: str | None = None, seconds: float = FOREVER) -> None:
        """Take a provider, or one model of it, out of use for *seconds*, or until `reset()`."""
        now = self._driver.clock.monotonic()
        fault = Fault(kind=Kind.CONFIGURATION, at=now, code="isolated")
        for name in self._named(provider):
            if model is not None and model not in self._models[name]:
                known = ", ".join(self._models[name])
                raise ConfigurationError(f"no model {model!r} at provider {name!r}; its models are {known}")
            for each in self._models[name] if model is None else (model,):
                self._health[name].candidate_gate(each).force(until=now + seconds, fault=fault, probe=False)

    def _named(self, provider: str | None) -> tuple[str, ...]:
        if provider is not None and provider not in self._providers:
            raise ConfigurationError(f"no provider {provider!r}; configured are {', '.join(self._providers)}")
        return tuple(self._providers) if provider is None else (provider,)

    # ---------------------------------------------------------------- life

    async def warmup(self) -> None:
        """Import the vendors' SDKs, build their clients and read the store of health, if any, now.

        A provider that cannot is warned about, not raised."""
        for name in self._providers:
            try:
                await self._driver.adapter(name).warmup()
            except ReliableLLMError as error:
                self._driver.emit([events.ConfigWarning(name, f"warmup failed: {error.kind}")], {})
        if self._driver.member is not None:
            await self._driver.member.ready(STORE_PATIENCE)

    async def aclose(self) -> None:
        """Close the connection pools. Calls after this raise `ClosedError`."""
        self._closed = True
        await self._driver.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"FailoverChat({' > '.join(str(candidate) for candidate in self._order)})"


def _by_name(providers: Sequence[Provider]) -> dict[str, Provider]:
    named = {provider.name: provider for provider in providers}
    if not named:
        raise ConfigurationError(
            "FailoverChat needs at least one provider: FailoverChat([Provider.openai(models=[...])])"
        )
    if len(named) < len(providers):
        raise ConfigurationError("two providers have the same name: give each its own, Provider.openai(name=...)")
    return named


def _variables(providers: Iterable[Provider]) -> str:
    """Return the environment variables that would hold the keys of *providers*."""
    from reliable_llm.vendors import VENDORS

    presets = (VENDORS.get(provider.vendor) for provider in providers)
    names = dict.fromkeys(preset.key_variable for preset in presets if preset is not None and preset.key_variable)
    return " or ".join(names) or "the vendor's environment variable"


def _kinds(names: Iterable[Kind | str]) -> frozenset[Kind]:
    try:
        return frozenset(Kind(name) for name in names)
    except ValueError as error:
        raise ConfigurationError(f"failover_on holds kinds of failure ({', '.join(sorted(Kind))}): {error}") from None
