"""One streamed call: drives its machine up to the first output, hands on what comes, and says how it ended.

Before the first output (text, reasoning or a tool call) every failure is handled as in a plain call. After it, the
stream either ends with the vendor's terminal event or raises `StreamInterruptedError` with what came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from reliable_llm.answers import hear, reply_of
from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.failover import FailoverCall
from reliable_llm.driver import Driver
from reliable_llm.errors import DeadlineExceededError, ReliableLLMError, StreamInterruptedError
from reliable_llm.hedged import in_order, merged
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
    Usage,
)

OnInterrupt: TypeAlias = Literal["raise", "restart", "continue"]

_GO_ON: Final = "Continue your answer exactly where it broke off. Do not repeat any of it and do not comment on this."


class StreamCall:
    """The streamed call that *call* decides about.

    `told` is what the caller is told, `opened` the attempt whose output is read, `answer` and `reply` the end of it.
    `lost` are the attempts of a call that ran beside this one.
    """

    def __init__(
        self,
        driver: Driver,
        call: FailoverCall,
        request: ChatRequest,
        deadline: float | None,
        on_interrupt: OnInterrupt,
    ) -> None:
        self.call = call
        self.asked = request
        self.request = request
        self.told = Told(structured=request.output is not None)
        self.opened: OpenAttempt | None = None
        self.answer: AdapterReply | None = None
        self.reply: ChatReply | None = None
        self.served_by: ServedBy | None = None
        self.lost: tuple[Attempt, ...] = ()
        self._driver = driver
        self._deadline = deadline
        self._on_interrupt = on_interrupt
        self._cache: PreparedRequests = {}
        self._left_with: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """What the vendor has reported so far; `partial` until the end, and for ever where the stream was left."""
        if self.answer is not None:
            return self.answer.usage
        return self._left_with if self.opened is None else self.opened.usage

    # ---------------------------------------------------------------- up to the first output

    async def until_output(self) -> None:
        """Do what the machine says until an attempt has given its first output."""
        clock = self._driver.clock
        while True:
            action = self._driver.next(self.call, clock.monotonic())
            if not self._driver.entrance.must_claim(action):
                self._emit()
            if isinstance(action, StartAttempt):
                if await self._start(action):
                    return
            else:
                await self._driver.carry_out(self.call, action)

    async def _start(self, action: StartAttempt) -> bool:
        """Make one attempt up to its first output; tell whether it got there."""
        driver = self._driver
        streamed = "streaming" not in action.without
        prepared = prepare_once(driver.entrance, self.call, action, self.request, self._cache, stream=streamed)
        leave = None if prepared is None else await driver.entrance.enter(self.call, action)
        if prepared is None or leave is None:
            return False
        attempt = OpenAttempt(driver, action, prepared, leave)
        try:
            attempt.told = driver.announcer.announce(self.call, action, self.request.tags)
            first = await attempt.first_output()
        except ReliableLLMError as error:
            self.call.failed(action, driver.clock.monotonic(), attempt.started, error, driver.clock.random())
            self._emit()
            await attempt.close()
            return False
        except BaseException:
            self.call.abandoned(action, driver.clock.monotonic(), attempt.started)
            await attempt.close()
            raise
        self._commit(attempt, first)
        return True

    def _commit(self, attempt: OpenAttempt, first: Sequence[StreamEvent]) -> None:
        """From here on, what comes reaches the caller."""
        self.opened = attempt
        self._driver.observe(attempt.action, self._driver.clock.monotonic() - attempt.started)
        self.served_by = attempt.served_by
        self.told.add(Started(self.served_by, None if attempt.source is None else attempt.source.model))
        for event in first:
            self._deliver(attempt, event)

    # ---------------------------------------------------------------- after it

    async def pull(self, attempt: OpenAttempt) -> None:
        """Wait for the next event of the open stream and deliver it."""
        try:
            event = await attempt.next_event(self._deadline)
        except ReliableLLMError as error:
            await self._break(attempt, error)
        except BaseException:
            await self.abandon()
            raise
        else:
            self._deliver(attempt, event)
            if self.answer is not None:
                await attempt.close()

    def _deliver(self, attempt: OpenAttempt, event: StreamEvent) -> None:
        if isinstance(event, Finished):
            self.told.release_head()
            self._finish(attempt, event)
        self.told.add(event)

    def _finish(self, attempt: OpenAttempt, event: Finished) -> None:
        """The vendor's terminal event has come: record the success and make up the reply."""
        driver, source = self._driver, attempt.source
        if source is None:
            raise RuntimeError("events come from an open source")
        answer = source.reply()
        if self.told.carried:
            others = (part for part in answer.parts if not isinstance(part, Text))
            answer = replace(answer, parts=(Text(self.told.text), *others))
        hear(self.call, driver.clock, attempt.action, answer, source.headers)
        now = driver.clock.monotonic()
        self.answer = answer
        parsed = self._parsed(attempt, answer, now)
        usage = event.usage or answer.usage
        self.call.succeeded(attempt.action, now, attempt.started, usage=usage, request_id=answer.request_id)
        if attempt.told:
            driver.announcer.answered(self.call, attempt.action, now - attempt.started)
        reply = reply_of(self.call, attempt.action, answer, attempt.prepared)
        self.reply = merged(reply, (self.lost, reply.attempts)) if self.lost else reply
        self.reply.parsed = parsed
        self._emit()

    def _parsed(self, attempt: OpenAttempt, answer: AdapterReply, now: float) -> object:
        """Return the structured answer. What does not fit has been shown already: it is raised, not repaired."""
        if self.asked.output is None:
            return None
        from reliable_llm.structured import read

        try:
            return read(answer, self.asked.output)
        except ReliableLLMError as error:
            broken = self.call.broke_off(attempt.action, now, attempt.started, error)
            self._emit()
            raise broken from None

    # ---------------------------------------------------------------- when it breaks

    async def _break(self, attempt: OpenAttempt, error: ReliableLLMError) -> None:
        """The stream broke after output: raise, or go on elsewhere if the caller wants that."""
        now = self._driver.clock.monotonic()
        self.opened = None
        if isinstance(error, StreamInterruptedError | DeadlineExceededError):
            error.partial_text = self.told.text
        if not self._may_go_on(error):
            broken = self.call.broke_off(attempt.action, now, attempt.started, error)
            self._emit()
            broken.attempts = in_order(self.lost, broken.attempts)
            await attempt.close()
            raise broken
        self.call.failed(attempt.action, now, attempt.started, error, self._driver.clock.random())
        self._emit()
        await attempt.close()
        shown = self.told.text
        self._prepare_to_go_on(error)
        try:
            await self.until_output()
        except ReliableLLMError as failed:
            failed.attempts = in_order(self.lost, failed.attempts)
            if isinstance(failed, StreamInterruptedError | DeadlineExceededError):
                failed.partial_text = self.told.text or shown
            raise

    def _may_go_on(self, error: ReliableLLMError) -> bool:
        if not isinstance(error, StreamInterruptedError):
            return False
        if self._on_interrupt == "continue":
            return not self.told.structured and bool(self.told.text)
        return self._on_interrupt == "restart"

    def _prepare_to_go_on(self, error: ReliableLLMError) -> None:
        """Announce what follows before any of it comes."""
        cause = (error.cause_kind if isinstance(error, StreamInterruptedError) else None) or error.kind
        self._cache.clear()
        if self._on_interrupt == "restart":
            self.told.restart(cause, structured=self.asked.output is not None)
            return
        self.told.go_on(cause)
        more = (Message("assistant", self.told.carried), Message("user", _GO_ON))
        self.request = replace(self.asked, messages=self.asked.messages + more)

    async def abandon(self) -> None:
        """The caller leaves: nobody is to blame."""
        attempt, self.opened = self.opened, None
        if attempt is None:
            return
        if self.answer is None:
            self._left_with = attempt.usage
            now = self._driver.clock.monotonic()
            self.call.abandoned(attempt.action, now, attempt.started, usage=self._left_with)
            self._emit()
        await attempt.close()

    def _emit(self) -> None:
        self._driver.announcer.emit(self.call.events, self.request.tags)
