"""An open stream of an OpenAI-compatible host: bytes in, events out, closed whatever happens.

The response is read raw, not as one pydantic model per chunk (160 us each). What the events mean is the assembly's
business (`openai_chat_events`, `openai_responses_events`); here is when to read, when to stop and what a break means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

import anyio

from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.decoding import decode
from reliable_llm.adapters.http import close_response, drain
from reliable_llm.adapters.sse import ServerEvent, SSEDecoder
from reliable_llm.credentials import Credential
from reliable_llm.errors import (
    ConnectionFailedError,
    Kind,
    MalformedResponseError,
    ReliableLLMError,
    StreamInterruptedError,
)
from reliable_llm.policy import Timeouts
from reliable_llm.types import AdapterReply, Alive, FinishReason, Json, Part, StreamEvent, ToolCall, Usage

if TYPE_CHECKING:
    import httpx2

ErrorT = TypeVar("ErrorT", bound=ReliableLLMError)

# After the proof of the end, how long its usage is waited for, in seconds. Both come in one packet, mostly.
TRAILER_TIMEOUT: Final = 5.0

# How much is kept of a body that is no stream: enough for any error document.
BODY_LIMIT: Final = 1024 * 1024

_ALIVE: Final = Alive()
_DONE: Final = b"[DONE]"


class Assembly(Protocol):
    """What the events of one endpoint mean. Pure."""

    model: str | None
    output_started: bool
    usage: Usage | None

    @property
    def proven(self) -> bool:
        """Whether the end has been proved by the vendor's terminal event."""

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""

    def take(self, chunk: Json) -> list[StreamEvent]:
        """Return what *chunk* says. Never raises for what it holds."""

    def error_in(self, name: str, chunk: Json) -> object:
        """Return the error document in *chunk*, sent as event *name*, or None."""

    def done(self) -> bool:
        """Take the `[DONE]` line; tell whether it proves the end."""

    def finish(self) -> list[StreamEvent]:
        """Return the last events; raise `ReliableLLMError` for an answer that says nothing."""

    def text(self) -> str: ...

    def parts(self) -> tuple[Part, ...]: ...

    def unfinished_calls(self) -> tuple[ToolCall, ...]: ...

    def finish_reason(self) -> FinishReason: ...


class StreamClient(Protocol):
    """Who sends the request, and reads what failed."""

    errors: tuple[type[Exception], ...]

    async def send(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool = False
    ) -> httpx2.Response: ...

    def request_id(self, headers: Mapping[str, str]) -> str | None: ...

    def failure(self, exc: Exception) -> ReliableLLMError: ...

    def refusal(self, body: object, status: int | None, headers: Mapping[str, str]) -> ReliableLLMError: ...


class OpenAIStream:
    """One stream: enter it, iterate it, leave it.

    `_silent` tells that bytes have come which have said nothing yet: they are a sign of life.
    """

    def __init__(
        self, client: StreamClient, prepared: Prepared, key: Credential, timeouts: Timeouts, assembly: Assembly
    ) -> None:
        self._client = client
        self._prepared = prepared
        self._key = key
        self._timeouts = timeouts
        self._assembly = assembly
        self._response: httpx2.Response | None = None
        self._chunks: AsyncGenerator[bytes, None] | None = None
        self._decoder = SSEDecoder()
        self._silent = False
        self._queue: deque[StreamEvent] = deque()
        self._error: ReliableLLMError | None = None
        self._ended = False
        self.headers: Mapping[str, str] = {}
        self.request_id: str | None = None
        self.model: str | None = None

    def reply(self) -> AdapterReply:
        """Return what has come so far, without tool calls that are not whole."""
        assembly = self._assembly
        return AdapterReply(
            parts=assembly.parts(),
            finish_reason=assembly.finish_reason(),
            usage=assembly.usage,
            model=assembly.model,
            request_id=self.request_id,
            dropped=self._prepared.dropped,
            headers=self.headers,
        )

    # ------------------------------------------------------------ open and close

    async def __aenter__(self) -> Self:
        response = await self._client.send(self._prepared, self._key, self._timeouts, stream=True)
        self._response = response
        self.headers = response.headers
        self.request_id = self._client.request_id(response.headers)
        if _is_document(response):
            try:
                raise await self._not_a_stream(response)
            finally:
                await close_response(response)
        self._chunks = response.aiter_bytes()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is None or self._chunks is None:
            return
        if self._ended and self._error is None and kind is None:
            await drain(self._chunks)
        await close_response(self._response, self._chunks)

    async def _not_a_stream(self, response: httpx2.Response) -> ReliableLLMError:
        try:
            body = await _read(response)
        except self._client.errors as exc:
            return self._client.failure(exc)
        try:
            document = decode(body)
        except ValueError:
            document = body.decode("utf-8", "replace")
        return self._client.refusal(document, response.status_code, response.headers)

    # ------------------------------------------------------------ events

    def __aiter__(self) -> OpenAIStream:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._queue:
            if self._error is not None:
                error, self._error = self._error, None
                self._ended = True
                raise error
            if self._ended:
                raise StopAsyncIteration
            if self._take_next():
                continue
            if self._silent:
                self._silent = False
                self._queue.append(_ALIVE)
            else:
                await self._read_on()
        self._silent = False
        return self._queue.popleft()

    def _take_next(self) -> bool:
        """Take one event, and tell whether there was one."""
        try:
            event = self._decoder.next_event()
        except ValueError as exc:
            self._end(_malformed(exc))
            return True
        if event is not None:
            self._take(event)
        return event is not None

    async def _read_on(self) -> None:
        """Receive the next piece of the body."""
        try:
            chunk = await self._next_chunk()
        except self._client.errors as exc:
            self._end(self._client.failure(exc))
            return
        if chunk is not None:
            self._decoder.feed(chunk)
            self._silent = True
            return
        self._decoder.end()
        if not self._take_next():
            self._end(ConnectionFailedError("the stream ended without its terminal event"))

    async def _next_chunk(self) -> bytes | None:
        """Return the next piece, or None at the end of the body, or of what is waited for after the proof."""
        if self._chunks is None:
            return None
        if not self._assembly.proven:
            return await anext(self._chunks, None)
        with anyio.move_on_after(TRAILER_TIMEOUT):
            return await anext(self._chunks, None)
        return None

    def _take(self, event: ServerEvent) -> None:
        if event.data == _DONE:
            if self._assembly.done():
                self._end(None)
            return
        if not event.data.strip():
            return
        try:
            chunk = decode(event.data)
        except ValueError as exc:
            self._end(
                self._refused(event.data.decode("utf-8", "replace")) if event.name == "error" else _malformed(exc)
            )
            return
        if not isinstance(chunk, dict):
            return
        error = self._assembly.error_in(event.name, chunk)
        if error is not None:
            self._end(self._refused(error))
            return
        self._queue.extend(self._assembly.take(chunk))
        self.model = self._assembly.model
        if self._assembly.complete:
            self._end(None)

    def _refused(self, body: object) -> ReliableLLMError:
        return self._client.refusal(body, 200, self.headers)

    # ------------------------------------------------------------ the end

    def _end(self, broken: ReliableLLMError | None) -> None:
        """End well where the end is proved, whatever came of the connection; else with what *broken* says."""
        if broken is not None and not self._assembly.proven:
            self._error = self._interrupted(broken) if self._assembly.output_started else self._stamped(broken)
            return
        try:
            self._queue.extend(self._assembly.finish())
            self._ended = True
        except ReliableLLMError as nothing:
            self._error = self._stamped(nothing)

    def _interrupted(self, cause: ReliableLLMError) -> StreamInterruptedError:
        text, calls = self._assembly.text(), self._assembly.unfinished_calls()
        error = StreamInterruptedError(f"the stream broke at character {len(text)} ({cause.kind})")
        error.partial_text = text
        # Errors pickle, and the shared empty mapping does not.
        error.partial_tool_calls = tuple(replace(call, extra=dict(call.extra)) for call in calls)
        error.cause_kind = Kind(cause.kind)
        error.retry_after = cause.retry_after
        error.__cause__ = cause
        return self._stamped(error)

    def _stamped(self, error: ErrorT) -> ErrorT:
        error.usage = self._assembly.usage
        error.request_id = error.request_id or self.request_id
        return error


def _malformed(cause: ValueError) -> MalformedResponseError:
    error = MalformedResponseError("the stream holds what is no event")
    error.__cause__ = cause
    return error


def _is_document(response: httpx2.Response) -> bool:
    """Tell whether the server sent a document. Some compatible hosts stream as plain text, or name no type at all."""
    kind = response.headers.get("content-type", "").lower()
    return "event-stream" not in kind and ("json" in kind or "html" in kind)


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > BODY_LIMIT:
            break
    return bytes(body[:BODY_LIMIT])
