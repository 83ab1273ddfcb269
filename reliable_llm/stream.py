"""ChatStream: one streamed answer that fails over until its first output, and never lies about its end.

Before the first output (text, reasoning or a tool call) every failure is handled as in a plain call. After it, the
stream either ends with the vendor's terminal event or raises `StreamInterruptedError` with what came. Silence is
bounded: `first_token` up to the first output, `idle` between any two signs of life, the caller's `deadline` over all;
only time spent waiting for the vendor counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from reliable_llm.answers import hear, reply_of
from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.route import Stop
from reliable_llm.driver import Driver
from reliable_llm.errors import ConfigurationError, DeadlineExceededError, ReliableLLMError, StreamInterruptedError
from reliable_llm.hedged import in_order, merged, race
from reliable_llm.opened import OpenAttempt
from reliable_llm.preparing import PreparedRequests, prepare_once
from reliable_llm.told import Told
from reliable_llm.types import (
    AdapterReply,
    Attempt,
    ChatReply,
    ChatRequest,
    Finished,
    Message,
    ServedBy,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Usage,
)

if TYPE_CHECKING:
    from reliable_llm.policy import RetryPolicy

OnInterrupt: TypeAlias = Literal["raise", "restart", "continue"]

_GO_ON: Final = "Continue your answer exactly where it broke off. Do not repeat any of it and do not comment on this."


class ChatStream:
    """Use it as `async with chat.stream(...) as stream: async for event in stream: ...`.

    Entering returns when the first output is there, or raises what a plain call would raise. `served_by` tells who
    answers. `text_stream` yields text only. `await stream.reply()` reads to the end and returns the assembled answer.
    """

    def __init__(
        self,
        driver: Driver,
        request: ChatRequest,
        stops: Sequence[Stop],
        retry: RetryPolicy,
        deadline: float | None,
        on_interrupt: OnInterrupt,
        *,
        affinity: str | None = None,
        priority: int = 0,
        is_hedge: bool = False,
    ) -> None:
        self._driver = driver
        self._stops = stops
        self._began = 0.0
        self._first_output: float | None = None
        self._request = request
        self._asked = request
        self._deadline = deadline
        self._on_interrupt = on_interrupt
        self._call = driver.call(
            request, stops, retry, deadline, affinity=affinity, priority=priority, stream=True, is_hedge=is_hedge
        )
        self._hedge_delay = None if is_hedge else driver.hedge_delay(request, stops)
        self._second = (
            None
            if self._hedge_delay is None
            else ChatStream(
                driver,
                request,
                stops[1:],
                retry,
                deadline,
                on_interrupt,
                affinity=affinity,
                priority=priority,
                is_hedge=True,
            )
        )
        self._cache: PreparedRequests = {}
        self._open: OpenAttempt | None = None
        self._told = Told(structured=request.output is not None)
        self._answer: AdapterReply | None = None
        self._reply: ChatReply | None = None
        self._lost: tuple[Attempt, ...] = ()
        self._left_with: Usage | None = None
        self.served_by: ServedBy | None = None

    # ---------------------------------------------------------------- the caller's side

    async def __aenter__(self) -> Self:
        teller, clock = self._driver.announcer.teller, self._driver.clock
        if not teller:
            return await self._enter()
        self._request = self._asked = teller.own(self._asked)
        if self._second is not None:
            self._second._request = self._second._asked = self._request  # noqa: SLF001 - of the same class
        self._began = clock.monotonic()
        teller.begin(self._request, self._stops, stream=True)
        try:
            await self._enter()
        except BaseException as error:
            teller.failed(self._request, error, self._call.attempts, clock.monotonic() - self._began, None)
            raise
        self._first_output = clock.monotonic() - self._began
        return self

    async def _enter(self) -> Self:
        if self._second is None or self._hedge_delay is None:
            await self.until_output()
            return self
        second, hedges = self._second, self._driver.hedges_of()
        try:
            _, hedged = await race(self.until_output, second.until_output, self._hedge_delay, hedges, call=self._call)
        except ReliableLLMError as error:
            error.attempts = in_order(self._call.attempts, second._call.attempts)  # noqa: SLF001 - of the same class
            raise
        except BaseException:
            await self._abandon()
            await second._abandon()  # noqa: SLF001 - of the same class
            raise
        # Who lost may have had its first output in the same moment: it is closed all the same.
        await (self if hedged else second)._abandon()  # noqa: SLF001 - of the same class
        if hedged:
            self._change_to(second)
        else:
            self._lost = tuple(second._call.attempts)  # noqa: SLF001 - of the same class
        return self

    def _change_to(self, other: ChatStream) -> None:
        """Go on as *other*, whose first output came first; what this one tried stays in the ledger."""
        self._lost = tuple(self._call.attempts)
        self._call, self._cache, self._open, self._told = other._call, other._cache, other._open, other._told
        self._answer, self._reply, self.served_by = other._answer, other._reply, other.served_by

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            await self._abandon()
        finally:
            self._tell_end(error)

    def _tell_end(self, error: BaseException | None) -> None:
        teller = self._driver.announcer.teller
        if not teller:
            return
        elapsed = self._driver.clock.monotonic() - self._began
        if self._reply is not None:
            teller.answered(self._request, self._reply, elapsed, self._first_output)
        else:
            teller.failed(self._request, error, self._call.attempts, elapsed, self._first_output)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._told.pending:
            if self.served_by is None:
                raise ConfigurationError("a stream is opened first: async with chat.stream(...) as stream")
            if self._answer is not None or self._open is None:
                raise StopAsyncIteration
            await self._pull(self._open)
        return self._told.pending.popleft()

    @property
    async def text_stream(self) -> AsyncIterator[str]:
        """The text alone, as it comes."""
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def reply(self) -> ChatReply:
        """Read what is left and return the whole answer."""
        async for _ in self:
            pass
        if self._reply is None:
            raise StreamInterruptedError("the stream was left before its end: there is no whole answer")
        return self._reply

    @property
    def usage(self) -> Usage | None:
        """What the vendor has reported so far; `partial` until the end, and for ever where the stream was left."""
        if self._answer is not None:
            return self._answer.usage
        return self._left_with if self._open is None else self._open.usage

    @property
    def text(self) -> str:
        """The text delivered so far."""
        return self._told.text

    # ---------------------------------------------------------------- up to the first output

    async def until_output(self) -> None:
        """Do what the machine says until an attempt has given its first output."""
        clock = self._driver.clock
        while True:
            action = self._driver.next(self._call, clock.monotonic())
            if not self._driver.entrance.must_claim(action):
                self._emit()
            if isinstance(action, StartAttempt):
                if await self._start(action):
                    return
            else:
                await self._driver.carry_out(self._call, action)

    async def _start(self, action: StartAttempt) -> bool:
        """Make one attempt up to its first output; tell whether it got there."""
        driver = self._driver
        streamed = "streaming" not in action.without
        prepared = prepare_once(driver.entrance, self._call, action, self._request, self._cache, stream=streamed)
        leave = None if prepared is None else await driver.entrance.enter(self._call, action)
        if prepared is None or leave is None:
            return False
        attempt = OpenAttempt(driver, action, prepared, leave)
        try:
            attempt.told = driver.announcer.announce(self._call, action, self._request.tags)
            first = await attempt.first_output()
        except ReliableLLMError as error:
            self._call.failed(action, driver.clock.monotonic(), attempt.started, error, driver.clock.random())
            self._emit()
            await attempt.close()
            return False
        except BaseException:
            self._call.abandoned(action, driver.clock.monotonic(), attempt.started)
            await attempt.close()
            raise
        self._commit(attempt, first)
        return True

    def _commit(self, attempt: OpenAttempt, first: Sequence[StreamEvent]) -> None:
        """From here on, what comes reaches the caller."""
        self._open = attempt
        self._driver.observe(attempt.action, self._driver.clock.monotonic() - attempt.started)
        self.served_by = attempt.served_by
        self._told.add(Started(self.served_by, None if attempt.source is None else attempt.source.model))
        for event in first:
            self._deliver(attempt, event)

    # ---------------------------------------------------------------- after it

    async def _pull(self, attempt: OpenAttempt) -> None:
        """Wait for the next event of the open stream and deliver it."""
        try:
            event = await attempt.next_event(self._deadline)
        except ReliableLLMError as error:
            await self._break(attempt, error)
        except BaseException:
            await self._abandon()
            raise
        else:
            self._deliver(attempt, event)
            if self._answer is not None:
                await attempt.close()

    def _deliver(self, attempt: OpenAttempt, event: StreamEvent) -> None:
        if isinstance(event, Finished):
            self._told.release_head()
            self._finish(attempt, event)
        self._told.add(event)

    def _finish(self, attempt: OpenAttempt, event: Finished) -> None:
        """The vendor's terminal event has come: record the success and make up the reply."""
        driver, source = self._driver, attempt.source
        if source is None:
            raise RuntimeError("events come from an open source")
        answer = source.reply()
        if self._told.carried:
            others = (part for part in answer.parts if not isinstance(part, Text))
            answer = replace(answer, parts=(Text(self.text), *others))
        hear(driver.clock, attempt.action, answer, source.headers)
        now = driver.clock.monotonic()
        self._answer = answer
        parsed = self._parsed(attempt, answer, now)
        usage = event.usage or answer.usage
        self._call.succeeded(attempt.action, now, attempt.started, usage=usage, request_id=answer.request_id)
        if attempt.told:
            driver.announcer.answered(self._call, attempt.action, now - attempt.started)
        reply = reply_of(self._call, attempt.action, answer, attempt.prepared)
        self._reply = merged(reply, (self._lost, reply.attempts)) if self._lost else reply
        self._reply.parsed = parsed
        self._emit()

    def _parsed(self, attempt: OpenAttempt, answer: AdapterReply, now: float) -> object:
        """Return the structured answer. What does not fit has been shown already: it is raised, not repaired."""
        if self._asked.output is None:
            return None
        from reliable_llm.structured import read

        try:
            return read(answer, self._asked.output)
        except ReliableLLMError as error:
            broken = self._call.broke_off(attempt.action, now, attempt.started, error)
            self._emit()
            raise broken from None

    # ---------------------------------------------------------------- when it breaks

    async def _break(self, attempt: OpenAttempt, error: ReliableLLMError) -> None:
        """The stream broke after output: raise, or go on elsewhere if the caller wants that."""
        now = self._driver.clock.monotonic()
        self._open = None
        if isinstance(error, StreamInterruptedError | DeadlineExceededError):
            error.partial_text = self.text
        if not self._may_go_on(error):
            broken = self._call.broke_off(attempt.action, now, attempt.started, error)
            self._emit()
            broken.attempts = in_order(self._lost, broken.attempts)
            await attempt.close()
            raise broken
        self._call.failed(attempt.action, now, attempt.started, error, self._driver.clock.random())
        self._emit()
        await attempt.close()
        shown = self.text
        self._prepare_to_go_on(error)
        try:
            await self.until_output()
        except ReliableLLMError as failed:
            failed.attempts = in_order(self._lost, failed.attempts)
            if isinstance(failed, StreamInterruptedError | DeadlineExceededError):
                failed.partial_text = self.text or shown
            raise

    def _may_go_on(self, error: ReliableLLMError) -> bool:
        if not isinstance(error, StreamInterruptedError):
            return False
        if self._on_interrupt == "continue":
            return not self._told.structured and bool(self.text)
        return self._on_interrupt == "restart"

    def _prepare_to_go_on(self, error: ReliableLLMError) -> None:
        """Announce what follows before any of it comes."""
        cause = (error.cause_kind if isinstance(error, StreamInterruptedError) else None) or error.kind
        self._cache.clear()
        if self._on_interrupt == "restart":
            self._told.restart(cause, structured=self._asked.output is not None)
            return
        self._told.go_on(cause)
        more = (Message("assistant", self._told.carried), Message("user", _GO_ON))
        self._request = replace(self._asked, messages=self._asked.messages + more)

    async def _abandon(self) -> None:
        """The caller leaves: nobody is to blame."""
        attempt, self._open = self._open, None
        if attempt is None:
            return
        if self._answer is None:
            self._left_with = attempt.usage
            now = self._driver.clock.monotonic()
            self._call.abandoned(attempt.action, now, attempt.started, usage=self._left_with)
            self._emit()
        await attempt.close()

    def _emit(self) -> None:
        self._driver.announcer.emit(self._call.events, self._request.tags)
