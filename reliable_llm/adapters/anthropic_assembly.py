"""The events of an Anthropic stream, put together: blocks into parts, deltas into neutral events. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from reliable_llm.adapters.anthropic_blocks import Block, part_from_block
from reliable_llm.adapters.anthropic_reply import (
    finish_detail,
    finish_reason,
    says_something,
    text_or_none,
    unwrap_answer,
    usage_of,
)
from reliable_llm.types import (
    Alive,
    Candidate,
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

Events = list[StreamEvent]

_ALIVE: Final = Alive()
_TEXT_FIELDS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


@dataclass(slots=True)
class _Open:
    """One content block: as it started, and the pieces that came since. `call` counts the tool calls."""

    start: Block
    kind: str
    pieces: list[str] = field(default_factory=list)
    call: int | None = None
    ended: bool = False

    @property
    def joined(self) -> str:
        return "".join(self.pieces)


class StreamAssembly:
    """Server events in, neutral events out; and the answer so far.

    `output` is True once something of the answer has been given out, `finished` once the terminal event has come.
    Raises `ValueError` for events that are none.
    """

    def __init__(self, issuer: Candidate, answer_tool: str | None = None) -> None:
        self._issuer = issuer
        self._answer_tool = answer_tool
        self._message: Block = {}
        self._blocks: dict[int, _Open] = {}
        self._usage: Block = {}
        self._counted = False
        self._final_count = False
        self._calls = 0
        self.output = False
        self.finished = False

    # ------------------------------------------------------------ what came

    @property
    def model(self) -> str | None:
        return text_or_none(self._message.get("model"))

    @property
    def usage(self) -> Usage | None:
        """Tokens so far; partial until the final count. The output count of the start event is a placeholder."""
        usage = usage_of(self._usage) if self._usage else None
        if usage is None or self._final_count:
            return usage
        return replace(usage, partial=True, output_tokens=usage.output_tokens if self._counted else None)

    @property
    def finish(self) -> FinishReason:
        return self._ending()[1]

    @property
    def finish_detail(self) -> str | None:
        return finish_detail(self._message)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The answer so far, without tool calls that are not whole."""
        return self._ending()[0]

    @property
    def says_something(self) -> bool:
        return self._calls > 0 or says_something(*self._ending())

    @property
    def partial_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls that have begun. Where the stream broke none of them may be run."""
        calls = (block for block in self._blocks.values() if block.call is not None)
        return tuple(_call(block) for block in calls)

    @property
    def body(self) -> Json:
        """The answer so far as the API would have given it whole."""
        content = [self._whole(block) for block in self._blocks.values()]
        return {**self._message, "content": content, "usage": self._usage}

    # ------------------------------------------------------------ feeding

    def feed(self, event: Json, kind: str) -> Events:
        """Take one server event of type *kind*; return what it means."""
        if kind == "content_block_delta":
            return self._delta(event)
        handle = self._handlers.get(kind)
        return [_ALIVE] if handle is None else handle(self, event)

    def _start(self, event: Json) -> Events:
        self._message = dict(_mapping(event.get("message")))
        return self._count(self._message.get("usage"))

    def _count(self, usage: object) -> Events:
        # Counts are cumulative: a later one replaces an earlier, None leaves it as it was.
        told = {name: value for name, value in _mapping(usage).items() if value is not None}
        self._usage |= told
        counted = self.usage
        return [UsageUpdate(counted)] if told and counted is not None else [_ALIVE]

    def _block_start(self, event: Json) -> Events:
        block = dict(_mapping(event.get("content_block")))
        opened = _Open(block, str(block.get("type")))
        self._blocks[_index(event)] = opened
        if opened.kind == "text" and block.get("text"):
            return self._text(opened, str(block.pop("text")))
        if opened.kind == "tool_use" and not self._is_answer(opened):
            opened.call = self._calls
            self._calls += 1
            self.output = True
            return [ToolCallStarted(opened.call, str(block.get("id")), str(block.get("name")))]
        return [_ALIVE]

    def _delta(self, event: Json) -> Events:
        block, delta = self._blocks.get(_index(event)), event.get("delta")
        if block is None or not isinstance(delta, dict):
            raise ValueError("a delta without a block")
        kind = delta.get("type")
        name = _TEXT_FIELDS.get(str(kind))
        if name is None:
            _merge_delta(block, str(kind), delta)
            return [_ALIVE]
        piece = delta.get(name)
        if not isinstance(piece, str):
            raise ValueError("a delta without its text")
        return self._piece(block, piece) if piece else [_ALIVE]

    def _piece(self, block: _Open, piece: str) -> Events:
        if block.kind == "text":
            return self._text(block, piece)
        block.pieces.append(piece)
        if block.kind == "thinking":
            self.output = True
            return [ReasoningDelta(piece)]
        if block.call is not None:
            return [ToolCallDelta(block.call, piece)]
        if block.kind == "tool_use":
            self.output = True
            return [TextDelta(piece)]
        return [_ALIVE]

    def _text(self, block: _Open, piece: str) -> Events:
        block.pieces.append(piece)
        if self._answer_tool is not None:  # what is said around the answer is no answer, unless none comes
            return [_ALIVE]
        self.output = True
        return [TextDelta(piece)]

    def _block_stop(self, event: Json) -> Events:
        block = self._blocks.get(_index(event))
        if block is None:
            raise ValueError("the end of a block that never began")
        # Where the output limit cut the arguments, the block ends all the same: only whole JSON is a whole call.
        if block.kind == "tool_use" and _object(block.joined or "{}") is None:
            return [_ALIVE]
        return self._end(block)

    def _end(self, block: _Open) -> Events:
        block.ended = True
        return [_ALIVE] if block.call is None else [ToolCallEnded(block.call, _call(block))]

    def _message_delta(self, event: Json) -> Events:
        delta = _mapping(event.get("delta"))
        self._message |= {name: value for name, value in delta.items() if value is not None}
        if isinstance(event.get("usage"), Mapping):
            self._counted = True
            self._final_count = self._message.get("stop_reason") is not None
        return self._count(event.get("usage"))

    def _stop(self, _: Json) -> Events:
        self.finished = True
        late = self._malformed_calls() + self._late_text()
        return [*late, Finished(self.finish, self.usage)]

    def _malformed_calls(self) -> Events:
        """Hand out calls that the model itself ended with broken JSON: the text is there for the caller to see."""
        if self._message.get("stop_reason") != "tool_use":
            return []
        broken = [block for block in self._blocks.values() if block.kind == "tool_use" and not block.ended]
        return [event for block in broken for event in self._end(block) if event is not _ALIVE]

    def _is_answer(self, block: _Open) -> bool:
        return block.kind == "tool_use" and block.start.get("name") == self._answer_tool

    def _late_text(self) -> Events:
        if self._answer_tool is None or any(self._is_answer(block) for block in self._blocks.values()):
            return []
        text = "".join(part.text for part in self.parts if isinstance(part, Text))
        self.output = self.output or bool(text)
        return [TextDelta(text)] if text else []

    _handlers: Final[Mapping[str, Callable[[StreamAssembly, Json], Events]]] = {
        "message_start": _start,
        "content_block_start": _block_start,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _stop,
    }

    # ------------------------------------------------------------ putting together

    def _ending(self) -> tuple[tuple[Part, ...], FinishReason]:
        parts = tuple(part for block in self._blocks.values() if (part := self._part(block)) is not None)
        finish = finish_reason(self._message.get("stop_reason"))
        return (parts, finish) if self._answer_tool is None else unwrap_answer(parts, finish, self._answer_tool)

    def _part(self, block: _Open) -> Part | None:
        if block.kind == "tool_use":
            return _call(block) if block.ended or self._is_answer(block) else None
        if block.kind == "thinking" and not block.ended:
            return Reasoning(text=block.joined, issuer=self._issuer)
        return part_from_block(self._whole(block), self._issuer)

    def _whole(self, block: _Open) -> Block:
        joined = block.joined
        if block.kind in ("text", "thinking"):
            return {**block.start, block.kind: str(block.start.get(block.kind) or "") + joined}
        if not joined:
            return block.start
        value = _object(joined)
        return {**block.start, "text": joined} if value is None else {**block.start, "input": value}


def _call(block: _Open) -> ToolCall:
    """Return the call with its arguments as the model wrote them."""
    part = part_from_block({**block.start, "input": {}}, None)
    started = block.start.get("input")
    arguments = block.joined or (json.dumps(started, ensure_ascii=False) if started else "{}")
    extra = dict(part.extra) if isinstance(part, ToolCall) else {}  # a dict: errors carry calls, and pickle
    return ToolCall(id=str(block.start.get("id")), name=str(block.start.get("name")), arguments=arguments, extra=extra)


def _merge_delta(block: _Open, kind: str, delta: Json) -> None:
    if kind == "signature_delta":
        block.start["signature"] = delta.get("signature")
    elif kind == "citations_delta":
        block.start["citations"] = [*(_list(block.start.get("citations"))), delta.get("citation")]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _index(event: Json) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise ValueError("a block event without its index")
    return index


def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
