"""The events of a Responses API stream, put together. Pure: decoded events in, neutral events out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.openai_items import read_item
from reliable_llm.adapters.openai_reply import holds_error, no_answer, text_or_none
from reliable_llm.adapters.openai_responses_reply import (
    cut_by,
    error_document,
    finish_of,
    is_answer,
    lost_call,
    read_parts,
    responses_usage,
)
from reliable_llm.types import (
    Finished,
    FinishReason,
    Json,
    Part,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)

_TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})


@dataclass(slots=True)
class _Call:
    """A function call in the making."""

    index: int
    id: str
    name: str
    pieces: list[str] = field(default_factory=list)
    ended: bool = False

    def built(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments="".join(self.pieces))


def _wire_index(chunk: Json) -> int | None:
    """Return the place of the item that *chunk* belongs to, where it says one."""
    index = chunk.get("output_index")
    return index if isinstance(index, int) else None


class ResponsesAssembly:
    """One response. Parts are those of finished items, and the text of the unfinished one."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._issuer = prepared.target.candidate
        self._answer_tool = prepared.answer_tool
        self._text: list[str] = []
        self._calls: dict[object, _Call] = {}
        self._answers: set[object] = set()
        self._items: list[Part] = []
        self._open_text: list[str] = []
        self._final: Json | None = None
        self.model: str | None = None
        self.usage: Usage | None = None
        self.output_started = False

    # ------------------------------------------------------------ what came

    @property
    def proven(self) -> bool:
        """The terminal event has come."""
        return self._final is not None

    @property
    def complete(self) -> bool:
        """The terminal event brings the usage, too."""
        return self._final is not None

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._text)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, without function calls that are not whole."""
        if self._final is not None and (final := read_parts(self._final, self._issuer, self._answer_tool)):
            return final
        text = "".join(self._open_text)
        return (*self._items, Text(text)) if text else tuple(self._items)

    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """Return function calls that began and did not end."""
        return tuple(call.built() for call in self._calls.values() if not call.ended)

    def finish_reason(self) -> FinishReason:
        """Return how the answer ended; OTHER while nobody has said."""
        return FinishReason.OTHER if self._final is None else finish_of(self._final, self.parts())

    # ------------------------------------------------------------ events

    def error_in(self, name: str, chunk: Json) -> object:
        """Return the error in *chunk*: flat, nested, or of a response that failed."""
        if chunk.get("type") == "response.failed":
            return error_document(chunk.get("response"))
        if name == "error" or chunk.get("type") == "error" or ("type" not in chunk and holds_error(chunk)):
            return error_document(chunk)
        return None

    def done(self) -> bool:
        """Take `[DONE]`, which compatible hosts send: it proves nothing that the terminal event has not."""
        return self.proven

    def take(self, chunk: Json) -> list[StreamEvent]:
        """Return what *chunk* says."""
        events: list[StreamEvent] = []
        kind = str(chunk.get("type"))
        if kind in _TERMINAL:
            self._take_final(chunk)
        elif kind == "response.created":
            response = chunk.get("response")
            self.model = text_or_none(response.get("model")) if isinstance(response, Mapping) else None
        elif (handler := self._handlers.get(kind)) is not None:
            handler(self, chunk, events)
        return events

    def _take_final(self, chunk: Json) -> None:
        response = chunk.get("response")
        self._final = response if isinstance(response, Mapping) else {}
        self.usage = responses_usage(self._final.get("usage"))
        self.model = text_or_none(self._final.get("model")) or self.model

    def _take_text(self, chunk: Json, events: list[StreamEvent]) -> None:
        self._say(text_or_none(chunk.get("delta")), events)

    def _say(self, text: str | None, events: list[StreamEvent]) -> None:
        if text:
            self.output_started = True
            self._text.append(text)
            self._open_text.append(text)
            events.append(TextDelta(text))

    def _take_thought(self, chunk: Json, events: list[StreamEvent]) -> None:
        thought = text_or_none(chunk.get("delta"))
        if thought:
            self.output_started = True
            events.append(ReasoningDelta(thought))

    def _take_item(self, chunk: Json, events: list[StreamEvent]) -> None:
        item, wire_index = chunk.get("item"), _wire_index(chunk)
        if not isinstance(item, Mapping) or item.get("type") != "function_call":
            return
        if item.get("name") == self._answer_tool:
            self._answers.add(wire_index)
            return
        call = _Call(len(self._calls), str(item.get("call_id") or item.get("id")), str(item.get("name")))
        self._calls[wire_index] = call
        self.output_started = True
        events.append(ToolCallStarted(call.index, call.id, call.name))

    def _take_arguments(self, chunk: Json, events: list[StreamEvent]) -> None:
        wire_index, delta = _wire_index(chunk), text_or_none(chunk.get("delta"))
        if wire_index in self._answers:
            self._say(delta, events)
        elif delta and (call := self._calls.get(wire_index)) is not None:
            call.pieces.append(delta)
            events.append(ToolCallDelta(call.index, delta))

    def _take_done_item(self, chunk: Json, events: list[StreamEvent]) -> None:
        item = chunk.get("item")
        if not isinstance(item, Mapping):
            return
        parts = read_item(item, self._issuer, self._answer_tool)
        self._items += parts
        self._open_text.clear()
        call = self._calls.get(_wire_index(chunk))
        whole = next((part for part in parts if isinstance(part, ToolCall)), None)
        if call is not None and whole is not None:
            call.ended = True
            events.append(ToolCallEnded(call.index, whole))

    _handlers: ClassVar[Mapping[str, Callable[[ResponsesAssembly, Json, list[StreamEvent]], None]]] = {
        "response.output_text.delta": _take_text,
        "response.refusal.delta": _take_text,
        "response.reasoning_summary_text.delta": _take_thought,
        "response.reasoning_text.delta": _take_thought,
        "response.output_item.added": _take_item,
        "response.function_call_arguments.delta": _take_arguments,
        "response.output_item.done": _take_done_item,
    }

    # ------------------------------------------------------------ the end

    def finish(self) -> list[StreamEvent]:
        """Return the last events; raise `ReliableLLMError` for an answer that says nothing."""
        final, parts = self._final or {}, self.parts()
        finish = finish_of(final, parts)
        silent = not is_answer(parts) and finish is not FinishReason.PAUSE
        if silent and not self._prepared.takes_silence(finish):
            raise no_answer(finish, detail=cut_by(final), truncated=bool(self._calls) or lost_call(final, parts))
        events = [] if self.output_started else _at_once(parts)
        if self.usage is not None:
            events.append(UsageUpdate(self.usage))
        events.append(Finished(finish, self.usage))
        return events


def _at_once(parts: tuple[Part, ...]) -> list[StreamEvent]:
    """Return events for an answer of which nothing came before its end."""
    events: list[StreamEvent] = []
    for part in parts:
        if isinstance(part, Text):
            events.append(TextDelta(part.text))
        elif isinstance(part, Reasoning) and part.text:
            events.append(ReasoningDelta(part.text))
    for index, call in enumerate(part for part in parts if isinstance(part, ToolCall)):
        events += [ToolCallStarted(index, call.id, call.name), ToolCallEnded(index, call)]
    return events
