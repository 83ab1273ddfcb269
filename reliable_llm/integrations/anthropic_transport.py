"""A real `anthropic.AsyncAnthropic` whose messages are answered by a coordinator.

    client = anthropic_client(chat)
    message = await client.messages.create(model="auto", max_tokens=500, messages=[...])
    message.model_extra["reliable_llm"]["served_by"]         # "openai/gpt-5.1"

As `openai_client`, with Anthropic's words. Thinking in a streamed answer is shown without its
signature and is not sent back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx2

from reliable_llm.chat import FailoverChat
from reliable_llm.errors import ReliableLLMError
from reliable_llm.integrations import anthropic_wire
from reliable_llm.integrations.http_errors import anthropic_error
from reliable_llm.integrations.transport import Asked, CoordinatorTransport, sse, who
from reliable_llm.integrations.unfit import UNFIT, unfit_reply
from reliable_llm.stream import ChatStream
from reliable_llm.types import ChatReply, ChatRequest, Json

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


def anthropic_client(chat: FailoverChat) -> AsyncAnthropic:
    """Return a client for *chat*. Closing it leaves *chat* open."""
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        api_key="none-needed",
        base_url="https://reliable-llm.invalid",
        max_retries=0,  # the coordinator has retried: one owner
        http_client=httpx2.AsyncClient(transport=AnthropicTransport(chat)),
    )


class AnthropicTransport(CoordinatorTransport):
    """Answers `POST /v1/messages`."""

    path = "/v1/messages"

    def read(self, body: Json) -> ChatRequest:
        return anthropic_wire.read_request(body)

    def answer(self, reply: ChatReply) -> Json:
        return anthropic_wire.message(reply)

    def error(self, error: ReliableLLMError) -> tuple[int, dict[str, str], dict[str, object]]:
        return anthropic_error(error)

    async def events(self, stream: ChatStream, asked: Asked) -> AsyncIterator[bytes]:
        served_by = who(stream)
        head = anthropic_wire.head(served_by, served_by.model)
        yield sse({"type": "message_start", "message": head}, event="message_start")
        blocks = anthropic_wire.Blocks()
        try:
            async for event in stream:
                for told in blocks.of(event):
                    yield sse(told, event=str(told["type"]))
            reply = await stream.reply()
        except UNFIT as error:
            reply = unfit_reply(error)
        for told in (*blocks.close(), *anthropic_wire.last_events(reply)):
            yield sse(told, event=str(told["type"]))
