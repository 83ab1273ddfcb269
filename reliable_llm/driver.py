"""Carries out what the machine of a call says: awaits without deciding.

The driver owns what an attempt needs from outside the core: adapters, keys, time, places in a provider's queue, and the
listeners. Plain calls run here; `ChatStream` uses the same parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from reliable_llm import events
from reliable_llm.adapters.base import Adapter, Prepared, Target
from reliable_llm.calls import CallTeller
from reliable_llm.clock import Clock
from reliable_llm.core.actions import Action, AwaitTurn, Raise, Sleep, StartAttempt
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.failover import PROBE_POLL, FailoverCall
from reliable_llm.core.hedge import Hedges
from reliable_llm.core.ledger import open_up
from reliable_llm.core.memory import still_holds
from reliable_llm.core.pacing import Demand
from reliable_llm.core.route import Stop, needs_of
from reliable_llm.core.truncation import cut, possible_cuts
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    AttemptTimeoutError,
    ContentPolicyError,
    DeadlineExceededError,
    Kind,
    ReliableLLMError,
    UnsupportedFeatureError,
    default_verdict,
)
from reliable_llm.hedged import in_order, may_hedge, merged, race
from reliable_llm.line import Line
from reliable_llm.needs import changed_needs
from reliable_llm.policy import BudgetPolicy, HedgePolicy, RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.telemetry.log import EventLog
from reliable_llm.types import AdapterReply, ChatReply, ChatRequest, FinishReason, ServedBy, text_of

if TYPE_CHECKING:
    from reliable_llm.events import Event, Listener
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import Member
    from reliable_llm.structured import Repairs
    from reliable_llm.types import OutputSchema

PreparedRequests = dict[tuple[Stop, frozenset[str], int], Prepared]


class Driver:
    """What all calls of one coordinator share, apart from what is known about keys and candidates."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        *,
        clock: Clock,
        recovery: RecoveryPolicy,
        budget: BudgetPolicy | None = None,
        hedge: HedgePolicy | None = None,
        listeners: Iterable[Listener],
    ) -> None:
        self.clock = clock
        self.recovery = recovery
        self.budget = None if budget is None else RetryBudget(budget)
        self._hedges = None if hedge is None else Hedges(hedge)
        self._providers = providers
        self._adapters: dict[str, Adapter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unlimited: set[str] = set()
        self._places: dict[str, asyncio.Semaphore] = {}
        self._lines: dict[str, Line] = {}
        self._log = EventLog()
        self._listeners: tuple[Listener, ...] = tuple(listeners)
        self.teller = CallTeller(self._listeners, self._log.listener_failed)
        self.member: Member | None = None
        self.paced = any(provider.limits is not None for provider in providers.values())

    # ---------------------------------------------------------------- a plain call

    async def run(
        self,
        request: ChatRequest,
        stops: Sequence[Stop],
        retry: RetryPolicy,
        deadline: float | None,
        *,
        affinity: str | None = None,
        priority: int = 0,
    ) -> ChatReply:
        """Return the answer to *request*; raise what `FailoverChat.__call__` raises."""
        if not self.teller:
            return await self._run(request, stops, retry, deadline, affinity, priority)
        request = self.teller.own(request)
        started = self.clock.monotonic()
        self.teller.begin(request, stops, stream=False)
        try:
            reply = await self._run(request, stops, retry, deadline, affinity, priority)
        except BaseException as error:
            self.teller.failed(request, error, (), self.clock.monotonic() - started, None)
            raise
        self.teller.answered(request, reply, self.clock.monotonic() - started, None)
        return reply

    async def _run(
        self,
        request: ChatRequest,
        stops: Sequence[Stop],
        retry: RetryPolicy,
        deadline: float | None,
        affinity: str | None,
        priority: int,
    ) -> ChatReply:
        call = self.call(request, stops, retry, deadline, affinity=affinity, priority=priority)
        delay = self.hedge_delay(request, stops)
        if delay is None:
            return await self._drive(call, request)
        second = self.call(request, stops[1:], retry, deadline, affinity=affinity, priority=priority, is_hedge=True)
        try:
            reply, hedged = await race(
                lambda: self._drive(call, request),
                lambda: self._drive(second, request),
                delay,
                self.hedges_of(),
                call=call,
            )
        except ReliableLLMError as error:
            error.attempts = in_order(call.attempts, second.attempts)
            raise
        reply = merged(reply, (call.attempts, second.attempts)) if second.attempts else reply
        return replace(reply, requested=stops[0].candidate) if hedged else reply

    def call(
        self,
        request: ChatRequest,
        stops: Sequence[Stop],
        retry: RetryPolicy,
        deadline: float | None,
        *,
        affinity: str | None = None,
        priority: int = 0,
        stream: bool = False,
        is_hedge: bool = False,
    ) -> FailoverCall:
        """Return the machine of a new call."""
        if self.member is not None:
            self.member.wake()
        return FailoverCall(
            stops,
            now=self.clock.monotonic(),
            retry=retry,
            recovery=self.recovery,
            needs=needs_of(request, stream=stream),
            needs_at=changed_needs(request, stops, stream=stream) if request.overrides or request.extra else None,
            cuts=possible_cuts(request.messages) if request.truncate else 0,
            deadline=deadline,
            budget=self.budget,
            prefer=None if affinity is None else crc32(affinity.encode()),
            demand=_demand(request, priority) if self.paced else None,
            is_hedge=is_hedge,
        )

    def hedge_delay(self, request: ChatRequest, stops: Sequence[Stop]) -> float | None:
        """Return after how many seconds the next candidate may be started beside the first; None for never."""
        if self._hedges is None or len(stops) < 2 or not may_hedge(request):
            return None
        return self._hedges.delay(str(stops[0].candidate))

    def observe(self, action: StartAttempt, seconds: float) -> None:
        """Remember how long a candidate took to its first output, where hedging wants to know."""
        if self._hedges is not None:
            self._hedges.observe(str(action.stop.candidate), seconds)

    def hedges_of(self) -> Hedges:
        """Return what hedging knows."""
        assert self._hedges is not None  # noqa: S101 - asked only after hedge_delay gave a time
        return self._hedges

    async def _drive(self, call: FailoverCall, request: ChatRequest) -> ChatReply:
        """Do what the machine says until it has an answer or an error."""
        clock = self.clock
        now = clock.monotonic()
        prepared: PreparedRequests = {}
        repairs = None if request.output is None else _repairs(request, request.output)
        while True:
            action = call.next(now, clock.random())
            if not self.must_claim(action):
                self.emit(call.events, request.tags)
            if isinstance(action, StartAttempt):
                reply = await self._attempt(call, action, request, prepared, repairs)
                self.emit(call.events, request.tags)
                if reply is not None:
                    return reply
            else:
                await self.carry_out(call, action)
            now = clock.monotonic()

    async def carry_out(self, call: FailoverCall, action: Sleep | AwaitTurn | Raise) -> None:
        """Do what needs no candidate: wait, or raise."""
        if isinstance(action, Sleep):
            await self.clock.sleep(action.seconds)
        elif isinstance(action, AwaitTurn):
            await self._turn(call, action)
        else:
            raise_now(action)

    async def _turn(self, call: FailoverCall, action: AwaitTurn) -> None:
        """Wait in the queue for a provider whose pace is limited."""
        started = self.clock.monotonic()
        try:
            await self._line(action.visit.stop).turn(action)
        except ReliableLLMError as error:
            call.gave_up(error)
        call.waited(self.clock.monotonic() - started)

    def _line(self, stop: Stop) -> Line:
        self._on_this_loop()
        line = self._lines.get(stop.provider)
        if line is None:
            assert stop.health.pace is not None  # noqa: S101 - only those have a queue
            line = self._lines[stop.provider] = Line(stop.health.pace, self.clock)
        return line

    def _on_this_loop(self) -> None:
        """Begin anew with what belongs to an event loop, where it is another one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._unlimited, self._places, self._lines = loop, set(), {}, {}

    async def _attempt(
        self,
        call: FailoverCall,
        action: StartAttempt,
        request: ChatRequest,
        cache: PreparedRequests,
        repairs: Repairs | None,
    ) -> ChatReply | None:
        """Make one attempt and report it; return the reply, or None where the call goes on."""
        clock = self.clock
        if repairs is not None:
            request = repairs.request_for(action.stop.candidate)
        prepared = self.prepared(call, action, request, cache)
        if prepared is None:
            return None
        leave = nothing if self._is_ready(action) else await self.enter(call, action)
        if leave is None:
            return None
        started = clock.monotonic()
        try:
            self.announce(call, action, request.tags)
            answer = await self._send(action, prepared, started)
            if action.ticket is not None:
                self.hear(action, answer, answer.headers)
            _refuse_refusal(answer, call)
            parsed = None if repairs is None else repairs.read(action.stop.candidate, answer)
        except ReliableLLMError as error:
            if error.kind is Kind.INVALID_OUTPUT:
                cache.clear()  # the next request to this candidate holds the bad answer
            call.failed(action, clock.monotonic(), started, error, clock.random())
            return None
        except BaseException:
            call.abandoned(action, clock.monotonic(), started)
            raise
        finally:
            leave()
        ended = clock.monotonic()
        self.observe(action, ended - started)
        call.succeeded(action, ended, started, usage=answer.usage, request_id=answer.request_id)
        reply = self.reply_of(call, action, answer, prepared, ended - started)
        if repairs is not None:
            reply.parsed, reply.usage = parsed, repairs.usage(action.stop.candidate, answer.usage)
        return reply

    def hear(self, action: StartAttempt, answer: AdapterReply, headers: Mapping[str, str]) -> None:
        """Learn the limits of a key from an answer, and what the attempt has used of them."""
        from reliable_llm.core.rate_headers import reported

        pace = action.stop.health.pace
        if pace is None or action.ticket is None:
            return
        if headers:
            said = reported(headers, self.clock.time())
            pace.hear(action.key_place, action.stop.model, said, self.clock.monotonic())
        used = answer.usage
        if used is not None and used.input_tokens is not None and used.output_tokens is not None:
            pace.settle(action.ticket, used.input_tokens + used.output_tokens)

    async def _send(self, action: StartAttempt, prepared: Prepared, now: float) -> AdapterReply:
        """Send once, within the attempt's timeout and what the deadline leaves."""
        timeouts = self.timeouts(action)
        seconds, by_deadline = time_limit(action, now, timeouts.attempt)
        try:
            async with asyncio.timeout(seconds):
                return await self.adapter(action.stop.provider).complete(prepared, self.key(action), timeouts)
        except TimeoutError as error:
            if isinstance(error, ReliableLLMError):
                raise
            raise late(action, by_deadline=by_deadline) from error

    # ---------------------------------------------------------------- parts of an attempt, shared with streams

    def prepared(
        self,
        call: FailoverCall,
        action: StartAttempt,
        request: ChatRequest,
        cache: PreparedRequests,
        *,
        stream: bool = False,
    ) -> Prepared | None:
        """Return the request in the candidate's terms, made once per candidate; None where it cannot be."""
        stop = action.stop
        place = stop, action.without, action.cuts
        found = cache.get(place)
        if found is None:
            target = Target(candidate=stop.candidate, model_id=stop.model_id)
            try:
                adapter = self.adapter(stop.provider)
                wanted = request if action.cuts == 0 else _shortened(request, call, action)
                found = adapter.prepare(wanted, target, stream=stream, without=action.without)
                if request.strict:
                    refuse_losses(found)
            except UnsupportedFeatureError as error:
                call.refused(action, error)
                return None
            except BaseException:
                call.withdrawn(action)
                raise
            cache[place] = found
        return found

    async def enter(self, call: FailoverCall, action: StartAttempt) -> Callable[[], None] | None:
        """Get ready to send: the vendor's SDK loaded, one of the provider's places taken.

        Both wait within the deadline and outside the attempt's timeout: neither is the vendor's fault. Return what to
        call on leaving; None where nothing may be sent any more: the time is up, the key rests by now, or another
        process makes this probe.
        """
        if self._is_ready(action):
            return nothing
        try:
            async with asyncio.timeout(None if action.until is None else action.until - self.clock.monotonic()):
                leave = await self._place(action.stop.provider)
        except TimeoutError:
            _out_of_time(call, action)
            return None
        except BaseException:
            call.withdrawn(action)
            raise
        leave = leave if action.ticket is None else self._settling(action, leave)
        if still_holds(action.stop, action.permit):
            return await self._claimed(call, action, leave) if self.must_claim(action) else leave
        leave()
        call.withdrawn(action)
        return None

    async def _claimed(
        self, call: FailoverCall, action: StartAttempt, leave: Callable[[], None]
    ) -> Callable[[], None] | None:
        """Ask the other processes for the right to a probe; bounded by the store's own timeout."""
        assert self.member is not None  # noqa: S101 - must_claim has looked
        try:
            release = await self.member.claim(action.stop, action.permit, self.timeouts(action).attempt)
        except BaseException:
            call.withdrawn(action)
            leave()
            raise
        if release is None:
            call.ceded(action, self.clock.monotonic() + PROBE_POLL)
            leave()
            return None

        def over() -> None:
            leave()
            release()

        return over

    def _settling(self, action: StartAttempt, leave: Callable[[], None]) -> Callable[[], None]:
        """Return what gives back what an attempt holds of a limited pace, too, and lets the next one look."""
        pace, ticket, line = action.stop.health.pace, action.ticket, self._line(action.stop)

        def leave_all() -> None:
            leave()
            if pace is not None and ticket is not None:
                pace.settle(ticket, None)
            line.look()

        return leave_all

    def must_claim(self, action: Action) -> bool:
        """Tell whether an action is a probe that only one of many processes may make."""
        return self.member is not None and isinstance(action, StartAttempt) and action.permit.probe

    def _is_ready(self, action: StartAttempt) -> bool:
        """Tell whether an attempt need not wait for anything: SDK loaded, no limit, nobody to ask."""
        if (
            action.ticket is not None
            or action.stop.provider not in self._unlimited
            or self._loop is not asyncio.get_running_loop()
        ):
            return False
        return not self.must_claim(action)

    async def _place(self, provider: str) -> Callable[[], None]:
        limit = self._providers[provider].max_concurrency
        self._on_this_loop()
        await self.adapter(provider).warmup()
        if limit is None:
            self._unlimited.add(provider)
            return nothing
        places = self._places.setdefault(provider, asyncio.Semaphore(limit))
        await places.acquire()
        return places.release

    def reply_of(
        self, call: FailoverCall, action: StartAttempt, answer: AdapterReply, prepared: Prepared, elapsed: float
    ) -> ChatReply:
        """Return the reply of the attempt that answered."""
        stop = action.stop
        label = stop.health.ring.labels[action.key_place]
        first = call.requested
        if answer.attempts:
            open_up(call.attempts, answer.attempts)
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
            dropped=tuple(dict.fromkeys(prepared.dropped + answer.dropped)),
            context_truncated=action.cuts > 0,
            finish_detail=answer.finish_detail,
            raw_reply=answer.raw,
        )

    def key(self, action: StartAttempt) -> Credential:
        """Return the key that an attempt uses."""
        return self._providers[action.stop.provider].keys[action.key_place]

    def timeouts(self, action: StartAttempt) -> Timeouts:
        """Return the timeouts of the attempt's provider."""
        return self._providers[action.stop.provider].timeouts

    def adapter(self, provider: str) -> Adapter:
        """Return the provider's adapter, built when first needed."""
        adapter = self._adapters.get(provider)
        if adapter is None:
            adapter = self._adapters[provider] = self._providers[provider].adapter(self.clock)
        return adapter

    async def aclose(self) -> None:
        """Leave the store, and close the connection pools."""
        if self.member is not None:
            await self.member.aclose()
        for adapter in self._adapters.values():
            await adapter.aclose()

    # ---------------------------------------------------------------- listeners

    def announce(self, call: FailoverCall, action: StartAttempt, tags: Mapping[str, str]) -> None:
        """Tell that an attempt starts, if anybody wants to know."""
        self.emit(call.events, tags)
        if self._listens_to(events.DEBUG):
            stop = action.stop
            label = stop.health.ring.labels[action.key_place]
            started = events.AttemptStarted(stop.provider, stop.model, label, action.number, action.permit.probe)
            self.emit([started], tags)

    def emit(self, happened: list[Event], tags: Mapping[str, str]) -> None:
        """Hand events on and clear the list."""
        if not happened:
            return
        for event in happened:
            self._log(event, tags)
            if self.member is not None:
                self.member(event, tags)
            for listener in self._listeners:
                try:
                    listener(event, tags)
                except Exception as error:  # noqa: BLE001 - whoever listens in must not fail the call
                    self._log.listener_failed(listener, error)
        happened.clear()

    def _listens_to(self, level: int) -> bool:
        return bool(self._listeners) or self._log.wants(level)


# English prose has about four characters to a token; the estimate is corrected when the usage is known.
_CHARACTERS_PER_TOKEN: Final = 4


def _demand(request: ChatRequest, priority: int) -> Demand:
    """Estimate what a request needs: its text, and the output asked for."""
    characters = sum(len(text) for text in text_of(request.messages))
    return Demand(characters / _CHARACTERS_PER_TOKEN + (request.max_tokens or 0), priority)


def time_limit(action: StartAttempt, now: float, limit: float) -> tuple[float, bool]:
    """Return the seconds that an attempt may take, and whether it is the deadline that says so."""
    if action.until is not None and action.until - now <= limit:
        return action.until - now, True
    return limit, False


def late(action: StartAttempt, *, by_deadline: bool) -> ReliableLLMError:
    """Return the error of an attempt that was cut off: by the caller's deadline, or by its own timeout."""
    if not by_deadline or action.reserved:
        return AttemptTimeoutError()
    error = DeadlineExceededError()
    error.where = str(action.stop.candidate)
    return error


def _out_of_time(call: FailoverCall, action: StartAttempt) -> None:
    """End the call that has waited for its turn until the deadline; or go on, where others have time of their own."""
    if action.reserved:
        call.crowded_out(action)
        return
    error = DeadlineExceededError("the deadline passed while the call waited for its turn (max_concurrency)")
    error.where = "local_queue"
    call.withdrawn(action, error)


def raise_now(action: Raise) -> None:
    """Raise the error of a call that has failed."""
    raise action.error


def _repairs(request: ChatRequest, output: OutputSchema) -> Repairs:
    from reliable_llm.structured import Repairs

    return Repairs(request, output)


def _shortened(request: ChatRequest, call: FailoverCall, action: StartAttempt) -> ChatRequest:
    """Return *request* with its history cut, and tell so."""
    messages = cut(request.messages, action.cuts)
    dropped = len(request.messages) - len(messages)
    call.events.append(events.ContextTruncated(action.stop.provider, action.stop.model, dropped))
    return replace(request, messages=messages)


def refuse_losses(prepared: Prepared) -> None:
    """Raise `UnsupportedFeatureError` where something would be lost in translation."""
    if prepared.dropped:
        lost = f"no word for {', '.join(prepared.dropped)}"
        verdict = replace(default_verdict(Kind.UNSUPPORTED, rule="strict"), feature=lost)
        raise UnsupportedFeatureError("strict: something would be lost in translation", verdict=verdict)


def nothing() -> None:
    """Leave a provider that has no limit."""


def _refuse_refusal(answer: AdapterReply, call: FailoverCall) -> None:
    """Turn a refusal into a failure where the caller wants to fail over on one; by default it is an answer."""
    refused = answer.finish_reason in (FinishReason.REFUSAL, FinishReason.CONTENT_FILTER)
    if refused and call.fails_over_on(Kind.CONTENT_POLICY):
        error = ContentPolicyError(usage=answer.usage)
        error.request_id = answer.request_id
        raise error
