"""FailoverChat: asks the core what to do, does it, reports back; nothing else.

One coordinator belongs to one event loop at a time. It may be used from a second loop after the first (connection pools
are kept per loop); what it knows about keys stays. It is not safe to share between threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

from reliable_llm import events
from reliable_llm.asking import Asked, Prompt, as_request, check_deadline
from reliable_llm.candidates import RouteLike
from reliable_llm.coordination import Coordination
from reliable_llm.core.recovery import FOREVER
from reliable_llm.errors import ConfigurationError, Kind, ReliableLLMError
from reliable_llm.last_resort import stand_in
from reliable_llm.policy import check_kinds
from reliable_llm.stand_in_stream import StandInStream
from reliable_llm.stream import ChatStream
from reliable_llm.stream_call import OnInterrupt

if TYPE_CHECKING:
    from reliable_llm.callers import CallerChat, CallerKey
    from reliable_llm.clock import Clock
    from reliable_llm.config import Settings
    from reliable_llm.core.route import Stop
    from reliable_llm.events import Listener
    from reliable_llm.last_resort import LastResort
    from reliable_llm.plan import Plan
    from reliable_llm.policy import BudgetPolicy, HedgePolicy, RecoveryPolicy, RetryPolicy
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import HealthStore
    from reliable_llm.status import Status
    from reliable_llm.types import Candidate, ChatReply, ChatRequest


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
        self._coordination = Coordination(
            providers,
            route=route,
            fallbacks=fallbacks,
            retry=retry,
            recovery=recovery,
            budget=budget,
            hedge=hedge,
            health=health,
            clock=clock,
            listeners=listeners,
            last_resort=last_resort,
        )

    @classmethod
    def from_env(cls, *, models: Sequence[str] | None = None) -> Self:
        """Build from RELIABLE_LLM_MODELS, or *models*, and the vendors' own variables (`reliable_llm.config`)."""
        from reliable_llm.config import from_env

        return cls.from_settings(from_env(models=models))

    @classmethod
    def from_toml(cls, path: str) -> Self:
        """Build from a TOML file. Every `ConfigurationError` names the file, the place and the remedy."""
        from reliable_llm.config import load

        return cls.from_settings(load(path))

    @classmethod
    def from_settings(
        cls, settings: Settings, *, clock: Clock | None = None, listeners: Iterable[Listener] = ()
    ) -> Self:
        """Build from what `reliable_llm.config` has read."""
        return cls(
            settings.providers,
            route=settings.route,
            retry=settings.retry,
            recovery=settings.recovery,
            budget=settings.budget,
            hedge=settings.hedge,
            clock=clock,
            listeners=listeners,
        )

    # ---------------------------------------------------------------- calls

    async def __call__(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        failover_on: Iterable[Kind | str] = (),
        affinity: str | None = None,
        priority: int = 0,
        **asked: Unpack[Asked],
    ) -> ChatReply:
        """Return the answer to *prompt*: a string, messages (a `Conversation`, too), or a `ChatRequest`.

        *asked* is what the request says besides: `system`, `tools`, `output`, `max_tokens` and the other fields of
        `reliable_llm.asking.Asked`.
        `deadline` bounds the whole call, in seconds. `model` starts the chain there; `route` replaces it for this call.
        `failover=False` stays with the first candidate. `failover_on` adds kinds of failure that shall move on instead
        of being raised. `affinity` keeps all calls with the same text (a conversation's id) on the same key while that
        is well, for the sake of the vendor's prompt cache. Where a provider has `limits` and no room, higher
        `priority` goes first. Raises the primary candidate's `ReliableLLMError` when nobody answers; its `attempts` is
        the whole story. `CancelledError` passes at once and changes nobody's health.
        """
        try:
            request = as_request(prompt, **asked)
        except ReliableLLMError as error:
            # Without the frames below, which hold the prompt: tracebacks may show locals.
            raise error.with_traceback(None) from error.__cause__
        finally:
            del prompt, asked
        stops = self._chosen(model=model, route=route, failover=failover, own_policy=retry is not None)
        try:
            policy = self._policy(retry, failover_on)
            until = self._coordination.begin(deadline, stops, policy)
            return await self._coordination.driver.run(
                request, stops, policy, until, affinity=affinity, priority=priority
            )
        except ReliableLLMError as error:
            reply = self._stand_in(request, error, stops[0].candidate)
            if reply is None:
                raise
            return reply

    def stream(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        route: RouteLike | None = None,
        retry: RetryPolicy | None = None,
        deadline: float | None = None,
        failover: bool = True,
        failover_on: Iterable[Kind | str] = (),
        affinity: str | None = None,
        priority: int = 0,
        on_interrupt: OnInterrupt = "raise",
        **asked: Unpack[Asked],
    ) -> ChatStream:
        """Return the answer as a stream, to use with `async with`; arguments as for a plain call.

        `on_interrupt` says what happens when it breaks after the first output: `raise` (`StreamInterruptedError` with
        what came), `restart` (a `Restarted` event, then another answer from its beginning) or `continue` (a `Continued`
        event, then the rest from another candidate; plain text only, otherwise it raises).
        """
        if on_interrupt not in ("raise", "restart", "continue"):
            raise ConfigurationError(f"on_interrupt must be 'raise', 'restart' or 'continue', got {on_interrupt!r}")
        try:
            request = as_request(prompt, **asked)
        except ReliableLLMError as error:
            # Without the frames below, which hold the prompt: tracebacks may show locals.
            raise error.with_traceback(None) from error.__cause__
        finally:
            del prompt, asked
        stops = self._chosen(model=model, route=route, failover=failover, own_policy=retry is not None)
        policy = self._policy(retry, failover_on)
        make = ChatStream if self._coordination.last_resort is None else partial(StandInStream, stand_in=self._stand_in)
        return make(
            self._coordination.driver,
            request,
            stops,
            policy,
            self._coordination.begin(deadline, stops, policy),
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
        stops = self._chosen(model=model, route=route, failover=failover, own_policy=retry is not None)
        planner = Planner(self._coordination.driver, self._coordination.providers, retry or self.retry, stream=stream)
        return planner.plan(as_request(prompt, **asked), stops, deadline)

    def _chosen(
        self, *, model: str | None, route: RouteLike | None, failover: bool, own_policy: bool
    ) -> tuple[Stop, ...]:
        return self._coordination.candidates.chosen(model=model, route=route, failover=failover, own_policy=own_policy)

    def _policy(self, retry: RetryPolicy | None, failover_on: Iterable[Kind | str]) -> RetryPolicy:
        """Return the policy of one call."""
        policy = retry or self._coordination.retry
        return replace(policy, failover_on=policy.failover_on | _kinds(failover_on)) if failover_on else policy

    def _stand_in(self, request: ChatRequest, error: ReliableLLMError, requested: Candidate) -> ChatReply | None:
        """Return the answer of last resort in place of *error*, where there is one."""
        last_resort = self._coordination.last_resort
        if last_resort is None:
            return None
        reply = stand_in(last_resort, request, error, requested)
        if reply is not None:
            self._coordination.tell(events.LastResortUsed(error.kind, len(error.attempts)), request.tags)
        return reply

    @property
    def route(self) -> tuple[Candidate, ...]:
        """The candidates in the order in which they are tried."""
        return self._coordination.candidates.order

    @property
    def retry(self) -> RetryPolicy:
        """The policy of calls that bring none of their own."""
        return self._coordination.retry

    def for_caller(self, key: CallerKey) -> CallerChat:
        """Return this coordinator as the caller *key* uses it, with a start of the chain of its own.

        *key* is a path such as `team-a/ada`: the most specific wish counts (`reliable_llm.callers`).
        """
        from reliable_llm.callers import CallerChat

        return CallerChat(self, self._coordination, key)

    # ---------------------------------------------------------------- health

    def status(self) -> Status:
        """Return what is known about every provider, model and key, as an immutable snapshot."""
        return self._coordination.upkeep.status()

    def reset(self, provider: str | None = None) -> None:
        """Forget what is known to fail: at one provider, or everywhere."""
        self._coordination.upkeep.reset(provider)

    def isolate(self, provider: str, *, model: str | None = None, seconds: float = FOREVER) -> None:
        """Take a provider, or one model of it, out of use for *seconds*, or until `reset()`."""
        self._coordination.upkeep.isolate(provider, model, seconds)

    # ---------------------------------------------------------------- life

    async def warmup(self) -> None:
        """Import the vendors' SDKs, build their clients and read the store of health, if any, now.

        A provider that cannot is warned about, not raised."""
        await self._coordination.warmup()

    async def aclose(self) -> None:
        """Close the connection pools. Calls after this raise `ClosedError`; one under way starts no further attempt."""
        await self._coordination.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"FailoverChat({' > '.join(str(candidate) for candidate in self.route)})"


def _kinds(names: Iterable[Kind | str]) -> frozenset[Kind]:
    listed = names if isinstance(names, str) else tuple(names)
    check_kinds("the call", "failover_on", listed)
    return frozenset(map(Kind, listed))
