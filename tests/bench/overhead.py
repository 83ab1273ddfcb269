"""What a call costs: ours beside the vendors' own clients, and beside the peers that are installed.

    python -m tests.bench.overhead [--rounds 7] [--calls 60] [--concurrency 1 64 512] [--messages 1 10 200] [--peers]

Prints Markdown. First over real sockets, against a server in a process of its own: CPU per call and latency, the rounds
interleaved and the medians taken, with the ratio to the bare SDK of the same round. Then the coordinator alone, paired
against its own adapter in one process, calls alternating. Read the ratios: other programs disturb all rows alike.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import logging
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import structlog

from reliable_llm import FailoverChat, Provider
from reliable_llm.adapters.base import Target
from reliable_llm.asking import as_request
from reliable_llm.clock import SystemClock
from reliable_llm.credentials import Credential
from reliable_llm.types import Candidate
from tests.bench.clients import Client, Messages, all_clients, history, peers
from tests.bench.minimal import Minimal
from tests.bench.vendor_server import chat_answer, messages_answer, vendor_server


async def burst(client: Client, messages: Messages, calls: int, concurrency: int) -> tuple[float, list[float]]:
    """Make *calls* calls, *concurrency* at a time; return CPU seconds per call and every call's seconds."""
    seconds: list[float] = []
    places = asyncio.Semaphore(concurrency)

    async def one() -> None:
        async with places:
            began = time.perf_counter()
            await client.ask(messages)
            seconds.append(time.perf_counter() - began)

    gc.collect()
    began = time.process_time()
    await asyncio.gather(*(one() for _ in range(calls)))
    return (time.process_time() - began) / calls, seconds


async def over_sockets(options: argparse.Namespace) -> None:
    """Print a table for each number of messages and each concurrency."""
    has_aiohttp = importlib.util.find_spec("aiohttp") is not None
    with vendor_server() as base:
        clients = all_clients(base, aiohttp=has_aiohttp)
        found, missing = peers(base) if options.peers else ([], [])
        clients += found
        if missing:
            print(f"not installed, left out: {', '.join(missing)}\n")
        for client in clients:
            await client.ask(history(1))
        for messages in options.messages:
            for concurrency in options.concurrency:
                await table(clients, history(messages), options, concurrency)
        for client in clients:
            if client.close is not None:
                await client.close()


async def table(clients: list[Client], messages: Messages, options: argparse.Namespace, concurrency: int) -> None:
    calls = max(options.calls, concurrency * 2)
    cpu: dict[str, list[float]] = {client.name: [] for client in clients}
    times: dict[str, list[float]] = {client.name: [] for client in clients}
    for _ in range(options.rounds):
        for client in clients:
            used, seconds = await burst(client, messages, calls, concurrency)
            cpu[client.name].append(used)
            times[client.name] += seconds
    print(f"### {len(messages)} messages, {concurrency} at a time\n")
    print("| client | CPU us/call | of bare | p50 ms | p99 ms |\n| --- | ---: | ---: | ---: | ---: |")
    for client in clients:
        ratio = statistics.median(a / b for a, b in zip(cpu[client.name], cpu[client.bare], strict=True))
        ordered = sorted(times[client.name])
        p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        spent = statistics.median(cpu[client.name]) * 1e6
        print(f"| {client.name} | {spent:,.0f} | {ratio:.2f} | {p50 * 1e3:.2f} | {p99 * 1e3:.2f} |")
    print()


# ---------------------------------------------------------------- in one process


def mock(body: bytes) -> httpx2.AsyncClient:
    def handle(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": "application/json", "x-request-id": "r"})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handle))


async def paired(
    first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]], pairs: int
) -> list[float]:
    """Return how many seconds *first* took more than *second*, pair by pair."""
    added: list[float] = []
    for n in range(pairs + 50):
        began = time.perf_counter()
        await first()
        middle = time.perf_counter()
        await second()
        ended = time.perf_counter()
        if n >= 50:  # the first ones warm up
            added.append((middle - began) - (ended - middle))
        await asyncio.sleep(0)  # nothing here waits for the network: let the loop clear away cancelled timers
    return added


async def coordinator_alone(options: argparse.Namespace) -> None:
    """Print what the coordinator adds to its own adapter: two keys, health, ledger, logging at its default."""
    print("### The coordinator alone, paired with its own adapter in one process\n")
    print("The minimal one is `tests/bench/minimal.py`: what 20 lines cost on this machine, in the same run.\n")
    print("| vendor | logging | added p50 us | minimal one, us | of the minimal one | of a bare create() |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for vendor, body in (("openai", chat_answer()[0]), ("anthropic", messages_answer()[0])):
        for logging_on in (False, True):
            print(await _added(vendor, body, options.pairs, logging_on=logging_on))
    print()


async def _added(vendor: str, body: bytes, pairs: int, *, logging_on: bool) -> str:
    structlog.reset_defaults()
    if logging_on:
        sink: Any = structlog.ReturnLoggerFactory()
        filtering = structlog.make_filtering_bound_logger(logging.INFO)
        structlog.configure(logger_factory=sink, wrapper_class=filtering)
    http = mock(body)
    make: Any = Provider.openai if vendor == "openai" else Provider.anthropic
    provider = make(models=["m"], keys=["sk-a", "sk-b"], http_client=http, vendor=vendor)
    chat = FailoverChat([provider])
    adapter = provider.adapter(SystemClock())
    request = as_request(history(10), max_tokens=256)  # type: ignore[arg-type]
    target = Target(candidate=Candidate(vendor, "m"), model_id="m")
    await chat(request)
    await adapter.warmup()

    async def alone() -> object:
        return await adapter.complete(adapter.prepare(request, target), provider.keys[0], provider.timeouts)

    minimal = Minimal(provider.keys * 5)

    async def with_key(key: Credential) -> object:
        return await adapter.complete(adapter.prepare(request, target), key, provider.timeouts)

    added = statistics.median(await paired(lambda: chat(request), alone, pairs))
    least = statistics.median(await paired(lambda: minimal(with_key), alone, pairs))
    bare = await _bare(vendor, http, pairs // 4)
    logging_is = "INFO" if logging_on else "default"
    us, least_us = added * 1e6, least * 1e6
    return f"| {vendor} | {logging_is} | {us:.1f} | {least_us:.1f} | {added / least:.2f} | {added / bare:.1%} |"


async def _bare(vendor: str, http: httpx2.AsyncClient, calls: int) -> float:
    import anthropic
    import openai

    sent: Any = history(10)
    chat = openai.AsyncOpenAI(api_key="sk-a", http_client=http, max_retries=0).chat.completions
    messages = anthropic.AsyncAnthropic(api_key="sk-a", http_client=http, max_retries=0).messages
    took: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        if vendor == "openai":
            await chat.create(model="m", messages=sent, max_completion_tokens=256)
        else:
            await messages.create(model="m", messages=sent, max_tokens=256)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--messages", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--peers", action="store_true", help="measure the peers that are installed, too")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(coordinator_alone(options))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(over_sockets(options))


if __name__ == "__main__":
    main()
