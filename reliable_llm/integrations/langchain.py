"""LangChain's chat model over a coordinator (`pip install reliable-llm[langchain]`).

    model = ReliableChatModel(chat=chat)
    agent = create_agent(model, tools=[...])
    message = await model.ainvoke("hello")
    message.response_metadata["served_by"]         # "anthropic/claude-sonnet-4-5"

Synchronous calls, batches and other event loops all end at the loop where the coordinator lives
(`reliable_llm.integrations.home`). `timeout` bounds the whole call. Failures are ours: `reliable_llm.ReliableLLMError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field

from reliable_llm.chat import FailoverChat
from reliable_llm.integrations.home import Home, home_of
from reliable_llm.integrations.langchain_messages import chunk_of, from_langchain, last_chunk, to_langchain
from reliable_llm.integrations.openai_format import read_request
from reliable_llm.integrations.unfit import UNFIT, unfit_reply
from reliable_llm.policy import RetryPolicy
from reliable_llm.stream import ChatStream
from reliable_llm.types import ChatReply, ChatRequest, StreamEvent

ToolChoiceLike = str | bool | dict[str, Any] | None

_PARAMETERS: Final = ("temperature", "top_p", "max_tokens", "reasoning_effort", "stop")


class ReliableChatModel(BaseChatModel):
    """A `BaseChatModel` that gets its answers from `chat`; without one, from what the environment configures.

    `model` starts the chain there. `max_retries` replaces the coordinator's number of retries. All durations are
    seconds.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)

    chat: FailoverChat = Field(default_factory=FailoverChat.from_env, exclude=True, repr=False)
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    timeout: float | None = None
    max_retries: int | None = None
    streaming: bool = False

    # ---------------------------------------------------------------- what LangChain asks about

    @property
    def _llm_type(self) -> str:
        return "reliable_llm"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"chain": repr(self.chat), "model": self.model} | self._parameters()

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        start = self.chat.route[0]
        params = LangSmithParams(
            ls_provider=start.provider,
            ls_model_name=str(kwargs.get("model") or self.model or start.model),
            ls_model_type="chat",
        )
        if (temperature := kwargs.get("temperature", self.temperature)) is not None:
            params["ls_temperature"] = temperature
        if (limit := kwargs.get("max_tokens", self.max_tokens)) is not None:
            params["ls_max_tokens"] = limit
        if found := stop or self.stop:
            params["ls_stop"] = found
        return params

    # ---------------------------------------------------------------- one answer

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(await self._home.run(lambda: self._ask(messages, stop, kwargs, run_manager)))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(self._home.run_sync(lambda: self._ask(messages, stop, kwargs, run_manager)))

    async def _ask(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], run: object
    ) -> ChatReply:
        request, model = self._request(messages, stop, kwargs)
        try:
            return await self.chat(request, model=model, deadline=self.timeout, retry=self._retry(), tags=_tags(run))
        except UNFIT as error:
            return unfit_reply(error)

    # ---------------------------------------------------------------- streams

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        home = self._home
        stream = await home.run(lambda: self._open(messages, stop, kwargs, run_manager))
        try:
            while (event := await home.run(lambda: _next(stream))) is not None:
                if (message := chunk_of(event)) is not None:
                    chunk = ChatGenerationChunk(message=message)
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            yield ChatGenerationChunk(message=last_chunk(await home.run(stream.reply)))
        finally:
            await home.run(lambda: _close(stream))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        home = self._home
        stream = home.run_sync(lambda: self._open(messages, stop, kwargs, run_manager))
        try:
            while (event := home.run_sync(lambda: _next(stream))) is not None:
                if (message := chunk_of(event)) is not None:
                    chunk = ChatGenerationChunk(message=message)
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            yield ChatGenerationChunk(message=last_chunk(home.run_sync(stream.reply)))
        finally:
            home.run_sync(lambda: _close(stream))

    async def _open(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], run: object
    ) -> ChatStream:
        request, model = self._request(messages, stop, kwargs)
        stream = self.chat.stream(request, model=model, deadline=self.timeout, retry=self._retry(), tags=_tags(run))
        return await stream.__aenter__()

    # ---------------------------------------------------------------- tools

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: ToolChoiceLike = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with *tools*. `tool_choice`: a tool's name, "auto", "none", "any", or True for "any"."""
        formatted = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        choice = _choice(tool_choice, [tool.get("function", {}).get("name") for tool in formatted])
        given = {"tool_choice": choice, "parallel_tool_calls": parallel_tool_calls}
        return self.bind(
            tools=formatted, **{name: value for name, value in given.items() if value is not None}, **kwargs
        )

    # ---------------------------------------------------------------- parts

    @property
    def _home(self) -> Home:
        return home_of(self.chat)

    def _parameters(self) -> dict[str, Any]:
        return {name: value for name in _PARAMETERS if (value := getattr(self, name)) is not None}

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> tuple[ChatRequest, str | None]:
        fields = self._parameters() | {name: value for name, value in kwargs.items() if not name.startswith("ls_")}
        model = fields.pop("model", None) or self.model
        if stop is not None:
            fields["stop"] = stop
        return replace(read_request(fields), messages=from_langchain(messages)), model

    def _retry(self) -> RetryPolicy | None:
        return None if self.max_retries is None else replace(self.chat.retry, max_retries=self.max_retries)


def _result(reply: ChatReply) -> ChatResult:
    message = to_langchain(reply)
    return ChatResult(generations=[ChatGeneration(message=message)], llm_output=dict(message.response_metadata))


async def _next(stream: ChatStream) -> StreamEvent | None:
    return await anext(stream, None)


async def _close(stream: ChatStream) -> None:
    await stream.__aexit__(None, None, None)


def _tags(run: object) -> dict[str, str] | None:
    run_id = getattr(run, "run_id", None)
    return None if run_id is None else {"langchain_run_id": str(run_id)}


def _choice(choice: ToolChoiceLike, names: Sequence[str | None]) -> str | dict[str, Any] | None:
    if isinstance(choice, bool):
        return "required" if choice else None
    if isinstance(choice, str) and choice in names:
        return {"type": "function", "function": {"name": choice}}
    return "required" if choice == "any" else choice


__all__: list[Literal["ReliableChatModel"]] = ["ReliableChatModel"]
