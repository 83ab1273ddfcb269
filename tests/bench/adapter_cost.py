"""CPU of one call and of one streamed chunk: our adapters against the vendors' own `create()`, in one process.

    python tests/bench/adapter_cost.py [--rounds 7] [--calls 200]

Prints a Markdown table per vendor. The transport is `httpx2.MockTransport`, so no socket's cost is in the figures; the
rounds are interleaved and the best one counts, so another program on the machine disturbs all alike. The column to
read is the ratio. For real sockets see `overhead.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anthropic
import httpx2
import openai

from reliable_llm.adapters.anthropic_messages import AnthropicAdapter
from reliable_llm.adapters.base import Adapter, AdapterSettings, Target
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.adapters.openai_responses import OpenAIResponsesAdapter
from reliable_llm.credentials import Credential
from reliable_llm.policy import Timeouts
from reliable_llm.types import Candidate, ChatRequest, Message

Call = Callable[[], Awaitable[object]]

KEY = Credential("sk-bench", label="bench#1")
TIMEOUTS = Timeouts()
CHUNKS = 200
WORDS = "the quick brown fox jumps over the lazy dog " * 4


# ---------------------------------------------------------------- what the vendors answer


def _sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        (f"event: {event['type']}\n" if "type" in event else "").encode() + f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def _chat() -> tuple[bytes, bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt"}
    usage = {"prompt_tokens": 500, "completion_tokens": 40, "total_tokens": 540}
    message = {"role": "assistant", "content": WORDS, "refusal": None}
    whole = {**head, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    part = {**head, "object": "chat.completion.chunk", "system_fingerprint": "fp"}
    chunks = [
        {**part, "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}]} for _ in range(CHUNKS)
    ]
    end = {**part, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return json.dumps(whole).encode(), _sse(*chunks, end, {**part, "choices": [], "usage": usage}) + b"data: [DONE]\n\n"


def _responses() -> tuple[bytes, bytes]:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    text = {"type": "output_text", "text": WORDS, "annotations": []}
    usage = {"input_tokens": 500, "output_tokens": 40, "total_tokens": 540}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt"}
    whole = {**head, "status": "completed", "output": [{**item, "content": [text]}], "usage": usage}
    place = {"output_index": 0, "content_index": 0, "item_id": "msg_1", "logprobs": []}
    chunks = [
        {"type": "response.output_text.delta", "delta": " word", "sequence_number": n, **place} for n in range(CHUNKS)
    ]
    created = {"type": "response.created", "sequence_number": 0, "response": {**head, "status": "in_progress"}}
    end = {"type": "response.completed", "sequence_number": 999, "response": whole}
    return json.dumps(whole).encode(), _sse(created, *chunks, end)


def _messages() -> tuple[bytes, bytes]:
    usage = {"input_tokens": 500, "output_tokens": 40}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
    text = {"type": "text", "text": WORDS}
    whole = {**head, "content": [text], "stop_reason": "end_turn", "usage": usage}
    start = {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}}
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}}
    ends: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}},
        {"type": "message_stop"},
    ]
    return json.dumps(whole).encode(), _sse(start, opened, *[delta] * CHUNKS, *ends)


def _http(whole: bytes, stream: bytes) -> httpx2.AsyncClient:
    async def pieces() -> AsyncIterator[bytes]:
        yield stream

    def answer(request: httpx2.Request) -> httpx2.Response:
        if b'"stream":true' in request.content:
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=pieces())
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=whole)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


# ---------------------------------------------------------------- what is measured


def _conversation(length: int) -> list[dict[str, str]]:
    return [{"role": "assistant" if n % 2 else "user", "content": WORDS} for n in range(length)]


def _request(length: int) -> ChatRequest:
    turns: Any = _conversation(length)
    return ChatRequest(messages=tuple(Message(turn["role"], turn["content"]) for turn in turns), max_tokens=100)


def _ours(adapter: Adapter, length: int) -> dict[str, Call]:
    request = _request(length)
    target = Target(candidate=Candidate("bench", "model"), model_id="model")
    ready, streamed = adapter.prepare(request, target), adapter.prepare(request, target, stream=True)

    async def complete() -> object:
        return await adapter.complete(ready, KEY, TIMEOUTS)

    async def whole() -> object:
        return await adapter.complete(adapter.prepare(request, target), KEY, TIMEOUTS)

    async def stream() -> object:
        async with adapter.stream(streamed, KEY, TIMEOUTS) as events:
            return [event async for event in events]

    return {"adapter: prepare + complete": whole, "adapter: complete": complete, "adapter: stream": stream}


def _theirs(create: Callable[..., Any], post: Callable[[object], Awaitable[object]], **fields: Any) -> dict[str, Call]:
    async def bare() -> object:
        return await create(**fields)

    async def generic() -> object:
        return await post(fields)

    async def stream() -> object:
        async with await create(**fields, stream=True) as chunks:
            return [chunk async for chunk in chunks]

    return {"bare create()": bare, "bare post(cast_to=Response)": generic, "bare create(stream=True)": stream}


def chat(length: int) -> dict[str, Call]:
    http = _http(*_chat())
    client = openai.AsyncOpenAI(api_key="k", max_retries=0, http_client=http)

    def post(body: object) -> Awaitable[object]:
        return client.post("/chat/completions", cast_to=httpx2.Response, body=body)

    adapter = OpenAIChatAdapter(AdapterSettings(vendor="openai", http_client=http))
    bare = _theirs(
        client.chat.completions.create, post, model="model", messages=_conversation(length), max_completion_tokens=100
    )
    return bare | _ours(adapter, length)


def responses(length: int) -> dict[str, Call]:
    http = _http(*_responses())
    client = openai.AsyncOpenAI(api_key="k", max_retries=0, http_client=http)

    def post(body: object) -> Awaitable[object]:
        return client.post("/responses", cast_to=httpx2.Response, body=body)

    adapter = OpenAIResponsesAdapter(AdapterSettings(vendor="openai", http_client=http))
    bare = _theirs(client.responses.create, post, model="model", input=_conversation(length), max_output_tokens=100)
    return bare | _ours(adapter, length)


def messages(length: int) -> dict[str, Call]:
    http = _http(*_messages())
    client = anthropic.AsyncAnthropic(api_key="k", max_retries=0, http_client=http)

    def post(body: object) -> Awaitable[object]:
        return client.post("/v1/messages", cast_to=httpx2.Response, body=body)

    adapter = AnthropicAdapter(AdapterSettings(vendor="anthropic", http_client=http))
    bare = _theirs(client.messages.create, post, model="model", messages=_conversation(length), max_tokens=100)
    return bare | _ours(adapter, length)


async def measure(cases: dict[str, Call], rounds: int, calls: int) -> dict[str, float]:
    """Return microseconds of CPU per call, by case; streams per chunk."""
    best = dict.fromkeys(cases, float("inf"))
    for call in cases.values():
        await call()
    for _ in range(rounds):
        for name, call in cases.items():
            count = max(1, calls // 10) if "stream" in name else calls
            gc.collect()
            began = time.process_time()
            for _ in range(count):
                await call()
            spent = (time.process_time() - began) / count / (CHUNKS if "stream" in name else 1)
            best[name] = min(best[name], spent * 1e6)
    return best


VENDORS = {"OpenAI chat": chat, "OpenAI responses": responses, "Anthropic": messages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--messages", type=int, nargs="*", default=[1, 10, 200])
    options = parser.parse_args()
    for vendor, build in VENDORS.items():
        print(
            f"\n### {vendor}\n\n| messages | case | us CPU per call or chunk | of bare |\n| ---: | --- | ---: | ---: |"
        )
        for length in options.messages:
            calls = max(10, options.calls // (1 + length // 20))
            found = asyncio.run(_run(build, length, options.rounds, calls))
            for name, spent in found.items():
                bare = found["bare create(stream=True)" if "stream" in name else "bare create()"]
                print(f"| {length} | {name} | {spent:,.1f} | {spent / bare:.2f} |", flush=True)


async def _run(build: Callable[[int], dict[str, Call]], length: int, rounds: int, calls: int) -> dict[str, float]:
    return await measure(build(length), rounds, calls)


if __name__ == "__main__":
    main()
