"""Between the decision to ask a candidate and the request: SDK loaded, place taken, turn awaited, probe claimed.

Adapters live here, and what belongs to an event loop: places, queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reliable_llm.core.actions import Action, AwaitTurn, StartAttempt
from reliable_llm.core.memory import still_holds
from reliable_llm.core.waiting import PROBE_POLL
from reliable_llm.errors import DeadlineExceededError, ReliableLLMError
from reliable_llm.line import Line
from reliable_llm.time_limits import TimeLimits

if TYPE_CHECKING:
    from reliable_llm.adapters.base import Adapter
    from reliable_llm.clock import Clock
    from reliable_llm.core.failover import FailoverCall
    from reliable_llm.core.route import Stop
    from reliable_llm.credentials import Credential
    from reliable_llm.policy import Timeouts
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import Member


class Access(NamedTuple):
    """What attempts at one provider are made with: `limits` bounds whole ones, `silences` the pauses of a stream."""

    adapter: Adapter
    keys: Sequence[Credential]
    timeouts: Timeouts
    limits: TimeLimits
    silences: TimeLimits


class Entrance:
    """The way in to every provider of one coordinator. `member` is set where a store of health is shared."""

    def __init__(self, providers: Mapping[str, Provider], clock: Clock) -> None:
        self.member: Member | None = None
        self.closed = False
        self._providers = providers
        self._clock = clock
        self._accesses: dict[str, Access] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unlimited: set[str] = set()
        self._places: dict[str, asyncio.Semaphore] = {}
        self._lines: dict[str, Line] = {}

    def access(self, provider: str) -> Access:
        """Return what attempts at a provider are made with; its adapter is built when first needed."""
        access = self._accesses.get(provider)
        if access is None:
            given = self._providers[provider]
            timeouts = given.timeouts
            limits, silences = TimeLimits(timeouts.attempt), TimeLimits(timeouts.idle)
            access = Access(given.adapter(self._clock), given.keys, timeouts, limits, silences)
            self._accesses[provider] = access
        return access

    # ---------------------------------------------------------------- a turn in the queue

    async def turn(self, call: FailoverCall, action: AwaitTurn) -> None:
        """Wait in the queue for a provider whose pace is limited."""
        started = self._clock.monotonic()
        try:
            await self._line(action.visit.stop).turn(action)
        except ReliableLLMError as error:
            call.gave_up(error)
        call.waited(self._clock.monotonic() - started)

    def _line(self, stop: Stop) -> Line:
        self._on_this_loop()
        line = self._lines.get(stop.provider)
        if line is None:
            assert stop.health.pace is not None  # noqa: S101 - only those have a queue
            line = self._lines[stop.provider] = Line(stop.health.pace, self._clock)
        return line

    def _on_this_loop(self) -> None:
        """Begin anew with what belongs to an event loop, where it is another one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._unlimited, self._places, self._lines = set(), {}, {}

    # ---------------------------------------------------------------- in, and out again

    def is_open(self, action: StartAttempt) -> bool:
        """Tell whether an attempt need not wait for anything: SDK loaded, no limit, nobody to ask."""
        return (
            action.ticket is None
            and action.stop.provider in self._unlimited
            and self._loop is asyncio.get_running_loop()
            and not self.must_claim(action)
        )

    async def enter(self, call: FailoverCall, action: StartAttempt) -> Callable[[], None] | None:
        """Get ready to send: the vendor's SDK loaded, one of the provider's places taken.

        Both wait within the deadline and outside the attempt's timeout: neither is the vendor's fault. Return what to
        call on leaving; None where nothing may be sent any more: the time is up, the key rests by now, the coordinator
        was closed, or another process makes this probe.
        """
        if self.is_open(action):
            return nothing
        try:
            async with asyncio.timeout(None if action.until is None else action.until - self._clock.monotonic()):
                leave = await self._place(action.stop.provider)
        except TimeoutError:
            _out_of_time(call, action)
            return None
        except BaseException:
            call.withdrawn(action)
            raise
        leave = leave if action.ticket is None else self._settling(action, leave)
        if still_holds(action.stop, action.permit) and not self.closed:
            return await self._claimed(call, action, leave) if self.must_claim(action) else leave
        call.withdrawn(action)  # first: what is left is counted as sent
        leave()
        return None

    async def _claimed(
        self, call: FailoverCall, action: StartAttempt, leave: Callable[[], None]
    ) -> Callable[[], None] | None:
        """Ask the other processes for the right to a probe; bounded by the store's own timeout."""
        assert self.member is not None  # noqa: S101 - must_claim has looked
        try:
            release = await self.member.claim(
                action.stop, action.permit, self.access(action.stop.provider).timeouts.attempt
            )
        except BaseException:
            call.withdrawn(action)
            leave()
            raise
        if release is None:
            call.ceded(action, self._clock.monotonic() + PROBE_POLL)
            leave()
            return None

        def over() -> None:
            leave()
            release()

        return over

    def _settling(self, action: StartAttempt, leave: Callable[[], None]) -> Callable[[], None]:
        """Return what gives back what an attempt holds of a limited pace, too, and lets the next one look."""
        pace, ticket, line = action.stop.health.pace, action.ticket, self._line(action.stop)
        if pace is not None and ticket is not None:
            pace.begin(ticket, self._clock.monotonic())

        def leave_all() -> None:
            leave()
            if pace is not None and ticket is not None:
                pace.settle(ticket, None)
            line.look()

        return leave_all

    def must_claim(self, action: Action) -> bool:
        """Tell whether an action is a probe that only one of many processes may make."""
        return self.member is not None and isinstance(action, StartAttempt) and action.permit.probe

    async def _place(self, provider: str) -> Callable[[], None]:
        limit = self._providers[provider].max_concurrency
        self._on_this_loop()
        await self.access(provider).adapter.warmup()
        if limit is None:
            self._unlimited.add(provider)
            return nothing
        places = self._places.setdefault(provider, asyncio.Semaphore(limit))
        await places.acquire()
        return places.release

    async def aclose(self) -> None:
        """Leave the store, and close the connection pools."""
        self.closed = True
        if self.member is not None:
            await self.member.aclose()
        for access in self._accesses.values():
            await access.adapter.aclose()


def _out_of_time(call: FailoverCall, action: StartAttempt) -> None:
    """End the call that has waited for its turn until the deadline; or go on, where others have time of their own."""
    if action.reserved:
        call.crowded_out(action)
        return
    error = DeadlineExceededError("the deadline passed while the call waited for its turn (max_concurrency)")
    error.where = "local_queue"
    call.withdrawn(action, error)


def nothing() -> None:
    """Leave a provider that has no limit."""
