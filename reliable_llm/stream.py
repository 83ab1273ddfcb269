"""ChatStream: one streamed answer that fails over until its first output, and never lies about its end.

What happens up to the first output, and after it, says `stream_call`. Silence is bounded: `first_token` up to the first
output, `idle` between any two signs of life, the caller's `deadline` over all; only time spent waiting for the vendor
counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Self

from reliable_llm.core.route import Stop
from reliable_llm.driver import Driver
from reliable_llm.errors import ConfigurationError, ReliableLLMError, StreamInterruptedError
from reliable_llm.hedged import in_order, race
from reliable_llm.stream_call import OnInterrupt, StreamCall
from reliable_llm.types import ChatReply, ChatRequest, ServedBy, StreamEvent, TextDelta, Usage

if TYPE_CHECKING:
    from reliable_llm.policy import RetryPolicy


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
    ) -> None:
        self._driver = driver
        self._stops = stops
        self._teller = driver.announcer.teller
        self._request = self._teller.own(request) if self._teller else request
        self._began = 0.0
        self._first_output: float | None = None
        self._hedge_delay = driver.hedge_delay(request, stops)

        def call(stops: Sequence[Stop], *, is_hedge: bool) -> StreamCall:
            decides = driver.call(
                request, stops, retry, deadline, affinity=affinity, priority=priority, stream=True, is_hedge=is_hedge
            )
            return StreamCall(driver, decides, self._request, deadline, on_interrupt)

        self._call = call(stops, is_hedge=False)
        self._second = None if self._hedge_delay is None else call(stops[1:], is_hedge=True)

    # ---------------------------------------------------------------- in, and out again

    async def __aenter__(self) -> Self:
        self._began = self._driver.clock.monotonic()
        if not self._teller:
            await self._enter()
            return self
        self._teller.begin(self._request, self._stops, stream=True)
        try:
            await self._enter()
        except BaseException as error:
            self._teller.failed(self._request, error, self._call.call.attempts, self._elapsed, None)
            raise
        self._first_output = self._elapsed
        return self

    async def _enter(self) -> None:
        if self._second is None or self._hedge_delay is None:
            await self._call.until_output()
        else:
            self._call = await self._raced(self._call, self._second, self._hedge_delay)

    async def _raced(self, first: StreamCall, second: StreamCall, delay: float) -> StreamCall:
        """Return the call whose first output came first; what the other one tried stays in the ledger."""
        hedges = self._driver.hedges_of()
        try:
            _, hedged = await race(first.until_output, second.until_output, delay, hedges, call=first.call)
        except ReliableLLMError as error:
            error.attempts = in_order(first.call.attempts, second.call.attempts)
            raise
        except BaseException:
            await first.abandon()
            await second.abandon()
            raise
        winner, loser = (second, first) if hedged else (first, second)
        # Who lost may have had its first output in the same moment: it is closed all the same.
        await loser.abandon()
        winner.lost = tuple(loser.call.attempts)
        return winner

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            await self._call.abandon()
        finally:
            self._tell_end(error)

    def _tell_end(self, error: BaseException | None) -> None:
        if not self._teller:
            return
        if self._call.reply is not None:
            self._teller.answered(self._request, self._call.reply, self._elapsed, self._first_output)
        else:
            self._teller.failed(self._request, error, self._call.call.attempts, self._elapsed, self._first_output)

    @property
    def _elapsed(self) -> float:
        return self._driver.clock.monotonic() - self._began

    # ---------------------------------------------------------------- what comes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        call = self._call
        while not call.told.pending:
            if call.served_by is None:
                raise ConfigurationError("a stream is opened first: async with chat.stream(...) as stream")
            if call.answer is not None or call.opened is None:
                raise StopAsyncIteration
            await call.pull(call.opened)
        return call.told.pending.popleft()

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
        if self._call.reply is None:
            raise StreamInterruptedError("the stream was left before its end: there is no whole answer")
        return self._call.reply

    @property
    def served_by(self) -> ServedBy | None:
        """Who answers; None before the first output."""
        return self._call.served_by

    @property
    def usage(self) -> Usage | None:
        """What the vendor has reported so far; `partial` until the end, and for ever where the stream was left."""
        return self._call.usage

    @property
    def text(self) -> str:
        """The text delivered so far."""
        return self._call.told.text
