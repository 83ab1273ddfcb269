"""One HTTP/1.1 connection as a transport of httpx2's: opened when needed, kept alive, opened anew once it is gone.

httpx2's own transport is a pool, which searches itself at every request and at the end of every response. Behind a
`ConnectionStack` there is nothing to search: that is an eighth of a request's CPU, and some KiB for each connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

import httpcore2
import httpx2

if TYPE_CHECKING:
    import ssl

# Both packages name what can go wrong alike; the general ones come last.
_ERRORS: Final[Mapping[type[Exception], type[httpx2.TransportError]]] = {
    httpcore2.ConnectTimeout: httpx2.ConnectTimeout,
    httpcore2.ReadTimeout: httpx2.ReadTimeout,
    httpcore2.WriteTimeout: httpx2.WriteTimeout,
    httpcore2.ConnectError: httpx2.ConnectError,
    httpcore2.ReadError: httpx2.ReadError,
    httpcore2.WriteError: httpx2.WriteError,
    httpcore2.LocalProtocolError: httpx2.LocalProtocolError,
    httpcore2.RemoteProtocolError: httpx2.RemoteProtocolError,
    httpcore2.TimeoutException: httpx2.TimeoutException,
    httpcore2.NetworkError: httpx2.NetworkError,
    httpcore2.ProtocolError: httpx2.ProtocolError,
}
_FAILURES: Final = tuple(_ERRORS)


def _translated(failure: Exception) -> httpx2.TransportError:
    """Return what httpx2 calls *failure*."""
    known = (there for here, there in _ERRORS.items() if isinstance(failure, here))
    return next(known)(str(failure))


class OneConnection(httpx2.AsyncBaseTransport):
    """Has to be given one request at a time: the next one when the response of the last is closed.

    A connection that has been idle for `expiry` seconds, or that the server has closed, is not used again. Raises what
    `httpx2.AsyncHTTPTransport` raises, and `httpx2.UnsupportedProtocol` for anything but http and https.
    """

    def __init__(self, ssl_context: ssl.SSLContext, expiry: float) -> None:
        self._ssl_context = ssl_context
        self._expiry = expiry
        self._connection: httpcore2.AsyncHTTPConnection | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol("an address begins with http:// or https://", request=request)
        asked = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            connection = await self._connection_to(asked.url.origin)
            answer = await connection.handle_async_request(asked)
        except _FAILURES as failure:
            raise _translated(failure) from failure
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Stream(answer), extensions=answer.extensions
        )

    async def _connection_to(self, origin: httpcore2.Origin) -> httpcore2.AsyncHTTPConnection:
        """Return the connection if it can be used again, or a new one."""
        connection = self._connection
        if connection is not None:
            if connection.is_available() and connection.can_handle_request(origin) and not connection.has_expired():
                return connection
            await self.aclose()
        self._connection = httpcore2.AsyncHTTPConnection(origin, self._ssl_context, self._expiry)
        return self._connection

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


class _Stream(httpx2.AsyncByteStream):
    """The body of a response. Closing it makes the connection idle, or closes that where something is left."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = self._answer.stream
        assert isinstance(body, AsyncIterable)  # noqa: S101 - an asynchronous connection gives no other
        try:
            async for piece in body:
                yield piece
        except _FAILURES as failure:
            raise _translated(failure) from failure

    async def aclose(self) -> None:
        await self._answer.aclose()
