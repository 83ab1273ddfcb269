"""OpenAI's responses API, as it is on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from reliable_llm.drill.scenario import Act
from reliable_llm.drill.vendors.openai_chat import tool_calls
from reliable_llm.drill.vendors.shapes import Incoming, Json, arguments_of, error_object, frame, padded

_CREATED: Final = 1_767_225_600
_CUT_SHORT: Final = {
    "length": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}


class OpenAIResponses:
    """Answers one `/responses` request."""

    def __init__(self, request: Incoming, model: str) -> None:
        self._request = request
        self._head: dict[str, object] = {"id": f"resp_{request.number}", "object": "response", "created_at": _CREATED}
        self._head |= {"model": model, "error": None, "incomplete_details": None}
        self._sequence = 0
        self._items: list[dict[str, object]] = []
        self._text = ""

    def answer(self, act: Act) -> Json:
        return self._whole(act, self._output(act))

    def _whole(self, act: Act, output: object) -> Json:
        whole = {**self._head, "status": "completed", "output": output}
        if cut := _CUT_SHORT.get(act.finish or act.stop_reason or ""):
            whole |= {"status": "incomplete", "incomplete_details": {"reason": cut}}
        return whole | ({"usage": usage(act.usage)} if act.usage else {})

    def _output(self, act: Act) -> list[dict[str, object]]:
        text = json.dumps(act.obj) if act.act == "ok_json" else act.text
        message = [_message(text)] if text is not None and not act.shape else []
        return message + [_function_call(call) for call in tool_calls(act, self._request)]

    def error(self, act: Act) -> Json | str:
        if isinstance(act.error, str):
            return {"error": act.error}
        return padded({"error": {"param": None, "code": None, **error_object(act, "server_error")}}, act)

    def start(self) -> Iterator[bytes]:
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, {"response": {**self._head, "status": "in_progress", "output": []}})

    def thinking(self, text: str, signature: str | None) -> Iterator[bytes]:
        where = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        yield self._event("response.reasoning_summary_text.delta", where | {"delta": text})

    def text(self, chunk: str) -> Iterator[bytes]:
        if not self._items or self._items[-1]["type"] != "message":
            self._items.append(_message(""))
            yield self._event(
                "response.output_item.added", {"output_index": len(self._items) - 1, "item": self._items[-1]}
            )
        self._text += chunk
        self._items[-1] |= _message(self._text)
        where = {"item_id": "msg_1", "output_index": len(self._items) - 1, "content_index": 0}
        yield self._event("response.output_text.delta", where | {"delta": chunk})

    def tool(self, call_id: str, name: str) -> Iterator[bytes]:
        self._items.append(_function_call({"id": call_id, "name": name, "args": ""}))
        yield self._event("response.output_item.added", {"output_index": len(self._items) - 1, "item": self._items[-1]})

    def arguments(self, delta: str) -> Iterator[bytes]:
        self._items[-1]["arguments"] = str(self._items[-1]["arguments"]) + delta
        where = {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}
        yield self._event("response.function_call_arguments.delta", where | {"delta": delta})

    def ping(self) -> bytes:
        return b": keep-alive\n\n"

    def broken(self) -> bytes:
        return b'event: response.output_text.delta\ndata: {"type": "response.out\n\n'

    def odd(self, what: str) -> bytes:
        return self._event("response.a_kind_of_event_from_next_year", {})

    def failure(self, act: Act) -> bytes:
        return self._event(
            "error", {"code": None, "param": None, **error_object(act, "server_error")} | {"type": "error"}
        )

    def finish(self, act: Act) -> Iterator[bytes]:
        for index, item in enumerate(self._items):
            yield self._event("response.output_item.done", {"output_index": index, "item": item})
        whole = self._whole(act, self._items)
        yield self._event(f"response.{whole['status']}", {"response": whole})

    def _event(self, name: str, data: dict[str, object]) -> bytes:
        self._sequence += 1
        return frame({"type": name, "sequence_number": self._sequence, **data}, name)


def usage(tokens: list[int]) -> Json:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens), **details}


def _message(text: str) -> dict[str, object]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def _function_call(call: Json) -> dict[str, object]:
    given = call.get("id", "call_1")
    head = {"id": f"fc_{given}", "call_id": given, "type": "function_call", "status": "completed"}
    return {**head, "name": call.get("name"), "arguments": arguments_of(call)}
