"""A primary, a fallback, and the memory of the quota error between them: what StrategyActor keeps, on our machine.

The state machine is the coordinator's own. What is added here: the fallback is built when first needed, the original
error of the primary is raised *from* the fallback's, and synchronous code can call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol, TypeVar, overload

from reliable_llm.adapters.base import Adapter, AdapterStream, Prepared, Target
from reliable_llm.chat import FailoverChat
from reliable_llm.clock import Clock, SystemClock
from reliable_llm.credentials import Credential
from reliable_llm.errors import ConfigurationError, Kind, ReliableLLMError
from reliable_llm.events import Listener
from reliable_llm.integrations.home import Home
from reliable_llm.policy import RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.telemetry.seed_events import QuotaFallbackLog
from reliable_llm.types import AdapterReply, Candidate, ChatReply, ChatRequest
from reliable_llm.vendors import VENDORS

T = TypeVar("T")
Parser = Callable[[str], T]


# The last error of each provider in the call under way.
_seen: ContextVar[dict[str, ReliableLLMError] | None] = ContextVar("reliable_llm_quota_fallback", default=None)


class Settings(Protocol):
    """What is configured; `reliable_llm.integrations.strategy_actor.StrategySettings` has it."""

    @property
    def primary_provider(self) -> str: ...
    @property
    def primary_model(self) -> str: ...
    @property
    def fallback_provider(self) -> str: ...
    @property
    def fallback_model(self) -> str: ...
    @property
    def quota_recovery_interval(self) -> float: ...


class QuotaFallback:
    """`await llm(prompt, plan_id=...)` returns the text, or what *parser* makes of it; `llm.call(...)` is synchronous.

    `primary` and `fallback` replace the providers that *settings* describe. Share one among all actors that use the
    same key: what is known about the key is then known to all. Any loop and any thread may call it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        primary: Provider | None = None,
        fallback: Provider | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        first = primary or _provider(settings.primary_provider, settings.primary_model, "primary")
        second = fallback or _provider(settings.fallback_provider, settings.fallback_model, "fallback")
        second = replace(second, name=f"{second.name}-fallback") if second.name == first.name else second
        self._primary = Witness(first, self._clock, self._note_quota)
        self._fallback = Witness(second, self._clock)
        self._last_quota_error_at: float | None = None
        self._home = Home()
        self._chat = FailoverChat(
            [self._primary.provider, self._fallback.provider],
            route=[*_candidates(first), *_candidates(second)],
            retry=retry,
            recovery=RecoveryPolicy(quota=settings.quota_recovery_interval),
            clock=self._clock,
            listeners=(QuotaFallbackLog(), *listeners),
        )

    # ---------------------------------------------------------------- calls

    @overload
    async def __call__(self, prompt: str, *, plan_id: str = ..., system: str | None = ...) -> str: ...
    @overload
    async def __call__(self, prompt: str, *, plan_id: str = ..., system: str | None = ..., parser: Parser[T]) -> T: ...
    async def __call__(
        self, prompt: str, *, plan_id: str = "", system: str | None = None, parser: Parser[T] | None = None
    ) -> str | T:
        """Return the answer's text, or *parser*'s result. Raises as `ask`, and what *parser* raises."""
        text = (await self.ask(prompt, plan_id=plan_id, system=system)).text
        return text if parser is None else parser(text)

    @overload
    def call(self, prompt: str, *, plan_id: str = ..., system: str | None = ...) -> str: ...
    @overload
    def call(self, prompt: str, *, plan_id: str = ..., system: str | None = ..., parser: Parser[T]) -> T: ...
    def call(
        self, prompt: str, *, plan_id: str = "", system: str | None = None, parser: Parser[T] | None = None
    ) -> str | T:
        """The same for synchronous code, a worker thread of a running loop included."""
        text = self.ask_sync(prompt, plan_id=plan_id, system=system).text
        return text if parser is None else parser(text)

    async def ask(self, prompt: str, *, plan_id: str = "", system: str | None = None) -> ChatReply:
        """Return the whole reply.

        With both down it raises the primary's own error (its quota error, even where the primary was not called this
        time), with the fallback's as `__cause__` and the vendor's exception as `__context__`.
        """
        return await self._home.run(lambda: self._ask(prompt, plan_id, system))

    def ask_sync(self, prompt: str, *, plan_id: str = "", system: str | None = None) -> ChatReply:
        """`ask` for synchronous code."""
        return self._home.run_sync(lambda: self._ask(prompt, plan_id, system))

    async def _ask(self, prompt: str, plan_id: str, system: str | None) -> ChatReply:
        seen: dict[str, ReliableLLMError] = {}
        token = _seen.set(seen)
        try:
            return await self._chat(prompt, system=system, tags={"plan_id": plan_id})
        except ReliableLLMError as error:
            failed = error
        finally:
            _seen.reset(token)
        cause = self._fallback_error(failed, seen)
        if cause is None:
            raise failed
        failed.__context__ = failed.__cause__
        raise failed from cause

    def _fallback_error(self, error: ReliableLLMError, seen: Mapping[str, Exception]) -> Exception | None:
        """Return why the fallback did not help, where *error* is the primary's."""
        if error.provider != self._primary.name:
            return None
        if not self._fallback.provider.keys:
            preset = VENDORS.get(self._fallback.vendor)
            variable = preset.key_variable if preset is not None else None
            return ConfigurationError(f"the fallback {self._fallback.name} has no key: set {variable or 'its API key'}")
        return seen.get(self._fallback.name)

    # ---------------------------------------------------------------- the state, as StrategyActor names it

    @property
    def _using_fallback(self) -> bool:
        """True from a quota error on until the primary has answered again."""
        primary = next(each for each in self._chat.status().providers if each.name == self._primary.name)
        healths = ((key.health, *(health for _, health in key.models)) for key in primary.keys)
        return all(any(health.reason is Kind.QUOTA_EXHAUSTED for health in each) for each in healths)

    @property
    def _last_quota_error_time(self) -> float | None:
        """Unix time of the primary's last quota error, for people: the recovery runs on a clock that never jumps."""
        return self._last_quota_error_at

    @property
    def _fallback_llm(self) -> Adapter | None:
        """The fallback's client: None until it was first needed, then always the same."""
        return self._fallback.inner

    def _note_quota(self, error: ReliableLLMError) -> None:
        if error.kind is Kind.QUOTA_EXHAUSTED:
            self._last_quota_error_at = self._clock.time()

    @property
    def chat(self) -> FailoverChat:
        """The coordinator underneath, for `status()` and `reset()`."""
        return self._chat

    # ---------------------------------------------------------------- life

    async def aclose(self) -> None:
        """Close the connections."""
        await self._home.run(self._chat.aclose)
        self._home.close()

    def close(self) -> None:
        """`aclose` for synchronous code."""
        self._home.run_sync(self._chat.aclose)
        self._home.close()

    def __repr__(self) -> str:
        return f"QuotaFallback({self._primary.name} > {self._fallback.name})"


class Witness:
    """An adapter around a provider's own: built when first needed, and it notes every failure of the call under way."""

    def __init__(
        self, provider: Provider, clock: Clock, note: Callable[[ReliableLLMError], None] | None = None
    ) -> None:
        self.name = provider.name
        self.vendor = provider.vendor
        self.inner: Adapter | None = None
        self.provider = replace(provider, custom=self)
        self._build: Callable[[], Adapter] = lambda: provider.adapter(clock)
        self._note = note

    def _adapter(self) -> Adapter:
        if self.inner is None:
            self.inner = self._build()
        return self.inner

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        return self._adapter().prepare(request, target, stream=stream, without=without)

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        try:
            return await self._adapter().complete(prepared, key, timeouts)
        except ReliableLLMError as error:
            seen = _seen.get()
            if seen is not None:
                seen[self.name] = error
            if self._note is not None:
                self._note(error)
            raise

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        return self._adapter().stream(prepared, key, timeouts)

    async def warmup(self) -> None:
        await self._adapter().warmup()

    async def aclose(self) -> None:
        if self.inner is not None:
            await self.inner.aclose()


def _provider(vendor: str, model: str, role: str) -> Provider:
    if not model.strip():
        raise ConfigurationError(f"the {role} has no model: set {role}_model, or RELIABLE_LLM_{role.upper()}_MODEL")
    preset = VENDORS.get(vendor)
    if preset is None:
        raise ConfigurationError(f"unknown {role}_provider {vendor!r}; known are {', '.join(sorted(VENDORS))}")
    make = Provider.anthropic if preset.sdk == "anthropic" else Provider.openai
    return make(models=[model], name=vendor, vendor=vendor)


def _candidates(provider: Provider) -> Sequence[Candidate]:
    return [Candidate(provider.name, model) for model in provider.models]
