"""Server-sent events from a streamed response, in bytes: no text decoding, no model, no unbounded buffer.

`httpx2.EventSource` and the SDKs' decoders were looked at first. They swallow comment lines, which are signs of life
here, and hide or half-decode bad UTF-8, which must surface as a broken stream. None of them bounds what it holds the
way a proxy that never sends a newline needs.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final, NamedTuple

# The largest event that a vendor sends is a whole answer with pictures in base64 (Responses API, `response.completed`).
MAX_EVENT_BYTES: Final = 64 * 1024 * 1024

# How much is split into lines at once: what was compressed may be empty lines by the million.
_PIECE: Final = 64 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DONE: Final = b"[DONE]"


class ServerEvent(NamedTuple):
    """One event: `name` as in its `event:` line ("" without one), `data` lines joined by newlines."""

    name: str
    data: bytes


class OversizedEventError(ValueError):
    """An event grew past the limit without ending."""


class SSEDecoder:
    """Bytes in, events out. Any split of the input gives the same events.

    Each event is made when it is asked for: the first one must not wait for all those that came with it. Ask until
    there is none, then feed on.
    """

    __slots__ = ("_data", "_limit", "_lines", "_name", "_pieces", "_rest", "_size", "_skip_newline")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._skip_newline = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""
        self._pieces.extend(chunk[at : at + _PIECE] for at in range(0, len(chunk), _PIECE))

    def end(self) -> None:
        """Take the end of the body, which completes an event whose lines did end, and a `[DONE]` without its newline.

        A line cut in the middle is not an event.
        """
        while self._pieces:
            self._split_next()
        rest = bytes(self._rest)
        self._rest.clear()
        self._lines.extend((rest, b"") if rest.endswith(_DONE) else (b"",))

    def next_event(self) -> ServerEvent | None:
        """Return the next event, None where more bytes are needed; raise `OversizedEventError` past the limit."""
        while self._lines or self._pieces:
            if not self._lines:
                self._split_next()
                continue
            line = self._lines.popleft()
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._size += len(line)
            elif not line:
                event = self._event()
                if event is not None:
                    return event
            elif line.startswith(b"event:"):
                self._name = line[6:].strip().decode("utf-8", "replace")
            elif line == b"data":
                self._data.append(b"")
        if self._size + len(self._rest) > self._limit:
            raise OversizedEventError(f"an event of the stream is larger than {self._limit} bytes")
        return None

    def _split_next(self) -> None:
        lines = self._split(self._pieces.popleft())
        rest = lines.pop()
        if lines and self._rest:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._lines.extend(lines)
        self._rest += rest

    def _split(self, chunk: bytes) -> list[bytes]:
        if self._skip_newline:
            chunk = chunk[1:] if chunk[:1] == b"\n" else chunk
            self._skip_newline = False
        if b"\r" not in chunk:
            return chunk.split(b"\n")
        self._skip_newline = chunk.endswith(b"\r")
        return _LINE_END.split(chunk)

    def _event(self) -> ServerEvent | None:
        """Return what an empty line ends, if there is anything."""
        name, data = self._name, self._data
        self._name = ""
        if not data:
            return None
        self._data, self._size = [], 0
        return ServerEvent(name, data[0] if len(data) == 1 else b"\n".join(data))
