"""A LangChain agent whose vendor runs out of quota in the middle of the run (needs `langchain`).

python examples/langchain_agent.py
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from vendors import run

from reliable_llm import FailoverChat
from reliable_llm.integrations import ReliableChatModel
from reliable_llm.testing import act, ok, out_of_quota


@tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


async def main(chat: FailoverChat) -> None:
    agent = create_agent(ReliableChatModel(chat=chat), tools=[weather])
    result = await agent.ainvoke({"messages": [HumanMessage("What is the weather in Oslo?")]})
    for message in result["messages"]:
        by = message.response_metadata["served_by"] if isinstance(message, AIMessage) else message.type
        said = message.text or [call["name"] for call in getattr(message, "tool_calls", [])]
        print(f"{by}: {said}")


SIMULATED = {
    "openai": [
        act({"act": "ok_tool", "calls": [{"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}]}),
        out_of_quota(),
    ],
    "anthropic": [ok("It rains in Oslo.")],
}

if __name__ == "__main__":
    run(main, SIMULATED)
