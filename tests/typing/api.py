"""The public API as a user's type checker sees it. Checked by mypy and pyright, both strict; never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

from anthropic import AsyncAnthropicFoundry
from openai import AsyncAzureOpenAI
from pydantic import BaseModel

import reliable_llm
from reliable_llm import (
    Attempt,
    Candidate,
    Capabilities,
    ChatReply,
    ChatRequest,
    ChatStream,
    Clock,
    Conversation,
    Event,
    FailoverChat,
    FinishReason,
    FunctionTool,
    Image,
    InvalidOutputError,
    Kind,
    Message,
    Plan,
    Provider,
    QuotaExhaustedError,
    RecoveryPolicy,
    ReliableLLMError,
    Restarted,
    RetryPolicy,
    Rule,
    Scope,
    ServedBy,
    Status,
    StreamInterruptedError,
    SystemClock,
    Text,
    TextDelta,
    Timeouts,
    ToolCall,
    ToolResult,
    Usage,
    UsageUpdate,
    Verdict,
    diagnose,
    run_tools,
    tool,
)
from reliable_llm.clients import bedrock, vertex
from reliable_llm.testing import Drill, ok, rate_limited

assert_type(reliable_llm.__version__, str)

_ = reliable_llm.FailoverChatt  # type: ignore[attr-defined]  # a misspelt name is an error


class Person(BaseModel):
    name: str


# ---------------------------------------------------------------- setting up


class Counter:
    """A listener as a user writes it."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        self.seen[event.event] = self.seen.get(event.event, 0) + event.level


def build(clock: Clock | None = None) -> FailoverChat:
    return FailoverChat(
        [
            Provider.openai(
                keys=["sk-a", "sk-b"],
                models=["gpt-5.1"],
                timeouts=Timeouts(attempt=60),
                capabilities={"gpt-5.1": Capabilities(context_window=400_000)},
                classify=[Rule(kind=Kind.OVERLOADED, statuses=(400,), codes=("NO_WORKER",))],
            ),
            Provider.anthropic(models={"claude-sonnet-4-5": "claude-sonnet-4-5-20250929"}),
        ],
        route=[("openai", "gpt-5.1"), Candidate("anthropic", "claude-sonnet-4-5"), "openai/gpt-5.1"],
        retry=RetryPolicy(max_retries=3, failover_on=frozenset({Kind.CONTENT_POLICY})),
        recovery=RecoveryPolicy(quota=60, breaker={Kind.SERVER_ERROR: 30}),
        clock=clock or SystemClock(),
        listeners=[Counter()],
    )


def on_clouds() -> None:
    models = ["claude-sonnet-4-5"]
    foundry = AsyncAnthropicFoundry(resource="acme")
    Provider.anthropic(models=models, clients=[foundry, bedrock("us-west-2"), vertex("global", "acme")])
    Provider.anthropic(models=models, clients=[lambda http: AsyncAnthropicFoundry(resource="acme", http_client=http)])
    Provider.openai(models=models, clients=[AsyncAzureOpenAI(azure_endpoint="https://acme", api_version="2025-04-01")])
    Provider.openai(models=models, clients=[foundry])  # type: ignore[list-item]


def set_up() -> None:
    assert_type(FailoverChat.from_env(models=["openai/gpt-5.1"]), FailoverChat)
    assert_type(FailoverChat.from_toml("llm.toml"), FailoverChat)
    FailoverChat([Provider.openai(models=["m"])], max_retries=3)  # type: ignore[call-arg]
    RetryPolicy(max_retrys=3)  # type: ignore[call-arg]


def look(chat: FailoverChat) -> None:
    assert_type(chat.status(), Status)
    assert_type(chat.plan("hi", deadline=30), Plan)
    assert_type(chat.route, tuple[Candidate, ...])
    for provider in chat.status().providers:
        for key in provider.keys:
            assert_type(key.health.seconds_left, float | None)
    chat.isolate("openai", model="gpt-5.1", seconds=60)
    chat.reset()


# ---------------------------------------------------------------- calls


async def call(chat: FailoverChat) -> None:
    reply = await chat("Name three rivers.", system="Be brief.", deadline=30)
    assert_type(reply, ChatReply)
    assert_type(reply.text, str)
    assert_type(reply.served_by, ServedBy)
    assert_type(reply.usage, Usage | None)
    assert_type(reply.attempts, tuple[Attempt, ...])
    assert_type(reply.finish_reason, FinishReason)
    assert_type(reply.attempts[0].kind, Kind | None)
    await chat([Message("user", "hi"), Message("user", (Text("what is this?"), Image(url="https://a.example/b.png")))])
    await chat(ChatRequest(messages=(Message("user", "hi"),)))
    await chat("hi", failover_on=["content_policy", Kind.OUTPUT_TRUNCATED], tags={"user": "ada"})


async def structured(chat: FailoverChat) -> None:
    reply = await chat("Who is it?", output=Person)
    person = reply.parsed
    if isinstance(person, Person):
        assert_type(person.name, str)


# ---------------------------------------------------------------- tools


@tool
async def temperature(city: str) -> float:
    """Tell the temperature in a city."""
    return float(len(city))


async def loop_over_tools(chat: FailoverChat) -> str:
    assert_type(temperature, FunctionTool)
    conversation = Conversation("Where is it warm?", system="Be brief.")
    reply = await chat(conversation, tools=[temperature])
    assert_type(reply.tool_calls, tuple[ToolCall, ...])
    conversation.append(reply)
    results = await run_tools(reply.tool_calls, [temperature])
    for result in results:
        assert_type(result, ToolResult)
    conversation.add_results(results)
    return (await chat(conversation, tools=[temperature])).text


# ---------------------------------------------------------------- streams


async def stream(chat: FailoverChat) -> None:
    async with chat.stream("Tell me a story.", on_interrupt="restart") as stream:
        assert_type(stream, ChatStream)
        async for event in stream:
            if isinstance(event, TextDelta):
                assert_type(event.text, str)
            elif isinstance(event, Restarted):
                assert_type(event.cause, Kind)
            elif isinstance(event, UsageUpdate):
                assert_type(event.usage, Usage)
        assert_type(await stream.reply(), ChatReply)
    async with chat.stream("hi", on_interrupt="again") as _:  # type: ignore[arg-type]
        pass


async def only_text(chat: FailoverChat) -> str:
    async with chat.stream("Tell me a story.") as stream:
        return "".join([text async for text in stream.text_stream])


# ---------------------------------------------------------------- failures


def what_it_means(exc: Exception) -> float | None:
    verdict = diagnose(exc, vendor="groq")
    assert_type(verdict, Verdict)
    assert_type(verdict.scope, Scope)
    return verdict.retry_after


async def fail(chat: FailoverChat) -> float | None:
    try:
        await chat("hi")
    except QuotaExhaustedError as error:
        return error.retry_after
    except StreamInterruptedError as error:
        assert_type(error.partial_text, str)
        assert_type(error.cause_kind, Kind | None)
    except InvalidOutputError as error:
        assert_type(error.problems, tuple[str, ...])
    except ReliableLLMError as error:
        assert_type(error.kind, Kind)
        assert_type(error.provider, str | None)
        assert_type(error.attempts, tuple[Attempt, ...])
    return None


# ---------------------------------------------------------------- tests of an application


def rehearse(reliable_llm_drill: Drill) -> None:
    drill = reliable_llm_drill
    drill.answers("openai", rate_limited(retry_after=60), ok("hi"))
    chat = FailoverChat([drill.openai(models=["m"])], clock=drill.clock)
    assert_type(drill.run(chat("hi")), ChatReply)
    assert_type(drill.requests(), dict[str, int])
