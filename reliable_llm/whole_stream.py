"""A whole answer told as a stream: for candidates that cannot stream, and for adapters without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import Self

from reliable_llm.types import (
    AdapterReply,
    Finished,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)


class WholeStream:
    """An `AdapterStream` over an answer that comes in one piece; also the context manager that fetches it."""

    def __init__(self, answer: Awaitable[AdapterReply]) -> None:
        self._answer = answer
        self._got: AdapterReply | None = None
        self.headers: Mapping[str, str] = {}
        self.request_id: str | None = None
        self.model: str | None = None

    @classmethod
    def of(cls, answer: Awaitable[AdapterReply]) -> Self:
        """Wrap a call under way."""
        return cls(answer)

    async def __aenter__(self) -> Self:
        self._got = await self._answer
        self.headers, self.request_id, self.model = self._got.headers, self._got.request_id, self._got.model
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open: the answer has been read."""

    def reply(self) -> AdapterReply:
        """The answer."""
        if self._got is None:
            raise RuntimeError("enter the stream before asking for its reply")
        return self._got

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        for event in told_whole(self.reply()):
            yield event


def told_whole(answer: AdapterReply) -> Iterator[StreamEvent]:
    """Yield *answer* as the events of a stream."""
    for index, part in enumerate(answer.parts):
        if isinstance(part, Text):
            yield TextDelta(part.text)
        elif isinstance(part, Reasoning):
            yield ReasoningDelta(part.text)
        elif isinstance(part, ToolCall):
            yield ToolCallStarted(index, part.id, part.name)
            yield ToolCallDelta(index, part.arguments)
            yield ToolCallEnded(index, part)
    yield Finished(answer.finish_reason, answer.usage)
