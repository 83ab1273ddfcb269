"""An agent in the middle of a tool loop when its vendor goes down: another vendor goes on with the same conversation.

python examples/agent_failover.py
"""

from __future__ import annotations

from vendors import run

from reliable_llm import Conversation, FailoverChat, run_tools, tool
from reliable_llm.testing import Act, act, ok, out_of_quota

STOCK = {"bolts": 120, "nuts": 80}


@tool
async def in_stock(part: str) -> int:
    """Count how many of a part are in stock."""
    return STOCK.get(part, 0)


@tool
async def order(part: str, amount: int) -> str:
    """Order more of a part."""
    STOCK[part] = STOCK.get(part, 0) + amount
    return f"ordered {amount} {part}"


async def main(chat: FailoverChat) -> None:
    conversation = Conversation("Make sure that we have 100 bolts and 100 nuts.", system="You keep the stock.")
    for _ in range(10):
        reply = await chat(conversation, tools=[in_stock, order], deadline=120)
        failed = [str(attempt) for attempt in reply.attempts if attempt.kind]
        moved = f" (after {failed[0]})" if failed else ""
        asked = ", ".join(f"{call.name}{call.parsed()}" for call in reply.tool_calls)
        print(f"{reply.served_by}{moved}: {asked or reply.text}")
        conversation.append(reply)
        if not reply.tool_calls:
            break
        conversation.add_results(await run_tools(reply.tool_calls, [in_stock, order]))
    print(f"\nstock: {STOCK}")


def calls(*asked: dict[str, object]) -> Act:
    return act({"act": "ok_tool", "calls": list(asked)})


SIMULATED = {
    "openai": [
        calls(
            {"id": "call_1", "name": "in_stock", "args": {"part": "bolts"}},
            {"id": "call_2", "name": "in_stock", "args": {"part": "nuts"}},
        ),
        out_of_quota(),
    ],
    "anthropic": [
        calls({"id": "toolu_1", "name": "order", "args": {"part": "nuts", "amount": 20}}),
        ok("There are 120 bolts, and 100 nuts now that I have ordered 20."),
    ],
}

if __name__ == "__main__":
    run(main, SIMULATED)
