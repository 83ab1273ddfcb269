"""An open Anthropic stream: the body's bytes in, neutral events out, and every way in which it can break."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from reliable_llm.adapters.anthropic_assembly import StreamAssembly
from reliable_llm.adapters.anthropic_blocks import VENDOR
from reliable_llm.adapters.anthropic_reply import AnthropicRaw, empty, malformed
from reliable_llm.adapters.base import AdapterSettings, Prepared
from reliable_llm.adapters.decoding import decode, decode_or_text
from reliable_llm.adapters.endpoint import Endpoint
from reliable_llm.adapters.http import close_response, drain
from reliable_llm.adapters.sse import ServerEvent, SSEDecoder
from reliable_llm.errors import ConnectionFailedError, Kind, ReliableLLMError, StreamInterruptedError
from reliable_llm.types import AdapterReply, Alive, Json, StreamEvent, Text

if TYPE_CHECKING:
    import httpx2

# How much of a body that brings no event is kept, to tell what came instead of a stream.
HEAD_BYTES: Final = 64 * 1024


def is_error(body: Json) -> bool:
    """Say whether *body* reports an error, whatever the status says."""
    return body.get("type") == "error" or bool(body.get("error"))


class Reader(Endpoint):
    """Tells an answer from what came instead, for one endpoint."""

    def __init__(self, settings: AdapterSettings) -> None:
        super().__init__(settings, VENDOR, ("request-id",))

    def answer(self, response: httpx2.Response) -> Json:
        """Return the body of *response*; raise what it is where it is no answer."""
        body = decode_or_text(response.content)
        if not isinstance(body, dict) or is_error(body):
            raise self.refusal(body, response.status_code, response.headers)
        return body


class AnthropicStream:
    """One open stream; see `adapters.base.AdapterStream`."""

    def __init__(self, reader: Reader, response: httpx2.Response, prepared: Prepared) -> None:
        self.headers: Mapping[str, str] = response.headers
        self.request_id: str | None = response.headers.get("request-id")
        self.model: str | None = None
        self._reader = reader
        self._response = response
        self._prepared = prepared
        self._chunks: AsyncGenerator[Any, None] = response.aiter_bytes()
        self._decoder = SSEDecoder()
        self._assembly = StreamAssembly(prepared.target.candidate, prepared.answer_tool)
        self._ready: deque[StreamEvent] = deque()
        self._failure: ReliableLLMError | None = None
        self._head: bytes | None = b""

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            if self._failure is not None:
                raise self._failure
            if self._assembly.finished:
                raise StopAsyncIteration
            if not self._read_next():
                await self._receive()
        return self._ready.popleft()

    def reply(self) -> AdapterReply:
        """Return what has come so far."""
        assembly = self._assembly
        return AdapterReply(
            parts=assembly.parts,
            finish_reason=assembly.finish,
            usage=assembly.usage,
            model=assembly.model,
            request_id=self.request_id,
            raw=AnthropicRaw(assembly.body, self.request_id),
            dropped=self._prepared.dropped,
            headers=self.headers,
            finish_detail=assembly.finish_detail,
            status=self._response.status_code,
        )

    async def aclose(self) -> None:
        """Leave the response. After the terminal event read on to the end first: then its connection is free again."""
        try:
            if self._assembly.finished:
                await drain(self._chunks)
        finally:
            await close_response(self._response, None if self._response.is_closed else self._chunks)

    # ------------------------------------------------------------ receiving

    async def _receive(self) -> None:
        """Take the next piece of the body, and what its first event means; or leave the failure in `_failure`."""
        try:
            chunk = await anext(self._chunks, None)
        except Exception as broken:  # noqa: BLE001 - the SDK wraps nothing here: whatever the transport raises
            self._fail(self._reader.failure(broken))
            return
        if chunk is None:
            self._decoder.end()
        else:
            self._decoder.feed(chunk)
        if self._read_next():
            self._head = None
        elif chunk is None:
            self._fail(self._cut())
        else:
            self._take_no_event(chunk)

    def _take_no_event(self, chunk: bytes) -> None:
        """Take bytes that complete no event: a sign of life; or perhaps no stream at all."""
        if self._head is not None:
            self._head = (self._head + chunk)[:HEAD_BYTES]
        self._ready.append(Alive())

    def _read_next(self) -> bool:
        """Leave what the next event means in `_ready`, or the failure in `_failure`; tell whether there was one."""
        try:
            event = self._decoder.next_event()
            if event is None:
                return False
            self._event(event)
        except ValueError as broken:
            self._fail(self._malformed(broken))
        return True

    def _event(self, event: ServerEvent) -> None:
        if event.data == b"[DONE]":  # some gateways add OpenAI's end mark; it proves nothing here
            return
        body = decode_or_text(event.data) if event.name == "error" else decode(event.data)
        if event.name == "error" or (isinstance(body, dict) and is_error(body)):
            self._fail(self._reader.refusal(body, None, self.headers))
            return
        self._take_event(body, event.name)

    def _take_event(self, body: object, name: str) -> None:
        """Take an event that is no error; raise `ValueError` for what is no event."""
        if not isinstance(body, dict):
            raise ValueError("an event that is no JSON object")
        self._ready.extend(self._assembly.feed(body, str(body.get("type") or name)))
        self.model = self._assembly.model
        if self._assembly.finished:
            self._check_end()

    def _check_end(self) -> None:
        """Turn an end without an answer into the failure that it is."""
        warming = self._prepared.body.get("max_tokens") == 0
        silent = not self._assembly.says_something and not warming
        if silent and not self._prepared.takes_silence(self._assembly.finish):
            self._ready.pop()  # Finished
            self._fail(empty(self._assembly.usage, self._response.status_code, self.request_id))

    # ------------------------------------------------------------ failing

    def _cut(self) -> ReliableLLMError:
        """Return the failure for a body that ended without the terminal event."""
        if self._head and self._head.strip():
            return self._reader.refusal(decode_or_text(self._head), self._response.status_code, self.headers)
        return ConnectionFailedError("the stream ended without its terminal event", request_id=self.request_id)

    def _malformed(self, cause: ValueError) -> ReliableLLMError:
        error = malformed("an event of the stream is broken", self._response.status_code, self.request_id)
        error.__cause__ = cause
        return error

    def _fail(self, error: ReliableLLMError) -> None:
        if isinstance(error, StreamInterruptedError):  # an error frame that says no more than that
            error = ConnectionFailedError("the vendor broke the stream off")
        error.request_id = error.request_id or self.request_id
        error.usage = error.usage or self._assembly.usage
        self._failure = self._interrupted(error) if self._assembly.output else error

    def _interrupted(self, cause: ReliableLLMError) -> StreamInterruptedError:
        """Return the failure for a stream that broke after output, because of *cause*."""
        error = StreamInterruptedError(
            f"the stream broke after output had come ({cause.kind})", request_id=self.request_id, usage=cause.usage
        )
        error.partial_text = "".join(part.text for part in self._assembly.parts if isinstance(part, Text))
        error.partial_tool_calls = self._assembly.partial_calls
        error.cause_kind = Kind(cause.kind)
        error.__cause__ = cause.__cause__
        return error
