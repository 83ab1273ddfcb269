"""Eight worker processes share three keys, and one of the keys is spent. Counted at the simulated vendor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.state.conftest import Server

WORKERS = 8
SPENT = "key-2"
ROOT = Path(__file__).parents[2]
WORKER = "import asyncio; from tests.state.fleet_worker import main; asyncio.run(main())"

# Long enough that no worker's rest is over before the slowest of them has had its turn on a busy machine.
REST = 6.0


class Vendor:
    """Answers 200, or 429 for a key that is spent. `refused` and `probes` count requests for that key."""

    def __init__(self) -> None:
        self.spent = False
        self.watching = False
        self.refused = 0
        self.before_probe_answered = 0
        self.first_refusal = asyncio.Event()
        self.recovered = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            key = (await reader.readline()).decode().strip()
            writer.write(b"200\n" if await self._serve(key) else b"429\n")
            await writer.drain()
        writer.close()

    async def _serve(self, key: str) -> bool:
        if key != SPENT:
            return True
        if self.spent:
            self.refused += 1
            self.first_refusal.set()
            return False
        if self.watching and not self.recovered.is_set():
            self.before_probe_answered += 1
            await asyncio.sleep(1.5)  # long enough for every worker to have its turn while the probe is out
            self.recovered.set()
        return True


@contextlib.asynccontextmanager
async def running(url: str, vendor: Vendor) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    server = await asyncio.start_server(vendor, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, contextlib.AsyncExitStack() as stack:
        workers = []
        for number in range(WORKERS):
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            stack.push_async_callback(_end, worker)
            # Turns spread over the period: a fleet's calls do not come all at the same moment.
            offset = 0.8 * number / WORKERS
            _say(worker, json.dumps({"url": url, "vendor": port, "quota": REST, "offset": offset, "period": 0.8}))
            workers.append(worker)
        for worker in workers:
            await _heard(worker, b"ready\n")
        for worker in workers:
            _say(worker, "go")
        yield workers


def _say(worker: asyncio.subprocess.Process, line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(f"{line}\n".encode())


async def _heard(worker: asyncio.subprocess.Process, line: bytes) -> None:
    """Read up to *line*: a warning of the log may come before it."""
    assert worker.stdout is not None
    async with asyncio.timeout(40):
        while (heard := await worker.stdout.readline()) != line:
            assert heard, f"the worker ended before it said {line!r}"


async def _end(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        worker.kill()
    await worker.wait()


async def _results(workers: list[asyncio.subprocess.Process]) -> list[dict[str, Any]]:
    for worker in workers:
        _say(worker, "stop")
    outputs = [await asyncio.wait_for(worker.communicate(), 40) for worker in workers]
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]  # the log goes to stdout, too


async def story(url: str, vendor: Vendor) -> list[dict[str, Any]]:
    """A key is spent, is refilled while it rests, and is probed."""
    async with running(url, vendor) as workers:
        vendor.spent = True
        await asyncio.wait_for(vendor.first_refusal.wait(), 20)
        await asyncio.sleep(REST - 2.5)
        vendor.spent, vendor.watching = False, True
        await asyncio.wait_for(vendor.recovered.wait(), 30)
        return await _results(workers)


@pytest.mark.timeout(150)
async def test_eight_workers_ask_a_spent_key_twice_at_most_and_probe_it_once(valkey_server: Server) -> None:
    vendor = Vendor()

    results = await story(valkey_server.url, vendor)

    assert 1 <= vendor.refused <= 2
    assert vendor.before_probe_answered == 1
    assert sum(result["failed"] for result in results) == 0


@pytest.mark.timeout(150)
async def test_without_news_each_worker_asks_a_spent_key_once_and_one_probes(valkey_server: Server) -> None:
    async with Redis.from_url(valkey_server.url) as admin:
        await admin.acl_setuser("deaf", enabled=True, nopass=True, keys=["*"], commands=["+@all"], reset_channels=True)
    vendor = Vendor()

    results = await story(valkey_server.url.replace("//", "//deaf:any@"), vendor)

    assert 1 <= vendor.refused <= WORKERS
    assert vendor.before_probe_answered == 1
    assert sum(result["failed"] for result in results) == 0
