"""A Pydantic AI agent whose vendor runs out of quota in the middle of the run (needs `pydantic-ai-slim`).

python examples/pydantic_ai_agent.py
"""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_ai import Agent, ModelResponse
from vendors import run

from reliable_llm import FailoverChat
from reliable_llm.integrations import ReliableModel
from reliable_llm.testing import act, out_of_quota


class Forecast(BaseModel):
    city: str
    umbrella: bool


def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


async def main(chat: FailoverChat) -> None:
    agent = Agent(ReliableModel(chat), tools=[weather], output_type=Forecast)
    result = await agent.run("Do I need an umbrella in Oslo?")
    for message in result.all_messages():
        if isinstance(message, ModelResponse):
            print(f"{(message.provider_details or {})['served_by']}: {[part.part_kind for part in message.parts]}")
    print(repr(result.output))


def call(identity: str, name: str, **args: object) -> dict[str, object]:
    return {"act": "ok_tool", "calls": [{"id": identity, "name": name, "args": args}]}


SIMULATED = {
    "openai": [act(call("call_1", "weather", city="Oslo")), out_of_quota()],
    "anthropic": [act(call("toolu_1", "final_result", city="Oslo", umbrella=True))],
}

if __name__ == "__main__":
    run(main, SIMULATED)
