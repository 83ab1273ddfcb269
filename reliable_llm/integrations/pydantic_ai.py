"""Pydantic AI's model over a coordinator (`pip install reliable-llm[pydantic-ai]`).

    agent = Agent(ReliableModel(chat), tools=[...], output_type=Plan)
    result = await agent.run("hello")
    result.response.provider_name, result.response.provider_details["served_by"]

It can be one of several in their `FallbackModel`: failures are Pydantic AI's own (`ModelQuotaExceededError`, ...), ours
is their `__cause__`. `ModelSettings["timeout"]` bounds the whole call, retries and failovers included.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from pydantic_ai import RunContext
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
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, check_allow_model_requests
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

from reliable_llm.chat import FailoverChat
from reliable_llm.clock import SystemClock
from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.integrations.http_errors import OPENAI_WORDS
from reliable_llm.integrations.pydantic_ai_messages import (
    details_of,
    finish_of,
    thinking_details,
    to_pydantic_ai,
    usage_of,
)
from reliable_llm.integrations.pydantic_ai_request import request_of
from reliable_llm.integrations.unfit import UNFIT, unfit_reply
from reliable_llm.policy import RetryPolicy
from reliable_llm.stream import ChatStream
from reliable_llm.types import (
    ChatReply,
    ChatRequest,
    Reasoning,
    ReasoningDelta,
    ServedBy,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
)

_PROFILE: Final = ModelProfile(
    supports_tools=True,
    supports_json_schema_output=True,
    supports_json_object_output=False,
    supports_image_input=True,
    supports_document_input=True,
    supports_thinking=True,
)
_CATEGORIES: Final[dict[Kind, Any]] = {
    Kind.RATE_LIMITED: ModelRateLimitError,
    Kind.QUEUE_FULL: ModelRateLimitError,
    Kind.QUOTA_EXHAUSTED: ModelQuotaExceededError,
    Kind.OVERLOADED: ModelOverloadedError,
    Kind.AUTHENTICATION: ModelAuthenticationError,
    Kind.PERMISSION: ModelAuthenticationError,
    Kind.MODEL_NOT_FOUND: ModelNotFoundError,
    Kind.CONTEXT_WINDOW: ModelContextWindowExceededError,
    Kind.REQUEST_TOO_LARGE: ModelRequestRejectedError,
    Kind.CONTENT_POLICY: ModelRequestRejectedError,
    Kind.UNSUPPORTED: ModelRequestRejectedError,
    Kind.INVALID_REQUEST: ModelRequestRejectedError,
}
_OURS: Final = (Kind.CONFIGURATION, Kind.CLOSED)


class ReliableModel(Model[None]):
    """A Pydantic AI model that gets its answers from *chat*. `model` starts the chain there."""

    def __init__(
        self,
        chat: FailoverChat,
        *,
        model: str | None = None,
        profile: ModelProfile | None = None,
        settings: ModelSettings | None = None,
    ) -> None:
        super().__init__(settings=settings, profile=profile or _PROFILE)
        self.chat = chat
        self._model = model

    @property
    def model_name(self) -> str:
        """The model asked first."""
        return self._model or self.chat.route[0].model

    @property
    def system(self) -> str:
        return "reliable_llm"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer. Raises Pydantic AI's errors."""
        check_allow_model_requests()
        settings, parameters = self._prepared(model_settings, model_request_parameters)
        with _as_pydantic_ai(self.model_name):
            request = request_of(messages, settings, parameters)
            return to_pydantic_ai(await self._ask(request, settings))

    async def _ask(self, request: ChatRequest, settings: ModelSettings) -> ChatReply:
        deadline, retry = _deadline(settings), self._retry(settings)
        try:
            return await self.chat(request, model=self._model, deadline=deadline, retry=retry)
        except UNFIT as error:
            return unfit_reply(error)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the answer as it comes. Fails over until its first output."""
        check_allow_model_requests()
        settings, parameters = self._prepared(model_settings, model_request_parameters)
        with _as_pydantic_ai(self.model_name):
            request = request_of(messages, settings, parameters)
            stream = self.chat.stream(
                request, model=self._model, deadline=_deadline(settings), retry=self._retry(settings)
            )
            await stream.__aenter__()
        try:
            yield ReliableStreamedResponse(parameters, stream=stream)
        finally:
            await stream.__aexit__(None, None, None)

    def _prepared(
        self, settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> tuple[ModelSettings, ModelRequestParameters]:
        merged, parameters = self.prepare_request(settings, parameters)
        return merged or ModelSettings(), parameters

    def _retry(self, settings: ModelSettings) -> RetryPolicy | None:
        retries = settings.get("max_retries")
        return None if retries is None else replace(self.chat.retry, max_retries=retries)


def _deadline(settings: ModelSettings) -> float | None:
    timeout = settings.get("timeout")
    return timeout if isinstance(timeout, int | float) else None


# ---------------------------------------------------------------- errors


@contextmanager
def _as_pydantic_ai(model_name: str) -> Iterator[None]:
    try:
        yield
    except ReliableLLMError as error:
        if error.kind in _OURS:
            raise
        raise _error(error, model_name) from error


def _error(error: ReliableLLMError, model_name: str) -> ModelAPIError:
    name, hint = error.model or model_name, error.retry_after
    if error.kind in (Kind.TIMEOUT, Kind.DEADLINE):
        return ModelTimeoutError(name, str(error), retry_after=hint)
    if error.kind in (Kind.CONNECTION, Kind.STREAM_INTERRUPTED):
        return ModelConnectionError(name, str(error), phase="read", retry_after=hint)
    usual = OPENAI_WORDS.get(error.kind)
    return ModelHTTPError.for_category(
        _CATEGORIES.get(error.kind, ModelServerError),
        status_code=error.status if error.status and error.status >= 400 else usual.status if usual else 500,
        model_name=name,
        body={"message": str(error), "attempts": [str(attempt) for attempt in error.attempts]},
        provider_error_code=error.code,
        retry_after=hint,
    )


# ---------------------------------------------------------------- streams


@dataclass
class ReliableStreamedResponse(StreamedResponse):
    """A coordinator's stream as Pydantic AI reads it."""

    stream: ChatStream = field(kw_only=True)
    _opened: datetime = field(default_factory=lambda: datetime.fromtimestamp(SystemClock().time(), UTC), init=False)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        with _as_pydantic_ai(self.model_name):
            try:
                async for event in self.stream:
                    for told in self._told(event):
                        yield told
                reply = await self.stream.reply()
            except UNFIT as error:
                reply = unfit_reply(error)
        for told in self._sealed(reply):
            yield told
        self._usage = usage_of(reply.usage)
        self.finish_reason = finish_of(reply.finish_reason)
        self.provider_details = details_of(reply)
        self.provider_response_id = reply.request_id

    def _told(self, event: object) -> Iterator[ModelResponseStreamEvent]:
        manager = self._parts_manager
        match event:
            case TextDelta():
                yield from manager.handle_text_delta(vendor_part_id="text", content=event.text)
            case ReasoningDelta():
                yield from manager.handle_thinking_delta(
                    vendor_part_id="thinking", content=event.text, provider_name=self.provider_name
                )
            case ToolCallStarted():
                yield from manager.handle_tool_call_delta_events(
                    vendor_part_id=event.index, tool_name=event.name, args="", tool_call_id=event.id
                )
            case ToolCallDelta():
                yield from manager.handle_tool_call_delta_events(vendor_part_id=event.index, args=event.arguments)
            case _:
                pass

    def _sealed(self, reply: ChatReply) -> Iterator[ModelResponseStreamEvent]:
        """Add to a streamed thought what brings it back to its issuer: that comes only with its end."""
        thoughts = [part for part in reply.parts if isinstance(part, Reasoning)]
        if len(thoughts) == 1 and thoughts[0].text:
            yield from self._parts_manager.handle_thinking_delta(
                vendor_part_id="thinking",
                signature=thoughts[0].signature,
                provider_name=self.provider_name,
                provider_details=thinking_details(thoughts[0]),
            )

    async def close_stream(self) -> None:
        await self.stream.__aexit__(None, None, None)

    @property
    def _served_by(self) -> ServedBy:
        assert self.stream.served_by is not None  # noqa: S101 - a stream is handed out after its first output
        return self.stream.served_by

    @property
    def model_name(self) -> str:
        return self._served_by.model

    @property
    def provider_name(self) -> str:
        return self._served_by.provider

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._opened
