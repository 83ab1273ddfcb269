"""The plumbing under every vendor client: one connection pool per event loop, opened off the loop.

A pool is shared by all keys, so it keeps no cookies (a cookie set for one key would travel with the next), follows no
redirect (that would send the prompt to another host) and keeps as many connections alive as it may open. Vendor SDKs
take 0.5 to 2.5 s to import and an SSL context about 30 ms: both happen in a worker thread, on first use.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.request import getproxies

import anyio

from reliable_llm.adapters.base import AdapterSettings
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import Timeouts

if TYPE_CHECKING:
    import ssl

    import httpx2

ClientT = TypeVar("ClientT")

# Vendors' front ends keep idle connections for a minute or more (AWS: 60 s); half of that reuses them without meeting
# one that was just closed on the other side.
KEEPALIVE_EXPIRY: Final = 30.0

# How long leaving a response may take before it is abandoned.
CLOSE_TIMEOUT: Final = 1.0

# How long the end of the body is waited for after the terminal event, so that the connection can be used again.
DRAIN_TIMEOUT: Final = 0.1


class ClientPool(Generic[ClientT]):
    """One vendor client per running event loop, each over its own connections.

    *connect* gets the `httpx2.AsyncClient` to use and returns the vendor's client. It runs in a worker thread: that is
    the place to import the vendor's SDK. A pool closes with its event loop (`asyncio.run` and `asyncio.Runner` see to
    that), or with `aclose()`; afterwards it opens again on next use.
    """

    def __init__(self, settings: AdapterSettings, connect: Callable[[httpx2.AsyncClient], ClientT]) -> None:
        self._settings = settings
        self._connect = connect
        self._open: dict[asyncio.AbstractEventLoop, ClientT] = {}
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Future[tuple[httpx2.AsyncClient, ClientT]]] = {}

    def ready(self) -> ClientT | None:
        """Return the running loop's client, or None where `client()` has to open it first."""
        return self._open.get(asyncio.get_running_loop())

    async def client(self) -> ClientT:
        """Return the running loop's client, opened on first use; callers at the same time share the opening."""
        loop = asyncio.get_running_loop()
        while (client := self._open.get(loop)) is None:
            await self._open_in(loop)
        return client

    async def aclose(self) -> None:
        """Close the running loop's connections and forget those of loops that are closed."""
        self._forget_closed_loops()
        keeper = self._keepers.get(asyncio.get_running_loop())
        if keeper is not None:
            await keeper.aclose()

    async def _open_in(self, loop: asyncio.AbstractEventLoop) -> None:
        opening = self._opening.get(loop)
        if opening is None:
            self._forget_closed_loops()
            opening = self._opening[loop] = loop.run_in_executor(None, self._build)
            opening.add_done_callback(_retrieve)
        try:
            # Shielded: a first caller who is cancelled must not take the opening away from the others.
            http, client = await asyncio.shield(opening)
        finally:
            if opening.done():
                self._opening.pop(loop, None)
        if loop not in self._open:
            self._open[loop] = client
            keeper = self._keepers[loop] = self._keep(loop, http)
            await anext(keeper)

    def _build(self) -> tuple[httpx2.AsyncClient, ClientT]:
        http = self._settings.http_client or new_http_client(self._settings)
        return http, self._connect(http)

    async def _keep(self, loop: asyncio.AbstractEventLoop, http: httpx2.AsyncClient) -> AsyncGenerator[None, None]:
        # A started asynchronous generator is closed by the loop's own shutdown: the one public place where a pool can
        # be closed while its loop still runs.
        try:
            yield
        finally:
            self._open.pop(loop, None)
            self._keepers.pop(loop, None)
            if http is not self._settings.http_client:
                await http.aclose()

    def _forget_closed_loops(self) -> None:
        for loops in (self._open, self._keepers, self._opening):
            for loop in [loop for loop in loops if loop.is_closed()]:
                del loops[loop]


def _retrieve(opening: asyncio.Future[Any]) -> None:
    if not opening.cancelled():
        opening.exception()


class NoCookies(CookieJar):
    """A jar that takes nothing and gives nothing."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Take nothing."""

    def add_cookie_header(self, request: object) -> None:
        """Give nothing."""


@functools.lru_cache(maxsize=1)
def ssl_context() -> ssl.SSLContext:
    """Return the process's SSL context: reading the CA files costs about 30 ms, once for all pools."""
    import httpx2

    return httpx2.create_ssl_context()


def new_http_client(settings: AdapterSettings) -> httpx2.AsyncClient:
    """Return a client with its own pool of at most `settings.pool_limit` connections. Blocks: call it in a thread."""
    import httpx2

    limits = httpx2.Limits(
        max_connections=settings.pool_limit,
        max_keepalive_connections=settings.pool_limit,
        keepalive_expiry=KEEPALIVE_EXPIRY,
    )
    transport = _aiohttp_transport(limits) if settings.transport == "aiohttp" else _connections(settings.pool_limit)
    return httpx2.AsyncClient(
        transport=transport, verify=ssl_context(), limits=limits, cookies=NoCookies(), follow_redirects=False
    )


def _connections(limit: int) -> httpx2.AsyncBaseTransport | None:
    """Return a transport that finds a connection at once; None behind a proxy, which httpx2 sees to itself."""
    from reliable_llm.adapters.connections import ConnectionStack
    from reliable_llm.adapters.one_connection import OneConnection

    if has_proxy():
        return None
    return ConnectionStack(lambda: OneConnection(ssl_context(), KEEPALIVE_EXPIRY), limit=limit, expiry=KEEPALIVE_EXPIRY)


def has_proxy() -> bool:
    """Tell whether the environment names a proxy (HTTPS_PROXY and the like)."""
    return any(scheme != "no" for scheme in getproxies())


def _aiohttp_transport(limits: httpx2.Limits) -> httpx2.AsyncBaseTransport:
    try:
        from reliable_llm.adapters.aiohttp_transport import AiohttpTransport
    except ImportError as missing:
        raise ConfigurationError("transport='aiohttp' needs aiohttp: pip install 'reliable-llm[aiohttp]'") from missing
    return AiohttpTransport(limits, ssl_context())


@functools.lru_cache(maxsize=64)
def http_timeout(timeouts: Timeouts, *, stream: bool = False) -> httpx2.Timeout:
    """Return *timeouts* for one request.

    The read timeout restarts with every piece that arrives. In a stream the coordinator's own clocks watch the first
    token and the silence, so the transport only ends what is silent for longer than any of them allows.
    """
    import httpx2

    read = max(timeouts.first_byte, timeouts.first_token, timeouts.idle) if stream else timeouts.first_byte
    return httpx2.Timeout(connect=timeouts.connect, read=read, write=timeouts.first_byte, pool=timeouts.attempt)


async def drain(body: AsyncIterator[object]) -> None:
    """Read *body* on to its end for at most `DRAIN_TIMEOUT` seconds: a body read to its end frees its connection."""
    with anyio.move_on_after(DRAIN_TIMEOUT), contextlib.suppress(Exception):
        async for _ in body:
            pass


async def close_response(response: httpx2.Response, body: AsyncGenerator[Any, None] | None = None) -> None:
    """Close *response* within `CLOSE_TIMEOUT` seconds, whatever the caller's cancellation.

    *body* is the generator that reads it, if there is one: a generator left to the garbage collector would close the
    response at some later time.
    """
    if response.is_closed and body is None:
        return
    # A task of its own outlives a second `cancel()`, which no shield around this coroutine could.
    closing = asyncio.get_running_loop().create_task(_close(response, body))
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    with anyio.CancelScope(shield=True):
        await asyncio.shield(closing)


_closing: Final[set[asyncio.Task[None]]] = set()


async def _close(response: httpx2.Response, body: AsyncGenerator[Any, None] | None) -> None:
    # Best effort: the answer, or its failure, is already known.
    with anyio.move_on_after(CLOSE_TIMEOUT), contextlib.suppress(Exception):
        if body is not None:
            await body.aclose()
        await response.aclose()
