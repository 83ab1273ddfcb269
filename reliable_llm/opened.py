"""One streamed attempt: opened, read event by event within its time limits, closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.timing import late, time_limit
from reliable_llm.driver import Driver
from reliable_llm.entrance import nothing
from reliable_llm.errors import (
    DeadlineExceededError,
    EmptyResponseError,
    Kind,
    ReliableLLMError,
    StreamInterruptedError,
)
from reliable_llm.types import (
    Finished,
    FinishReason,
    ReasoningDelta,
    ServedBy,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)
from reliable_llm.whole_stream import WholeStream

if TYPE_CHECKING:
    from reliable_llm.adapters.base import AdapterStream, Prepared

_OUTPUT: Final = (TextDelta, ReasoningDelta, ToolCallStarted)

# An answer may lawfully end without text for these reasons.
_MAY_BE_EMPTY: Final = frozenset(
    {FinishReason.REFUSAL, FinishReason.CONTENT_FILTER, FinishReason.LENGTH, FinishReason.PAUSE}
)


class Silence:
    """Bounds how long nothing at all may come: `limit` ends the block that it encloses, `broken()` begins anew."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.limit = asyncio.timeout(seconds)

    def broken(self) -> None:
        if self._seconds is not None:
            self.limit.reschedule(asyncio.get_running_loop().time() + self._seconds)


class OpenAttempt:
    """A streamed attempt under way. `leave` gives its place in the provider's queue back, `told` that listeners
    know of its start."""

    def __init__(self, driver: Driver, action: StartAttempt, prepared: Prepared, leave: Callable[[], None]) -> None:
        self.action = action
        self.prepared = prepared
        self.started = driver.clock.monotonic()
        self.told = False
        self.source: AdapterStream | None = None
        self._access = driver.entrance.access(action.stop.provider)
        self._clock = driver.clock
        self._leave = leave
        self._closing: AbstractAsyncContextManager[AdapterStream] | None = None
        self._events: AsyncIterator[StreamEvent] | None = None

    @property
    def served_by(self) -> ServedBy:
        stop = self.action.stop
        return ServedBy(stop.provider, stop.model, stop.health.ring.labels[self.action.key_place])

    @property
    def usage(self) -> Usage | None:
        """What the vendor has reported so far."""
        return None if self.source is None else self.source.reply().usage

    async def first_output(self) -> list[StreamEvent]:
        """Open the stream and read to its first output; return the events to hand out."""
        timeouts = self._access.timeouts
        seconds, by_deadline = time_limit(self.action, self.started, timeouts.first_token)
        silence = Silence(timeouts.quiet)
        try:
            async with asyncio.timeout(seconds), silence.limit:
                return await self._read_to_output(await self._connect(), silence)
        except TimeoutError as error:
            if isinstance(error, ReliableLLMError):
                raise
            raise late(self.action, by_deadline=by_deadline and not silence.limit.expired()) from error

    async def _connect(self) -> AsyncIterator[StreamEvent]:
        adapter, key, timeouts = self._access.adapter, self._access.keys[self.action.key_place], self._access.timeouts
        opening: AbstractAsyncContextManager[AdapterStream] = (
            adapter.stream(self.prepared, key, timeouts)
            if self.prepared.stream
            else WholeStream.of(adapter.complete(self.prepared, key, timeouts))
        )
        self.source = await opening.__aenter__()
        self._closing = opening
        self._events = aiter(self.source)
        return self._events

    async def _read_to_output(self, stream: AsyncIterator[StreamEvent], silence: Silence) -> list[StreamEvent]:
        seen: list[StreamEvent] = []
        async for event in stream:
            silence.broken()
            if isinstance(event, UsageUpdate):
                seen.append(event)
            elif isinstance(event, Finished) and not self._may_be_empty(event.finish_reason):
                raise EmptyResponseError(usage=event.usage)
            elif isinstance(event, (*_OUTPUT, Finished)):
                return [*seen, event]
        raise EmptyResponseError

    def _may_be_empty(self, finish: FinishReason) -> bool:
        return finish in _MAY_BE_EMPTY or self.prepared.takes_silence(finish)

    async def next_event(self, deadline: float | None) -> StreamEvent:
        """Wait for the next event, at most as long as silence may last; whatever breaks is an error of the stream."""
        if self._events is None:
            raise RuntimeError("first_output() comes first")
        left = None if deadline is None else deadline - self._clock.monotonic()
        idle = self._access.timeouts.idle
        by_deadline = left is not None and left <= idle
        try:
            if by_deadline:
                async with asyncio.timeout(left):
                    return await anext(self._events)
            with self._access.silences.begin():
                return await anext(self._events)
        except StopAsyncIteration:
            raise self._interruption(Kind.CONNECTION) from None
        except StreamInterruptedError:
            raise
        except ReliableLLMError as error:
            broken = self._interruption(error.kind)
            broken.request_id = error.request_id
            raise broken from error.__cause__
        except TimeoutError:
            raise self._deadline_passed() if by_deadline else self._interruption(Kind.TIMEOUT) from None

    def _interruption(self, cause: Kind) -> StreamInterruptedError:
        error = StreamInterruptedError()
        error.cause_kind = cause
        if self.source is not None:
            so_far = self.source.reply()
            error.usage = replace(so_far.usage, partial=True) if so_far.usage is not None else None
            error.partial_tool_calls = tuple(part for part in so_far.parts if isinstance(part, ToolCall))
        return error

    def _deadline_passed(self) -> DeadlineExceededError:
        error = DeadlineExceededError()
        error.where = str(self.served_by)
        return error

    async def close(self) -> None:
        """Close the response and give the place back; the adapter shields and bounds the closing."""
        closing, self._closing = self._closing, None
        try:
            if closing is not None:
                await closing.__aexit__(None, None, None)
        finally:
            leave, self._leave = self._leave, nothing
            leave()
