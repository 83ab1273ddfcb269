"""An aiohttp transport for `httpx2.AsyncClient`: less CPU per call, and flat with the number of connections.

The transport that both vendor SDKs carry was looked at first. Its session keeps cookies, which would travel from one
key to the next; it reports a server that hangs up as a connect timeout, which is never retried safely; and it lets
`aiohttp.ClientResponseError` out. None of this can be set from outside.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx2

from reliable_llm.adapters.connections import bounded
from reliable_llm.adapters.http import has_proxy

if TYPE_CHECKING:
    import ssl

# The first match wins, so subclasses stand before their bases.
_ERRORS: Final[tuple[tuple[type[Exception], type[httpx2.RequestError]], ...]] = (
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx2.ReadTimeout),
    (aiohttp.ClientProxyConnectionError, httpx2.ProxyError),
    (aiohttp.ClientHttpProxyError, httpx2.ProxyError),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.ClientSSLError, httpx2.ConnectError),
    (aiohttp.ServerDisconnectedError, httpx2.RemoteProtocolError),
    (aiohttp.ClientOSError, httpx2.ReadError),
    (aiohttp.ClientPayloadError, httpx2.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx2.RemoteProtocolError),
    (aiohttp.ClientError, httpx2.NetworkError),
    (TimeoutError, httpx2.ReadTimeout),
    (OSError, httpx2.ReadError),
)


@contextmanager
def _translated(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as exc:
        error = next(ours for theirs, ours in _ERRORS if isinstance(exc, theirs))
        raise error(str(exc), request=request) from exc


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return bounded(self._chunks(), httpx2.Headers(self._response.raw_headers))

    async def _chunks(self) -> AsyncIterator[bytes]:
        with _translated(self._request):
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        # A body read to its end has given its connection back already; any other connection is of no more use.
        self._response.close()


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Requests over one `aiohttp.ClientSession`, opened in the event loop of the first request."""

    def __init__(self, limits: httpx2.Limits, ssl_context: ssl.SSLContext) -> None:
        self._limits = limits
        self._ssl_context = ssl_context
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        session = self._session or self._connect()
        timeout = request.extensions.get("timeout", {})
        with _translated(request):
            response = await session.request(
                request.method,
                str(request.url),
                headers=request.headers,
                data=request.content,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=timeout.get("pool"), sock_connect=timeout.get("connect"), sock_read=timeout.get("read")
                ),
            )
        return httpx2.Response(
            status_code=response.status,
            headers=response.raw_headers,
            stream=_Body(response, request),
            request=request,
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": (response.reason or "").encode("latin-1")},
        )

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _connect(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._limits.max_connections or 0,
            keepalive_timeout=self._limits.keepalive_expiry,
            ssl=self._ssl_context,
        )
        # Asking for proxies takes aiohttp two worker threads per request: only where there is one.
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=has_proxy()
        )
        return self._session
