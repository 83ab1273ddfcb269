"""Does anything grow? Many calls through one coordinator and the real clients, some of which fail in every usual way.

    python -m tests.bench.soak [--calls 1000000] [--samples 10]

Prints Markdown: after each tenth of the calls, what the process holds (resident memory, Python's own blocks, objects,
tasks, open files), and at the end the growth in the second half. Callers' wishes are kept for the last 10,000 callers
that had one, so the figures grow until as many have come. Vendors are played in the
process at the transport of the vendors' own clients; time is virtual, so cooldowns and parks come and go.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import logging
import os
import random
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2
import structlog

from reliable_llm import FailoverChat, Provider, ReliableLLMError, RetryPolicy
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import run

AT_ONCE = 50
SECONDS_BETWEEN_ROUNDS = 5.0

# Of a hundred requests to the primary, as many fail in each of these ways.
FAULTS: dict[str, tuple[int, int, dict[str, str]]] = {
    "rate_limit_exceeded": (3, 429, {"retry-after": "2"}),
    "insufficient_quota": (1, 429, {}),
    "server_error": (3, 500, {}),
    "overloaded": (2, 503, {}),
    "empty": (1, 200, {}),
}


@dataclass(frozen=True)
class Sample:
    """What the process holds."""

    calls: int
    answered: int
    resident_kib: int
    blocks: int
    objects: int
    tasks: int
    files: int

    def row(self) -> str:
        return (
            f"| {self.calls:,} | {self.answered:,} | {self.resident_kib / 1024:.1f} | {self.blocks:,} | "
            f"{self.objects:,} | {self.tasks} | {self.files} |"
        )


def sample(calls: int, answered: int) -> Sample:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Sample(
        calls=calls,
        answered=answered,
        resident_kib=pages * resource.getpagesize() // 1024,
        blocks=sys.getallocatedblocks(),
        objects=len(gc.get_objects()),
        tasks=len(asyncio.all_tasks()),
        files=len(os.listdir("/proc/self/fd")),
    )


# ---------------------------------------------------------------- the vendors


def primary(chance: random.Random) -> httpx2.MockTransport:
    """OpenAI, as it is on a bad day."""
    names = [name for name, (share, _, _) in FAULTS.items() for _ in range(share)]

    def respond(_request: httpx2.Request) -> httpx2.Response:
        place = chance.randrange(100)
        if place >= len(names):
            return httpx2.Response(200, json=chat_body("hello"))
        _, status, headers = FAULTS[names[place]]
        error = {"error": {"message": "m", "type": names[place], "code": names[place]}}
        return httpx2.Response(status, json=chat_body("") if status == 200 else error, headers=headers)

    return httpx2.MockTransport(respond)


def fallback() -> httpx2.MockTransport:
    """Anthropic, healthy."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 5, "output_tokens": 5}
    body = json.dumps({**head, "content": [{"type": "text", "text": "hello"}], "usage": usage}).encode()
    return httpx2.MockTransport(lambda _request: httpx2.Response(200, content=body))


def chat_body(text: str) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def coordinator(clock: DrillClock, chance: random.Random) -> FailoverChat:
    keys = [f"sk-{n}" for n in range(10)]
    one = httpx2.AsyncClient(transport=primary(chance), trust_env=False)
    other = httpx2.AsyncClient(transport=fallback(), trust_env=False)
    return FailoverChat(
        [
            Provider.openai(keys=keys, models=["m", "n"], http_client=one),
            Provider.anthropic(keys=["sk-a"], models=["m"], http_client=other),
        ],
        clock=clock,
        retry=RetryPolicy(max_retries=1),
    )


# ---------------------------------------------------------------- the calls


async def soak(calls: int, samples: int) -> list[Sample]:
    clock = DrillClock(seed=1)
    chat = coordinator(clock, random.Random(1))
    numbers = itertools.count()
    answered = 0

    async def one() -> bool:
        number = next(numbers)
        caller = chat.for_caller(f"team-{number % 7}/user-{number}")
        if number % 10 == 0:
            caller.prefer("n")
        with contextlib.suppress(ReliableLLMError):
            return bool((await caller(f"call {number}", affinity=f"conversation-{number}", deadline=60)).text)
        return False

    taken: list[Sample] = []
    every = max(AT_ONCE, calls // samples)
    done = 0
    print("| calls | answered | resident MiB | blocks | objects | tasks | files |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    while done < calls:
        answered += sum(await asyncio.gather(*(one() for _ in range(AT_ONCE))))
        done += AT_ONCE
        await clock.sleep(SECONDS_BETWEEN_ROUNDS)
        if done % every < AT_ONCE:
            taken.append(sample(done, answered))
            print(taken[-1].row(), flush=True)
    await chat.aclose()
    return taken


def growth(taken: list[Sample]) -> str:
    """Say what the second half of the run has added, when everything that is bounded is full."""
    first, last = taken[len(taken) // 2], taken[-1]
    thousands = max(1.0, (last.calls - first.calls) / 1000)
    grown = {
        "KiB": last.resident_kib - first.resident_kib,
        "blocks": last.blocks - first.blocks,
        "objects": last.objects - first.objects,
    }
    return "per 1,000 calls of the second half: " + ", ".join(
        f"{n / thousands:.2f} {what}" for what, n in grown.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=10)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    began = time.perf_counter()
    taken = run(soak(options.calls, options.samples))
    print(f"\n{growth(taken)}; {(time.perf_counter() - began) / taken[-1].calls * 1e3:.2f} ms a call")


if __name__ == "__main__":
    main()
