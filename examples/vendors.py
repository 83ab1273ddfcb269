"""Where the examples' requests go: the real vendors where a key is in the environment, simulated ones otherwise.

    OPENAI_API_KEY=... ANTHROPIC_API_KEY=... python examples/tools.py

Models come from OPENAI_MODEL and ANTHROPIC_MODEL.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

from reliable_llm import FailoverChat, Provider
from reliable_llm.testing import Act, Drill

GPT = os.environ.get("OPENAI_MODEL", "gpt-5.1")
CLAUDE = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5")


def run(main: Callable[[FailoverChat], Awaitable[None]], simulated: Mapping[str, Sequence[Act]]) -> None:
    """Run *main* with a coordinator. *simulated* is what the vendors answer where there is no key."""
    real = [
        make(models=[model])
        for variable, make, model in (
            ("OPENAI_API_KEY", Provider.openai, GPT),
            ("ANTHROPIC_API_KEY", Provider.anthropic, CLAUDE),
        )
        if os.environ.get(variable)
    ]
    if real:
        asyncio.run(_with(FailoverChat(real), main))
        return
    print("(no API key in the environment: simulated vendors answer)\n")
    drill = Drill()
    for vendor, acts in simulated.items():
        drill.answers(vendor, *acts)
    providers = [drill.openai(models=[GPT]), drill.anthropic(models=[CLAUDE])]
    drill.run(_with(FailoverChat(providers, clock=drill.clock), main))


async def _with(chat: FailoverChat, main: Callable[[FailoverChat], Awaitable[None]]) -> None:
    async with chat:
        await main(chat)
