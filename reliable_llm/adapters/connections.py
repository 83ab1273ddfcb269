"""The connections under a vendor's client, found at once however many there are.

httpx2's own pool looks over all its connections twice per request: with 64 calls under way that is a fifth of their
CPU, and it grows with the square of their number. Here each connection stands behind a transport of its own, and the
idle ones on a stack.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from typing import Final

import httpx2

# As the largest event of a stream: a whole answer with pictures in base64.
ANSWER_LIMIT: Final = 64 * 1024 * 1024

# What is compressed grows: text tenfold, what was made for it a thousandfold.
COMPRESSED_LIMIT: Final = 4 * 1024 * 1024


def bounded(body: AsyncIterable[bytes], headers: httpx2.Headers) -> AsyncIterator[bytes]:
    """Return *body*, which raises `httpx2.DecodingError` past its limit. A stream of events has one for each event."""
    if "event-stream" in headers.get("content-type", ""):
        return aiter(body)
    compressed = headers.get("content-encoding", "identity") != "identity"
    return _at_most(COMPRESSED_LIMIT if compressed else ANSWER_LIMIT, body)


async def _at_most(limit: int, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in body:
        size += len(chunk)
        if size > limit:
            raise httpx2.DecodingError(f"the answer is larger than {limit} bytes")
        yield chunk


class ConnectionStack(httpx2.AsyncBaseTransport):
    """At most `limit` connections. The one that was used last goes first, so that the others can expire.

    *connect* makes the transport of one connection. One that has been idle for `expiry` seconds is closed when the next
    request comes. Raises `httpx2.PoolTimeout` where none is free within the request's `pool` timeout.
    """

    def __init__(self, connect: Callable[[], httpx2.AsyncBaseTransport], *, limit: int, expiry: float) -> None:
        self._connect = connect
        self._expiry = expiry
        self._places = asyncio.Semaphore(limit)
        self._open: set[httpx2.AsyncBaseTransport] = set()
        self._idle: deque[tuple[float, httpx2.AsyncBaseTransport]] = deque()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await self._close_expired()
        await self._take_place(request)
        connection = self._idle.pop()[1] if self._idle else self._new()
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            self._give_back(connection)
            raise
        response.stream = _Body(response, partial(self._give_back, connection))
        return response

    async def _take_place(self, request: httpx2.Request) -> None:
        try:
            async with asyncio.timeout(request.extensions["timeout"]["pool"] if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout("every connection is in use", request=request) from None

    def _new(self) -> httpx2.AsyncBaseTransport:
        connection = self._connect()
        self._open.add(connection)
        return connection

    def _give_back(self, connection: httpx2.AsyncBaseTransport) -> None:
        self._idle.append((asyncio.get_running_loop().time(), connection))
        self._places.release()

    async def _close_expired(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._expiry
        while self._idle and self._idle[0][0] < oldest:
            _, connection = self._idle.popleft()
            self._open.discard(connection)
            await connection.aclose()

    async def aclose(self) -> None:
        self._idle.clear()
        while self._open:
            await self._open.pop().aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of a response; closing it frees the connection."""

    def __init__(self, response: httpx2.Response, leave: Callable[[], None]) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an asynchronous transport has no other
        self._body = response.stream
        self._headers = response.headers
        self._leave: Callable[[], None] | None = leave

    def __aiter__(self) -> AsyncIterator[bytes]:
        return bounded(self._body, self._headers)

    async def aclose(self) -> None:
        leave, self._leave = self._leave, None
        try:
            await self._body.aclose()
        finally:
            if leave is not None:
                leave()
