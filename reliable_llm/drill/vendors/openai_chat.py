"""OpenAI's chat completions, as they are on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from reliable_llm.drill.scenario import Act
from reliable_llm.drill.vendors.shapes import Incoming, Json, arguments_of, error_object, frame, padded, thought

_CREATED: Final = 1_767_225_600
_DETAILS: Final = {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}
_CONTENT: Final[dict[str, object]] = {"content_null": None, "content_empty": "", "text_empty": "", "whitespace": " \n"}


class OpenAIChat:
    """Answers one `/chat/completions` request."""

    def __init__(self, request: Incoming, model: str) -> None:
        self._request = request
        self._head: dict[str, object] = {"id": f"chatcmpl-{request.number}", "created": _CREATED, "model": model}
        self._tools = 0

    def answer(self, act: Act) -> Json:
        whole = {**self._head, "object": "chat.completion", "choices": self._choices(act)}
        if act.shape == "no_fields":
            whole = {"id": self._head["id"]}
        return whole | ({"usage": usage(act.usage)} if act.usage else {})

    def _choices(self, act: Act) -> list[object] | None:
        if act.shape in {"choices_empty", "choices_null"}:
            return [] if act.shape == "choices_empty" else None
        message = self._message(act)
        reason = act.finish or act.stop_reason or ("tool_calls" if message.get("tool_calls") else "stop")
        return [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}]

    def _message(self, act: Act) -> dict[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": act.text, "refusal": None}
        if (act.finish or act.stop_reason) == "refusal":
            message |= {"content": None, "refusal": act.text or "I cannot help with that."}
        if act.shape:
            message["content"] = _CONTENT.get(act.shape)
        if act.act == "ok_json" and not self._request.forced_tool:
            message["content"] = json.dumps(act.obj)
        if calls := tool_calls(act, self._request):
            message["tool_calls"] = [_call(call) for call in calls]
        if reasoning := thought(act):
            message["reasoning_content"] = reasoning[0]
        return message

    def error(self, act: Act) -> Json | str:
        if isinstance(act.error, str):
            return {"error": act.error}
        return padded({"error": {"param": None, "code": None, **error_object(act, "server_error")}}, act)

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": "", "refusal": None})

    def thinking(self, text: str, signature: str | None) -> Iterator[bytes]:
        yield self._chunk({"reasoning_content": text})

    def text(self, chunk: str) -> Iterator[bytes]:
        yield self._chunk({"content": chunk})

    def tool(self, call_id: str, name: str) -> Iterator[bytes]:
        function = {"name": name, "arguments": ""}
        yield self._chunk(
            {"tool_calls": [{"index": self._tools, "id": call_id, "type": "function", "function": function}]}
        )
        self._tools += 1

    def arguments(self, delta: str) -> Iterator[bytes]:
        yield self._chunk({"tool_calls": [{"index": self._tools - 1, "function": {"arguments": delta}}]})

    def ping(self) -> bytes:
        return b": keep-alive\n\n"

    def broken(self) -> bytes:
        return b'data: {"choices": [{"del\n\n'

    def odd(self, what: str) -> bytes:
        if "choice" in what and "delta" in what:
            return self._event([{"index": 0, "finish_reason": None} | ({"delta": None} if "null" in what else {})])
        return self._event(None if "null" in what else [], _usage_named(what))

    def failure(self, act: Act) -> bytes:
        return frame({"error": {"code": None, **error_object(act, "server_error")}})

    def finish(self, act: Act) -> Iterator[bytes]:
        reason = act.finish or act.stop_reason or ("tool_calls" if self._tools else "stop")
        yield self._event([{"index": 0, "delta": {}, "finish_reason": reason}])
        options = self._request.body.get("stream_options")
        if act.usage and isinstance(options, dict) and options.get("include_usage"):
            yield self._event([], usage(act.usage))
        if last := act.extra_chunks.get("last"):
            yield self.odd(last)
        yield frame("[DONE]")

    def _chunk(self, delta: dict[str, object]) -> bytes:
        return self._event([{"index": 0, "delta": delta, "finish_reason": None}])

    def _event(self, choices: list[object] | None, tokens: Json | None = None) -> bytes:
        event = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return frame(event | ({"usage": tokens} if tokens else {}))


def usage(tokens: list[int]) -> Json:
    return {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens), **_DETAILS}


def tool_calls(act: Act, request: Incoming) -> list[dict[str, object]]:
    """Return the act's tool calls; an `ok_json` that was asked for through a forced tool comes as a call of it."""
    if act.act == "ok_json" and request.forced_tool:
        return [{"id": f"call_{request.number}", "name": request.forced_tool, "args": act.obj}]
    return act.calls


def _call(call: dict[str, object]) -> Json:
    function = {"name": call.get("name"), "arguments": arguments_of(call)}
    return {"id": call.get("id", "call_1"), "type": "function", "function": function}


def _usage_named(what: str) -> Json | None:
    head, _, numbers = what.partition("usage ")
    given = numbers.split("/")
    return usage([int(given[0]), int(given[1])]) if head != what and len(given) == 2 else None
