"""A stream that falls back on the answer of last resort when no candidate has given its first output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias

from reliable_llm.core.route import Stop
from reliable_llm.driver import Driver
from reliable_llm.errors import ReliableLLMError
from reliable_llm.stream import ChatStream
from reliable_llm.stream_call import OnInterrupt
from reliable_llm.types import AdapterReply, Candidate, ChatReply, ChatRequest, Started
from reliable_llm.whole_stream import told_whole

if TYPE_CHECKING:
    from reliable_llm.policy import RetryPolicy

StandIn: TypeAlias = Callable[[ChatRequest, ReliableLLMError, Candidate], ChatReply | None]


class StandInStream(ChatStream):
    """A `ChatStream`; *stand_in* gives the whole answer in place of an outage, or None."""

    def __init__(
        self,
        driver: Driver,
        request: ChatRequest,
        stops: Sequence[Stop],
        retry: RetryPolicy,
        deadline: float | None,
        on_interrupt: OnInterrupt,
        *,
        stand_in: StandIn,
        affinity: str | None = None,
        priority: int = 0,
    ) -> None:
        super().__init__(driver, request, stops, retry, deadline, on_interrupt, affinity=affinity, priority=priority)
        self._stand_in = stand_in

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except ReliableLLMError as error:
            reply = self._stand_in(self._request, error, self._call.call.requested)
            if reply is None:
                raise
        self._speak(reply)
        return self

    def _speak(self, reply: ChatReply) -> None:
        call = self._call
        call.served_by = reply.served_by
        call.reply = reply
        call.answer = AdapterReply(parts=reply.parts, finish_reason=reply.finish_reason, usage=reply.usage)
        call.told.add(Started(reply.served_by, reply.model))
        for event in told_whole(call.answer):
            call.told.add(event)
