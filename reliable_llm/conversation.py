"""A conversation that goes on with whichever vendor answers next.

It holds neutral messages. Each vendor's adapter writes them in its own terms: what one vendor needs to continue (signed
thinking, cache hints, ids of tool calls) goes back to it untouched, and is left out or translated for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

from reliable_llm.asking import as_messages
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import ChatReply, Document, Image, Message, Text, ToolCall, ToolResult

Content = str | Sequence[Text | Image | Document]


class Conversation(Sequence[Message]):
    """What was said so far, as a sequence of messages: give it to a coordinator as its prompt.

        conversation = Conversation("What is the weather in Oslo?", system="Be brief.")
        reply = await chat(conversation, tools=[weather])
        conversation.append(reply)
        conversation.add_results(await run_tools(reply.tool_calls, [weather]))

    Not safe to change while a call with it is under way; `copy()` gives a branch of its own.
    """

    __slots__ = ("_messages",)

    def __init__(
        self, prompt: str | Iterable[Message | Mapping[str, object]] = (), *, system: str | None = None
    ) -> None:
        told = [prompt] if isinstance(prompt, str) else list(prompt)
        self._messages: list[Message] = [] if system is None else [Message("system", system)]
        for each in told:
            self._messages += as_messages(each if isinstance(each, str) else [each])

    # ---------------------------------------------------------------- going on

    def user(self, content: Content) -> Self:
        """Add what the user says: text, or text, pictures and documents."""
        self._messages.append(Message("user", content if isinstance(content, str) else tuple(content)))
        return self

    def append(self, item: ChatReply | Message) -> Self:
        """Add an answer with all that its issuer needs to go on, or any message."""
        self._messages.append(item if isinstance(item, Message) else item.message)
        return self

    def add_results(self, results: Iterable[ToolResult]) -> Self:
        """Add what the tools gave back. Results of one turn stay together, whatever order they come in.

        Raises `InvalidRequestError` for a result without an open call.
        """
        for result in results:
            self._add_result(result)
        return self

    def add_result(
        self, call: ToolCall | str, content: Content, *, is_error: bool = False, name: str | None = None
    ) -> Self:
        """Add what a tool gave back for *call*, or for the call with that id."""
        call_id, known = (call, name) if isinstance(call, str) else (call.id, call.name)
        told = content if isinstance(content, str) else tuple(content)
        return self.add_results([ToolResult(call_id=call_id, content=told, is_error=is_error, name=known)])

    def _add_result(self, result: ToolResult) -> None:
        if not any(call.id == result.call_id for call in self.pending):
            raise InvalidRequestError(f"there is no open tool call with the id {result.call_id!r}")
        last = self._messages[-1]
        if last.role == "tool":
            self._messages[-1] = Message("tool", (*last.parts, result), extra=last.extra)
        else:
            self._messages.append(Message("tool", (result,)))

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """Tool calls of the last answer that have no result yet. No vendor goes on before all of them have one."""
        answered: set[str] = set()
        for message in reversed(self._messages):
            if message.role == "assistant":
                calls = (part for part in message.parts if isinstance(part, ToolCall))
                return tuple(call for call in calls if call.id not in answered)
            answered |= {part.call_id for part in message.parts if isinstance(part, ToolResult)}
        return ()

    # ---------------------------------------------------------------- there and back

    @classmethod
    def from_openai(cls, messages: Iterable[object]) -> Self:
        """Take a conversation in OpenAI's chat format, as dicts or the SDK's own objects."""
        from reliable_llm.adapters.openai_messages import from_openai

        return cls(from_openai(messages))

    @classmethod
    def from_anthropic(cls, messages: Iterable[object], system: object = None) -> Self:
        """Take a conversation in Anthropic's format, as dicts or the SDK's own objects."""
        from reliable_llm.adapters.anthropic_format import from_anthropic

        return cls(from_anthropic(messages, system))

    def to_openai(self) -> list[dict[str, Any]]:
        """Return it in OpenAI's chat format."""
        from reliable_llm.adapters.openai_messages import to_openai

        return to_openai(self._messages)

    def to_anthropic(self) -> tuple[list[dict[str, Any]], str | list[dict[str, Any]] | None]:
        """Return it in Anthropic's format: the messages, and the system prompt (None where there is none)."""
        from reliable_llm.adapters.anthropic_format import to_anthropic

        return to_anthropic(self._messages)

    def copy(self) -> Self:
        """Return a branch: what is added to it is not added here."""
        return type(self)(self._messages)

    # ---------------------------------------------------------------- as a sequence

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @overload
    def __getitem__(self, place: int) -> Message: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Message, ...]: ...

    def __getitem__(self, place: int | slice) -> Message | tuple[Message, ...]:
        return tuple(self._messages[place]) if isinstance(place, slice) else self._messages[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and self._messages == other._messages

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Conversation({len(self._messages)} messages, {len(self.pending)} open tool calls)"
