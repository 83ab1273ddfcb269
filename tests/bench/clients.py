"""Who is measured: the vendors' own clients, ours on top of them, and the peers that happen to be installed.

Each entry makes an `ask(messages)` coroutine function against the server at `base`. A peer that is not installed is
left out and named, never silently: `pip install --group bench` brings them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reliable_llm import FailoverChat, Provider

Messages = list[dict[str, str]]
Ask = Callable[[Messages], Awaitable[object]]
Stream = Callable[[Messages], AsyncIterator[str]]


@dataclass(frozen=True)
class Client:
    """One client: plain calls, streams, and which bare SDK it is compared with."""

    name: str
    ask: Ask
    stream: Stream | None
    bare: str
    close: Callable[[], Awaitable[object]] | None = None


def history(count: int) -> Messages:
    """Return *count* messages of about 200 characters, the last one from the user."""
    roles = ("user", "assistant")
    return [{"role": roles[(count - n - 1) % 2], "content": f"{n}: " + "word " * 40} for n in range(count)]


def bare_openai(base: str, *, aiohttp: bool = False) -> Client:
    import openai

    http = openai.DefaultAioHttpClient() if aiohttp else None
    client = openai.AsyncOpenAI(api_key="sk-a", base_url=f"{base}/v1", max_retries=0, http_client=http)

    async def ask(messages: Messages) -> object:
        sent: Any = messages
        return await client.chat.completions.create(model="gpt", messages=sent, max_completion_tokens=256)

    async def stream(messages: Messages) -> AsyncIterator[str]:
        sent: Any = messages
        options: Any = {"include_usage": True}
        async with await client.chat.completions.create(
            model="gpt", messages=sent, max_completion_tokens=256, stream=True, stream_options=options
        ) as chunks:
            async for chunk in chunks:
                if chunk.choices and chunk.choices[0].delta.content:
                    yield chunk.choices[0].delta.content

    return Client("openai, aiohttp" if aiohttp else "openai", ask, stream, "openai", client.close)


def bare_anthropic(base: str, *, aiohttp: bool = False) -> Client:
    import anthropic

    http = anthropic.DefaultAioHttpClient() if aiohttp else None
    client = anthropic.AsyncAnthropic(api_key="sk-a", base_url=base, max_retries=0, http_client=http)

    async def ask(messages: Messages) -> object:
        sent: Any = messages
        return await client.messages.create(model="claude", messages=sent, max_tokens=256)

    async def stream(messages: Messages) -> AsyncIterator[str]:
        sent: Any = messages
        async with await client.messages.create(model="claude", messages=sent, max_tokens=256, stream=True) as events:
            async for event in events:
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    yield event.delta.text

    return Client("anthropic, aiohttp" if aiohttp else "anthropic", ask, stream, "anthropic", client.close)


def ours(base: str, vendor: str, *, aiohttp: bool = False, keys: Sequence[str] = ("sk-a", "sk-b")) -> Client:
    transport: Any = "aiohttp" if aiohttp else "httpx2"
    provider = (
        Provider.openai(models=["gpt"], keys=keys, vendor="openai", base_url=f"{base}/v1", transport=transport)
        if vendor == "openai"
        else Provider.anthropic(models=["claude"], keys=keys, vendor="anthropic", base_url=base, transport=transport)
    )
    chat = FailoverChat([provider])

    async def ask(messages: Messages) -> object:
        return await chat(messages, max_tokens=256)

    async def stream(messages: Messages) -> AsyncIterator[str]:
        async with chat.stream(messages, max_tokens=256) as events:
            async for text in events.text_stream:
                yield text

    name = f"reliable_llm on {vendor}" + (", aiohttp" if aiohttp else "")
    return Client(name, ask, stream, vendor, chat.aclose)


def _langchain(base: str) -> Client:
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI

    first: Any = ChatOpenAI(model="gpt", api_key="sk-a", base_url=f"{base}/v1", max_retries=0)
    model = first.with_fallbacks([ChatAnthropic(model="claude", api_key="sk-a", base_url=base)])  # type: ignore[call-arg]
    return Client("LangChain with_fallbacks", lambda messages: model.ainvoke(messages), None, "openai")


def _pydantic_ai(base: str) -> Client:
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(api_key="sk-a", base_url=f"{base}/v1")
    model = FallbackModel(OpenAIChatModel("gpt", provider=provider), OpenAIChatModel("gpt2", provider=provider))

    def ask(messages: Messages) -> Awaitable[object]:
        parts = [UserPromptPart(message["content"]) for message in messages]
        return model_request(model, [ModelRequest(parts=parts)])

    return Client("Pydantic AI FallbackModel", ask, None, "openai")


def _litellm(base: str) -> Client:
    import litellm

    def ask(messages: Messages) -> Awaitable[object]:
        asked: Any = litellm.acompletion
        return asked(model="openai/gpt", messages=messages, api_key="sk-a", api_base=f"{base}/v1", max_retries=0)

    return Client("litellm.acompletion", ask, None, "openai")


def _router(base: str) -> Client:
    import litellm

    deployments = [
        {
            "model_name": "main",
            "litellm_params": {"model": "openai/gpt", "api_key": f"sk-{n}", "api_base": f"{base}/v1"},
        }
        for n in range(3)
    ]
    router: Any = litellm.Router(model_list=deployments, num_retries=2)
    return Client(
        "LiteLLM Router", lambda messages: router.acompletion(model="main", messages=messages), None, "openai"
    )


def _any_llm(base: str) -> Client:
    from any_llm import AnyLLM

    llm: Any = AnyLLM.create("openai", api_key="sk-a", api_base=f"{base}/v1")
    return Client("any-llm", lambda messages: llm.acompletion(model="gpt", messages=messages), None, "openai")


PEERS: dict[str, Callable[[str], Client]] = {
    "langchain_anthropic": _langchain,
    "pydantic_ai": _pydantic_ai,
    "litellm": _litellm,
    "litellm.router": _router,
    "any_llm": _any_llm,
}


def peers(base: str) -> tuple[list[Client], list[str]]:
    """Return the peers that are installed, and the names of those that are not."""
    found: list[Client] = []
    missing: list[str] = []
    for module, make in PEERS.items():
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            missing.append(module)
        else:
            found.append(make(base))
    return found, missing


def all_clients(base: str, *, aiohttp: bool) -> list[Client]:
    """Return the bare SDKs and ours, on both transports where aiohttp is installed."""
    kinds = (False, True) if aiohttp else (False,)
    clients = [bare_openai(base, aiohttp=kind) for kind in kinds] + [
        ours(base, "openai", aiohttp=kind) for kind in kinds
    ]
    clients += [bare_anthropic(base, aiohttp=kind) for kind in kinds]
    return clients + [ours(base, "anthropic", aiohttp=kind) for kind in kinds]
