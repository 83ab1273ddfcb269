"""Pydantic AI's model over a coordinator."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the dependency group `integrations` is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, PromptedOutput
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
)
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ThinkingPart,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.tools import ToolDefinition

from reliable_llm import ClosedError, FailoverChat, FinishReason, Kind, Reasoning, ReliableLLMError, Text, Usage
from reliable_llm.integrations.pydantic_ai import ReliableModel
from reliable_llm.testing import Drill, act, error, hang, ok, out_of_quota, stream
from reliable_llm.types import AdapterReply, Candidate, Finished, ReasoningDelta, TextDelta
from tests.support import CLAUDE, GPT, STEADY, Fails, ManualClock, ScriptedAdapter, answer, fails, provider

CALL = act({"act": "ok_tool", "calls": [{"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}]})


class Place(BaseModel):
    city: str


def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


@pytest.fixture
def drill(reliable_llm_drill: Drill) -> Drill:
    return reliable_llm_drill


def model_of(drill: Drill, **fields: Any) -> ReliableModel:
    chat = FailoverChat([drill.openai(models=[GPT]), drill.anthropic(models=[CLAUDE])], clock=drill.clock, retry=STEADY)
    return ReliableModel(chat, **fields)


def scripted(*script: Any, streams: tuple[list[Any], ...] = ()) -> ReliableModel:
    adapter = ScriptedAdapter(*script, streams=streams)
    return ReliableModel(FailoverChat([provider("a", adapter)], clock=ManualClock(), retry=STEADY))


def responses(messages: list[ModelMessage]) -> list[ModelResponse]:
    return [message for message in messages if isinstance(message, ModelResponse)]


def served(messages: list[ModelMessage]) -> list[Any]:
    return [(message.provider_details or {})["served_by"] for message in responses(messages)]


# ---------------------------------------------------------------- answers


def test_an_answer_names_the_vendor_that_gave_it(drill: Drill) -> None:
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", ok("bonjour", usage=(7, 3)))

    result = drill.run(Agent(model_of(drill)).run("hello"))

    assert (result.output, result.response.provider_name, result.response.model_name) == (
        "bonjour",
        "anthropic",
        CLAUDE,
    )
    assert (result.response.provider_details or {})["failed_over"] is True
    assert (result.usage.input_tokens, result.usage.output_tokens) == (7, 3)


async def test_cached_and_reasoning_tokens_are_told_apart() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=4, cache_write_tokens=2, reasoning_tokens=3)

    told = (await Agent(scripted(answer("hi", usage))).run("hello")).response.usage

    assert (told.cache_read_tokens, told.cache_write_tokens, told.details) == (4, 2, {"reasoning_tokens": 3})


def test_instructions_system_prompt_and_settings_reach_the_vendor(drill: Drill) -> None:
    drill.answers("openai", ok("fine"))
    agent = Agent(model_of(drill), instructions="Be brief.", system_prompt="You are a poet.")

    drill.run(
        agent.run("hello", model_settings={"temperature": 0.5, "max_tokens": 50, "seed": 7, "stop_sequences": ["A"]})
    )

    body = drill.arrivals[0].body
    assert [message["role"] for message in body["messages"]] == ["system", "system", "user"]  # type: ignore[attr-defined]
    assert (body["temperature"], body["max_completion_tokens"], body["seed"], body["stop"]) == (0.5, 50, 7, ["A"])


def test_a_model_given_at_construction_is_where_the_chain_starts(drill: Drill) -> None:
    drill.answers("anthropic", ok("fine"))

    drill.run(Agent(model_of(drill, model=CLAUDE)).run("hello"))

    drill.assert_requests({f"anthropic/k1/{CLAUDE}": 1})


def test_the_timeout_bounds_the_whole_call(drill: Drill) -> None:
    drill.answers("openai", hang())

    with pytest.raises(ModelTimeoutError):
        drill.run(Agent(model_of(drill)).run("hello", model_settings={"timeout": 5}))

    assert drill.now == 5


def test_max_retries_replaces_the_coordinators_own(drill: Drill) -> None:
    drill.answers("openai", error(500))
    drill.answers("anthropic", ok("fine"))

    drill.run(Agent(model_of(drill)).run("hello", model_settings={"max_retries": 0}))

    drill.assert_requests({f"openai/k1/{GPT}": 1, f"anthropic/k1/{CLAUDE}": 1})


def test_pictures_reach_the_vendor(drill: Drill) -> None:
    drill.answers("openai", ok("two pictures"))
    picture = BinaryContent(b"\x89PNG", media_type="image/png")

    drill.run(Agent(model_of(drill)).run(["what?", ImageUrl("https://example.com/a.png"), picture]))

    parts = drill.arrivals[0].body["messages"][0]["content"]  # type: ignore[index]
    assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]


# ---------------------------------------------------------------- tools and output types


def test_a_failover_in_the_middle_of_an_agents_run_ends_well(drill: Drill) -> None:
    drill.answers("openai", CALL, out_of_quota())
    drill.answers("anthropic", ok("It rains in Oslo."))

    result = drill.run(Agent(model_of(drill), tools=[weather]).run("weather in Oslo?"))

    assert result.output == "It rains in Oslo."
    assert served(result.all_messages()) == [f"openai/{GPT}", f"anthropic/{CLAUDE}"]


def test_an_output_type_comes_by_a_tool_from_whichever_vendor_answers(drill: Drill) -> None:
    final = act({"act": "ok_tool", "calls": [{"id": "c", "name": "final_result", "args": {"city": "Oslo"}}]})
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", final)

    result = drill.run(Agent(model_of(drill), output_type=Place).run("where?"))

    assert result.output == Place(city="Oslo")
    assert drill.arrivals[-1].body["tool_choice"]["type"] in ("any", "tool")  # type: ignore[index]


def test_native_output_asks_for_the_schema(drill: Drill) -> None:
    drill.answers("openai", act({"act": "ok_json", "obj": {"city": "Oslo"}}))

    result = drill.run(Agent(model_of(drill), output_type=NativeOutput(Place)).run("where?"))

    assert result.output == Place(city="Oslo")
    assert "response_format" in drill.arrivals[0].body


def test_a_native_output_that_does_not_fit_is_theirs_to_ask_for_again(drill: Drill) -> None:
    wrong, right = (act({"act": "ok_json", "obj": {name: "Oslo"}}) for name in ("town", "city"))
    drill.answers("openai", wrong, wrong, right)

    assert drill.run(Agent(model_of(drill), output_type=NativeOutput(Place)).run("where?")).output == Place(city="Oslo")


async def test_prompted_output_needs_nothing_of_the_vendor() -> None:
    agent = Agent(scripted('{"city": "Oslo"}'), output_type=PromptedOutput(Place))

    assert (await agent.run("where?")).output == Place(city="Oslo")


def test_an_output_that_does_not_fit_is_asked_for_again(drill: Drill) -> None:
    wrong = act({"act": "ok_tool", "calls": [{"id": "c1", "name": "final_result", "args": {"town": "Oslo"}}]})
    right = act({"act": "ok_tool", "calls": [{"id": "c2", "name": "final_result", "args": {"city": "Oslo"}}]})
    drill.answers("openai", wrong, right)

    assert drill.run(Agent(model_of(drill), output_type=Place).run("where?")).output == Place(city="Oslo")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        (["weather"], {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_the_tool_choice_reaches_the_vendor(drill: Drill, choice: Any, sent: object) -> None:
    drill.answers("openai", ok("done"))
    tools = [
        ToolDefinition(name="weather", description="", parameters_json_schema={"type": "object", "properties": {}})
    ]
    asked: list[ModelMessage] = [ModelRequest.user_text_prompt("hi")]

    drill.run(
        model_request(
            model_of(drill),
            asked,
            model_settings={"tool_choice": choice},
            model_request_parameters=ModelRequestParameters(function_tools=tools),
        )
    )

    assert drill.arrivals[0].body["tool_choice"] == sent


async def test_signed_thinking_goes_back_to_its_issuer_through_json() -> None:
    thought = Reasoning(text="hm", signature="sig", issuer=Candidate("a", "m1"))
    model = scripted(AdapterReply(parts=(thought, Text("hi")), finish_reason=FinishReason.STOP), "again")
    first = await Agent(model).run("hello")
    history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())

    await Agent(model).run("more", message_history=history)

    adapter = model.chat._coordination.driver.entrance.access("a").adapter
    assert isinstance(adapter, ScriptedAdapter)
    assert thought in adapter.sent[-1].request.messages[1].parts


# ---------------------------------------------------------------- streams


def test_a_stream_comes_from_whoever_answers(drill: Drill) -> None:
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", stream("Bon", "jour", usage=(7, 3)))

    async def listen() -> tuple[list[str], Any]:
        async with Agent(model_of(drill)).run_stream("hello") as result:
            return [text async for text in result.stream_text(delta=True, debounce_by=None)], result.response

    texts, response = drill.run(listen())

    assert ("".join(texts), response.provider_name) == ("Bonjour", "anthropic")
    assert (response.usage.output_tokens, response.provider_details["served_by"]) == (3, f"anthropic/{CLAUDE}")


def test_a_streamed_tool_call_is_run(drill: Drill) -> None:
    calls = act({"act": "stream_tool", "id": "c1", "name": "weather", "arg_deltas": ['{"city"', ': "Oslo"}']})
    drill.answers("openai", calls, stream("It rains."))

    async def listen() -> tuple[str, list[ModelMessage]]:
        async with Agent(model_of(drill), tools=[weather]).run_stream("weather?") as result:
            return await result.get_output(), result.all_messages()

    output, messages = drill.run(listen())

    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    assert (output, [part.content for part in returned]) == ("It rains.", ["rain in Oslo"])


def test_a_stream_that_breaks_after_output_raises_their_error(drill: Drill) -> None:
    drill.answers("openai", stream("Bon", end="cut"))

    async def listen() -> None:
        async with Agent(model_of(drill)).run_stream("hello") as result:
            await result.get_output()

    with pytest.raises(ModelConnectionError) as raised:
        drill.run(listen())
    assert isinstance(raised.value.__cause__, ReliableLLMError)


async def test_a_streamed_thought_is_told_apart_from_the_answer() -> None:
    events: list[Any] = [ReasoningDelta("hm"), TextDelta("hi"), Finished(FinishReason.STOP, None)]

    async with Agent(scripted(streams=(events,))).run_stream("hello") as result:
        assert await result.get_output() == "hi"

    assert [part.content for part in result.response.parts if isinstance(part, ThinkingPart)] == ["hm"]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (fails(Kind.RATE_LIMITED, retry_after=40.0), ModelRateLimitError),
        (fails(Kind.QUOTA_EXHAUSTED), ModelQuotaExceededError),
        (fails(Kind.OVERLOADED), ModelOverloadedError),
        (fails(Kind.SERVER_ERROR), ModelServerError),
        (fails(Kind.MALFORMED_RESPONSE), ModelServerError),
        (fails(Kind.EMPTY_RESPONSE), ModelServerError),
        (fails(Kind.TIMEOUT), ModelTimeoutError),
        (fails(Kind.CONNECTION), ModelConnectionError),
        (fails(Kind.AUTHENTICATION), ModelAuthenticationError),
        (fails(Kind.MODEL_NOT_FOUND), ModelNotFoundError),
        (fails(Kind.CONTEXT_WINDOW), ModelContextWindowExceededError),
        (fails(Kind.INVALID_REQUEST), ModelRequestRejectedError),
    ],
    ids=lambda value: str(value.kind) if isinstance(value, Fails) else value.__name__,
)
async def test_failures_come_as_pydantic_ais_own_errors(failure: Fails, expected: type[ModelAPIError]) -> None:
    with pytest.raises(expected) as raised:
        await Agent(scripted(failure)).run("hello")

    assert isinstance(raised.value.__cause__, ReliableLLMError)


async def test_an_error_tells_what_was_tried() -> None:
    with pytest.raises(ModelHTTPError) as raised:
        await Agent(scripted(fails(Kind.SERVER_ERROR, status=503))).run("hello")

    assert raised.value.status_code == 503
    assert isinstance(raised.value.body, dict)
    assert len(raised.value.body["attempts"]) == 3


async def test_it_nests_in_their_fallback_model() -> None:
    model = FallbackModel(scripted(fails(Kind.QUOTA_EXHAUSTED)), scripted("spare"))

    assert (await Agent(model).run("hello")).output == "spare"


async def test_it_nests_in_their_fallback_model_when_streaming() -> None:
    events: list[Any] = [TextDelta("spare"), Finished(FinishReason.STOP, None)]
    model = FallbackModel(scripted(streams=([fails(Kind.QUOTA_EXHAUSTED)],)), scripted(streams=(events,)))

    async with Agent(model).run_stream("hello") as result:
        assert await result.get_output() == "spare"


async def test_a_closed_coordinator_is_no_vendors_failure() -> None:
    model = scripted("never")
    await model.chat.aclose()

    with pytest.raises(ClosedError):
        await Agent(model).run("hello")
