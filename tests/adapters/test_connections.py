"""Connections behind one vendor client: each found at once, none lost, none too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
import pytest

from reliable_llm.adapters.base import AdapterSettings
from reliable_llm.adapters.connections import ANSWER_LIMIT, COMPRESSED_LIMIT, ConnectionStack, bounded
from reliable_llm.adapters.http import has_proxy, new_http_client
from reliable_llm.drill.loop import run

URL = "https://vendor.example/v1"


class Connection(httpx2.AsyncBaseTransport):
    """Answers after `seconds` with its number; `/fail` breaks it."""

    def __init__(self, number: int, seconds: float) -> None:
        self.number = number
        self.seconds = seconds
        self.closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(self.seconds)
        if request.url.path.endswith("/fail"):
            raise httpx2.ConnectError("refused", request=request)
        return httpx2.Response(200, headers={"number": str(self.number)}, stream=httpx2.ByteStream(b"body"))

    async def aclose(self) -> None:
        self.closed = True


class Vendor:
    """A client over a stack, and every connection that it has made."""

    def __init__(self, *, limit: int = 9, seconds: float = 1.0) -> None:
        self.made: list[Connection] = []
        self.seconds = seconds
        self.stack = ConnectionStack(self._connect, limit=limit, expiry=30.0)
        self.http = httpx2.AsyncClient(transport=self.stack, timeout=httpx2.Timeout(5.0, pool=0.5))

    def _connect(self) -> Connection:
        self.made.append(Connection(len(self.made), self.seconds))
        return self.made[-1]

    async def get(self, path: str = "") -> str:
        """Return the number of the connection that answered."""
        return (await self.http.get(URL + path)).headers["number"]


def within(main: Callable[[], Coroutine[object, object, object]]) -> object:
    return run(main())


def test_requests_one_after_the_other_share_a_connection() -> None:
    async def main() -> list[str]:
        vendor = Vendor()
        return [await vendor.get() for _ in range(3)]

    assert within(main) == ["0", "0", "0"]


def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async def main() -> list[str]:
        vendor = Vendor()
        return await asyncio.gather(*(vendor.get() for _ in range(3)))

    assert within(main) == ["0", "1", "2"]


def test_the_connection_that_was_used_last_goes_first() -> None:
    async def main() -> str:
        vendor = Vendor()
        await asyncio.gather(vendor.get(), vendor.get())
        return await vendor.get()

    assert within(main) == "1"


def test_a_stream_keeps_its_connection_until_it_is_closed() -> None:
    async def main() -> list[str]:
        vendor = Vendor()
        async with vendor.http.stream("GET", URL):
            meanwhile = await vendor.get()
        return [meanwhile, await vendor.get()]

    assert within(main) == ["1", "0"]


def test_closing_a_response_twice_frees_its_connection_once() -> None:
    async def main() -> list[str]:
        vendor = Vendor()
        async with vendor.http.stream("GET", URL) as response:
            await response.aclose()
            await response.stream.aclose()  # type: ignore[union-attr]
        return sorted(await asyncio.gather(vendor.get(), vendor.get()))

    assert within(main) == ["0", "1"]


@pytest.mark.parametrize("path", ["", "/fail"])
def test_a_request_above_the_limit_waits_for_a_connection(path: str) -> None:
    async def main() -> tuple[str, int]:
        vendor = Vendor(limit=1, seconds=0.4)
        first = asyncio.ensure_future(vendor.get(path))
        await asyncio.sleep(0)
        number = await vendor.get()
        await asyncio.wait([first])
        first.exception()
        return number, len(vendor.made)

    assert within(main) == ("0", 1)


def test_who_waits_too_long_for_a_connection_is_told() -> None:
    async def main() -> None:
        vendor = Vendor(limit=1)
        await asyncio.gather(vendor.get(), vendor.get())

    with pytest.raises(httpx2.PoolTimeout):
        within(main)


def test_a_cancelled_request_gives_its_connection_back() -> None:
    async def main() -> str:
        vendor = Vendor(limit=1)
        task = asyncio.ensure_future(vendor.get())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        return await vendor.get()

    assert within(main) == "0"


def test_what_was_idle_too_long_is_closed_by_the_next_request() -> None:
    async def main() -> list[bool]:
        vendor = Vendor()
        await asyncio.gather(*(vendor.get() for _ in range(3)))
        await asyncio.sleep(29)
        await vendor.get()
        await asyncio.sleep(2)
        await vendor.get()
        return [connection.closed for connection in vendor.made]

    assert within(main) == [True, True, False]


def test_closing_the_client_closes_every_connection() -> None:
    async def main() -> list[bool]:
        vendor = Vendor()
        await asyncio.gather(vendor.get(), vendor.get())
        busy = asyncio.ensure_future(vendor.get())
        await asyncio.sleep(0.1)
        await vendor.http.aclose()
        await busy
        return [connection.closed for connection in vendor.made]

    assert within(main) == [True, True]


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
async def test_the_proxy_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch, transport: Any) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).splitlines()[0])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        host, port = proxy.sockets[0].getsockname()
        monkeypatch.setenv("HTTP_PROXY", f"http://{host}:{port}")
        monkeypatch.setenv("http_proxy", f"http://{host}:{port}")
        client = await asyncio.to_thread(new_http_client, AdapterSettings(vendor="openai", transport=transport))
        async with client:
            await client.get("http://vendor.example/v1")
    assert asked == [b"GET http://vendor.example/v1 HTTP/1.1"]


def test_exceptions_from_a_proxy_are_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "localhost")
    assert not has_proxy()


# ---------------------------------------------------------------- how much


class Endless:
    """A vendor on loopback that never stops answering, in pieces of 64 KiB."""

    def __init__(self, *headers: str) -> None:
        self.head = "\r\n".join(["HTTP/1.1 200 OK", "transfer-encoding: chunked", *headers, "", ""]).encode()
        self.sent = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.head)
        piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        try:
            while self.sent < 2 * ANSWER_LIMIT:
                writer.write(piece)
                self.sent += 65_536
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
@pytest.mark.parametrize(
    ("headers", "limit"),
    [((), ANSWER_LIMIT), (("content-encoding: unknown",), COMPRESSED_LIMIT)],
    ids=["plain", "packed"],
)
async def test_an_answer_without_end_is_left_at_its_limit(transport: Any, headers: tuple[str, ...], limit: int) -> None:
    vendor = Endless(*headers)
    async with await asyncio.start_server(vendor, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        client = await asyncio.to_thread(new_http_client, AdapterSettings(vendor="openai", transport=transport))
        async with client:
            with pytest.raises(httpx2.DecodingError, match=str(limit)):
                await client.get(f"http://{host}:{port}/v1")
    assert limit <= vendor.sent < 2 * ANSWER_LIMIT


async def test_a_stream_of_events_may_be_longer_than_any_answer() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(ANSWER_LIMIT // 2)

    headers = httpx2.Headers({"content-type": "text/event-stream; charset=utf-8"})
    assert sum([len(piece) async for piece in bounded(pieces(), headers)]) > ANSWER_LIMIT
