"""A real `openai.AsyncOpenAI` whose chat completions are answered by a coordinator.

    client = openai_client(chat)
    completion = await client.chat.completions.create(model="auto", messages=[...])
    completion.model_extra["reliable_llm"]["served_by"]      # "anthropic/claude-sonnet-4-5"

Everything built on that client works unchanged: OpenAI Agents SDK (with its chat completions model), instructor, and
so on. `model` is one of the chain's, which then starts there, or "auto". Failures come as the SDK's own exceptions, and
`exc.body["reliable_llm"]` tells what was tried. Per call, `extra_body={"reliable_llm": {"deadline": 30, "tags": {}}}`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import httpx2

from reliable_llm.chat import FailoverChat
from reliable_llm.clock import SystemClock
from reliable_llm.errors import ReliableLLMError
from reliable_llm.integrations import openai_format
from reliable_llm.integrations.http_errors import openai_error
from reliable_llm.integrations.transport import Asked, CoordinatorTransport, sse, who
from reliable_llm.integrations.unfit import UNFIT, unfit_reply
from reliable_llm.stream import ChatStream
from reliable_llm.types import ChatReply, ChatRequest, Json

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def openai_client(chat: FailoverChat) -> AsyncOpenAI:
    """Return a client for *chat*. Closing it leaves *chat* open."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        api_key="none-needed",
        base_url="https://reliable-llm.invalid/v1",
        max_retries=0,  # the coordinator has retried: one owner
        http_client=httpx2.AsyncClient(transport=OpenAITransport(chat)),
    )


class OpenAITransport(CoordinatorTransport):
    """Answers `POST /chat/completions`."""

    path = "/chat/completions"

    def read(self, body: Json) -> ChatRequest:
        return openai_format.read_request(body)

    def answer(self, reply: ChatReply) -> Json:
        return openai_format.completion(reply, SystemClock().time())

    def error(self, error: ReliableLLMError) -> tuple[int, dict[str, str], dict[str, object]]:
        return openai_error(error)

    async def events(self, stream: ChatStream, asked: Asked) -> AsyncIterator[bytes]:
        chunks = openai_format.Chunks(who(stream), SystemClock().time())
        yield sse(chunks.chunk({"role": "assistant", "content": ""}))
        try:
            async for event in stream:
                for chunk in chunks.of(event):
                    yield sse(chunk)
            reply = await stream.reply()
        except UNFIT as error:
            reply = unfit_reply(error)
        yield sse(chunks.last(reply))
        options = asked.body.get("stream_options")
        if isinstance(options, Mapping) and options.get("include_usage"):
            yield sse(chunks.usage(reply.usage))
        yield sse("[DONE]")
