"""A coordinator as one provider of another.

    team = FailoverChat([Provider.openai(...), Provider.anthropic(...)])
    chat = FailoverChat([provider_of(team, name="team"), Provider.openai(name="own", ...)])

The inner one retries, rotates and remembers; the outer one only moves on. Attempts and usage are counted once: the
inner attempts stand in the outer ledger, and no row stands for them all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, Self

from reliable_llm.adapters.base import AdapterStream, Prepared, Target
from reliable_llm.chat import FailoverChat
from reliable_llm.credentials import Credential
from reliable_llm.errors import ReliableLLMError, Scope
from reliable_llm.policy import DAY, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.stream import ChatStream
from reliable_llm.types import (
    AdapterReply,
    Capabilities,
    ChatReply,
    ChatRequest,
    Finished,
    FinishReason,
    Started,
    StreamEvent,
    Text,
)

# The inner coordinator bounds every attempt of its own; a limit on all of them together is the caller's deadline.
_UNBOUNDED: Final = Timeouts(attempt=DAY, first_byte=DAY, first_token=DAY, idle=DAY)


def provider_of(
    chat: FailoverChat,
    *,
    name: str,
    models: Sequence[str] | Mapping[str, str] | None = None,
    capabilities: Capabilities | Mapping[str, Capabilities] | None = None,
    max_concurrency: int | None = None,
) -> Provider:
    """Return *chat* as a provider. `models` are models of its chain, where it then starts; by default the first one.

    Closing the outer coordinator leaves *chat* open.
    """
    return Provider.of(
        NestedAdapter(chat),
        models=[chat.route[0].model] if models is None else models,
        name=name,
        timeouts=_UNBOUNDED,
        capabilities=capabilities,
        max_concurrency=max_concurrency,
    )


class NestedAdapter:
    """An adapter that asks a coordinator."""

    vendor = "reliable_llm"

    def __init__(self, chat: FailoverChat) -> None:
        self._chat = chat

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        return Prepared(target=target, body={}, stream=stream, request=request)

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        try:
            reply = await self._chat(_request(prepared), model=self._start(prepared))
        except ReliableLLMError as error:
            raise handed_on(error) from error.__cause__
        return _answer(reply)

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        return NestedStream(self._chat.stream(_request(prepared), model=self._start(prepared)))

    def _start(self, prepared: Prepared) -> str | None:
        model = prepared.target.model_id
        return None if model == self._chat.route[0].model else model

    async def warmup(self) -> None:
        await self._chat.warmup()

    async def aclose(self) -> None:
        """Do nothing: the inner coordinator is not the outer one's to close."""


class NestedStream:
    """An `AdapterStream` over a coordinator's stream; also the context manager that opens it."""

    def __init__(self, stream: ChatStream) -> None:
        self._stream = stream
        self._whole: AdapterReply | None = None
        self.headers: Mapping[str, str] = {}
        self.request_id: str | None = None
        self.model: str | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._stream.__aenter__()
        except ReliableLLMError as error:
            raise handed_on(error) from error.__cause__
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.__aexit__(None, None, None)

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        try:
            async for event in self._stream:
                if isinstance(event, Finished):
                    self._whole = _answer(await self._stream.reply())
                    self.request_id = self._whole.request_id
                if isinstance(event, Started):
                    self.model = event.model
                else:
                    yield event
        except ReliableLLMError as error:
            raise handed_on(error) from error.__cause__

    def reply(self) -> AdapterReply:
        so_far = AdapterReply(
            parts=(Text(self._stream.text),), finish_reason=FinishReason.OTHER, usage=self._stream.usage
        )
        return self._whole or so_far


def handed_on(error: ReliableLLMError) -> ReliableLLMError:
    """Return an inner coordinator's *error* for the outer one: nothing to retry or remember, only to move on."""
    error.inner = error.attempts
    error.verdict = replace(error.verdict, scope=Scope.LOCAL, rotate_key=False, retry_same=False)
    error.args = ()  # the outer coordinator tells the story, of which this is a part
    return error


def _request(prepared: Prepared) -> ChatRequest:
    assert prepared.request is not None  # noqa: S101 - `prepare` has put it there
    return prepared.request


def _answer(reply: ChatReply) -> AdapterReply:
    return AdapterReply(
        parts=reply.parts,
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        model=reply.model,
        request_id=reply.request_id,
        raw=reply.raw_reply,
        dropped=reply.dropped,
        finish_detail=reply.finish_detail,
        attempts=reply.attempts,
    )
