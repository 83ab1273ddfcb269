"""The vendors' own clients with a coordinator behind them."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from reliable_llm import FailoverChat, Kind, ReliableLLMError
from reliable_llm.integrations import anthropic_client, openai_client
from reliable_llm.testing import Drill, act, error, hang, html, ok, out_of_quota, rate_limited, stream
from tests.support import CLAUDE, GPT, STEADY, Fails, Listening, ManualClock, ScriptedAdapter, fails, provider

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
TOOL: dict[str, Any] = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = act({"act": "ok_tool", "calls": [{"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}]})


@pytest.fixture
def drill(reliable_llm_drill: Drill) -> Drill:
    return reliable_llm_drill


def chat_of(drill: Drill, **fields: Any) -> FailoverChat:
    return FailoverChat(
        [drill.openai(models=[GPT]), drill.anthropic(models=[CLAUDE])], clock=drill.clock, retry=STEADY, **fields
    )


def failed_over(drill: Drill, *answers: Any) -> FailoverChat:
    """Return a coordinator whose first vendor is out of quota."""
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", *answers)
    return chat_of(drill)


def failing(failure: Fails) -> FailoverChat:
    return FailoverChat([provider("a", ScriptedAdapter(failure))], clock=ManualClock(), retry=STEADY)


# ---------------------------------------------------------------- OpenAI's client


def test_the_openai_client_is_a_real_one(drill: Drill) -> None:
    assert isinstance(openai_client(chat_of(drill)), openai.AsyncOpenAI)


def test_a_completion_comes_from_whoever_answers_and_says_who(drill: Drill) -> None:
    client = openai_client(failed_over(drill, ok("bonjour", usage=(7, 3))))

    completion = drill.run(client.chat.completions.create(model="auto", messages=HELLO))

    assert completion.choices[0].message.content == "bonjour"
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 3)
    told = (completion.model_extra or {})["reliable_llm"]
    assert (told["served_by"], told["failed_over"]) == (f"anthropic/{CLAUDE}", True)
    assert completion.model == CLAUDE


def test_who_answered_is_in_a_header_too(drill: Drill) -> None:
    client = openai_client(failed_over(drill, ok("bonjour")))

    raw = drill.run(client.chat.completions.with_raw_response.create(model="auto", messages=HELLO))

    assert raw.headers["x-reliable-llm-served-by"] == f"anthropic/{CLAUDE}"


def test_a_model_of_the_chain_is_where_it_starts(drill: Drill) -> None:
    drill.answers("anthropic", ok("salut"))
    client = openai_client(chat_of(drill))

    drill.run(client.chat.completions.create(model=CLAUDE, messages=HELLO))

    drill.assert_requests({f"anthropic/k1/{CLAUDE}": 1})


def test_a_model_outside_the_chain_is_not_found(drill: Drill) -> None:
    client = openai_client(chat_of(drill))

    with pytest.raises(openai.NotFoundError, match=GPT):
        drill.run(client.chat.completions.create(model="gpt-2", messages=HELLO))


def test_an_endpoint_that_does_not_go_through_the_coordinator_says_so(drill: Drill) -> None:
    client = openai_client(chat_of(drill))

    with pytest.raises(openai.NotFoundError, match="chat/completions"):
        drill.run(client.embeddings.create(model="e", input="hello"))


def test_parameters_tools_and_schemas_reach_the_vendor(drill: Drill) -> None:
    drill.answers("openai", ok('{"city": "Oslo"}'))
    client = openai_client(chat_of(drill))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    drill.run(
        client.chat.completions.create(
            model="auto",
            messages=[{"role": "system", "content": "Be brief."}, *HELLO],
            tools=[{"type": "function", "function": TOOL}],  # type: ignore[list-item]
            tool_choice={"type": "function", "function": {"name": "weather"}},
            parallel_tool_calls=False,
            response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}},
            max_completion_tokens=50,
            temperature=0.5,
            stop=["END"],
            seed=7,
        )
    )

    body = drill.arrivals[0].body
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    assert body["tools"][0]["function"]["name"] == "weather"  # type: ignore[index]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["response_format"]["json_schema"]["name"] == "place"  # type: ignore[index]
    assert (body["max_completion_tokens"], body["temperature"], body["seed"]) == (50, 0.5, 7)
    assert (body["stop"], body["parallel_tool_calls"]) == (["END"], False)


def test_tool_calls_and_their_results_go_round_across_vendors(drill: Drill) -> None:
    client = openai_client(failed_over(drill, CALL, ok("It rains.")))

    async def talk() -> Any:
        tools: Any = [{"type": "function", "function": TOOL}]
        first = await client.chat.completions.create(model="auto", messages=HELLO, tools=tools)
        call = first.choices[0].message.tool_calls[0]  # type: ignore[index]
        result: Any = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        history = [*HELLO, first.choices[0].message.model_dump(exclude_none=True), result]
        return first, await client.chat.completions.create(model="auto", messages=history, tools=tools)

    first, second = drill.run(talk())

    assert first.choices[0].finish_reason == "tool_calls"
    assert json.loads(first.choices[0].message.tool_calls[0].function.arguments) == {"city": "Oslo"}
    assert second.choices[0].message.content == "It rains."


def test_a_stream_comes_from_whoever_answers_and_says_who_at_its_end(drill: Drill) -> None:
    client = openai_client(failed_over(drill, stream("Bon", "jour", usage=(7, 3))))

    async def listen() -> tuple[str, Any, Any]:
        options: Any = {"include_usage": True}
        chunks = await client.chat.completions.create(model="auto", messages=HELLO, stream=True, stream_options=options)
        seen = [chunk async for chunk in chunks]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices)
        return text, seen[-2], seen[-1]

    text, last, usage = drill.run(listen())

    assert (text, last.choices[0].finish_reason) == ("Bonjour", "stop")
    assert last.model_extra["reliable_llm"]["provider"] == "anthropic"
    assert (usage.usage.prompt_tokens, usage.usage.completion_tokens) == (7, 3)


def test_streamed_tool_calls_assemble_in_the_sdk(drill: Drill) -> None:
    calls = act({"act": "stream_tool", "id": "c1", "name": "weather", "arg_deltas": ['{"city"', ': "Oslo"}']})
    client = openai_client(failed_over(drill, calls))

    async def listen() -> Any:
        tools: Any = [{"type": "function", "function": TOOL}]
        async with client.chat.completions.stream(model="auto", messages=HELLO, tools=tools) as live:
            async for _ in live:
                pass
            return await live.get_final_completion()

    function = drill.run(listen()).choices[0].message.tool_calls[0].function

    assert (function.name, json.loads(function.arguments)) == ("weather", {"city": "Oslo"})


def test_a_stream_that_breaks_after_output_raises_in_the_sdk(drill: Drill) -> None:
    drill.answers("openai", stream("Bon", end="cut"))
    client = openai_client(chat_of(drill))

    async def listen() -> None:
        chunks = await client.chat.completions.create(model="auto", messages=HELLO, stream=True)
        assert (await anext(chunks)).choices[0].delta.role == "assistant"
        assert (await anext(chunks)).choices[0].delta.content == "Bon"
        await anext(chunks)

    with pytest.raises(openai.APIError):
        drill.run(listen())


def test_a_stream_that_is_left_is_closed_at_the_vendor(drill: Drill) -> None:
    drill.answers("openai", stream("a", "b", "c", gap=1))
    client = openai_client(chat_of(drill))

    async def leave() -> None:
        async with await client.chat.completions.create(model="auto", messages=HELLO, stream=True) as chunks:
            async for _ in chunks:
                break

    drill.run(leave())

    drill.assert_all_closed()


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (fails(Kind.RATE_LIMITED, retry_after=40.0), openai.RateLimitError),
        (fails(Kind.QUOTA_EXHAUSTED), openai.RateLimitError),
        (fails(Kind.AUTHENTICATION), openai.AuthenticationError),
        (fails(Kind.PERMISSION), openai.PermissionDeniedError),
        (fails(Kind.MODEL_NOT_FOUND), openai.NotFoundError),
        (fails(Kind.INVALID_REQUEST), openai.BadRequestError),
        (fails(Kind.CONTEXT_WINDOW), openai.BadRequestError),
        (fails(Kind.SERVER_ERROR), openai.InternalServerError),
        (fails(Kind.OVERLOADED), openai.InternalServerError),
        (fails(Kind.MALFORMED_RESPONSE), openai.InternalServerError),
        (fails(Kind.TIMEOUT), openai.APITimeoutError),
        (fails(Kind.CONNECTION), openai.APIConnectionError),
    ],
    ids=lambda value: str(value.kind) if isinstance(value, Fails) else value.__name__,
)
async def test_failures_come_as_the_sdks_own_exceptions(failure: Fails, expected: type[Exception]) -> None:
    with pytest.raises(expected) as raised:
        await openai_client(failing(failure)).chat.completions.create(model="auto", messages=HELLO)

    assert type(raised.value) is expected


def test_an_error_tells_what_was_tried_and_when_to_come_back(drill: Drill) -> None:
    drill.answers("openai", rate_limited(retry_after=45))
    drill.answers("anthropic", error(401, error_type="authentication_error"))
    client = openai_client(chat_of(drill))

    with pytest.raises(openai.RateLimitError) as raised:
        drill.run(client.chat.completions.create(model="auto", messages=HELLO))

    assert isinstance(raised.value.body, dict)
    assert len(raised.value.body["reliable_llm"]["attempts"]) == 2
    assert raised.value.response.headers["retry-after"] == "45"


def test_the_sdks_retries_do_not_multiply_ours(drill: Drill) -> None:
    drill.answers("openai", html())
    drill.answers("anthropic", html())
    client = openai_client(chat_of(drill)).with_options(max_retries=5)

    with pytest.raises(openai.InternalServerError):
        drill.run(client.chat.completions.create(model="auto", messages=HELLO))

    drill.assert_requests({f"openai/k1/{GPT}": 3, f"anthropic/k1/{CLAUDE}": 3})


def test_the_clients_timeout_bounds_the_whole_call(drill: Drill) -> None:
    drill.answers("openai", hang())
    client = openai_client(chat_of(drill))

    with pytest.raises(openai.APITimeoutError):
        drill.run(client.chat.completions.create(model="auto", messages=HELLO, timeout=5))

    assert drill.now == 5


def test_own_fields_set_deadline_and_tags(drill: Drill) -> None:
    told = Listening()
    drill.answers("openai", hang())
    client = openai_client(chat_of(drill, listeners=[told]))
    own = {"reliable_llm": {"deadline": 3, "tags": {"user": "ada"}}}

    with pytest.raises(openai.APITimeoutError):
        drill.run(client.chat.completions.create(model="auto", messages=HELLO, extra_body=own))

    assert drill.now == 3
    assert {tags.get("user") for event, tags in told.told if event.event != "config_warning"} == {"ada"}


@pytest.mark.parametrize(
    "fields",
    [{"n": 2}, {"temperature": "hot"}, {"max_tokens": 1.5}, {"tools": ["x"]}, {"messages": ["x"]}],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_request_that_makes_no_sense_is_a_bad_request(fields: dict[str, Any]) -> None:
    client = openai_client(FailoverChat([provider("a", ScriptedAdapter("never"))]))
    arguments: dict[str, Any] = {"model": "auto", "messages": HELLO} | fields

    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(**arguments)


async def test_a_closed_coordinator_is_no_vendors_failure() -> None:
    chat = failing(fails(Kind.SERVER_ERROR))
    client = openai_client(chat)
    await chat.aclose()

    with pytest.raises((openai.APIConnectionError, ReliableLLMError), match=r"closed|Connection"):
        await client.chat.completions.create(model="auto", messages=HELLO)


async def test_closing_the_client_leaves_the_coordinator_open() -> None:
    chat = FailoverChat([provider("a", ScriptedAdapter("fine"))], clock=ManualClock())
    await openai_client(chat).close()

    assert (await chat("hi")).text == "fine"


# ---------------------------------------------------------------- Anthropic's client


def ask(client: anthropic.AsyncAnthropic, **fields: Any) -> Any:
    arguments: dict[str, Any] = {"model": "auto", "max_tokens": 100, "messages": HELLO} | fields
    return client.messages.create(**arguments)


def failed_over_to_openai(drill: Drill, *answers: Any) -> FailoverChat:
    drill.answers("anthropic", out_of_quota())
    drill.answers("openai", *answers)
    return FailoverChat([drill.anthropic(models=[CLAUDE]), drill.openai(models=[GPT])], clock=drill.clock, retry=STEADY)


def test_a_message_comes_from_whoever_answers_and_says_who(drill: Drill) -> None:
    client = anthropic_client(failed_over_to_openai(drill, ok("hello", usage=(7, 3))))

    message = drill.run(ask(client))

    assert isinstance(client, anthropic.AsyncAnthropic)
    assert (message.content[0].text, message.stop_reason) == ("hello", "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 3)
    assert message.model_extra["reliable_llm"]["served_by"] == f"openai/{GPT}"


def test_anthropics_parameters_reach_the_other_vendor(drill: Drill) -> None:
    client = anthropic_client(failed_over_to_openai(drill, ok("hello")))
    tool = {"name": "weather", "description": "d", "input_schema": TOOL["parameters"]}

    drill.run(
        ask(
            client,
            system="Be brief.",
            tools=[tool],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            stop_sequences=["END"],
        )
    )

    body = drill.arrivals[-1].body
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}  # type: ignore[index]
    assert body["tools"][0]["function"]["name"] == "weather"  # type: ignore[index]
    assert (body["tool_choice"], body["parallel_tool_calls"], body["stop"]) == ("required", False, ["END"])


def test_anthropics_tool_calls_go_round_across_vendors(drill: Drill) -> None:
    client = anthropic_client(failed_over_to_openai(drill, CALL, ok("It rains.")))
    tools = [{"name": "weather", "input_schema": TOOL["parameters"]}]

    async def talk() -> tuple[Any, Any]:
        first = await ask(client, tools=tools)
        call = next(block for block in first.content if block.type == "tool_use")
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]}
        history = [*HELLO, {"role": "assistant", "content": first.content}, result]
        return call, await ask(client, tools=tools, messages=history)

    call, second = drill.run(talk())

    assert (call.name, call.input, second.content[0].text) == ("weather", {"city": "Oslo"}, "It rains.")


def test_a_streamed_message_assembles_in_the_sdk(drill: Drill) -> None:
    client = anthropic_client(failed_over_to_openai(drill, stream("Hel", "lo", usage=(7, 3))))

    async def listen() -> tuple[str, Any]:
        async with client.messages.stream(model="auto", max_tokens=100, messages=HELLO) as live:
            text = "".join([piece async for piece in live.text_stream])
            return text, await live.get_final_message()

    text, message = drill.run(listen())

    assert (text, message.content[0].text, message.stop_reason) == ("Hello", "Hello", "end_turn")
    assert message.usage.output_tokens == 3


def test_a_streamed_tool_call_assembles_in_anthropics_sdk(drill: Drill) -> None:
    calls = act({"act": "stream_tool", "id": "c1", "name": "weather", "arg_deltas": ['{"city"', ': "Oslo"}']})
    client = anthropic_client(failed_over_to_openai(drill, calls))

    async def listen() -> Any:
        tools: Any = [{"name": "weather", "input_schema": TOOL["parameters"]}]
        async with client.messages.stream(model="auto", max_tokens=100, messages=HELLO, tools=tools) as live:
            return await live.get_final_message()

    message = drill.run(listen())

    assert (message.content[0].input, message.stop_reason) == ({"city": "Oslo"}, "tool_use")


def test_a_streamed_message_that_breaks_raises_in_anthropics_sdk(drill: Drill) -> None:
    client = anthropic_client(failed_over_to_openai(drill, stream("Hel", end="cut")))

    async def listen() -> None:
        async with client.messages.stream(model="auto", max_tokens=100, messages=HELLO) as live:
            async for _ in live:
                pass

    with pytest.raises(anthropic.APIError):
        drill.run(listen())


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (fails(Kind.RATE_LIMITED, retry_after=40.0), anthropic.RateLimitError),
        (fails(Kind.AUTHENTICATION), anthropic.AuthenticationError),
        (fails(Kind.PERMISSION), anthropic.PermissionDeniedError),
        (fails(Kind.MODEL_NOT_FOUND), anthropic.NotFoundError),
        (fails(Kind.INVALID_REQUEST), anthropic.BadRequestError),
        (fails(Kind.SERVER_ERROR), anthropic.InternalServerError),
        (fails(Kind.TIMEOUT), anthropic.APITimeoutError),
        (fails(Kind.CONNECTION), anthropic.APIConnectionError),
    ],
    ids=lambda value: str(value.kind) if isinstance(value, Fails) else value.__name__,
)
async def test_failures_come_as_anthropics_own_exceptions(failure: Fails, expected: type[Exception]) -> None:
    with pytest.raises(expected) as raised:
        await ask(anthropic_client(failing(failure)))

    assert type(raised.value) is expected


def test_thinking_of_another_vendor_is_not_sent_to_anthropic(drill: Drill) -> None:
    drill.answers("anthropic", ok("fine"))
    client = anthropic_client(FailoverChat([drill.anthropic(models=[CLAUDE])], clock=drill.clock))
    thought = [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "hi"}]
    history = [*HELLO, {"role": "assistant", "content": thought}, *HELLO]

    drill.run(ask(client, messages=history))

    assert "thinking" not in json.dumps(drill.arrivals[0].body)
