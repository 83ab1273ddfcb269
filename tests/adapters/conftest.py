"""Fake hosts for the adapters' tests: one in process, one on loopback that can break off in every way."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest

Answer = httpx2.Response | Callable[[httpx2.Request], httpx2.Response]


class PiecesStream(httpx2.AsyncByteStream):
    """A body in pieces; an exception among them is raised where it stands. Remembers whether it was closed."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces
        self.closed = False
        self.read_to_end = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece
        self.read_to_end = True

    async def aclose(self) -> None:
        self.closed = True


class FakeHost:
    """Answers with what was queued (the last again and again) and keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[httpx2.Request] = []

    def answer(self, body: object, *, status: int = 200, **headers: str) -> FakeHost:
        """Queue a document: JSON, or text as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str | bytes):
            self.answers.append(httpx2.Response(status, content=body, headers=named))
        else:
            self.answers.append(httpx2.Response(status, json=body, headers=named))
        return self

    def stream(
        self, *pieces: bytes | Exception, content_type: str = "text/event-stream", **headers: str
    ) -> PiecesStream:
        """Queue a stream and return its body."""
        body = PiecesStream(*pieces)
        named = {"content-type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(httpx2.Response(200, stream=body, headers=named))
        return body

    def fail(self, error: BaseException) -> FakeHost:
        def raiser(request: httpx2.Request) -> httpx2.Response:
            raise error

        self.answers.append(raiser)
        return self

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle))

    @property
    def body(self) -> dict[str, Any]:
        """The last request's body."""
        sent: dict[str, Any] = json.loads(self.requests[-1].content)
        return sent

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            return answer(request)
        # A response can be read once only.
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=answer.stream)


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


class Loopback:
    """A server of raw bytes: what each connection gets, and how it ends (`fin`, `rst`, `hang`, `keep`)."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.end = "fin"
        self.connections = 0
        self.requests = 0
        self.arrived = asyncio.Semaphore(0)
        self.closed_by_client = 0
        self.heads: list[bytes] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def send(self, *pieces: bytes, end: str = "fin") -> None:
        self.pieces, self.end = list(pieces), end

    def send_stream(self, *events: bytes, end: str = "fin") -> None:
        """Send a chunked event stream; `end="whole"` closes it in order and keeps the connection."""
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in events]
        last = [b"0\r\n\r\n"] if end in ("whole", "eof") else []
        self.send(head, *chunks, *last, end={"whole": "keep", "eof": "fin"}.get(end, end))

    def send_json(self, body: object, *, end: str = "keep") -> None:
        content = json.dumps(body).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content)
        self.send(head + content, end=end)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed_by_client += 1
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        self.requests += 1
        self.arrived.release()
        for piece in self.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if self.end == "hang":
            await reader.readexactly(1)
        if self.end == "rst":
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self.end == "keep"


@pytest.fixture
async def loopback() -> AsyncIterator[Loopback]:
    server = Loopback()
    await server.start()
    yield server
    await server.stop()


def sse(*events: object) -> bytes:
    """Return *events* as server-sent events; a string is sent as it is."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return b"".join(f"data: {text}\n\n".encode() for text in texts)


@pytest.fixture(name="sse")
def sse_fixture() -> Iterator[Callable[..., bytes]]:
    return sse
