"""What a simulated stream sends, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from reliable_llm.drill.scenario import Act
from reliable_llm.drill.vendors.anthropic_messages import AnthropicMessages
from reliable_llm.drill.vendors.openai_chat import tool_calls
from reliable_llm.drill.vendors.shapes import Incoming, Voice, arguments_of, thought


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes, sent `after` seconds of silence."""

    data: bytes
    after: float = 0.0


def pieces(act: Act, voice: Voice, request: Incoming) -> Iterator[Piece]:
    """Yield the stream that *act* describes, up to and without its end."""
    if act.end == "zero_bytes":
        return
    if isinstance(voice, AnthropicMessages):
        voice.promise(act.start_usage or act.usage)
    if _starts(act):
        yield from _at_once(voice.start())
    if first := act.extra_chunks.get("first"):
        yield Piece(voice.odd(first))
    yield from _thinking(act, voice)
    yield from _timeline(act, voice) if act.timeline is not None else _content(act, voice, request)
    if act.end == "error_frame":
        yield Piece(voice.failure(act), act.gap_s)
    if act.end == "done":
        yield from _at_once(voice.finish(act))


def _starts(act: Act) -> bool:
    # An error as the very first event, or a cut before anything, unless the script asks for the preamble.
    if act.preamble is not None:
        return act.preamble
    return act.end in {"done", "stall"} or bool(act.chunks or act.arg_deltas or act.text)


def _at_once(events: Iterator[bytes]) -> Iterator[Piece]:
    yield from (Piece(event) for event in events)


def _thinking(act: Act, voice: Voice) -> Iterator[Piece]:
    if reasoning := thought(act):
        yield from _at_once(voice.thinking(*reasoning))


def _content(act: Act, voice: Voice, request: Incoming) -> Iterator[Piece]:
    if act.act == "stream_tool":
        yield from _tool(act, voice)
        return
    yield from _chunks(act, voice, _texts(act, request))
    for call in tool_calls(act, request):
        yield from _at_once(voice.tool(str(call.get("id", "call_1")), str(call.get("name"))))
        yield from _at_once(voice.arguments(arguments_of(call)))


def _texts(act: Act, request: Incoming) -> list[str]:
    if act.act == "stream":
        return act.chunks
    if act.act == "ok_json" and not request.forced_tool:
        return [json.dumps(act.obj)]
    if act.shape == "whitespace":
        return [" \n"]
    return [act.text] if act.text else []


def _chunks(act: Act, voice: Voice, texts: list[str]) -> Iterator[Piece]:
    middle = (len(texts) + 1) // 2 - 1
    for number, text in enumerate(texts):
        if number == act.bad_json_after:
            yield Piece(voice.broken(), act.gap_s)
        yield from _spaced(voice.text(text), act.gap_s if number else 0.0)
        if number == middle and "middle" in act.extra_chunks:
            yield Piece(voice.odd(act.extra_chunks["middle"]))
    if act.bad_json_after is not None and act.bad_json_after >= len(texts):
        yield Piece(voice.broken(), act.gap_s)


def _tool(act: Act, voice: Voice) -> Iterator[Piece]:
    for text in act.chunks:
        yield from _at_once(voice.text(text))
    yield from _at_once(voice.tool(act.id or "call_1", act.name or "tool"))
    for number, delta in enumerate(act.arg_deltas):
        yield from _spaced(voice.arguments(delta), act.gap_s if number else 0.0)


def _timeline(act: Act, voice: Voice) -> Iterator[Piece]:
    now, texts = 0.0, iter(act.chunks)
    for second, what in act.timeline or ():
        events = voice.text(next(texts, "")) if what == "chunk" else iter([voice.ping()])
        yield from _spaced(events, max(0.0, second - now))
        now = max(now, second)


def _spaced(events: Iterator[bytes], gap: float) -> Iterator[Piece]:
    for number, event in enumerate(events):
        yield Piece(event, 0.0 if number else gap)
