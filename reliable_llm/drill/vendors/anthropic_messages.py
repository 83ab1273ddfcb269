"""Anthropic's messages, as they are on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from reliable_llm.drill.scenario import Act
from reliable_llm.drill.vendors.openai_chat import tool_calls
from reliable_llm.drill.vendors.shapes import Incoming, Json, arguments_of, error_object, frame, padded, thought

_EMPTY: Final[dict[str, object]] = {
    "content_null": None,
    "choices_null": None,
    "text_empty": [{"type": "text", "text": ""}],
    "whitespace": [{"type": "text", "text": " \n"}],
}
# OpenAI's words for the end of an answer, where a scenario uses one for both vendors.
_REASONS: Final = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class AnthropicMessages:
    """Answers one `/v1/messages` request."""

    def __init__(self, request: Incoming, model: str) -> None:
        self._request = request
        self._model = model
        self._blocks = 0
        self._open: str | None = None
        self._tools = False
        self._start_usage: list[int] | None = None

    def answer(self, act: Act) -> Json:
        if act.shape == "no_fields":
            return {"id": self._id}
        content = self._content(act)
        whole = {**self._head(), "content": content, "stop_reason": self._reason(act, content)}
        return whole | ({"usage": usage(act.usage)} if act.usage else {})

    @property
    def _id(self) -> str:
        return f"msg_{self._request.number}"

    def _head(self) -> dict[str, object]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._model, "stop_sequence": None}

    def _content(self, act: Act) -> object:
        blocks: list[object] = []
        if reasoning := thought(act):
            blocks.append(thinking_block(*reasoning))
        if act.shape:
            return _EMPTY.get(act.shape, blocks)
        if text := _text(act, self._request):
            blocks.append({"type": "text", "text": text})
        return blocks + [_tool_use(call) for call in tool_calls(act, self._request)]

    def _reason(self, act: Act, content: object) -> str:
        given = act.stop_reason or act.finish
        calls = isinstance(content, list) and any(b.get("type") == "tool_use" for b in content)
        return _REASONS.get(given, given) if given else "tool_use" if calls or self._tools else "end_turn"

    def error(self, act: Act) -> Json | str:
        if isinstance(act.error, str):
            return {"type": "error", "error": act.error}
        return padded({"type": "error", "error": error_object(act, "api_error"), "request_id": None}, act)

    def promise(self, tokens: list[int] | None) -> None:
        """Set the usage that the start event reports."""
        self._start_usage = tokens

    def start(self) -> Iterator[bytes]:
        message: dict[str, object] = {**self._head(), "content": [], "stop_reason": None}
        if self._start_usage:
            message["usage"] = usage(self._start_usage)
        yield _event("message_start", {"message": message})

    def thinking(self, text: str, signature: str | None) -> Iterator[bytes]:
        yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "thinking_delta", "thinking": text})
        if signature is not None:
            yield self._delta({"type": "signature_delta", "signature": signature})

    def text(self, chunk: str) -> Iterator[bytes]:
        yield from self._block("text", {"type": "text", "text": ""})
        yield self._delta({"type": "text_delta", "text": chunk})

    def tool(self, call_id: str, name: str) -> Iterator[bytes]:
        self._tools = True
        yield from self._block(call_id, {"type": "tool_use", "id": call_id, "name": name, "input": {}})

    def arguments(self, delta: str) -> Iterator[bytes]:
        yield self._delta({"type": "input_json_delta", "partial_json": delta})

    def ping(self) -> bytes:
        return _event("ping", {})

    def broken(self) -> bytes:
        return b'event: content_block_delta\ndata: {"type": "content_block_del\n\n'

    def odd(self, what: str) -> bytes:
        return self.ping() if "ping" in what or "comment" in what else _event("a_kind_of_event_from_next_year", {})

    def failure(self, act: Act) -> bytes:
        return _event("error", {"error": error_object(act, "api_error")})

    def finish(self, act: Act) -> Iterator[bytes]:
        yield from self._close()
        delta = {"stop_reason": self._reason(act, None), "stop_sequence": None}
        yield _event("message_delta", {"delta": delta} | ({"usage": usage(act.usage)} if act.usage else {}))
        yield _event("message_stop", {})

    def _block(self, name: str, block: Json) -> Iterator[bytes]:
        if self._open == name:
            return
        yield from self._close()
        self._open = name
        yield _event("content_block_start", {"index": self._blocks, "content_block": block})

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            yield _event("content_block_stop", {"index": self._blocks})
            self._blocks += 1
            self._open = None

    def _delta(self, delta: Json) -> bytes:
        return _event("content_block_delta", {"index": self._blocks, "delta": delta})


def usage(tokens: list[int]) -> Json:
    return {"input_tokens": tokens[0], "output_tokens": tokens[1]}


def thinking_block(text: str, signature: str | None) -> dict[str, object]:
    return {"type": "thinking", "thinking": text, "signature": signature or ""}


def _text(act: Act, request: Incoming) -> str:
    if act.act == "ok_json" and not request.forced_tool:
        return json.dumps(act.obj)
    return act.text or ""


def _tool_use(call: dict[str, object]) -> Json:
    given = json.loads(arguments_of(call))
    return {"type": "tool_use", "id": call.get("id", "toolu_1"), "name": call.get("name"), "input": given}


def _event(name: str, data: dict[str, object]) -> bytes:
    return frame({"type": name, **data}, name)
