"""An HTTP transport with a coordinator behind it: the vendor's SDK believes that it talks to its vendor."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field

import httpx2

from reliable_llm.chat import FailoverChat
from reliable_llm.errors import InvalidRequestError, ReliableLLMError
from reliable_llm.integrations.http_errors import as_json, raise_transport_error, wrong_endpoint
from reliable_llm.integrations.unfit import UNFIT, unfit_reply
from reliable_llm.stream import ChatStream
from reliable_llm.types import ChatReply, ChatRequest, Json, ServedBy

# Model names that stand for the coordinator's own chain.
ANY_MODEL = frozenset({"", "auto", "default", "reliable_llm"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One call as the SDK made it. `own` is what the caller sent under `reliable_llm`: `deadline` and `tags`."""

    request: ChatRequest
    model: str | None
    stream: bool
    body: Json = field(repr=False)
    own: Json

    @property
    def tags(self) -> Mapping[str, str] | None:
        tags = self.own.get("tags")
        return {str(name): str(value) for name, value in tags.items()} if isinstance(tags, Mapping) else None


class CoordinatorTransport(httpx2.AsyncBaseTransport, ABC):
    """Answers one endpoint of one vendor's API. The coordinator stays open when the SDK's client is closed."""

    path: str

    def __init__(self, chat: FailoverChat) -> None:
        self._chat = chat

    @abstractmethod
    def read(self, body: Json) -> ChatRequest:
        """Return the request in *body*; raise `InvalidRequestError` for what is none."""

    @abstractmethod
    def answer(self, reply: ChatReply) -> Json:
        """Return the reply as the vendor's body."""

    @abstractmethod
    def events(self, stream: ChatStream, asked: Asked) -> AsyncIterator[bytes]:
        """Yield the stream as the vendor's server-sent events."""

    @abstractmethod
    def error(self, error: ReliableLLMError) -> tuple[int, dict[str, str], dict[str, object]]:
        """Return status, headers and body of *error* as the vendor says it."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        try:
            if request.method != "POST" or not request.url.path.endswith(self.path):
                raise wrong_endpoint(request.url.path, self.path)
            return await self._respond(self._asked(content), request)
        except ReliableLLMError as error:
            raise_transport_error(error, request)
            status, headers, body = self.error(error)
            return httpx2.Response(status, headers=headers, content=as_json(body))

    def _asked(self, content: bytes) -> Asked:
        body = _decoded(content)
        own = body.pop("reliable_llm", None)
        named = str(body.get("model") or "")
        return Asked(
            request=self.read(body),
            model=None if named in ANY_MODEL else named,
            stream=body.get("stream") is True,
            body=body,
            own=own if isinstance(own, Mapping) else {},
        )

    async def _respond(self, asked: Asked, request: httpx2.Request) -> httpx2.Response:
        if asked.stream:
            return await self._streamed(asked)
        deadline = _number(asked.own.get("deadline")) or _read_timeout(request)
        try:
            reply = await self._chat(asked.request, deadline=deadline, tags=asked.tags, model=asked.model)
        except UNFIT as error:
            reply = unfit_reply(error)
        return httpx2.Response(200, headers=served_headers(reply), content=as_json(self.answer(reply)))

    async def _streamed(self, asked: Asked) -> httpx2.Response:
        deadline = _number(asked.own.get("deadline"))
        stream = self._chat.stream(asked.request, deadline=deadline, tags=asked.tags, model=asked.model)
        await stream.__aenter__()
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "x-reliable-llm-served-by": str(stream.served_by),
        }
        return httpx2.Response(200, headers=headers, stream=_Body(self, stream, asked))


class _Body(httpx2.AsyncByteStream):
    """The events of a stream as bytes. A failure after the first output is told in the vendor's own way."""

    def __init__(self, transport: CoordinatorTransport, stream: ChatStream, asked: Asked) -> None:
        self._transport = transport
        self._stream = stream
        self._asked = asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._transport.events(self._stream, self._asked):
                yield piece
        except ReliableLLMError as error:
            _, _, body = self._transport.error(error)
            yield sse(body, event="error")

    async def aclose(self) -> None:
        await self._stream.__aexit__(None, None, None)


def who(stream: ChatStream) -> ServedBy:
    """Return who answers: known from the first output on."""
    assert stream.served_by is not None  # noqa: S101 - only an entered stream is handed on
    return stream.served_by


def sse(data: object, *, event: str | None = None) -> bytes:
    """Return one server-sent event; text goes as it is, anything else as JSON."""
    text = data.encode() if isinstance(data, str) else as_json(data)
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + text + b"\n\n"


def served_headers(reply: ChatReply) -> dict[str, str]:
    """Return the headers of an answer: who gave it."""
    named = {"x-request-id": reply.request_id, "request-id": reply.request_id} if reply.request_id else {}
    return {"content-type": "application/json", "x-reliable-llm-served-by": str(reply.served_by), **named}


def story(reply: ChatReply) -> dict[str, object]:
    """Return what a reply took, for the extra field `reliable_llm` of the vendor's answer."""
    return {
        "served_by": str(reply.served_by),
        "provider": reply.served_by.provider,
        "requested": str(reply.requested),
        "failed_over": reply.failed_over,
        "degraded": reply.degraded,
        "attempts": [str(attempt) for attempt in reply.attempts],
        "dropped": list(reply.dropped),
    }


def rest_of(body: Json, known: Iterable[str]) -> dict[str, object]:
    """Return the fields of *body* that have no neutral word."""
    return {name: value for name, value in body.items() if name not in known and value is not None}


def _decoded(content: bytes) -> dict[str, object]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidRequestError("the body of the request is no JSON object")
    return body


def _read_timeout(request: httpx2.Request) -> float | None:
    """Return the SDK's timeout: to its caller it bounds the whole call, so it does here."""
    timeouts = request.extensions.get("timeout")
    return _number(timeouts.get("read")) if isinstance(timeouts, Mapping) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def text_field(body: Json, name: str) -> str | None:
    """Return a field that must be text where it is given."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a string")
    return value


def number_field(body: Json, name: str) -> float | None:
    """Return a field that must be a number where it is given."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequestError(f"{name} must be a number")
    return value


def count_field(body: Json, name: str) -> int | None:
    """Return a field that must be a whole number where it is given."""
    value = number_field(body, name)
    if value is not None and value != int(value):
        raise InvalidRequestError(f"{name} must be a whole number")
    return None if value is None else int(value)


def list_field(body: Json, name: str) -> list[object]:
    """Return a field that must be a list where it is given."""
    value = body.get(name)
    if value is not None and not isinstance(value, list):
        raise InvalidRequestError(f"{name} must be a list")
    return value or []
