"""Tools for candidates that have none of their own: described in the prompt, calls read from the answer.

Opt-in (`Capabilities.prompt_tools`): a model that was not trained for it may get the form wrong, or make up a result.
The form is the one of Hermes and Qwen, which open models know best:

    <tool_call>{"name": "lookup", "arguments": {"q": "Oslo"}}</tool_call>
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final

from reliable_llm.adapters.base import Adapter, AdapterStream, Prepared, Target
from reliable_llm.adapters.openai_messages import check_pairs
from reliable_llm.credentials import Credential
from reliable_llm.errors import InvalidRequestError, Kind, MalformedResponseError, default_verdict
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
    AdapterReply,
    ChatRequest,
    FinishReason,
    HostedTool,
    Message,
    Part,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolName,
    ToolResult,
)

_CALL: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_HOW: Final = """\
You can call tools. To call one, write this and nothing after it; write several for several calls:
<tool_call>{"name": "<name of the tool>", "arguments": {<its arguments as JSON>}}</tool_call>
The results come in the next message, each in <tool_result>. Never write a result yourself.
The tools, each with the JSON schema of its arguments:"""


class PromptedTools:
    """An adapter around another one: what it is asked to do `without` tools, it asks for in words."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self.vendor = inner.vendor

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; with tools to do without, they are described in the prompt."""
        if "tools" not in without or not request.tools:
            return self._inner.prepare(request, target, stream=stream, without=without)
        described = in_words(request)
        prepared = self._inner.prepare(described, target, stream=stream, without=without)
        return replace(prepared, request=request, prompted_tools=request.tool_choice != "none")

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        """Send once and return the answer, with the calls that are written in it."""
        answer = await self._inner.complete(prepared, key, timeouts)
        if not prepared.prompted_tools or prepared.request is None:
            return answer
        return with_calls(answer, turn=len(prepared.request.messages))

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        """Send once. Requests with described tools do not come here: they are done without streaming, too."""
        return self._inner.stream(prepared, key, timeouts)

    async def warmup(self) -> None:
        """Get the adapter inside ready."""
        await self._inner.warmup()

    async def aclose(self) -> None:
        """Close the adapter inside."""
        await self._inner.aclose()


# ---------------------------------------------------------------- out


def in_words(request: ChatRequest) -> ChatRequest:
    """Return *request* with its tools, and all calls and results so far, as text.

    Raises `InvalidRequestError` for a call without its result, or a result without its call.
    """
    check_pairs(request.messages)
    choice = request.tool_choice
    told = () if choice == "none" else (Message("system", instructions(request.tools, choice)),)
    talk = tuple(_as_text(message) for message in request.messages)
    systems = sum(1 for _ in _leading_systems(talk))
    messages = (*talk[:systems], *told, *talk[systems:])
    hosted = tuple(tool for tool in request.tools if isinstance(tool, HostedTool))
    return replace(request, messages=messages, tools=hosted, tool_choice=None, parallel_tool_calls=None)


def _leading_systems(messages: Iterable[Message]) -> Iterator[Message]:
    for message in messages:
        if message.role != "system":
            return
        yield message


def instructions(tools: Iterable[object], choice: ToolChoice | None) -> str:
    """Return what the model is told about *tools*. Raises `InvalidRequestError` for a choice of none of them."""
    known = [tool for tool in tools if isinstance(tool, Tool)]
    if isinstance(choice, ToolName) and all(tool.name != choice.name for tool in known):
        raise InvalidRequestError(f"tool_choice names {choice.name!r}, which is none of the request's tools")
    return "\n".join([_HOW, *map(_described, known), *_asked_for(choice)])


def _described(tool: Tool) -> str:
    told: dict[str, object] = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return json.dumps(told, ensure_ascii=False)


def _asked_for(choice: ToolChoice | None) -> list[str]:
    if choice == "required":
        return ["Call at least one tool now."]
    return [f"Call the tool {choice.name} now."] if isinstance(choice, ToolName) else []


def _as_text(message: Message) -> Message:
    if isinstance(message.content, str):
        return message
    parts = tuple(told for part in message.content for told in _part_as_text(part))
    return replace(message, role="user" if message.role == "tool" else message.role, content=parts)


def _part_as_text(part: Part) -> tuple[Part, ...]:
    if isinstance(part, ToolCall):
        return (Text(_written_call(part)),)
    if isinstance(part, ToolResult):
        return _written_result(part)
    return (part,)


def _written_call(call: ToolCall) -> str:
    return f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}</tool_call>'


def _written_result(result: ToolResult) -> tuple[Part, ...]:
    head = f"<tool_result{f' name={json.dumps(result.name)}' if result.name else ''}{' failed' * result.is_error}>"
    inner: tuple[Part, ...] = (Text(result.content),) if isinstance(result.content, str) else result.content
    text = "".join(part.text for part in inner if isinstance(part, Text))
    return (Text(f"{head}{text}</tool_result>\n"), *(part for part in inner if not isinstance(part, Text)))


# ---------------------------------------------------------------- in


def with_calls(answer: AdapterReply, *, turn: int) -> AdapterReply:
    """Return *answer* with the calls in its text as parts; *turn* sets their ids apart from those of other turns.

    Raises `MalformedResponseError` for a call that cannot be read: it is neither an answer nor anything to run.
    """
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    written = [each.strip() for each in _CALL.findall(text)]
    if not written:
        return answer
    whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    calls = tuple(_read(each, f"{turn}/{number}/{whole}", answer) for number, each in enumerate(written))
    rest = _CALL.sub("", text).strip()
    others = tuple(part for part in answer.parts if not isinstance(part, Text))
    said = (Text(rest),) if rest else ()
    return replace(answer, parts=(*others, *said, *calls), finish_reason=FinishReason.TOOL_CALLS)


def _read(written: str, seed: str, answer: AdapterReply) -> ToolCall:
    try:
        call: object = json.loads(written)
    except (ValueError, RecursionError):
        call = None
    name = call.get("name") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(name, str) or not name:
        raise MalformedResponseError(
            "the answer holds a tool call that cannot be read",
            verdict=replace(default_verdict(Kind.MALFORMED_RESPONSE, rule="prompted_tools"), status=answer.status),
            request_id=answer.request_id,
            usage=answer.usage,
        )
    arguments = call.get("arguments", {})
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    identifier = hashlib.sha256(seed.encode()).hexdigest()[:24]
    return ToolCall(id=f"call_{identifier}", name=name, arguments=told)
