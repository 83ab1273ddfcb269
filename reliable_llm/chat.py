"""FailoverChat: asks the core what to do, does it, reports back; nothing else.

One coordinator belongs to one event loop at a time. It may be used from a second loop after the first (connection pools
are kept per loop); what it knows about keys stays. It is not safe to share between threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from reliable_llm import events
from reliable_llm.adapters.base import Adapter, Prepared, Target
from reliable_llm.asking import Prompt, as_request, check_deadline
from reliable_llm.clock import Clock, SystemClock
from reliable_llm.core.actions import Raise, Sleep, StartAttempt
from reliable_llm.core.failover import FailoverCall
from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.route import Stop, chain_from, checked_route, computed_order, needs_of
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    AttemptTimeoutError,
    ClosedError,
    ConfigurationError,
    ContentPolicyError,
    DeadlineExceededError,
    Kind,
    ReliableLLMError,
    UnsupportedFeatureError,
)
from reliable_llm.policy import RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.status import Status, provider_status
from reliable_llm.telemetry.log import EventLog
from reliable_llm.types import (
    NOTHING,
    AdapterReply,
    Candidate,
    Capabilities,
    ChatReply,
    ChatRequest,
    FinishReason,
    HostedTool,
    Json,
    OutputSchema,
    ServedBy,
    Tool,
    ToolChoice,
)

if TYPE_CHECKING:
    from reliable_llm.events import Event, Listener
    from reliable_llm.provider import Provider

RouteLike = Iterable[Candidate | Sequence[str] | str]


class FailoverChat:
    """Gets an answer from the first model, provider and key that can give one, and tells exactly what it took.

    `providers` in order of preference. `route` replaces the computed order (model chain > provider chain). `fallbacks`
    maps a model to the models that may stand in for it, where the order of the models does not say it.
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
        clock: Clock | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._providers = _by_name(providers)
        self.clock = clock or SystemClock()
        self._retry = retry or RetryPolicy()
        self.recovery = recovery or RecoveryPolicy()
        self._fallbacks = dict(fallbacks or {})
        self._log = EventLog()
        self._listeners: tuple[Listener, ...] = tuple(listeners)
        self._health = {
            name: ProviderHealth(name, [key.label for key in p.keys]) for name, p in self._providers.items()
        }
        self._adapters: dict[str, Adapter] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._slots_loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
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
        tools: Iterable[Tool | HostedTool] = (),
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        output: OutputSchema | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: str | Iterable[str] = (),
        reasoning: str | None = None,
        extra: Mapping[str, Json] = NOTHING,
        overrides: Mapping[str, Json] = NOTHING,
        tags: Mapping[str, str] | None = None,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        failover_on: Iterable[Kind | str] = (),
    ) -> ChatReply:
        """Return the answer to *prompt*: a string, messages, or a `ChatRequest`.

        `deadline` bounds the whole call, in seconds. `model` starts the chain there; `route` replaces it for this call.
        `failover=False` stays with the first candidate. `failover_on` adds kinds of failure that shall move on instead
        of being raised. Raises the primary candidate's `ReliableLLMError` when nobody answers; its `attempts` is the
        whole story. `CancelledError` passes at once and changes nobody's health.
        """
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
        )
        del prompt, system  # a traceback that shows locals must not show what somebody wrote
        stops = self.stops(model=model, route=route, failover=failover)
        return await self._run(request, stops, self.retry_policy(retry, failover_on), self.begin(deadline))

    def stream(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        tools: Iterable[Tool | HostedTool] = (),
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        output: OutputSchema | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: str | Iterable[str] = (),
        reasoning: str | None = None,
        extra: Mapping[str, Json] = NOTHING,
        overrides: Mapping[str, Json] = NOTHING,
        tags: Mapping[str, str] | None = None,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        failover_on: Iterable[Kind | str] = (),
        on_interrupt: OnInterrupt = "raise",
    ) -> ChatStream:
        """Return the answer as a stream, to use with `async with`; arguments as for a plain call.

        `on_interrupt` says what happens when it breaks after the first output: `raise` (`StreamInterruptedError` with
        what came), `restart` (a `Restarted` event, then another answer from its beginning) or `continue` (a `Continued`
        event, then the rest from another candidate; plain text only, otherwise it raises).
        """
        if on_interrupt not in ("raise", "restart", "continue"):
            raise ConfigurationError(f"on_interrupt must be 'raise', 'restart' or 'continue', got {on_interrupt!r}")
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
        )
        del prompt, system
        stops = self.stops(model=model, route=route, failover=failover)
        policy = self.retry_policy(retry, failover_on)
        return ChatStream(self, request, stops, policy, self.begin(deadline), on_interrupt)

    async def _run(
        self, request: ChatRequest, stops: Sequence[Stop], retry: RetryPolicy, deadline: float | None
    ) -> ChatReply:
        clock = self.clock
        now = clock.monotonic()
        call = FailoverCall(
            stops, now=now, retry=retry, recovery=self.recovery, needs=needs_of(request), deadline=deadline
        )
        prepared: dict[tuple[Stop, frozenset[str]], Prepared] = {}
        while True:
            action = call.next(now, clock.random())
            self.emit(call.events, request.tags)
            if isinstance(action, StartAttempt):
                reply = await self._attempt(call, action, request, prepared)
                self.emit(call.events, request.tags)
                if reply is not None:
                    return reply
            elif isinstance(action, Sleep):
                await clock.sleep(action.seconds)
            else:
                _raise(action)
            now = clock.monotonic()

    async def _attempt(
        self,
        call: FailoverCall,
        action: StartAttempt,
        request: ChatRequest,
        cache: dict[tuple[Stop, frozenset[str]], Prepared],
    ) -> ChatReply | None:
        """Make one attempt and report it; return the reply, or None where the call goes on."""
        clock = self.clock
        prepared = self.prepared(call, action, request, cache)
        leave = None if prepared is None else await self.enter(call, action)
        if prepared is None or leave is None:
            return None
        started = clock.monotonic()
        try:
            self.announce(action, request.tags)
            answer = await self._send(action, prepared, started)
            _refuse_refusal(answer, call)
        except ReliableLLMError as error:
            call.failed(action, clock.monotonic(), started, error, clock.random())
            return None
        except BaseException:
            call.abandoned(action, clock.monotonic(), started)
            raise
        finally:
            leave()
        ended = clock.monotonic()
        call.succeeded(action, ended, started, usage=answer.usage, request_id=answer.request_id)
        return self.reply_of(call, action, answer, prepared, ended - started)

    async def _send(self, action: StartAttempt, prepared: Prepared, now: float) -> AdapterReply:
        """Send once, within the attempt's timeout and what the deadline leaves."""
        provider = self._providers[action.stop.provider]
        adapter = self.adapter(action.stop.provider)
        key = provider.keys[action.key_place]
        limit = provider.timeouts.attempt
        by_deadline = action.until is not None and action.until - now <= limit
        try:
            async with asyncio.timeout(action.until - now if action.until is not None and by_deadline else limit):
                return await adapter.complete(prepared, key, provider.timeouts)
        except TimeoutError as error:
            if isinstance(error, ReliableLLMError):
                raise
            raise late(action, by_deadline=by_deadline) from error

    def reply_of(
        self, call: FailoverCall, action: StartAttempt, answer: AdapterReply, prepared: Prepared, elapsed: float
    ) -> ChatReply:
        stop = action.stop
        label = stop.health.ring.labels[action.key_place]
        first = call.requested
        if self._listens_to(events.DEBUG):
            done = events.AttemptSucceeded(stop.provider, stop.model, label, action.number, elapsed, str(first))
            call.events.append(done)
        return ChatReply(
            parts=answer.parts,
            served_by=ServedBy(stop.provider, stop.model, label),
            requested=first,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            attempts=tuple(call.attempts),
            model=answer.model,
            request_id=answer.request_id,
            dropped=prepared.dropped + answer.dropped,
            finish_detail=answer.finish_detail,
            raw_reply=answer.raw,
        )

    # ---------------------------------------------------------------- parts of an attempt, shared with streams

    def begin(self, deadline: float | None) -> float | None:
        """Return the time at which *deadline* seconds are over; raise `ClosedError` after `aclose()`."""
        if self._closed:
            raise ClosedError("this FailoverChat was closed: make a new one, or call it before aclose()")
        check_deadline(deadline)
        return None if deadline is None else self.clock.monotonic() + deadline

    def prepared(
        self,
        call: FailoverCall,
        action: StartAttempt,
        request: ChatRequest,
        cache: dict[tuple[Stop, frozenset[str]], Prepared],
        *,
        stream: bool = False,
    ) -> Prepared | None:
        """Return the request in the candidate's terms, made once per candidate; None where it cannot be."""
        stop = action.stop
        found = cache.get((stop, action.without))
        if found is None:
            target = Target(candidate=stop.candidate, model_id=stop.model_id)
            try:
                adapter = self.adapter(stop.provider)
                found = adapter.prepare(request, target, stream=stream, without=action.without)
            except UnsupportedFeatureError as error:
                call.refused(action, error)
                return None
            except BaseException:
                call.withdrawn(action)
                raise
            cache[stop, action.without] = found
        return found

    def announce(self, action: StartAttempt, tags: Mapping[str, str]) -> None:
        """Tell the listeners that an attempt starts, if any of them wants to know."""
        if self._listens_to(events.DEBUG):
            stop = action.stop
            label = stop.health.ring.labels[action.key_place]
            started = events.AttemptStarted(stop.provider, stop.model, label, action.number, action.permit.probe)
            self.emit([started], tags)

    async def enter(self, call: FailoverCall, action: StartAttempt) -> Callable[[], None] | None:
        """Wait for one of the provider's places, within the deadline and outside the attempt's timeout.

        Return what to call on leaving; None where the deadline came first and the call is over.
        """
        provider = self._providers[action.stop.provider]
        if provider.max_concurrency is None:
            return _nothing
        semaphore = self._semaphore(provider.name, provider.max_concurrency)
        try:
            async with asyncio.timeout(None if action.until is None else action.until - self.clock.monotonic()):
                await semaphore.acquire()
        except TimeoutError:
            error = DeadlineExceededError("the deadline passed while the call waited for its turn (max_concurrency)")
            error.where = "local_queue"
            call.withdrawn(action, error)
            return None
        except BaseException:
            call.withdrawn(action)
            raise
        return semaphore.release

    def _semaphore(self, name: str, limit: int) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._slots_loop is not loop:
            self._slots, self._slots_loop = {}, loop
        if name not in self._slots:
            self._slots[name] = asyncio.Semaphore(limit)
        return self._slots[name]

    def key(self, action: StartAttempt) -> Credential:
        """Return the key that an attempt uses."""
        return self._providers[action.stop.provider].keys[action.key_place]

    def timeouts(self, provider: str) -> Timeouts:
        """Return the provider's timeouts."""
        return self._providers[provider].timeouts

    def adapter(self, name: str) -> Adapter:
        """Return the provider's adapter, built when first needed."""
        adapter = self._adapters.get(name)
        if adapter is None:
            adapter = self._adapters[name] = self._providers[name].adapter(self.clock)
        return adapter

    def emit(self, happened: list[Event], tags: Mapping[str, str]) -> None:
        """Hand events on and clear the list."""
        if not happened:
            return
        for event in happened:
            self._log(event, tags)
            for listener in self._listeners:
                listener(event, tags)
        happened.clear()

    def _listens_to(self, level: int) -> bool:
        return bool(self._listeners) or self._log.wants(level)

    # ---------------------------------------------------------------- routes and policies

    def stops(self, *, model: str | None, route: RouteLike | None, failover: bool) -> tuple[Stop, ...]:
        """Return the candidates of one call, in order."""
        if model is None and route is None:
            chosen = self._route
        elif route is not None:
            chosen = tuple(self._stops[candidate] for candidate in self._checked(route))
        else:
            chain = chain_from(self._order, model or "", self._fallbacks)
            chosen = tuple(self._stops[candidate] for candidate in chain)
        return chosen if failover else chosen[:1]

    def retry_policy(self, retry: RetryPolicy | None, failover_on: Iterable[Kind | str]) -> RetryPolicy:
        """Return the policy of one call."""
        policy = retry or self._retry
        return replace(policy, failover_on=policy.failover_on | _kinds(failover_on)) if failover_on else policy

    def _checked(self, route: RouteLike) -> tuple[Candidate, ...]:
        order, repeated = checked_route(route, self._models)
        for candidate in repeated:
            self.emit([events.ConfigWarning(candidate.provider, f"duplicate candidate {candidate}")], {})
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
                "pass keys=[...], or set the vendor's environment variable"
            )
        found: list[Event] = [events.ConfigWarning(name, "no key") for name in keyless]
        vendors = {provider.vendor for provider in self._providers.values()}
        if len(self._providers) > 1 and len(vendors) == 1:
            found.append(
                events.ConfigWarning(next(iter(self._providers)), "all providers share one vendor, and its outages")
            )
        self.emit(found, {})

    # ---------------------------------------------------------------- health

    def status(self) -> Status:
        """Return what is known about every provider, model and key, as an immutable snapshot."""
        now = self.clock.monotonic()
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

    def isolate(self, provider: str, *, model: str | None = None, seconds: float = FOREVER) -> None:
        """Take a provider, or one model of it, out of use for *seconds*, or until `reset()`."""
        now = self.clock.monotonic()
        fault = Fault(kind=Kind.CONFIGURATION, at=now, code="isolated")
        for name in self._named(provider):
            for each in self._models[name] if model is None else (model,):
                self._health[name].candidate_gate(each).force(until=now + seconds, fault=fault, probe=False)

    def _named(self, provider: str | None) -> tuple[str, ...]:
        if provider is not None and provider not in self._providers:
            raise ConfigurationError(f"no provider {provider!r}; configured are {', '.join(self._providers)}")
        return tuple(self._providers) if provider is None else (provider,)

    # ---------------------------------------------------------------- life

    async def warmup(self) -> None:
        """Import the vendors' SDKs and build their clients now. A provider that cannot is warned about, not raised."""
        for name in self._providers:
            try:
                await self.adapter(name).warmup()
            except ReliableLLMError as error:
                self.emit([events.ConfigWarning(name, f"warmup failed: {error.kind}")], {})

    async def aclose(self) -> None:
        """Close the connection pools. Calls after this raise `ClosedError`."""
        self._closed = True
        for adapter in self._adapters.values():
            await adapter.aclose()

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


def _refuse_refusal(answer: AdapterReply, call: FailoverCall) -> None:
    """Turn a refusal into a failure where the caller wants to fail over on one; by default it is an answer."""
    if answer.finish_reason in (FinishReason.REFUSAL, FinishReason.CONTENT_FILTER) and call.fails_over_on(
        Kind.CONTENT_POLICY
    ):
        error = ContentPolicyError(usage=answer.usage)
        error.request_id = answer.request_id
        raise error


def late(action: StartAttempt, *, by_deadline: bool) -> ReliableLLMError:
    """Return the error of an attempt that was cut off: by the caller's deadline, or by its own timeout."""
    if not by_deadline or action.reserved:
        return AttemptTimeoutError()
    error = DeadlineExceededError()
    error.where = str(action.stop.candidate)
    return error


def _nothing() -> None:
    """Leave a provider that has no limit."""


def _raise(action: Raise) -> None:
    raise action.error


def _kinds(names: Iterable[Kind | str]) -> frozenset[Kind]:
    try:
        return frozenset(Kind(name) for name in names)
    except ValueError as error:
        raise ConfigurationError(f"failover_on holds kinds of failure ({', '.join(sorted(Kind))}): {error}") from None
