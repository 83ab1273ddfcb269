"""The chunks of a chat completion stream, put together. Pure: decoded chunks in, events out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.openai_chat_reply import chat_usage, finish_of, made_id, thinking_text
from reliable_llm.adapters.openai_reply import holds_error, is_complete_json, no_answer, says_something, text_or_none
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


@dataclass(slots=True)
class _Call:
    """A tool call in the making."""

    index: int
    id: str
    name: str
    pieces: list[str] = field(default_factory=list)
    ended: bool = False

    def built(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments="".join(self.pieces))


class ChatAssembly:
    """One answer: `choices[0]` of a stream. Other choices are left alone, as in `complete`."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._issuer = prepared.target.candidate
        self._answer_tool = prepared.answer_tool
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._by_wire_index: dict[object, _Call] = {}
        self._reason: str | None = None
        self._done = False
        self._refused = False
        self._reply_id = ""
        self.model: str | None = None
        self.usage: Usage | None = None
        self.output_started = False

    # ------------------------------------------------------------ what came

    @property
    def proven(self) -> bool:
        """A finish reason, or `[DONE]`."""
        return self._reason is not None or self._done

    @property
    def complete(self) -> bool:
        """A finish reason and the usage: only `[DONE]` could follow."""
        return self._reason is not None and self.usage is not None

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._text)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, without tool calls that are not whole."""
        reasoning, text = "".join(self._reasoning), self.text()
        parts: list[Part] = [Reasoning(text=reasoning, issuer=self._issuer)] if reasoning else []
        if text:
            parts.append(Text(text))
        return (*parts, *(call.built() for call in self._calls if call.ended))

    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """Return tool calls that began and did not end."""
        return tuple(call.built() for call in self._calls if not call.ended)

    def finish_reason(self) -> FinishReason:
        """Return how the answer ended; OTHER while nobody has said."""
        if self._refused:
            return FinishReason.REFUSAL
        finish = finish_of(self._reason)
        if finish is FinishReason.STOP and any(call.ended for call in self._calls):
            return FinishReason.TOOL_CALLS
        return FinishReason.STOP if finish is FinishReason.TOOL_CALLS and not self._calls else finish

    # ------------------------------------------------------------ chunks

    def error_in(self, name: str, chunk: Json) -> object:
        """Return *chunk* where it is an error: it says so, or its event does."""
        is_error = name == "error" or (("error" in chunk or not chunk.get("choices")) and holds_error(chunk))
        return chunk if is_error else None

    def done(self) -> bool:
        """Take `[DONE]`: the vendor's own last word."""
        self._done = True
        return True

    def take(self, chunk: Json) -> list[StreamEvent]:
        """Return what *chunk* says."""
        if self.model is None:
            self.model = text_or_none(chunk.get("model"))
            self._reply_id = str(chunk.get("id"))
        usage = chunk.get("usage")
        if usage:
            self.usage = chat_usage(usage) or self.usage
        choices = chunk.get("choices")
        events: list[StreamEvent] = []
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and not choice.get("index"):
                self._take_choice(choice, events)
        return events

    def _take_choice(self, choice: Json, events: list[StreamEvent]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            content = delta.get("content")
            if content:
                self._take_content(content, events)
            thought = text_or_none(delta.get("reasoning_content") or delta.get("reasoning"))
            if thought:
                self._think(thought, events)
            calls = delta.get("tool_calls")
            if isinstance(calls, list):
                for call in calls:
                    self._take_call(call, events)
            refusal = text_or_none(delta.get("refusal"))
            if refusal:
                self._refused = True
                self._say(refusal, events)
        reason = choice.get("finish_reason")
        if reason:
            self._reason = str(reason)

    def _take_content(self, content: object, events: list[StreamEvent]) -> None:
        if isinstance(content, str):
            self._say(content, events)
        for piece in content if isinstance(content, list) else ():
            if isinstance(piece, Mapping) and piece.get("type") == "thinking":
                self._think(thinking_text(piece.get("thinking")), events)
            elif isinstance(piece, Mapping):
                self._say(text_or_none(piece.get("text")) or "", events)

    def _say(self, text: str, events: list[StreamEvent]) -> None:
        if text:
            self.output_started = True
            self._text.append(text)
            events.append(TextDelta(text))

    def _think(self, text: str, events: list[StreamEvent]) -> None:
        if text:
            self.output_started = True
            self._reasoning.append(text)
            events.append(ReasoningDelta(text))

    # ------------------------------------------------------------ tool calls

    def _take_call(self, raw: object, events: list[StreamEvent]) -> None:
        if not isinstance(raw, Mapping):
            return
        function = raw.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, arguments = text_or_none(function.get("name")), text_or_none(function.get("arguments"))
        call_id, index = text_or_none(raw.get("id")), raw.get("index")
        if (name or call_id) and self._is_new(index, call_id):
            self._begin(index, call_id, name or "", events)
        call = self._by_wire_index.get(index)
        if arguments and call is not None:
            self._extend(call, arguments, events)
        elif arguments and self._answer_tool is not None:
            self._say(arguments, events)

    def _is_new(self, index: object, call_id: str | None) -> bool:
        # Some hosts give every call index 0, or none, and tell them apart by id.
        known = self._by_wire_index.get(index)
        return known is None or (call_id is not None and call_id != known.id)

    def _begin(self, index: object, call_id: str | None, name: str, events: list[StreamEvent]) -> None:
        if name == self._answer_tool:
            self._by_wire_index.pop(index, None)
            return
        number = len(self._calls)
        call = _Call(number, call_id or made_id(self._reply_id, number), name)
        self._calls.append(call)
        self._by_wire_index[index] = call
        self.output_started = True
        events.append(ToolCallStarted(number, call.id, name))

    def _extend(self, call: _Call, arguments: str, events: list[StreamEvent]) -> None:
        call.pieces.append(arguments)
        events.append(ToolCallDelta(call.index, arguments))

    # ------------------------------------------------------------ the end

    def finish(self) -> list[StreamEvent]:
        """Return the last events; raise `ReliableLLMError` for an answer that says nothing."""
        events: list[StreamEvent] = []
        finish = finish_of(self._reason)
        said = finish in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        for call in self._calls:
            # Only a finish that is no cut vouches for arguments that do not read as JSON.
            if said or is_complete_json("".join(call.pieces) or "{}"):
                call.ended = True
                events.append(ToolCallEnded(call.index, call.built()))
        silent = not self._refused and not says_something(self.parts())
        if silent and not self._prepared.takes_silence(finish):
            raise no_answer(finish, detail=self._reason, truncated=bool(self._calls))
        if self.usage is not None:
            events.append(UsageUpdate(self.usage))
        events.append(Finished(self.finish_reason(), self.usage))
        return events
