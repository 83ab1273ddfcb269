"""Connection pools: one per event loop, opened off it, closed with it."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import httpx2
import pytest

from reliable_llm.adapters.base import AdapterSettings
from reliable_llm.adapters.http import (
    ClientPool,
    close_response,
    drain,
    http_timeout,
    new_http_client,
)
from reliable_llm.drill import loop as virtual
from reliable_llm.policy import Timeouts

SETTINGS = AdapterSettings(vendor="openai", pool_limit=7)


class Connector:
    """Stands for the vendor's client: what it was built from, in which thread, how often."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.built: list[httpx2.AsyncClient] = []
        self.threads: list[int] = []

    def __call__(self, http: httpx2.AsyncClient) -> httpx2.AsyncClient:
        self.threads.append(threading.get_ident())
        if self.failures:
            raise self.failures.pop(0)
        self.built.append(http)
        return http


async def test_first_callers_at_the_same_time_share_one_client() -> None:
    pool = ClientPool(SETTINGS, connect := Connector())
    clients = await asyncio.gather(*(pool.client() for _ in range(20)))
    assert len({id(client) for client in clients}) == len(connect.built) == 1
    await pool.aclose()


async def test_the_client_is_built_off_the_event_loop() -> None:
    pool = ClientPool(SETTINGS, connect := Connector())
    await pool.client()
    assert connect.threads[0] != threading.get_ident()
    await pool.aclose()


async def test_nothing_is_ready_before_first_use_and_the_same_client_afterwards() -> None:
    pool = ClientPool(SETTINGS, Connector())
    before, client = pool.ready(), await pool.client()
    assert (before, pool.ready()) == (None, client)
    await pool.aclose()


async def test_a_cancelled_first_caller_does_not_take_the_client_from_the_others() -> None:
    pool = ClientPool(SETTINGS, Connector())
    first, second = asyncio.create_task(pool.client()), asyncio.create_task(pool.client())
    await asyncio.sleep(0)
    first.cancel()
    assert isinstance(await second, httpx2.AsyncClient)
    assert (await asyncio.gather(first, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    await pool.aclose()


async def test_a_failed_opening_is_tried_again_by_the_next_caller() -> None:
    pool = ClientPool(SETTINGS, Connector(OSError("no CA file")))
    with pytest.raises(OSError, match="no CA file"):
        await pool.client()
    assert isinstance(await pool.client(), httpx2.AsyncClient)
    await pool.aclose()


def test_every_event_loop_has_its_own_client_and_closes_it() -> None:
    pool = ClientPool(SETTINGS, Connector())
    clients = [asyncio.run(pool.client()) for _ in range(3)]
    assert len({id(client) for client in clients}) == 3
    assert all(client.is_closed for client in clients)


def test_two_loops_in_two_threads_do_not_meet() -> None:
    pool = ClientPool(SETTINGS, Connector())
    both = threading.Barrier(2)
    seen: list[httpx2.AsyncClient] = []

    async def work() -> None:
        client = await pool.client()
        await asyncio.to_thread(both.wait, 30)
        seen.append(client)
        assert not client.is_closed

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({id(client) for client in seen}) == 2


def test_a_loop_closed_without_its_shutdown_is_forgotten_by_the_next() -> None:
    pool = ClientPool(SETTINGS, Connector())
    dead = asyncio.new_event_loop()
    dead.run_until_complete(pool.client())
    dead.run_until_complete(dead.shutdown_default_executor())
    dead.close()

    async def again() -> tuple[httpx2.AsyncClient, int]:
        client = await pool.client()
        return client, len(pool._open)

    client, known = asyncio.run(again())
    assert (client.is_closed, known) == (True, 1)
    gc.collect()


async def test_a_closed_pool_opens_again_on_next_use() -> None:
    pool = ClientPool(SETTINGS, Connector())
    first = await pool.client()
    await pool.aclose()
    second = await pool.client()
    assert (first.is_closed, second.is_closed) == (True, False)
    await pool.aclose()


async def test_closing_a_pool_that_never_opened_is_nothing() -> None:
    await ClientPool(SETTINGS, Connector()).aclose()


async def test_the_users_own_client_is_used_and_never_closed() -> None:
    async with httpx2.AsyncClient() as own:
        pool = ClientPool(AdapterSettings(vendor="openai", http_client=own), Connector())
        assert await pool.client() is own
        await pool.aclose()
        assert not own.is_closed


def test_it_opens_on_a_virtual_time_loop() -> None:
    pool = ClientPool(SETTINGS, Connector())
    assert isinstance(virtual.run(pool.client()), httpx2.AsyncClient)


def test_a_stream_is_not_ended_by_the_transport_before_its_own_clocks() -> None:
    timeouts = Timeouts(connect=1, first_byte=2, first_token=30, idle=20, attempt=9)
    assert (http_timeout(timeouts).read, http_timeout(timeouts, stream=True).read) == (2, 30)


def test_every_phase_of_a_request_is_bounded() -> None:
    assert None not in http_timeout(Timeouts()).as_dict().values()


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
async def test_a_cookie_set_for_one_key_is_not_sent_with_the_next(loopback: Any, transport: Any) -> None:
    http = client_for(transport)
    loopback.send(b"HTTP/1.1 200 OK\r\nset-cookie: who=key-a\r\ncontent-length: 2\r\n\r\nok", end="keep")
    async with http:
        await http.post(loopback.url, content=b"{}")
        await http.post(loopback.url, content=b"{}")
    assert not any(b"cookie" in head.lower() for head in loopback.heads)


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
async def test_a_redirect_never_sends_the_prompt_elsewhere(loopback: Any, transport: Any) -> None:
    http = client_for(transport)
    loopback.send(b"HTTP/1.1 307 Go\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n", end="keep")
    async with http:
        response = await http.post(loopback.url, content=b"{}")
    assert (response.status_code, loopback.requests) == (307, 1)


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
async def test_connections_are_used_again(loopback: Any, transport: Any) -> None:
    http = client_for(transport)
    loopback.send_json({"a": 1})
    async with http:
        answers = [(await http.post(loopback.url, content=b"{}")).json() for _ in range(3)]
    assert (answers, loopback.connections) == ([{"a": 1}] * 3, 1)


CASES = {
    "hangs up before it answers": ([], "fin", httpx2.RemoteProtocolError),
    "speaks no HTTP": ([b"SSH-2.0-x\r\n\r\n"], "fin", httpx2.RemoteProtocolError),
    "cuts the body": ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab"], "fin", httpx2.RemoteProtocolError),
    "breaks a chunk": (
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
        "fin",
        httpx2.RemoteProtocolError,
    ),
    "resets": ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab"], "rst", httpx2.TransportError),
    "is silent": ([], "hang", httpx2.ReadTimeout),
}


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
@pytest.mark.parametrize("case", CASES)
async def test_both_transports_name_a_broken_server_alike(loopback: Any, transport: Any, case: str) -> None:
    pieces, end, error = CASES[case]
    loopback.send(*pieces, end=end)
    http = client_for(transport)
    async with http:
        with pytest.raises(error):
            await http.post(loopback.url, content=b"{}", timeout=httpx2.Timeout(5, read=0.05))


@pytest.mark.parametrize("transport", ["httpx2", "aiohttp"])
async def test_both_transports_name_a_closed_port_alike(loopback: Any, transport: Any) -> None:
    url = loopback.url
    await loopback.stop()
    http = client_for(transport)
    async with http:
        with pytest.raises(httpx2.ConnectError):
            await http.post(url, content=b"{}")


def client_for(transport: Any) -> httpx2.AsyncClient:
    if transport == "aiohttp":
        pytest.importorskip("aiohttp")
    return new_http_client(AdapterSettings(vendor="openai", transport=transport))


# ---------------------------------------------------------------- leaving a response


class StuckStream(httpx2.AsyncByteStream):
    """A body whose close hangs until it is let go."""

    def __init__(self) -> None:
        self.closing = asyncio.Event()
        self.closed = False
        self.let_go = asyncio.Event()

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        yield b"x"

    async def aclose(self) -> None:
        self.closing.set()
        await self.let_go.wait()
        self.closed = True


def test_a_close_that_hangs_is_given_up_after_one_second() -> None:
    async def leave() -> float:
        await close_response(httpx2.Response(200, stream=StuckStream()))
        return asyncio.get_running_loop().time()

    assert virtual.run(leave()) == pytest.approx(1.0)


def test_a_second_cancel_does_not_stop_the_closing() -> None:
    async def leave() -> bool:
        body = StuckStream()
        task = asyncio.create_task(close_response(httpx2.Response(200, stream=body)))
        await body.closing.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        body.let_go.set()
        for _ in range(10):
            await asyncio.sleep(0)
        return body.closed

    assert virtual.run(leave())


def test_draining_a_body_that_never_ends_takes_a_tenth_of_a_second() -> None:
    async def endless():  # type: ignore[no-untyped-def]
        await asyncio.Event().wait()
        yield b""

    async def leave() -> float:
        await drain(endless())
        return asyncio.get_running_loop().time()

    assert virtual.run(leave()) == pytest.approx(0.1)
