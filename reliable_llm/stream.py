"""ChatStream: one streamed answer that fails over until its first output, and never lies about its end.

Before the first output (text, reasoning or a tool call) every failure is handled as in a plain call. After it, the
stream either ends with the vendor's terminal event or raises `StreamInterruptedError` with what came. Silence is
bounded: `first_token` up to the first output, `idle` between any two signs of life, the caller's `deadline` over all;
only time spent waiting for the vendor counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from reliable_llm.core.actions import Sleep, StartAttempt
from reliable_llm.core.overlap import WINDOW, without_overlap
from reliable_llm.core.route import Stop
from reliable_llm.driver import Driver, PreparedRequests, late, nothing, raise_now, time_limit
from reliable_llm.errors import (
    DeadlineExceededError,
    EmptyResponseError,
    Kind,
    ReliableLLMError,
    StreamInterruptedError,
)
from reliable_llm.hedged import merged, race
from reliable_llm.types import (
    AdapterReply,
    Alive,
    Attempt,
    ChatReply,
    ChatRequest,
    Continued,
    Finished,
    FinishReason,
    Message,
    ReasoningDelta,
    Restarted,
    ServedBy,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)
from reliable_llm.whole_stream import WholeStream

if TYPE_CHECKING:
    from reliable_llm.adapters.base import AdapterStream, Prepared
    from reliable_llm.policy import RetryPolicy

OnInterrupt: TypeAlias = Literal["raise", "restart", "continue"]

_OUTPUT: Final = (TextDelta, ReasoningDelta, ToolCallStarted)

# An answer may lawfully end without text for these reasons.
_MAY_BE_EMPTY: Final = frozenset(
    {FinishReason.REFUSAL, FinishReason.CONTENT_FILTER, FinishReason.LENGTH, FinishReason.PAUSE}
)

_GO_ON: Final = "Continue your answer exactly where it broke off. Do not repeat any of it and do not comment on this."


class _Open:
    """The attempt that is being streamed: what to close, what to read, what to report."""

    __slots__ = ("action", "closing", "events", "leave", "source", "started")

    def __init__(self, action: StartAttempt, leave: Callable[[], None], started: float) -> None:
        self.action = action
        self.leave = leave
        self.started = started
        self.closing: AbstractAsyncContextManager[AdapterStream] | None = None
        self.source: AdapterStream | None = None
        self.events: AsyncIterator[StreamEvent] | None = None

    async def close(self) -> None:
        """Close the response and give the place back; the adapter shields and bounds the closing."""
        closing, self.closing = self.closing, None
        try:
            if closing is not None:
                await closing.__aexit__(None, None, None)
        finally:
            leave, self.leave = self.leave, nothing
            leave()


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
    ) -> None:
        self._driver = driver
        self._request = request
        self._asked = request
        self._deadline = deadline
        self._on_interrupt = on_interrupt
        self._call = driver.call(request, stops, retry, deadline, affinity=affinity, stream=True)
        self._hedge: ChatStream | None = None
        self._hedge_delay = driver.hedge_delay(request, stops)
        if self._hedge_delay is not None:
            self._hedge = ChatStream(driver, request, stops[1:], retry, deadline, on_interrupt, affinity=affinity)
        self._cache: PreparedRequests = {}
        self._open: _Open | None = None
        self._prepared: Prepared | None = None
        self._pending: deque[StreamEvent] = deque()
        self._told: list[str] = []
        self._carried = ""
        self._head: str | None = None
        self._committed = False
        self._has_answer = False
        self._in_structure = request.output is not None
        self._answer: AdapterReply | None = None
        self._reply: ChatReply | None = None
        self._lost: tuple[Attempt, ...] = ()
        self._left_with: Usage | None = None
        self.served_by: ServedBy | None = None

    # ---------------------------------------------------------------- the caller's side

    async def __aenter__(self) -> Self:
        if self._hedge is None or self._hedge_delay is None:
            await self.until_output()
            return self
        second = self._hedge
        _, hedged = await race(self.until_output, second.until_output, self._hedge_delay, self._driver.hedges_of())
        if hedged:
            self._change_to(second)
        return self

    def _change_to(self, other: ChatStream) -> None:
        """Go on as *other*, whose first output came first; what this one tried stays in the ledger."""
        lost = self._call.attempts
        self._call, self._cache, self._open, self._prepared = other._call, other._cache, other._open, other._prepared
        self._pending, self._told, self._has_answer = other._pending, other._told, other._has_answer
        self._in_structure, self._answer, self.served_by = other._in_structure, other._answer, other.served_by
        self._lost = tuple(lost)

    async def __aexit__(self, *_: object) -> None:
        await self._abandon()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._pending:
            if self._answer is not None or self._open is None:
                raise StopAsyncIteration
            await self._pull()
        return self._pending.popleft()

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
        return _usage_of(self._open) if self._open is not None else self._left_with

    @property
    def text(self) -> str:
        """The text delivered so far."""
        return "".join(self._told)

    # ---------------------------------------------------------------- up to the first output

    async def until_output(self) -> None:
        """Do what the machine says until an attempt has given its first output."""
        clock = self._driver.clock
        while True:
            action = self._call.next(clock.monotonic(), clock.random())
            self._emit()
            if isinstance(action, StartAttempt):
                if await self._start(action):
                    return
            elif isinstance(action, Sleep):
                await clock.sleep(action.seconds)
            else:
                raise_now(action)

    async def _start(self, action: StartAttempt) -> bool:
        """Make one attempt up to its first output; tell whether it got there."""
        driver = self._driver
        streamed = "streaming" not in action.without
        prepared = driver.prepared(self._call, action, self._request, self._cache, stream=streamed)
        leave = None if prepared is None else await driver.enter(self._call, action)
        if prepared is None or leave is None:
            return False
        attempt = _Open(action, leave, driver.clock.monotonic())
        try:
            driver.announce(action, self._request.tags)
            first = await self._first_output(attempt, prepared, streamed=streamed)
        except ReliableLLMError as error:
            await attempt.close()
            self._call.failed(action, driver.clock.monotonic(), attempt.started, error, driver.clock.random())
            return False
        except BaseException:
            self._call.abandoned(action, driver.clock.monotonic(), attempt.started)
            await attempt.close()
            raise
        self._commit(attempt, prepared, first)
        return True

    async def _first_output(self, attempt: _Open, prepared: Prepared, *, streamed: bool) -> list[StreamEvent]:
        """Open the stream and read to its first output; return the events to hand out."""
        action, driver = attempt.action, self._driver
        seconds, by_deadline = time_limit(action, attempt.started, driver.timeouts(action).first_token)
        try:
            async with asyncio.timeout(seconds):
                await self._connect(attempt, prepared, streamed=streamed)
                return await self._read_to_output(attempt)
        except TimeoutError as error:
            if isinstance(error, ReliableLLMError):
                raise
            raise late(action, by_deadline=by_deadline) from error

    async def _connect(self, attempt: _Open, prepared: Prepared, *, streamed: bool) -> None:
        driver, action = self._driver, attempt.action
        adapter = driver.adapter(action.stop.provider)
        key = driver.key(action)
        timeouts = driver.timeouts(action)
        opening = (
            adapter.stream(prepared, key, timeouts)
            if streamed
            else WholeStream.of(adapter.complete(prepared, key, timeouts))
        )
        attempt.source = await opening.__aenter__()
        attempt.closing = opening
        attempt.events = aiter(attempt.source)

    async def _read_to_output(self, attempt: _Open) -> list[StreamEvent]:
        seen: list[StreamEvent] = []
        assert attempt.events is not None  # noqa: S101 - set by _connect, just before
        async for event in attempt.events:
            if isinstance(event, _OUTPUT):
                return [*seen, event]
            if isinstance(event, Finished):
                _refuse_empty(event)
                return [*seen, event]
            if isinstance(event, UsageUpdate):
                seen.append(event)
        raise EmptyResponseError

    def _commit(self, attempt: _Open, prepared: Prepared, first: list[StreamEvent]) -> None:
        """From here on, what comes reaches the caller."""
        stop = attempt.action.stop
        self.served_by = ServedBy(stop.provider, stop.model, stop.health.ring.labels[attempt.action.key_place])
        self._open = attempt
        self._prepared = prepared
        self._committed = True
        self._pending.append(Started(self.served_by, attempt.source.model if attempt.source else None))
        for event in first:
            self._deliver(event)

    # ---------------------------------------------------------------- after it

    async def _pull(self) -> None:
        """Wait for the next event of the open stream and deliver it."""
        attempt = self._open
        assert attempt is not None  # noqa: S101 - __anext__ has looked
        assert attempt.events is not None  # noqa: S101
        now = self._driver.clock.monotonic()
        idle = self._driver.timeouts(attempt.action).idle
        by_deadline = self._deadline is not None and self._deadline - now <= idle
        try:
            async with asyncio.timeout(self._deadline - now if self._deadline is not None and by_deadline else idle):
                event = await anext(attempt.events)
        except StopAsyncIteration:
            await self._break(attempt, self._interruption(Kind.CONNECTION))
        except ReliableLLMError as error:
            await self._break(attempt, self._as_interruption(error))
        except TimeoutError:
            await self._break(attempt, self._silence(by_deadline=by_deadline))
        except BaseException:
            await self._abandon()
            raise
        else:
            self._deliver(event)
            if self._answer is not None:
                await attempt.close()

    def _deliver(self, event: StreamEvent) -> None:
        """Hand an event out; pings and empty text never show."""
        if isinstance(event, Alive) or (isinstance(event, TextDelta) and not event.text):
            return
        if isinstance(event, TextDelta):
            self._has_answer = True
            if self._head is not None:
                self._hold(event.text)
                return
            self._told.append(event.text)
        elif isinstance(event, ToolCallStarted):
            self._has_answer = self._in_structure = True
        elif isinstance(event, ReasoningDelta):
            pass
        elif isinstance(event, Finished):
            self._release_head()
            self._finish(event)
        self._pending.append(event)

    def _finish(self, event: Finished) -> None:
        attempt, driver = self._open, self._driver
        assert attempt is not None  # noqa: S101 - events come from the open attempt
        assert attempt.source is not None  # noqa: S101
        answer = attempt.source.reply()
        if self._carried:
            answer = replace(answer, parts=(Text(self.text), *(p for p in answer.parts if not isinstance(p, Text))))
        now = driver.clock.monotonic()
        parsed = self._parsed(attempt, answer, now)
        self._call.succeeded(
            attempt.action, now, attempt.started, usage=event.usage or answer.usage, request_id=answer.request_id
        )
        self._answer = answer
        assert self._prepared is not None  # noqa: S101
        reply = driver.reply_of(self._call, attempt.action, answer, self._prepared, now - attempt.started)
        self._reply = merged(reply, (self._lost, reply.attempts)) if self._lost else reply
        self._reply.parsed = parsed
        self._emit()

    def _parsed(self, attempt: _Open, answer: AdapterReply, now: float) -> object:
        """Return the structured answer. What does not fit has been shown already: it is raised, not repaired."""
        if self._asked.output is None:
            return None
        from reliable_llm.structured import read

        try:
            return read(answer, self._asked.output)
        except ReliableLLMError as error:
            self._answer = answer
            broken = self._call.broke_off(attempt.action, now, attempt.started, error)
            self._emit()
            raise broken from None

    # ---------------------------------------------------------------- when it breaks

    async def _break(self, attempt: _Open, error: ReliableLLMError) -> None:
        """The stream broke after output: raise, or go on elsewhere if the caller wants that."""
        driver = self._driver
        await attempt.close()
        self._open = None
        now = driver.clock.monotonic()
        may_go_on = isinstance(error, StreamInterruptedError) and self._may_go_on()
        if not may_go_on:
            broken = self._call.broke_off(attempt.action, now, attempt.started, error)
            self._emit()
            raise broken
        self._call.failed(attempt.action, now, attempt.started, error, driver.clock.random())
        self._prepare_to_go_on(error)
        await self.until_output()

    def _may_go_on(self) -> bool:
        if self._on_interrupt == "continue":
            return not self._in_structure and bool(self._told)
        return self._on_interrupt == "restart"

    def _prepare_to_go_on(self, error: ReliableLLMError) -> None:
        """Announce what follows before any of it comes."""
        cause = (error.cause_kind if isinstance(error, StreamInterruptedError) else None) or error.kind
        self._release_head()
        self._cache.clear()
        if self._on_interrupt == "restart":
            self._told.clear()
            self._has_answer = False
            self._in_structure = self._asked.output is not None
            self._pending.append(Restarted(cause))
            return
        self._carried = self.text
        self._head = ""
        told = (Message("assistant", self._carried), Message("user", _GO_ON))
        self._request = replace(self._asked, messages=self._asked.messages + told)
        self._pending.append(Continued(cause))

    def _hold(self, text: str) -> None:
        """Keep the beginning of a continuation back until it is clear what of it repeats what was told."""
        self._head = (self._head or "") + text
        if len(self._head) >= WINDOW:
            self._release_head()

    def _release_head(self) -> None:
        head, self._head = self._head, None
        fresh = without_overlap(self._carried, head) if head else ""
        if fresh:
            self._told.append(fresh)
            self._pending.append(TextDelta(fresh))

    def _interruption(self, cause: Kind) -> StreamInterruptedError:
        error = StreamInterruptedError()
        source = self._open.source if self._open is not None else None
        if source is not None:
            so_far = source.reply()
            error.usage = replace(so_far.usage, partial=True) if so_far.usage is not None else None
            error.partial_tool_calls = tuple(part for part in so_far.parts if isinstance(part, ToolCall))
        error.partial_text = self.text
        error.cause_kind = cause
        return error

    def _as_interruption(self, error: ReliableLLMError) -> ReliableLLMError:
        """Return the error as one of a stream that had begun: what reached the caller is ours to say."""
        if isinstance(error, StreamInterruptedError):
            error.partial_text = self.text
            return error
        broken = self._interruption(error.kind)
        broken.__cause__ = error.__cause__
        broken.request_id = error.request_id
        return broken

    def _silence(self, *, by_deadline: bool) -> ReliableLLMError:
        if not by_deadline:
            return self._interruption(Kind.TIMEOUT)
        error = DeadlineExceededError()
        error.where = str(self.served_by)
        error.partial_text = self.text
        return error

    async def _abandon(self) -> None:
        """The caller leaves: nobody is to blame."""
        attempt, self._open = self._open, None
        if attempt is None:
            return
        if self._answer is None:
            self._left_with = _usage_of(attempt)
            now = self._driver.clock.monotonic()
            self._call.abandoned(attempt.action, now, attempt.started, usage=self._left_with)
            self._emit()
        await attempt.close()

    def _emit(self) -> None:
        self._driver.emit(self._call.events, self._request.tags)


def _refuse_empty(event: Finished) -> None:
    if event.finish_reason not in _MAY_BE_EMPTY:
        error = EmptyResponseError()
        error.usage = event.usage
        raise error


def _usage_of(attempt: _Open) -> Usage | None:
    return None if attempt.source is None else attempt.source.reply().usage
