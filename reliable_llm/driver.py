"""Carries out what the machine of a call says: awaits without deciding.

Plain calls run here; `ChatStream` uses the same parts: the machines of calls, the entrance to each provider (adapters,
keys, places) and the announcer (log, listeners).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from reliable_llm.adapters.base import Prepared
from reliable_llm.announcer import Announcer
from reliable_llm.answers import hear, is_refusal, refused, reply_of
from reliable_llm.clock import Clock
from reliable_llm.core.actions import Action, AwaitTurn, Raise, Sleep, StartAttempt
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.failover import FailoverCall
from reliable_llm.core.hedge import Hedges
from reliable_llm.core.pacing import Demand
from reliable_llm.core.route import Stop
from reliable_llm.core.timing import late, time_limit
from reliable_llm.core.truncation import possible_cuts
from reliable_llm.entrance import Entrance, nothing
from reliable_llm.errors import ClosedError, Kind, ReliableLLMError
from reliable_llm.hedged import in_order, may_hedge, merged, race
from reliable_llm.needs import RequestNeeds
from reliable_llm.policy import BudgetPolicy, HedgePolicy, RecoveryPolicy, RetryPolicy
from reliable_llm.preparing import PreparedRequests, prepare_once
from reliable_llm.types import AdapterReply, ChatReply, ChatRequest, text_of

if TYPE_CHECKING:
    from reliable_llm.calls import CallTeller
    from reliable_llm.events import Listener
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import Member
    from reliable_llm.structured import Repairs
    from reliable_llm.types import OutputSchema


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
        self.entrance = Entrance(providers, clock)
        self.announcer = Announcer(listeners)
        self.paced = any(provider.limits is not None for provider in providers.values())

    def join(self, member: Member) -> None:
        """From now on, share with other processes what is known about keys."""
        self.entrance.member = self.announcer.member = member

    # ---------------------------------------------------------------- a plain call

    def run(
        self,
        request: ChatRequest,
        stops: Sequence[Stop],
        retry: RetryPolicy,
        deadline: float | None,
        *,
        affinity: str | None = None,
        priority: int = 0,
    ) -> Coroutine[object, object, ChatReply]:
        """Return the call to await: the answer to *request*. It raises what `FailoverChat.__call__` raises."""
        teller = self.announcer.teller
        if teller is not None:
            request = teller.own(request)
        call = self.call(request, stops, retry, deadline, affinity=affinity, priority=priority)
        delay = self.hedge_delay(request, stops)
        if delay is None:
            answer = self._drive(call, request)
        else:
            second = self.call(request, stops[1:], retry, deadline, affinity=affinity, priority=priority, is_hedge=True)
            answer = self._hedge(call, second, request, delay)
        return answer if teller is None else self._tell(teller, answer, request, stops)

    async def _tell(
        self,
        teller: CallTeller,
        answer: Coroutine[object, object, ChatReply],
        request: ChatRequest,
        stops: Sequence[Stop],
    ) -> ChatReply:
        """Await *answer*, and tell those who want to know of whole calls."""
        started = self.clock.monotonic()
        teller.begin(request, stops, stream=False)
        try:
            reply = await answer
        except BaseException as error:
            teller.failed(request, error, (), self.clock.monotonic() - started, None)
            raise
        teller.answered(request, reply, self.clock.monotonic() - started, None)
        return reply

    async def _hedge(self, call: FailoverCall, second: FailoverCall, request: ChatRequest, delay: float) -> ChatReply:
        """Start *second* beside *call* if that has no answer after *delay* seconds."""
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
        return replace(reply, requested=call.requested) if hedged else reply

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
        if self.entrance.member is not None:
            self.entrance.member.wake()
        now, needs = self.clock.monotonic(), RequestNeeds(request, stream)
        prefer = None if affinity is None else crc32(affinity.encode())
        cuts = possible_cuts(request.messages) if request.truncate else 0
        demand = _demand(request, priority) if self.paced else None
        # By position: every keyword to a class costs as much as the rest of a line, and this is on every call's way.
        return FailoverCall(
            stops, now, retry, self.recovery, needs, deadline, self.budget, prefer, cuts, demand, is_hedge
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
        happened = call.events
        prepared: PreparedRequests = {}
        repairs = None if request.output is None else _repairs(request, request.output)
        while True:
            action = self.next(call, now)
            if happened and not self.entrance.must_claim(action):
                self.announcer.emit(happened, request.tags)
            if isinstance(action, StartAttempt):
                reply = await self._attempt(call, action, request, prepared, repairs)
                if happened:
                    self.announcer.emit(happened, request.tags)
                if reply is not None:
                    return reply
            else:
                await self.carry_out(call, action)
            now = clock.monotonic()

    def next(self, call: FailoverCall, now: float) -> Action:
        """Return what the machine says; raise `ClosedError` where the coordinator was closed since: nothing starts."""
        if self.entrance.closed:
            error = ClosedError("this FailoverChat was closed while the call was under way")
            error.attempts = tuple(call.attempts)
            raise error
        return call.next(now, self.clock.random())

    async def carry_out(self, call: FailoverCall, action: Sleep | AwaitTurn | Raise) -> None:
        """Do what needs no candidate: wait, or raise."""
        if isinstance(action, Sleep):
            await self.clock.sleep(action.seconds)
        elif isinstance(action, AwaitTurn):
            await self.entrance.turn(call, action)
        else:
            raise action.error

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
        prepared = prepare_once(self.entrance, call, action, request, cache)
        if prepared is None:
            return None
        leave = nothing if self.entrance.is_open(action) else await self.entrance.enter(call, action)
        if leave is None:
            return None
        started = clock.monotonic()
        try:
            told = self.announcer.announce(call, action, request.tags)
            answer = await self._send(action, prepared, started)
            parsed = self._examined(call, action, answer, repairs)
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
        if told:
            self.announcer.answered(call, action, ended - started)
        reply = reply_of(call, action, answer, prepared)
        if repairs is not None:
            reply.parsed, reply.usage = parsed, repairs.usage(action.stop.candidate, answer.usage)
        return reply

    def _examined(
        self, call: FailoverCall, action: StartAttempt, answer: AdapterReply, repairs: Repairs | None
    ) -> object:
        """Return the structured answer, if one was asked for; raise where the answer counts as a failure."""
        if action.ticket is not None:
            hear(call, self.clock, action, answer, answer.headers)
        if is_refusal(answer) and call.fails_over_on(Kind.CONTENT_POLICY):
            raise refused(answer)
        return None if repairs is None else repairs.read(action.stop.candidate, answer)

    async def _send(self, action: StartAttempt, prepared: Prepared, now: float) -> AdapterReply:
        """Send once, within the attempt's timeout and what the deadline leaves."""
        access = self.entrance.access(action.stop.provider)
        seconds, by_deadline = time_limit(action, now, access.timeouts.attempt)
        answer = access.adapter.complete(prepared, access.keys[action.key_place], access.timeouts)
        try:
            if by_deadline:
                async with asyncio.timeout(seconds):
                    return await answer
            with access.limits.begin():
                return await answer
        except TimeoutError as error:
            if isinstance(error, ReliableLLMError):
                raise
            raise late(action, by_deadline=by_deadline) from error

    async def aclose(self) -> None:
        """Leave the store, and close the connection pools."""
        await self.entrance.aclose()


# English prose has about four characters to a token; the estimate is corrected when the usage is known.
_CHARACTERS_PER_TOKEN: Final = 4


def _demand(request: ChatRequest, priority: int) -> Demand:
    """Estimate what a request needs: its text, and the output asked for."""
    characters = sum(len(text) for text in text_of(request.messages))
    return Demand(characters / _CHARACTERS_PER_TOKEN + (request.max_tokens or 0), priority)


def _repairs(request: ChatRequest, output: OutputSchema) -> Repairs:
    from reliable_llm.structured import Repairs

    return Repairs(request, output)
