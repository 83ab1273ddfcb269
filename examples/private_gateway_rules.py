"""A gateway of your own with errors of its own: two rules say what they mean, and they are treated accordingly.

python examples/private_gateway_rules.py        # real ones: GATEWAY_URL, GATEWAY_KEYS=a,b and ANTHROPIC_API_KEY

`reliable-llm explain` tells how a failure is read without a rule.
"""

from __future__ import annotations

import asyncio
import os

from vendors import CLAUDE, GPT, TIMEOUTS, real_providers

from reliable_llm import FailoverChat, Kind, Provider, Rule
from reliable_llm.testing import Drill, error, ok

RULES = [
    # The team's money for the month is spent: another key, and this one rests for an hour.
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="acme.budget", statuses=(403,), codes=("TEAM_BUDGET",), retry_after=3600),
    # The gateway says 400 where it has no worker free: not the request's fault.
    Rule(kind=Kind.OVERLOADED, name="acme.busy", statuses=(400,), codes=("NO_WORKER",)),
]


def real() -> FailoverChat:
    keys = os.environ["GATEWAY_KEYS"].split(",")
    gateway = Provider.openai(
        name="gateway", base_url=os.environ["GATEWAY_URL"], keys=keys, models=[GPT], classify=RULES, timeouts=TIMEOUTS
    )
    return FailoverChat([gateway, *(each for each in real_providers() if each.name == "anthropic")])


def simulated(drill: Drill) -> FailoverChat:
    drill.answers("gateway", error(403, error_type="forbidden", code="TEAM_BUDGET"), key="team-a")
    drill.answers("gateway", error(400, error_type="bad", code="NO_WORKER"), ok("The Po."), key="team-b")
    gateway = Provider.openai(
        name="gateway",
        base_url="https://llm.acme.example/v1",
        keys=["team-a", "team-b"],
        models=[GPT],
        classify=RULES,
        timeouts=TIMEOUTS,
        http_client=drill.http_client("gateway"),
    )
    return FailoverChat([gateway, drill.anthropic(models=[CLAUDE], timeouts=TIMEOUTS)], clock=drill.clock)


async def main(chat: FailoverChat) -> None:
    async with chat:
        reply = await chat("Name a river.", deadline=30)
        print(f"{reply.served_by}: {reply.text}")
        for attempt in reply.attempts:
            print(f"  {attempt}")
        print(chat.status())


if __name__ == "__main__":
    if "GATEWAY_URL" in os.environ:
        asyncio.run(main(real()))
    else:
        pretend = Drill()
        pretend.run(main(simulated(pretend)))
