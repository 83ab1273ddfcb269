"""Frameworks that are built on OpenAI's client run unchanged on a coordinator."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from reliable_llm import FailoverChat
from reliable_llm.integrations import openai_client
from reliable_llm.testing import Drill, act, ok, out_of_quota, stream
from tests.support import CLAUDE, GPT, STEADY

NOT_INSTALLED = "the dependency group `integrations` is not installed"
CALL = act({"act": "ok_tool", "calls": [{"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}]})


class Place(BaseModel):
    city: str


@pytest.fixture
def client(reliable_llm_drill: Drill) -> Any:
    drill = reliable_llm_drill
    chat = FailoverChat([drill.openai(models=[GPT]), drill.anthropic(models=[CLAUDE])], clock=drill.clock, retry=STEADY)
    return openai_client(chat)


# ---------------------------------------------------------------- OpenAI Agents SDK


@pytest.fixture
def agents() -> Any:
    sdk = pytest.importorskip("agents", reason=NOT_INSTALLED)
    sdk.set_tracing_disabled(True)  # it would report to OpenAI
    return sdk


def agent_of(agents: Any, client: Any) -> Any:
    @agents.function_tool
    def weather(city: str) -> str:
        """Tell the weather in a city."""
        return f"rain in {city}"

    model = agents.OpenAIChatCompletionsModel(model="auto", openai_client=client)
    return agents.Agent(name="forecaster", instructions="Be brief.", tools=[weather], model=model)


def test_a_failover_in_the_middle_of_an_agents_sdk_run_ends_well(
    reliable_llm_drill: Drill, agents: Any, client: Any
) -> None:
    drill = reliable_llm_drill
    drill.answers("openai", CALL, out_of_quota())
    drill.answers("anthropic", ok("It rains in Oslo.", usage=(9, 4)))

    result = drill.run(agents.Runner.run(agent_of(agents, client), "weather in Oslo?"))

    assert result.final_output == "It rains in Oslo."
    ids = [item.provider_data["response_id"] for response in result.raw_responses for item in response.output]
    assert [each.split(":", 1)[1] for each in ids] == [f"openai/{GPT}", f"anthropic/{CLAUDE}"]
    assert result.raw_responses[-1].usage.output_tokens == 4


def test_an_agents_sdk_run_can_be_streamed(reliable_llm_drill: Drill, agents: Any, client: Any) -> None:
    drill = reliable_llm_drill
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", stream("It ", "rains."))

    async def listen() -> Any:
        result = agents.Runner.run_streamed(agent_of(agents, client), "weather?")
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert drill.run(listen()) == "It rains."


# ---------------------------------------------------------------- instructor


@pytest.fixture
def instructor() -> Any:
    return pytest.importorskip("instructor", reason=NOT_INSTALLED)


def test_instructor_gets_its_model_from_whichever_vendor_answers(
    reliable_llm_drill: Drill, instructor: Any, client: Any
) -> None:
    drill = reliable_llm_drill
    drill.answers("openai", out_of_quota())
    drill.answers(
        "anthropic", act({"act": "ok_tool", "calls": [{"id": "c", "name": "Place", "args": {"city": "Oslo"}}]})
    )
    patched = instructor.from_openai(client)
    question: Any = [{"role": "user", "content": "where?"}]

    place, completion = drill.run(
        patched.chat.completions.create_with_completion(model="auto", response_model=Place, messages=question)
    )

    assert place.city == "Oslo"
    assert completion.model_extra["reliable_llm"]["served_by"] == f"anthropic/{CLAUDE}"


def test_instructor_asks_again_in_its_own_way(reliable_llm_drill: Drill, instructor: Any, client: Any) -> None:
    drill = reliable_llm_drill
    wrong, right = (
        act({"act": "ok_tool", "calls": [{"id": "c", "name": "Place", "args": {name: "Oslo"}}]})
        for name in ("town", "city")
    )
    drill.answers("openai", wrong, right)
    patched = instructor.from_openai(client)
    question: Any = [{"role": "user", "content": "where?"}]

    place = drill.run(
        patched.chat.completions.create(model="auto", response_model=Place, messages=question, max_retries=1)
    )

    assert place.city == "Oslo"
    drill.assert_requests({f"openai/k1/{GPT}": 2})
