"""LangChain's chat model over a coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="the dependency group `integrations` is not installed")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from reliable_llm import FailoverChat, FinishReason, Kind, Provider, QuotaExhaustedError, Reasoning, Text, Usage
from reliable_llm.integrations.langchain import ReliableChatModel
from reliable_llm.integrations.langchain_messages import from_langchain
from reliable_llm.testing import Drill, act, error, ok, out_of_quota, stream
from reliable_llm.types import AdapterReply, Candidate, Finished, Image, Message, TextDelta, ToolCall, ToolResult
from tests.support import CLAUDE, GPT, STEADY, Listening, ManualClock, ScriptedAdapter, answer, fails, provider

CALL = act({"act": "ok_tool", "calls": [{"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}]})
PIXEL = "iVBORw0KGgo="


@tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


@pytest.fixture
def drill(reliable_llm_drill: Drill) -> Drill:
    return reliable_llm_drill


def model_of(drill: Drill, **fields: Any) -> ReliableChatModel:
    chat = FailoverChat([drill.openai(models=[GPT]), drill.anthropic(models=[CLAUDE])], clock=drill.clock, retry=STEADY)
    return ReliableChatModel(chat=chat, **fields)


def scripted(*script: Any, **fields: Any) -> ReliableChatModel:
    chat = FailoverChat([provider("a", ScriptedAdapter(*script))], clock=ManualClock(), retry=STEADY)
    return ReliableChatModel(chat=chat, **fields)


# ---------------------------------------------------------------- answers


def test_an_answer_names_the_vendor_that_gave_it_and_what_it_took(drill: Drill) -> None:
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", ok("bonjour", usage=(7, 3)))

    message = drill.run(model_of(drill).ainvoke("hello"))

    assert (message.content, message.response_metadata["served_by"]) == ("bonjour", f"anthropic/{CLAUDE}")
    assert (message.response_metadata["model_provider"], message.response_metadata["failed_over"]) == (
        "anthropic",
        True,
    )
    assert len(message.response_metadata["attempts"]) == 2
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (7, 3)


async def test_cached_and_reasoning_tokens_are_told_apart() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=4, cache_write_tokens=2, reasoning_tokens=3)

    told = (await scripted(answer("hi", usage)).ainvoke("hello")).usage_metadata

    assert told is not None
    assert told["input_token_details"] == {"cache_read": 4, "cache_creation": 2}
    assert told["output_token_details"] == {"reasoning": 3}


def test_synchronous_code_can_ask() -> None:
    assert scripted("hi").invoke("hello").content == "hi"


async def test_a_worker_thread_of_the_running_loop_can_ask() -> None:
    model = scripted("hi")
    await model.ainvoke("first")

    assert (await asyncio.to_thread(model.invoke, "second")).content == "hi"


def test_a_batch_is_answered_in_order() -> None:
    assert [message.content for message in scripted("a", "b", "c").batch(["1", "2", "3"], {"max_concurrency": 1})] == [
        "a",
        "b",
        "c",
    ]


async def test_an_asynchronous_batch_is_answered() -> None:
    assert [message.content for message in await scripted("a").abatch(["1", "2"])] == ["a", "a"]


async def test_failures_are_ours_so_that_callers_can_tell_them_apart() -> None:
    with pytest.raises(QuotaExhaustedError):
        await scripted(fails(Kind.QUOTA_EXHAUSTED)).ainvoke("hello")


async def test_it_nests_in_with_fallbacks() -> None:
    model = scripted(fails(Kind.QUOTA_EXHAUSTED)).with_fallbacks([scripted("spare")])

    assert (await model.ainvoke("hello")).content == "spare"


def test_parameters_reach_the_vendor_and_a_call_may_change_them(drill: Drill) -> None:
    drill.answers("openai", ok("fine"))
    model = model_of(drill, temperature=0.2, max_tokens=50, stop=["A"])

    drill.run(model.ainvoke("hello", stop=["B"], temperature=0.7))

    body = drill.arrivals[0].body
    assert (body["temperature"], body["max_completion_tokens"], body["stop"]) == (0.7, 50, ["B"])


def test_a_model_named_at_the_call_is_where_the_chain_starts(drill: Drill) -> None:
    drill.answers("anthropic", ok("fine"))

    drill.run(model_of(drill).ainvoke("hello", model=CLAUDE))

    drill.assert_requests({f"anthropic/k1/{CLAUDE}": 1})


def test_max_retries_replaces_the_coordinators_own(drill: Drill) -> None:
    drill.answers("openai", error(500))
    drill.answers("anthropic", ok("fine"))

    drill.run(model_of(drill, max_retries=0).ainvoke("hello"))

    drill.assert_requests({f"openai/k1/{GPT}": 1, f"anthropic/k1/{CLAUDE}": 1})


async def test_logs_can_be_matched_with_langchains_run() -> None:
    told = Listening()
    chat = FailoverChat([provider("a", ScriptedAdapter("hi"))], clock=ManualClock(), listeners=[told])

    await ReliableChatModel(chat=chat).ainvoke("hello")

    assert all("langchain_run_id" in tags for _, tags in told.told)


def test_without_a_coordinator_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("RELIABLE_LLM_MODELS", "openai/gpt-env")

    assert [str(candidate) for candidate in ReliableChatModel().chat.route] == ["openai/gpt-env"]


def test_neither_keys_nor_the_coordinator_are_in_its_repr_or_dump() -> None:
    model = ReliableChatModel(chat=FailoverChat([Provider.openai(keys=["sk-secret"], models=[GPT])]))

    assert "secret" not in repr(model) + str(model.model_dump())


# ---------------------------------------------------------------- streams


def test_a_stream_adds_up_to_the_message_with_usage_and_vendor(drill: Drill) -> None:
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", stream("Bon", "jour", usage=(7, 3)))

    async def listen() -> AIMessageChunk:
        whole: AIMessageChunk | None = None
        async for chunk in model_of(drill).astream("hello"):
            whole = chunk if whole is None else whole + chunk  # type: ignore[assignment]
        assert whole is not None
        return whole

    whole = drill.run(listen())

    assert (whole.content, whole.response_metadata["served_by"]) == ("Bonjour", f"anthropic/{CLAUDE}")
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == 10


def test_synchronous_code_can_listen() -> None:
    assert "".join(str(chunk.content) for chunk in whole_streams("Bon", "jour").stream("hello")) == "Bonjour"


def whole_streams(*texts: str) -> ReliableChatModel:
    events: list[Any] = [*(TextDelta(text) for text in texts), Finished(FinishReason.STOP, None)]
    chat = FailoverChat([provider("a", ScriptedAdapter(streams=(events,)))], clock=ManualClock())
    return ReliableChatModel(chat=chat)


async def test_a_stream_that_is_left_is_closed() -> None:
    model = whole_streams("Bon", "jour")
    live = model.astream("hello")
    await anext(live)
    await live.aclose()  # type: ignore[attr-defined]

    adapter = model.chat._coordination.driver.entrance.access("a").adapter
    assert isinstance(adapter, ScriptedAdapter)
    assert adapter.streams_closed == 1


async def test_tokens_are_told_to_callbacks() -> None:
    class Tokens(BaseCallbackHandler):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_llm_new_token(self, token: Any, **_: Any) -> None:
            self.seen.append(str(token))

    tokens = Tokens()
    async for _ in whole_streams("Bon", "jour").astream("hello", {"callbacks": [tokens]}):
        pass

    assert tokens.seen[:2] == ["Bon", "jour"]


def test_a_streamed_tool_call_adds_up(drill: Drill) -> None:
    calls = act({"act": "stream_tool", "id": "c1", "name": "weather", "arg_deltas": ['{"city"', ': "Oslo"}']})
    drill.answers("openai", calls)

    async def listen() -> Any:
        whole: Any = None
        async for chunk in model_of(drill).bind_tools([weather]).astream("hello"):
            whole = chunk if whole is None else whole + chunk
        return whole

    call = drill.run(listen()).tool_calls[0]

    assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"})


# ---------------------------------------------------------------- tools and structured output


def test_a_tool_call_comes_as_langchains(drill: Drill) -> None:
    drill.answers("openai", CALL)

    message = drill.run(model_of(drill).bind_tools([weather]).ainvoke("hello"))

    assert message.tool_calls == [{"name": "weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("any", "required"),
        (True, "required"),
        ("auto", "auto"),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_the_tool_choice_reaches_the_vendor(drill: Drill, choice: Any, sent: object) -> None:
    drill.answers("openai", CALL)

    drill.run(model_of(drill).bind_tools([weather], tool_choice=choice).ainvoke("hello"))

    assert drill.arrivals[0].body["tool_choice"] == sent


async def test_arguments_that_are_no_json_are_an_invalid_tool_call() -> None:
    broken = AdapterReply(
        parts=(ToolCall(id="c", name="weather", arguments="{oops"),), finish_reason=FinishReason.TOOL_CALLS
    )

    message = await scripted(broken).ainvoke("hello")

    assert (message.tool_calls, message.invalid_tool_calls[0]["args"]) == ([], "{oops")


class Place(BaseModel):
    """A place."""

    city: str


def test_structured_output_comes_from_whichever_vendor_answers(drill: Drill) -> None:
    drill.answers("openai", out_of_quota())
    drill.answers(
        "anthropic", act({"act": "ok_tool", "calls": [{"id": "c", "name": "Place", "args": {"city": "Oslo"}}]})
    )

    assert drill.run(model_of(drill).with_structured_output(Place).ainvoke("where?")) == Place(city="Oslo")


# ---------------------------------------------------------------- messages


def roles(messages: Sequence[Message]) -> list[str]:
    return [message.role for message in messages]


def test_a_conversation_with_tools_is_read_whole() -> None:
    call: Any = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}
    read = from_langchain(
        [
            SystemMessage("Be brief."),
            HumanMessage("weather?"),
            AIMessage("I look.", tool_calls=[call]),
            ToolMessage("rain", tool_call_id="c1"),
        ]
    )

    assert roles(read) == ["system", "user", "assistant", "tool"]
    assert read[2].parts == (Text("I look."), ToolCall(id="c1", name="weather", arguments='{"city": "Oslo"}'))
    assert isinstance(read[3].parts[0], ToolResult)


def test_a_failed_tool_stays_failed() -> None:
    result = from_langchain([ToolMessage("no such city", tool_call_id="c1", status="error")])[0].parts[0]

    assert isinstance(result, ToolResult)
    assert result.is_error is True


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": PIXEL, "mime_type": "image/png"},
    ],
    ids=["openai", "standard", "older standard"],
)
def test_pictures_are_read_in_every_form(block: dict[str, Any]) -> None:
    parts = from_langchain([HumanMessage([{"type": "text", "text": "what?"}, block])])[0].parts

    assert isinstance(parts[1], Image)
    assert (parts[1].media_type, parts[1].data) == ("image/png", b"\x89PNG\r\n\x1a\n")


async def test_signed_thinking_goes_back_to_its_issuer_through_json() -> None:
    thought = Reasoning(text="hm", signature="sig", issuer=Candidate("a", "m1"))
    said = AdapterReply(parts=(thought, Text("hi")), finish_reason=FinishReason.STOP)

    message = await scripted(said).ainvoke("hello")
    again = AIMessage.model_validate_json(message.model_dump_json())

    assert (message.content, message.additional_kwargs["reasoning_content"]) == ("hi", "hm")
    assert from_langchain([again])[0].parts == (thought, Text("hi"))


# ---------------------------------------------------------------- an agent


def test_a_failover_in_the_middle_of_an_agents_run_ends_well(drill: Drill) -> None:
    agents = pytest.importorskip("langchain.agents", reason="the dependency group `integrations` is not installed")
    drill.answers("openai", CALL, out_of_quota())
    drill.answers("anthropic", ok("It rains in Oslo."))
    agent = agents.create_agent(model_of(drill), tools=[weather])

    result = drill.run(agent.ainvoke({"messages": [HumanMessage("weather in Oslo?")]}))

    answers = [message for message in result["messages"] if isinstance(message, AIMessage)]
    assert [message.response_metadata["served_by"] for message in answers] == [f"openai/{GPT}", f"anthropic/{CLAUDE}"]
    assert answers[-1].content == "It rains in Oslo."
    drill.assert_requests({f"openai/k1/{GPT}": 2, f"anthropic/k1/{CLAUDE}": 1})
