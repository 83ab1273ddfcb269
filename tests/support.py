"""Fakes at the public seams: a clock moved by hand, an adapter with a script, vendors at the SDK's transport."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import httpx2

from reliable_llm.adapters.base import AdapterStream, Prepared, Target
from reliable_llm.credentials import Credential
from reliable_llm.errors import Kind, ReliableLLMError, default_verdict, error_from_verdict
from reliable_llm.events import Event
from reliable_llm.policy import RetryPolicy, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.types import AdapterReply, ChatRequest, FinishReason, StreamEvent, Text, Usage

# A Unix time: 2026-01-01 00:00:00 UTC.
EPOCH = 1_767_225_600.0

# Backoff in round numbers: 0.5, 1, 2, ... seconds.
STEADY = RetryPolicy(jitter=0)

GPT, CLAUDE = "gpt-5.1", "claude-sonnet-4-5"


class ManualClock:
    """Time that only `advance` and sleeps move; `slept` holds every sleep. For one call at a time."""

    def __init__(self, start: float = 1_000.0, *, chance: float = 0.0) -> None:
        self.now = start
        self.chance = chance
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return EPOCH + self.now

    def random(self) -> float:
        return self.chance

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Listening:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Event, Mapping[str, str]]] = []

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        self.told.append((event, dict(tags)))

    def of(self, *kinds: type[Event]) -> list[Any]:
        """Return the events of these kinds, or all."""
        return [event for event, _ in self.told if not kinds or isinstance(event, kinds)]

    @property
    def names(self) -> list[str]:
        return [event.event for event, _ in self.told]


# ---------------------------------------------------------------- an adapter with a script


def failure(kind: Kind, *, message: str = "", **verdict: Any) -> ReliableLLMError:
    """Return a fresh error of *kind*, with further fields of its verdict."""
    return error_from_verdict(replace(default_verdict(kind), **verdict), message)


@dataclass(frozen=True, slots=True)
class Fails:
    """An item of a script: raise a fresh error of `kind` with these fields of its verdict."""

    kind: Kind
    verdict: Mapping[str, Any] = field(default_factory=dict)


def fails(kind: Kind, **verdict: Any) -> Fails:
    return Fails(kind, verdict)


@dataclass(frozen=True, slots=True)
class Sent:
    """One attempt as the adapter saw it."""

    key: str
    model: str
    text: str
    without: frozenset[str]
    stream: bool
    request: ChatRequest


Item: TypeAlias = str | Fails | BaseException | AdapterReply | Callable[[], Awaitable[AdapterReply]]
StreamItem: TypeAlias = StreamEvent | Fails | BaseException | Callable[[], Awaitable[object]]


def answer(text: str = "hello", usage: Usage | None = None, **fields: Any) -> AdapterReply:
    fields.setdefault("finish_reason", FinishReason.STOP)
    return AdapterReply(parts=(Text(text),), usage=usage, **fields)


class ScriptedAdapter:
    """Does what its script says, in order of arrival, and the last item again and again. `sent` is what arrived.

    `streams` is the script for streamed attempts: lists of events, errors and things to await.
    """

    def __init__(self, *script: Item, vendor: str = "openai", streams: tuple[list[StreamItem], ...] = ()) -> None:
        self.vendor = vendor
        self.script = list(script) or ["hello"]
        self.streams = list(streams)
        self.sent: list[Sent] = []
        self.prepared: list[frozenset[str]] = []
        self.refuses: BaseException | None = None
        self.warmed = 0
        self.closed = 0
        self.streams_closed = 0

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        if self.refuses is not None:
            raise self.refuses
        self.prepared.append(without)
        return Prepared(target=target, body={"without": without}, stream=stream, request=request)

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        self._note(prepared, key)
        item = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(item, str):
            return answer(item)
        if isinstance(item, AdapterReply):
            return item
        if callable(item):
            return await item()
        raise _exception(item)

    @asynccontextmanager
    async def stream(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AsyncIterator[AdapterStream]:
        self._note(prepared, key)
        items = self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]
        if items and isinstance(items[0], Fails | BaseException):
            raise _exception(items[0])
        try:
            yield ScriptedStream(items)
        finally:
            self.streams_closed += 1

    def _note(self, prepared: Prepared, key: Credential) -> None:
        assert prepared.request is not None
        self.sent.append(
            Sent(
                key=key.label,
                model=prepared.target.model_id,
                text=prepared.request.messages[-1].text,
                without=prepared.body["without"],  # type: ignore[arg-type]
                stream=prepared.stream,
                request=prepared.request,
            )
        )

    async def warmup(self) -> None:
        self.warmed += 1

    async def aclose(self) -> None:
        self.closed += 1

    @property
    def keys(self) -> list[str]:
        """The labels of the keys used, in order."""
        return [sent.key for sent in self.sent]


class ScriptedStream:
    """An `AdapterStream` over the items of a script."""

    headers: Mapping[str, str] = {}
    request_id: str | None = "req_stream"
    model: str | None = None

    def __init__(self, items: list[StreamItem]) -> None:
        self._items = items
        self._text = ""
        self.usage: Usage | None = None

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        for item in self._items:
            if isinstance(item, Fails | BaseException):
                raise _exception(item)
            if callable(item):
                await item()
                continue
            self._text += getattr(item, "text", "")
            self.usage = getattr(item, "usage", self.usage)
            yield item

    def reply(self) -> AdapterReply:
        return answer(self._text, self.usage, request_id=self.request_id)


def _exception(item: Fails | BaseException) -> BaseException:
    return failure(item.kind, **item.verdict) if isinstance(item, Fails) else item


def provider(name: str, adapter: ScriptedAdapter, *, models: Any = ("m1",), keys: int = 1, **fields: Any) -> Provider:
    """Return a provider behind *adapter*, with keys labelled `name#1` and so on."""
    made = [f"sk-{name}-{n}" for n in range(keys)]
    return Provider.of(adapter, models=models, name=name, keys=made, **fields)


# ---------------------------------------------------------------- vendors at the SDK's transport


@dataclass(frozen=True, slots=True)
class Arrival:
    """One HTTP request."""

    key: str
    model: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]


Response: TypeAlias = httpx2.Response | Exception | Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class Vendor:
    """An endpoint inside `httpx2.MockTransport`: answers in order of arrival, the last one again and again.

    `for_key` and `for_model` take precedence over `then`.
    """

    def __init__(self, *then: Response) -> None:
        self._then = list(then)
        self._for: dict[str, list[Response]] = {}
        self.arrivals: list[Arrival] = []

    def on(self, key_or_model: str, *answers: Response) -> Vendor:
        """Answer requests with this key, or for this model, so."""
        self._for[key_or_model] = list(answers)
        return self

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        self.arrivals.append(Arrival(key, body["model"], body, dict(request.headers)))
        queue = self._for.get(key) or self._for.get(body["model"]) or self._then
        item = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(item, Exception):
            raise item
        if not isinstance(item, httpx2.Response):
            return await item(request)
        return httpx2.Response(item.status_code, headers=item.headers, content=item.content, request=request)

    @property
    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle))

    @property
    def keys(self) -> list[str]:
        return [arrival.key for arrival in self.arrivals]

    @property
    def models(self) -> list[str]:
        return [arrival.model for arrival in self.arrivals]

    def openai(self, *keys: str, models: Any = (GPT,), **fields: Any) -> Provider:
        """Return a provider that asks this endpoint through OpenAI's SDK."""
        return Provider.openai(models=models, keys=keys or ("sk-openai-a",), http_client=self.client, **fields)

    def anthropic(self, *keys: str, models: Any = (CLAUDE,), **fields: Any) -> Provider:
        """Return a provider that asks this endpoint through Anthropic's SDK."""
        return Provider.anthropic(models=models, keys=keys or ("sk-ant-a",), http_client=self.client, **fields)


def openai_ok(
    text: str | None = "hello from gpt", *, finish: str = "stop", usage: tuple[int, int] = (10, 5)
) -> httpx2.Response:
    return httpx2.Response(
        200,
        headers={"x-request-id": "req_openai_ok"},
        json={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": GPT,
            "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
            "usage": {
                "prompt_tokens": usage[0],
                "completion_tokens": usage[1],
                "total_tokens": sum(usage),
            },
        },
    )


def anthropic_ok(
    text: str = "hello from claude", *, stop: str = "end_turn", usage: tuple[int, int] = (10, 5)
) -> httpx2.Response:
    return httpx2.Response(
        200,
        headers={"request-id": "req_anthropic_ok"},
        json={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": CLAUDE,
            "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": usage[0], "output_tokens": usage[1]},
        },
    )


def openai_error(
    status: int, message: str = "An error.", *, code: str | None = None, type: str | None = None, **headers: str
) -> httpx2.Response:
    named = {"x-request-id": "req_openai"} | {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": type, "param": None, "code": code}
    return httpx2.Response(status, headers=named, json={"error": error})


def anthropic_error(status: int, type: str, message: str = "An error.", **headers: str) -> httpx2.Response:
    named = {"request-id": "req_anthropic"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, headers=named, json={"type": "error", "error": {"type": type, "message": message}})


def out_of_quota(**headers: str) -> httpx2.Response:
    """OpenAI's answer when the money is spent."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return openai_error(429, message, code="insufficient_quota", type="insufficient_quota", **headers)


def rate_limited(**headers: str) -> httpx2.Response:
    """OpenAI's answer when there are too many requests."""
    return openai_error(429, "Rate limit reached for requests.", code="rate_limit_exceeded", type="requests", **headers)


def sse(*chunks: str) -> httpx2.Response:
    """Return an event stream of these `data:` payloads."""
    body = "".join(f"data: {chunk}\n\n" for chunk in chunks)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())


def openai_chunk(text: str | None = None, *, finish: str | None = None, usage: tuple[int, int] | None = None) -> str:
    """Return one chunk of OpenAI's chat completions as JSON."""
    delta = {} if text is None else {"content": text}
    chunk: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": GPT}
    chunk["choices"] = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish}]
    if usage:
        chunk["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return json.dumps(chunk)


def is_logged(line: str) -> bool:
    """Tell whether *line* is a warning or an error as structlog writes it unconfigured."""
    return re.match(r"\S+ \S+ \[(warning|error) ", line) is not None
