"""One connection over loopback: kept alive, opened anew once it is gone, and what goes wrong by httpx2's names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpcore2
import httpx2
import pytest

from reliable_llm.adapters.http import ssl_context
from reliable_llm.adapters.one_connection import OneConnection

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"
LAST = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody"
HALF = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbody"


class Server:
    """Counts connections; `answers` are given one for each request, and after each it hangs up if it `closes`."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.closes = False
        self.connections = 0
        self.url = ""
        self.asked, self.gone = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                await reader.readuntil(b"\r\n\r\n")
                self.asked.set()
                writer.write(self.answers.pop(0))
                await writer.drain()
                if self.closes:
                    return
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            await writer.wait_closed()
            self.gone.set()


@asynccontextmanager
async def connected(*answers: bytes, expiry: float = 30.0) -> AsyncIterator[tuple[Server, httpx2.AsyncClient]]:
    server = Server(*answers)
    transport = OneConnection(ssl_context(), expiry)
    async with (
        await asyncio.start_server(server, "127.0.0.1", 0) as listening,
        httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(5.0, read=0.2)) as client,
    ):
        host, port = listening.sockets[0].getsockname()
        server.url = f"http://{host}:{port}/v1"
        yield server, client


async def test_requests_one_after_the_other_share_the_connection() -> None:
    async with connected(OK, OK, OK) as (server, client):
        assert [(await client.get(server.url)).text for _ in range(3)] == ["body"] * 3
    assert server.connections == 1


@pytest.mark.parametrize("first", [LAST, HALF], ids=["said to be the last", "cut off"])
async def test_a_connection_that_is_over_is_opened_anew(first: bytes) -> None:
    async with connected(first, OK) as (server, client):
        async with client.stream("GET", server.url) as response:
            assert await anext(response.aiter_bytes()) == b"body"
        assert (await client.get(server.url)).text == "body"
    assert server.connections == 2


async def test_a_connection_that_the_server_closed_meanwhile_is_opened_anew() -> None:
    async with connected(OK, OK) as (server, client):
        server.closes = True
        await client.get(server.url)
        await server.gone.wait()
        assert (await client.get(server.url)).text == "body"
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_too_long_is_opened_anew() -> None:
    async with connected(OK, OK, expiry=0.0) as (server, client):
        await client.get(server.url)
        await client.get(server.url)
    assert server.connections == 2


async def test_a_cancelled_request_leaves_nothing_for_the_next_one() -> None:
    async with connected(b"", OK) as (server, client):
        task = asyncio.ensure_future(client.get(server.url, timeout=60))
        await server.asked.wait()
        task.cancel()
        await asyncio.wait([task])
        assert (await client.get(server.url)).text == "body"
    assert server.connections == 2


async def test_another_host_gets_a_connection_of_its_own() -> None:
    async with connected(OK) as (there, _), connected(OK) as (here, client):
        assert [(await client.get(each.url)).text for each in (here, there)] == ["body"] * 2
    assert [here.connections, there.connections] == [1, 1]


async def test_a_silent_server_is_a_read_timeout() -> None:
    async with connected(b"") as (server, client):
        with pytest.raises(httpx2.ReadTimeout):
            await client.get(server.url)


async def test_silence_in_the_middle_of_a_body_is_a_read_timeout() -> None:
    async with connected(HALF) as (server, client):
        with pytest.raises(httpx2.ReadTimeout):
            await client.get(server.url)


async def test_a_server_that_hangs_up_without_an_answer_is_a_protocol_error() -> None:
    async with connected(b"") as (server, client):
        server.closes = True
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.url)


async def test_what_is_no_http_is_a_protocol_error() -> None:
    async with connected(b"hello\r\n\r\n") as (server, client):
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.url)


async def test_a_closed_port_is_a_connect_error() -> None:
    async with connected() as (server, _):
        pass
    async with httpx2.AsyncClient(transport=OneConnection(ssl_context(), 30.0)) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(server.url)


async def test_only_web_addresses_are_asked() -> None:
    async with httpx2.AsyncClient(transport=OneConnection(ssl_context(), 30.0)) as client:
        with pytest.raises(httpx2.UnsupportedProtocol, match="https://"):
            await client.get("ftp://vendor.example/v1")


def test_every_failure_of_the_connection_has_a_name_in_httpx2() -> None:
    from reliable_llm.adapters.one_connection import _ERRORS

    bases = (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError)
    public = (getattr(httpcore2, name) for name in httpcore2.__all__)
    failures = {each for each in public if isinstance(each, type) and issubclass(each, bases)}
    # A pool's own, which is the stack's business.
    assert failures - {httpcore2.PoolTimeout} == set(_ERRORS)
    assert [each.__name__ for each in _ERRORS] == [each.__name__ for each in _ERRORS.values()]
