"""From what a caller writes to a `ChatRequest`: a string, messages of any known form, or the request itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypedDict, cast

from reliable_llm.errors import ConfigurationError, InvalidRequestError
from reliable_llm.types import NOTHING, ChatRequest, HostedTool, Json, Message, OutputSchema, Tool, ToolChoice

Prompt: TypeAlias = str | ChatRequest | Sequence[Message | Mapping[str, object]]
ToolLike: TypeAlias = Tool | HostedTool | Callable[..., Any]
OutputLike: TypeAlias = OutputSchema | Json | type


class Asked(TypedDict, total=False):
    """What a call may say besides its prompt, as `as_request` takes it.

    `tools` are `Tool`s, or functions with types and a docstring. `output` (a pydantic model class, a JSON schema or an
    `OutputSchema`) asks for a structured answer, to be found in `reply.parsed`. `strict` passes by candidates that have
    no word for something in the request; otherwise `reply.dropped` names what was left out. `truncate` allows the
    oldest turns to be dropped when the history is too long for every candidate (`reply.context_truncated`).
    `allow_empty` takes an answer without a word for one. The rest is as in `ChatRequest`.
    """

    system: str | None
    tools: Iterable[ToolLike]
    tool_choice: ToolChoice | None
    parallel_tool_calls: bool | None
    output: OutputLike | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Iterable[str]
    reasoning: str | None
    extra: Mapping[str, Json]
    overrides: Mapping[str, Json]
    tags: Mapping[str, str] | None
    strict: bool
    truncate: bool
    allow_empty: bool


_UNSAID: Final = (None,) * 8

EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})


def as_request(
    prompt: Prompt,
    *,
    system: str | None = None,
    tools: Iterable[ToolLike] = (),
    tool_choice: ToolChoice | None = None,
    parallel_tool_calls: bool | None = None,
    output: OutputLike | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    stop: str | Iterable[str] = (),
    reasoning: str | None = None,
    extra: Mapping[str, Json] = NOTHING,
    overrides: Mapping[str, Json] = NOTHING,
    tags: Mapping[str, str] | None = None,
    strict: bool = False,
    truncate: bool = False,
    allow_empty: bool = False,
) -> ChatRequest:
    """Return the request; raise `InvalidRequestError` naming what is wrong. A `ChatRequest` is taken as it is.

    A function among *tools* becomes one (`reliable_llm.tool`). *output* is a pydantic model class, a JSON schema or an
    `OutputSchema`.
    """
    if isinstance(prompt, ChatRequest):
        beside = (system, tool_choice, parallel_tool_calls, output, max_tokens, temperature, top_p, reasoning)
        if beside != _UNSAID or tools or stop or extra or overrides or strict or truncate or allow_empty:
            raise InvalidRequestError(
                "a ChatRequest says everything itself: change it with dataclasses.replace(request, ...) "
                "instead of passing arguments beside it"
            )
        return _with_tags(prompt, tags)
    messages = as_messages(prompt)
    if system is not None:
        messages = (Message("system", system), *messages)
    _check(messages, max_tokens, reasoning)
    return ChatRequest(
        messages=messages,
        tools=_as_tools(tools) if tools else (),
        tool_choice=tool_choice,
        parallel_tool_calls=parallel_tool_calls,
        output=None if output is None else _as_output(output),
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        reasoning=reasoning,
        extra=extra,
        overrides=overrides,
        tags=tags or {},
        strict=strict,
        truncate=truncate,
        allow_empty=allow_empty,
    )


def _as_tools(tools: Iterable[ToolLike]) -> tuple[Tool | HostedTool, ...]:
    given = tuple(tools)
    if all(isinstance(each, Tool | HostedTool) for each in given):
        return cast("tuple[Tool | HostedTool, ...]", given)
    from reliable_llm.tools import as_tool

    return tuple(as_tool(each) for each in given)


def _as_output(output: OutputLike) -> OutputSchema:
    from reliable_llm.structured import as_output

    return as_output(output)


def as_messages(prompt: object) -> tuple[Message, ...]:
    """Return messages from a string, from `Message` objects, or from dicts in OpenAI's chat format."""
    if isinstance(prompt, str):
        if not prompt.strip():
            raise InvalidRequestError("the prompt is empty: write something to answer")
        return (Message("user", prompt),)
    if isinstance(prompt, Mapping | bytes) or not isinstance(prompt, Sequence):
        raise InvalidRequestError(
            f"a prompt is a string, a list of messages or a ChatRequest, not {type(prompt).__name__}"
        )
    if all(isinstance(message, Message) for message in prompt):
        return tuple(prompt)
    return _from_dicts(prompt)


def _from_dicts(prompt: Sequence[object]) -> tuple[Message, ...]:
    from reliable_llm.adapters.openai_messages import read_message

    made: list[Message] = []
    for number, message in enumerate(prompt):
        if isinstance(message, Message):
            made.append(message)
        elif isinstance(message, Mapping):
            made.append(read_message(message, number))
        else:
            raise InvalidRequestError(f"a message is a Message or a dict, not {type(message).__name__}")
    return tuple(made)


def _check(messages: tuple[Message, ...], max_tokens: object, reasoning: str | None) -> None:
    if all(message.role == "system" for message in messages):
        raise InvalidRequestError("messages are empty: at least one user message is needed")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise InvalidRequestError(f"max_tokens must be a whole number from 1, got {max_tokens!r}")
    if reasoning is not None and reasoning not in EFFORTS:
        raise InvalidRequestError(f"reasoning must be one of {', '.join(sorted(EFFORTS))}, got {reasoning!r}")


def _with_tags(request: ChatRequest, tags: Mapping[str, str] | None) -> ChatRequest:
    if not request.messages:
        raise InvalidRequestError("messages are empty: at least one user message is needed")
    return replace(request, tags={**request.tags, **tags}) if tags else request


def check_deadline(deadline: object) -> None:
    """Raise `ConfigurationError` unless *deadline* is None or a positive number of seconds."""
    if deadline is None:
        return
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not deadline > 0:
        raise ConfigurationError(f"deadline must be a positive number of seconds, got {deadline!r}")
