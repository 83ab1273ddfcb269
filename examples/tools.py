"""Tools from typed functions: the model calls them, we run them, it answers.

python examples/tools.py
"""

from __future__ import annotations

from typing import Literal

from vendors import run

from reliable_llm import Conversation, FailoverChat, run_tools, tool
from reliable_llm.testing import act, ok

WEATHER = {"Oslo": 4, "Lisbon": 19}


@tool
async def temperature(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> float:
    """Tell the temperature in a city now.

    Args:
        city: Name of the city, in English.
    """
    celsius = WEATHER[city]
    return celsius if unit == "celsius" else celsius * 9 / 5 + 32


async def main(chat: FailoverChat) -> None:
    conversation = Conversation("Where is it warmer now, in Oslo or in Lisbon?", system="Use the tools. Be brief.")
    while True:
        reply = await chat(conversation, tools=[temperature], deadline=60)
        conversation.append(reply)
        if not reply.tool_calls:
            break
        results = await run_tools(reply.tool_calls, [temperature])
        for call, result in zip(reply.tool_calls, results, strict=True):
            print(f"{reply.served_by} calls {call.name}{call.parsed()} -> {result.content}")
        conversation.add_results(results)
    print(f"{reply.served_by}: {reply.text}")


SIMULATED = {
    "openai": [
        act(
            {
                "act": "ok_tool",
                "calls": [
                    {"id": "call_1", "name": "temperature", "args": {"city": "Oslo"}},
                    {"id": "call_2", "name": "temperature", "args": {"city": "Lisbon"}},
                ],
            }
        ),
        ok("It is warmer in Lisbon: 19 degrees against 4."),
    ]
}

if __name__ == "__main__":
    run(main, SIMULATED)
