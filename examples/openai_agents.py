"""OpenAI's Agents SDK on a coordinator, unchanged, with a failover to Claude in the middle (needs `openai-agents`).

python examples/openai_agents.py
"""

from __future__ import annotations

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from vendors import run

from reliable_llm import FailoverChat
from reliable_llm.integrations import openai_client
from reliable_llm.testing import act, ok, out_of_quota


@function_tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


async def main(chat: FailoverChat) -> None:
    set_tracing_disabled(True)  # it would report to OpenAI
    model = OpenAIChatCompletionsModel(model="auto", openai_client=openai_client(chat))
    agent = Agent(name="forecaster", instructions="Be brief.", tools=[weather], model=model)
    result = await Runner.run(agent, "What is the weather in Oslo?")
    for response in result.raw_responses:
        for item in response.output:
            # The SDK keeps the id of an answer, and the id ends with who gave it.
            print(f"{item.provider_data['response_id'].split(':', 1)[1]}: {item.type}")
    print(result.final_output)


SIMULATED = {
    "openai": [
        act({"act": "ok_tool", "calls": [{"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}]}),
        out_of_quota(),
    ],
    "anthropic": [ok("It rains in Oslo.")],
}

if __name__ == "__main__":
    run(main, SIMULATED)
