"""How it holds up: many calls at once, and many keys.

    python -m tests.bench.scale [--calls 10000] [--delay 3]

Prints Markdown: success, memory per waiting call and lag of the event loop with all calls under way against a server
that answers after a while, ours beside the bare client; then the cost of choosing a key among 1 and among 1,000 of
which 999 are parked, and memory per key.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc

import structlog

from reliable_llm import FailoverChat, Provider
from reliable_llm.core.keyring import KeyRing
from reliable_llm.core.recovery import Fault
from reliable_llm.errors import Kind
from tests.bench.clients import Client, bare_openai, history, ours
from tests.bench.vendor_server import vendor_server

_FAULT = Fault(kind=Kind.QUOTA_EXHAUSTED, at=0.0)


async def many(client: Client, calls: int) -> tuple[int, float, float]:
    """Make *calls* calls at once; return how many answered, peak KiB per call, and the loop's median lag in seconds."""
    lags: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.05)
            lags.append(time.perf_counter() - began - 0.05)

    await client.ask(history(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watcher = asyncio.create_task(watch())
    done = await asyncio.gather(*(client.ask(history(1)) for _ in range(calls)), return_exceptions=True)
    watcher.cancel()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return sum(not isinstance(each, BaseException) for each in done), grown / calls, statistics.median(lags)


async def one(name: str, base: str, calls: int) -> None:
    """Measure one client, alone in this process, and print its row."""
    client = {"openai": lambda: bare_openai(base), "openai, aiohttp": lambda: bare_openai(base, aiohttp=True)}.get(name)
    chosen = client() if client is not None else ours(base, "openai", aiohttp=name.endswith("aiohttp"))
    answered, memory, lag = await many(chosen, calls)
    print(f"| {name} | {answered} of {calls} | {memory:.1f} | {lag * 1e3:.0f} |", flush=True)
    if chosen.close is not None:
        await chosen.close()


def keys() -> None:
    """Print what keys cost."""
    print("\n| keys | ready | us per pick |\n| ---: | ---: | ---: |")
    for count in (1, 10, 1000):
        ring = KeyRing([f"k{n}" for n in range(count)])
        for place in range(1, count):
            ring.gate(place).force(until=1e9, fault=_FAULT, probe=True)
        ring.pick(1.0, "m")
        took = min(_picks(ring) for _ in range(20))
        print(f"| {count} | 1 | {took * 1e6:.2f} |")
    tracemalloc.start()
    few = FailoverChat([Provider.openai(models=["m"], keys=["sk-0"])])
    middle = tracemalloc.get_traced_memory()[0]
    lots = FailoverChat([Provider.openai(models=["m"], keys=[f"sk-{n}" for n in range(1000)])])
    print(f"\nmemory per key: {(tracemalloc.get_traced_memory()[0] - middle) / 1000:,.0f} bytes ({few!r}, {lots!r})")


def _picks(ring: KeyRing) -> float:
    began = time.perf_counter()
    for _ in range(1000):
        ring.pick(1.0, "m")
    return (time.perf_counter() - began) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=3.0)
    parser.add_argument("--only", nargs=2, metavar=("CLIENT", "BASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.only:
        asyncio.run(one(*options.only, options.calls))
        return
    print("| client | answered | KiB per waiting call | loop lag ms |\n| --- | ---: | ---: | ---: |", flush=True)
    with vendor_server(options.delay) as base:
        for name in ("openai", "openai, aiohttp", "reliable_llm", "reliable_llm, aiohttp"):
            command = [sys.executable, "-m", "tests.bench.scale", "--calls", str(options.calls), "--only", name, base]
            subprocess.run(command, check=True, timeout=900)
    keys()


if __name__ == "__main__":
    main()
