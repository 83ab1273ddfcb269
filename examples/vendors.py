"""Where the examples' requests go: the real vendors where a key is in the environment, simulated ones otherwise.

    OPENAI_API_KEY=... ANTHROPIC_API_KEY=... python examples/tools.py

Several keys of one vendor come from OPENAI_API_KEYS or ANTHROPIC_API_KEYS, separated by commas; models from
OPENAI_MODEL and ANTHROPIC_MODEL.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

from reliable_llm import FailoverChat, Provider, Timeouts
from reliable_llm.testing import Act, Drill

GPT = os.environ.get("OPENAI_MODEL", "gpt-5.1")
CLAUDE = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5")

# Shorter than the examples' deadlines: a vendor that hangs leaves time for the next one.
TIMEOUTS = Timeouts(attempt=20)


def real_providers() -> list[Provider]:
    """Return the vendors whose keys are in the environment."""
    makers = ((Provider.openai, "OPENAI", GPT), (Provider.anthropic, "ANTHROPIC", CLAUDE))
    found = ((make, _keys(vendor), model) for make, vendor, model in makers)
    return [make(models=[model], keys=keys, timeouts=TIMEOUTS) for make, keys, model in found if keys]


def _keys(vendor: str) -> list[str]:
    several = os.environ.get(f"{vendor}_API_KEYS", "").replace(",", " ").split()
    single = os.environ.get(f"{vendor}_API_KEY")
    return several or ([single] if single else [])


def simulated_providers(drill: Drill, keys: Sequence[str] = ("k1",)) -> list[Provider]:
    """Return the same vendors, played by *drill*; *keys* are OpenAI's."""
    return [
        drill.openai(models=[GPT], keys=keys, timeouts=TIMEOUTS),
        drill.anthropic(models=[CLAUDE], timeouts=TIMEOUTS),
    ]


def run(main: Callable[[FailoverChat], Awaitable[None]], simulated: Mapping[str, Sequence[Act]]) -> None:
    """Run *main* with a coordinator.

    *simulated* is what the vendors answer where there is no key: by `openai` or `anthropic`, or for single keys by
    `openai/k1`, `openai/k2`, ...
    """
    real = real_providers()
    if real:
        asyncio.run(_with(FailoverChat(real), main))
        return
    print("(no API key in the environment: simulated vendors answer)\n")
    drill = Drill()
    for place, acts in simulated.items():
        vendor, _, key = place.partition("/")
        drill.answers(vendor, *acts, key=key or "*")
    keys = sorted({place.split("/")[1] for place in simulated if place.startswith("openai/")}) or ["k1"]
    drill.run(_with(FailoverChat(simulated_providers(drill, keys), clock=drill.clock), main))


async def _with(chat: FailoverChat, main: Callable[[FailoverChat], Awaitable[None]]) -> None:
    async with chat:
        await main(chat)
