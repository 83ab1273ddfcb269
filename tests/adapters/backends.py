"""Vendors that do what a test says, one per adapter, behind one shape.

To join the contract suite (`test_contract.py`), write one (a subclass of `HttpBackend` for a vendor that is spoken to
over HTTP, or anything else with the methods of `Backend`) and add it to `BACKENDS`.
"""

from __future__ import annotations

import abc
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import httpx2
import pytest

from reliable_llm.adapters.anthropic_messages import AnthropicAdapter
from reliable_llm.adapters.base import Adapter, AdapterSettings
from reliable_llm.adapters.gemini import GeminiAdapter
from reliable_llm.adapters.openai_chat import OpenAIChatAdapter
from reliable_llm.adapters.openai_responses import OpenAIResponsesAdapter

Finish: TypeAlias = Literal["stop", "length", "tool"]
Ending: TypeAlias = Literal["done", "eof", "cut", "error", "bad_json"]
SECRET = "what somebody wrote"


@dataclass(frozen=True)
class Call:
    """A tool call as a model makes it, its arguments in pieces."""

    name: str
    pieces: tuple[str, ...]
    id: str = "call_1"

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Said:
    """An answer, in no vendor's terms. `tokens` is input and output."""

    text: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    finish: Finish = "stop"
    tokens: tuple[int, int] = (7, 3)


class Backend(abc.ABC):
    """A vendor that does what the test says, the last thing again and again.

    `whole_calls`: its streams hold tool calls in one piece, or not at all.
    """

    name: str
    whole_calls = False

    @abc.abstractmethod
    def adapter(self) -> Adapter: ...

    @abc.abstractmethod
    def answers(self, said: Said) -> None:
        """Give *said* as a plain answer."""

    @abc.abstractmethod
    def streams(self, said: Said, ending: Ending = "done") -> None:
        """Stream *said*; unless *ending* is "done", without the terminal event and with what it says instead."""

    @abc.abstractmethod
    def refuses(self, status: int, **headers: str) -> None:
        """Answer with an error status and a body that quotes `SECRET`."""

    @abc.abstractmethod
    def sends(self, body: bytes, content_type: str) -> None:
        """Answer 200 with any body."""

    @abc.abstractmethod
    def raises(self, error: Exception) -> None:
        """Let the transport raise."""

    @abc.abstractmethod
    def hangs(self) -> asyncio.Event:
        """Never answer; the event is set once a request has come."""

    @property
    @abc.abstractmethod
    def bodies(self) -> list[dict[str, Any]]:
        """What was asked, request by request."""

    @property
    @abc.abstractmethod
    def keys(self) -> list[str]:
        """With which key, request by request."""

    @property
    @abc.abstractmethod
    def open_responses(self) -> int:
        """How many responses are neither read to the end nor closed."""


class Body(httpx2.AsyncByteStream):
    """A body in pieces that knows whether it was closed."""

    def __init__(self, pieces: Iterable[bytes | Exception], open_bodies: set[Body]) -> None:
        self._pieces = tuple(pieces)
        self._open = open_bodies
        open_bodies.add(self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self._open.discard(self)


class HttpBackend(Backend):
    """A vendor behind `httpx2.MockTransport`: the real SDK runs, nothing leaves the process."""

    base_url = "http://vendor.test/v1"
    vendor: str
    build: Callable[[AdapterSettings], Adapter]
    request_id_header: str

    def __init__(self) -> None:
        self._open: set[Body] = set()
        self._act: Callable[[httpx2.Request], Any] = lambda _: pytest.fail("nothing to answer")
        self.requests: list[httpx2.Request] = []

    # the vendor's wire

    @abc.abstractmethod
    def document(self, said: Said) -> dict[str, Any]: ...

    @abc.abstractmethod
    def opening(self, said: Said) -> list[dict[str, Any]]:
        """The events that come before any output."""

    @abc.abstractmethod
    def output(self, said: Said, whole: bool) -> list[dict[str, Any]]:
        """The events with the output; a stream that is not *whole* ends within it."""

    @abc.abstractmethod
    def closing(self, said: Said) -> list[dict[str, Any]]:
        """The events from the end of the output to the terminal one."""

    @abc.abstractmethod
    def error(self, kind: str) -> dict[str, Any]:
        """An error document of the vendor: "overloaded" or "other"."""

    last_words: tuple[bytes, ...] = ()

    # acts

    def adapter(self) -> Adapter:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle))
        return type(self).build(AdapterSettings(vendor=self.vendor, base_url=self.base_url, http_client=http))

    def answers(self, said: Said) -> None:
        self._act = lambda _: httpx2.Response(200, json=self.document(said), headers=self._headers())

    def streams(self, said: Said, ending: Ending = "done") -> None:
        events = [*self.opening(said), *self.output(said, ending == "done")]
        pieces: list[bytes | Exception] = [self._frame(event) for event in events]
        pieces += self._ending(said, ending)
        headers = self._headers() | {"content-type": "text/event-stream"}
        self._act = lambda _: httpx2.Response(200, stream=Body(pieces, self._open), headers=headers)

    def _ending(self, said: Said, ending: Ending) -> list[bytes | Exception]:
        match ending:
            case "done":
                return [*(self._frame(event) for event in self.closing(said)), *self.last_words]
            case "cut":
                return [httpx2.RemoteProtocolError("peer closed connection")]
            case "error":
                return [self._frame(self.error("overloaded"))]
            case "bad_json":
                return [b'data: {"broken\n\n']
            case "eof":
                return []

    def _frame(self, event: dict[str, Any]) -> bytes:
        name = f"event: {event['type']}\n" if "type" in event else ""
        return f"{name}data: {json.dumps(event)}\n\n".encode()

    def refuses(self, status: int, **headers: str) -> None:
        named = self._headers() | {name.replace("_", "-"): value for name, value in headers.items()}
        kind = "overloaded" if status in (503, 529) else "other"
        self._act = lambda _: httpx2.Response(status, json=self.error(kind), headers=named)

    def sends(self, body: bytes, content_type: str) -> None:
        headers = self._headers() | {"content-type": content_type}
        self._act = lambda _: httpx2.Response(200, stream=Body([body], self._open), headers=headers)

    def raises(self, error: Exception) -> None:
        def act(_: httpx2.Request) -> httpx2.Response:
            raise error

        self._act = act

    def hangs(self) -> asyncio.Event:
        asked = asyncio.Event()

        async def act(_: httpx2.Request) -> httpx2.Response:
            asked.set()
            return await asyncio.Future()

        self._act = act
        return asked

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self._act(request)
        return answer if isinstance(answer, httpx2.Response) else await answer  # type: ignore[no-any-return]

    def _headers(self) -> dict[str, str]:
        return {self.request_id_header: "req_1", "X-RateLimit-Remaining": "5"}

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def keys(self) -> list[str]:
        return [request.headers["authorization"].removeprefix("Bearer ") for request in self.requests]

    @property
    def open_responses(self) -> int:
        return len(self._open)


class OpenAIChat(HttpBackend):
    name = "openai_chat"
    vendor = "openai"
    build = OpenAIChatAdapter
    request_id_header = "x-request-id"
    last_words = (b"data: [DONE]\n\n",)

    _finish = {"stop": "stop", "length": "length", "tool": "tool_calls"}  # noqa: RUF012

    def document(self, said: Said) -> dict[str, Any]:
        calls = [self._call(call) for call in said.calls]
        message = {"role": "assistant", "content": "".join(said.text) or None} | (
            {"tool_calls": calls} if calls else {}
        )
        choice = {"index": 0, "message": message, "finish_reason": self._finish[said.finish]}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage(said)}

    def _call(self, call: Call) -> dict[str, Any]:
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "model-dated"}

    def _usage(self, said: Said) -> dict[str, Any]:
        prompt, completion = said.tokens
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def opening(self, said: Said) -> list[dict[str, Any]]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def output(self, said: Said, whole: bool) -> list[dict[str, Any]]:
        events = [self._chunk({"content": piece}) for piece in said.text]
        for index, call in enumerate(said.calls):
            begin = {
                "index": index,
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": ""},
            }
            events.append(self._chunk({"tool_calls": [begin]}))
            events += [
                self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
                for piece in call.pieces
            ]
        return events

    def closing(self, said: Said) -> list[dict[str, Any]]:
        usage = {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage(said)}
        return [self._chunk({}, self._finish[said.finish]), usage]

    def error(self, kind: str) -> dict[str, Any]:
        told = "server_is_overloaded" if kind == "overloaded" else None
        return {"error": {"message": SECRET, "type": "server_error", "param": None, "code": told}}


class OpenAIResponses(HttpBackend):
    name = "openai_responses"
    vendor = "openai"
    build = OpenAIResponsesAdapter
    request_id_header = "x-request-id"

    def document(self, said: Said) -> dict[str, Any]:
        items: list[dict[str, Any]] = [self._message("".join(said.text))] if said.text else []
        items += [self._call(number, call) for number, call in enumerate(said.calls)]
        prompt, completion = said.tokens
        short = said.finish == "length"
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "model-dated",
            "status": "incomplete" if short else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if short else None,
            "error": None,
            "output": items,
            "usage": {
                "input_tokens": prompt,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": completion,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": prompt + completion,
            },
        }

    def _message(self, text: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}

    def _call(self, number: int, call: Call, arguments: str | None = None) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments if arguments is None else arguments,
            "status": "completed",
        }

    def opening(self, said: Said) -> list[dict[str, Any]]:
        response = {**self.document(Said()), "status": "in_progress", "usage": None}
        return [{"type": "response.created", "sequence_number": 0, "response": response}]

    def output(self, said: Said, whole: bool) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        if said.text:
            empty = {**self._message(""), "content": [], "status": "in_progress"}
            events.append({"type": "response.output_item.added", "output_index": 0, "item": empty})
            part = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            events += [{"type": "response.output_text.delta", **part, "delta": piece} for piece in said.text]
            if whole:
                done = self._message("".join(said.text))
                events.append({"type": "response.output_text.done", **part, "text": "".join(said.text)})
                events.append({"type": "response.output_item.done", "output_index": 0, "item": done})
        for number, call in enumerate(said.calls):
            where = {"output_index": number + bool(said.text)}
            begin = self._call(number, call, "")
            events.append({"type": "response.output_item.added", **where, "item": begin})
            item = {"item_id": f"fc_{number}", **where}
            kind = "response.function_call_arguments"
            events += [{"type": f"{kind}.delta", **item, "delta": piece} for piece in call.pieces]
            if whole:
                events.append({"type": f"{kind}.done", **item, "name": call.name, "arguments": call.arguments})
                done = self._call(number, call)
                events.append({"type": "response.output_item.done", **where, "item": done})
        return events

    def closing(self, said: Said) -> list[dict[str, Any]]:
        kind = "response.incomplete" if said.finish == "length" else "response.completed"
        return [{"type": kind, "response": self.document(said)}]

    def error(self, kind: str) -> dict[str, Any]:
        told = "server_is_overloaded" if kind == "overloaded" else None
        return {"error": {"message": SECRET, "type": "server_error", "param": None, "code": told}}


class Anthropic(HttpBackend):
    name = "anthropic"
    vendor = "anthropic"
    build = AnthropicAdapter
    base_url = "http://vendor.test"
    request_id_header = "request-id"

    _finish = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use"}  # noqa: RUF012

    def document(self, said: Said) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": "".join(said.text)}] if said.text else []
        content += [self._call(call, json.loads(call.arguments)) for call in said.calls]
        return self._message(said, content, self._finish[said.finish], said.tokens[1])

    def _call(self, call: Call, arguments: object) -> dict[str, Any]:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}

    def _message(self, said: Said, content: list[dict[str, Any]], stop: str | None, output: int) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "model-dated",
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": said.tokens[0], "output_tokens": output},
        }

    def opening(self, said: Said) -> list[dict[str, Any]]:
        return [{"type": "message_start", "message": self._message(said, [], None, 1)}, {"type": "ping"}]

    def output(self, said: Said, whole: bool) -> list[dict[str, Any]]:
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if said.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in said.text]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for call in said.calls:
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
            blocks.append((self._call(call, {}), deltas))
        events: list[dict[str, Any]] = []
        for index, (block, deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            if whole:
                events.append({"type": "content_block_stop", "index": index})
        return events

    def closing(self, said: Said) -> list[dict[str, Any]]:
        delta = {"stop_reason": self._finish[said.finish], "stop_sequence": None}
        usage = {"output_tokens": said.tokens[1]}
        return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]

    def error(self, kind: str) -> dict[str, Any]:
        told = "overloaded_error" if kind == "overloaded" else "api_error"
        return {"type": "error", "error": {"type": told, "message": SECRET}}


class Gemini(HttpBackend):
    name = "gemini"
    whole_calls = True
    vendor = "gemini"
    build = GeminiAdapter
    base_url = "http://vendor.test"
    request_id_header = "x-goog-request-id"

    _finish = {"stop": "STOP", "length": "MAX_TOKENS", "tool": "STOP"}  # noqa: RUF012

    def document(self, said: Said) -> dict[str, Any]:
        return self._chunk(self._parts(said), self._finish[said.finish], self._usage(said))

    def _parts(self, said: Said) -> list[dict[str, Any]]:
        text = [{"text": "".join(said.text)}] if said.text else []
        return text + [self._call(call) for call in said.calls]

    def _call(self, call: Call) -> dict[str, Any]:
        return {"functionCall": {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}}

    def _usage(self, said: Said) -> dict[str, Any]:
        prompt, answer = said.tokens
        return {"promptTokenCount": prompt, "candidatesTokenCount": answer, "totalTokenCount": prompt + answer}

    def _chunk(self, parts: list[dict[str, Any]], finish: str | None, usage: dict[str, Any] | None) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        head = {"modelVersion": "model-dated", "responseId": "r1"}
        ended = {"finishReason": finish} if finish else {}
        return {**head, "candidates": [candidate | ended], **({"usageMetadata": usage} if usage else {})}

    def opening(self, said: Said) -> list[dict[str, Any]]:
        return [self._chunk([], None, None)]

    def output(self, said: Said, whole: bool) -> list[dict[str, Any]]:
        texts = [self._chunk([{"text": piece}], None, None) for piece in said.text]
        calls = [call for call in said.calls if _is_json(call.arguments)]
        return texts + [self._chunk([self._call(call)], None, None) for call in calls]

    def closing(self, said: Said) -> list[dict[str, Any]]:
        return [self._chunk([], self._finish[said.finish], self._usage(said))]

    def error(self, kind: str) -> dict[str, Any]:
        status = "UNAVAILABLE" if kind == "overloaded" else "UNKNOWN"
        return {"error": {"code": 503 if kind == "overloaded" else 500, "message": SECRET, "status": status}}

    @property
    def keys(self) -> list[str]:
        return [request.headers["x-goog-api-key"] for request in self.requests]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


BACKENDS: tuple[Callable[[], Backend], ...] = (OpenAIChat, OpenAIResponses, Anthropic, Gemini)
