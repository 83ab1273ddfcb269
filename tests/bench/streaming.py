"""What a streamed chunk and the first token cost: 200 chunks, ours beside the vendors' own clients.

    python -m tests.bench.streaming [--rounds 7] [--streams 20]

Prints Markdown: CPU per chunk and time to the first text, medians of interleaved rounds over real sockets, with the
ratio to the bare SDK of the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import logging
import statistics
import time

import structlog

from tests.bench.clients import Client, Messages, all_clients, history
from tests.bench.vendor_server import CHUNKS, vendor_server

HEAD = "| client | CPU us/chunk | of bare | first text us | added us |\n| --- | ---: | ---: | ---: | ---: |"


async def burst(client: Client, messages: Messages, streams: int) -> tuple[float, list[float]]:
    """Read *streams* streams one after the other; return CPU seconds per chunk and each time to the first text."""
    assert client.stream is not None
    firsts: list[float] = []
    gc.collect()
    began = time.process_time()
    for _ in range(streams):
        opened = time.perf_counter()
        seen = 0
        async for _text in client.stream(messages):
            if not seen:
                firsts.append(time.perf_counter() - opened)
            seen += 1
        assert seen == CHUNKS, f"{client.name}: {seen} chunks"
    return (time.process_time() - began) / streams / CHUNKS, firsts


async def run(options: argparse.Namespace) -> None:
    messages = history(2)
    with vendor_server() as base:
        clients = all_clients(base, aiohttp=importlib.util.find_spec("aiohttp") is not None)
        cpu: dict[str, list[float]] = {client.name: [] for client in clients}
        firsts: dict[str, list[float]] = {client.name: [] for client in clients}
        for n in range(options.rounds + 1):
            for client in clients:
                used, seconds = await burst(client, messages, options.streams if n else 2)
                if n:  # the first round warms up
                    cpu[client.name].append(used)
                    firsts[client.name] += seconds
        print(HEAD)
        for client in clients:
            ratio = statistics.median(a / b for a, b in zip(cpu[client.name], cpu[client.bare], strict=True))
            first, bare = statistics.median(firsts[client.name]), statistics.median(firsts[client.bare])
            spent = statistics.median(cpu[client.name]) * 1e6
            print(f"| {client.name} | {spent:.1f} | {ratio:.2f} | {first * 1e6:,.0f} | {(first - bare) * 1e6:+,.0f} |")
        for client in clients:
            if client.close is not None:
                await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--streams", type=int, default=20)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
