"""One worker process of a fleet: calls the simulated vendor through a `FailoverChat` until told to stop.

Reads one JSON line of settings, answers `ready`, waits for `go`, calls every `period` seconds, ends at end of file on
stdin, and prints what came of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from typing import Any

from reliable_llm import FailoverChat
from reliable_llm.adapters.base import Prepared, Target
from reliable_llm.credentials import Credential
from reliable_llm.errors import Kind, default_verdict, error_from_verdict
from reliable_llm.policy import RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.state.redis import RedisHealth
from reliable_llm.types import AdapterReply, ChatRequest, FinishReason, Text


class LoopbackAdapter:
    """Sends the key's secret as a line and reads a status: no vendor's SDK, for eight of these start at once."""

    vendor = "openai"

    def __init__(self, port: int) -> None:
        self._port = port

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        return Prepared(target=target, body={})

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"{key.reveal()}\n".encode())
            status = await reader.readline()
        finally:
            writer.close()
            await writer.wait_closed()
        if status != b"200\n":
            raise error_from_verdict(default_verdict(Kind.QUOTA_EXHAUSTED), "")
        return AdapterReply(parts=(Text("hello"),), finish_reason=FinishReason.STOP)

    @asynccontextmanager
    async def stream(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> Any:
        raise NotImplementedError
        yield

    async def warmup(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        """Nothing to close."""


def chat_of(settings: dict[str, Any]) -> FailoverChat:
    return FailoverChat(
        [
            Provider.of(
                LoopbackAdapter(settings["vendor"]), name="main", models=["m1"], keys=["key-1", "key-2", "key-3"]
            )
        ],
        retry=RetryPolicy(max_retries=0),
        recovery=RecoveryPolicy(quota=settings["quota"]),
        health=RedisHealth(settings["url"], sync=3600.0, claim_timeout=2.0, round_robin=True),
    )


async def main() -> None:
    settings = json.loads(sys.stdin.readline())
    calls = failed = 0
    stopped = asyncio.get_running_loop().run_in_executor(None, _wait_for_word)
    async with chat_of(settings) as chat:
        await chat.warmup()
        print("ready", flush=True)
        await stopped
        stopped = asyncio.get_running_loop().run_in_executor(None, _wait_for_word)
        await asyncio.sleep(settings["offset"])
        ends = time.monotonic() + 50
        while not stopped.done() and time.monotonic() < ends:
            calls += 1
            try:
                await chat("hi")
            except Exception:  # noqa: BLE001 - counted, whatever it is
                failed += 1
            await asyncio.sleep(settings["period"])
    print(json.dumps({"calls": calls, "failed": failed}), flush=True)


def _wait_for_word() -> str:
    return sys.stdin.readline()


if __name__ == "__main__":
    asyncio.run(main())
