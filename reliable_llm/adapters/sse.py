"""Server-sent events from a streamed response, in bytes: no text decoding, no model, no unbounded buffer.

`httpx2.EventSource` and the SDKs' decoders were looked at first. They swallow comment lines, which are signs of life
here, and hide or half-decode bad UTF-8, which must surface as a broken stream. None of them bounds what it holds the
way a proxy that never sends a newline needs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import httpx2

# The largest event that a vendor sends is a whole answer with pictures in base64 (Responses API, `response.completed`).
MAX_EVENT_BYTES: Final = 64 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DONE: Final = b"[DONE]"


class ServerEvent(NamedTuple):
    """One event: `name` as in its `event:` line ("" without one), `data` lines joined by newlines.

    A batch without events but with bytes is a sign of life: see `event_batches`.
    """

    name: str
    data: bytes


class OversizedEventError(ValueError):
    """An event grew past the limit without ending."""


class SSEDecoder:
    """Bytes in, events out. Any split of the input gives the same events."""

    __slots__ = ("_data", "_limit", "_name", "_rest", "_size", "_skip_newline")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0
        self._name = ""
        self._data: list[bytes] = []
        self._skip_newline = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that *chunk* completes; raise `OversizedEventError` past the limit."""
        lines = self._lines(chunk)
        rest = lines.pop()
        if not lines:
            self._keep(rest)
            return []
        if self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest = []
        events = self._events(lines)
        self._size = sum(map(len, self._data))
        self._keep(rest)
        return events

    def flush(self) -> list[ServerEvent]:
        """Return what the end of the body completes: lines that did end, and a `[DONE]` without its newline.

        A line cut in the middle is not an event.
        """
        rest = b"".join(self._rest)
        self._rest = []
        lines = [rest, b""] if rest.endswith(_DONE) else [b""]
        return self._events(lines)

    def _lines(self, chunk: bytes) -> list[bytes]:
        if self._skip_newline and chunk:
            chunk = chunk[1:] if chunk[:1] == b"\n" else chunk
            self._skip_newline = False
        if b"\r" not in chunk:
            return chunk.split(b"\n")
        self._skip_newline = chunk.endswith(b"\r")
        return _LINE_END.split(chunk)

    def _keep(self, rest: bytes) -> None:
        if rest:
            self._rest.append(rest)
            self._size += len(rest)
        if self._size > self._limit:
            raise OversizedEventError(f"an event of the stream is larger than {self._limit} bytes")

    def _events(self, lines: list[bytes]) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                self._dispatch(events)
            elif line.startswith(b"event:"):
                self._name = line[6:].strip().decode("utf-8", "replace")
            elif line == b"data":
                self._data.append(b"")
        return events

    def _dispatch(self, events: list[ServerEvent]) -> None:
        data = self._data
        if data:
            events.append(ServerEvent(self._name, data[0] if len(data) == 1 else b"\n".join(data)))
            self._data = []
        self._name = ""


async def event_batches(
    response: httpx2.Response, limit: int = MAX_EVENT_BYTES
) -> AsyncGenerator[list[ServerEvent], None]:
    """Yield, for every piece of the body that arrives, the events it completes; an empty list is a sign of life.

    Ends where the body ends, whatever was said before: proof of the end is the adapter's business. Raises what the
    transport raises (`httpx2.HTTPError`) and `OversizedEventError`. Close the generator to close the response.
    """
    decoder = SSEDecoder(limit)
    async with aclosing(response.aiter_bytes()) as body:
        async for chunk in body:
            yield decoder.feed(chunk)
    if last := decoder.flush():
        yield last
