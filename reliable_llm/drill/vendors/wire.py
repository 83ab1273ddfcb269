"""The transport that a drill puts under a vendor's SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx2

from reliable_llm.drill.clock import EPOCH
from reliable_llm.drill.scenario import Act, Upstream
from reliable_llm.drill.vendors import faults
from reliable_llm.drill.vendors.anthropic_messages import AnthropicMessages, thinking_block
from reliable_llm.drill.vendors.conditions import Condition, condition
from reliable_llm.drill.vendors.dates import dated
from reliable_llm.drill.vendors.observed import Arrival, Observed, current_call
from reliable_llm.drill.vendors.openai_chat import OpenAIChat
from reliable_llm.drill.vendors.openai_responses import OpenAIResponses
from reliable_llm.drill.vendors.script import UNSCRIPTED, Scripts
from reliable_llm.drill.vendors.shapes import Incoming, Json, Voice, thought
from reliable_llm.drill.vendors.stream import Piece, pieces

_FOREVER: Final = 10 * 365 * 86_400.0
_JSON: Final = {"content-type": "application/json"}
_SSE: Final = {"content-type": "text/event-stream; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One vendor's address book: how keys and models are called in the script, and what the vendor itself refuses.

    `own` is the same in the words of the set-up under drill, where they are not the script's: reports use them.
    """

    name: str
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    models: Mapping[str, str] = field(default_factory=dict)
    rejects: Sequence[str] = ()
    pool_limit: int | None = None
    own: Site | None = None

    def place(self, secret: str, model: str) -> tuple[str, str, str]:
        """Return provider, key and model as they are called here."""
        return self.name, self.keys.get(secret, secret or "none"), self.models.get(model, model)


class Vendors:
    """All simulated vendors of one drill."""

    def __init__(self, upstream: Iterable[Upstream], observed: Observed | None = None) -> None:
        self.observed = observed or Observed()
        self._scripts = Scripts()
        self._conditions: dict[str, Condition] = {}
        self._issued: dict[str, list[Json]] = {}
        for entry in reversed(list(upstream)):
            self.add(entry)

    def add(self, entry: Upstream) -> None:
        """Add a script, before those that are there. Raises `ValueError` for a condition that nobody understands."""
        self._conditions |= {act.reject_if: condition(act.reject_if) for act in entry.script if act.reject_if}
        self._scripts.add(entry)

    def transport(self, site: Site) -> VendorTransport:
        """Return the way to one vendor, for `httpx2.AsyncClient(transport=...)`."""
        return VendorTransport(self, site)

    def issued_by(self, provider: str) -> list[Json]:
        return self._issued.setdefault(provider, [])

    def act_for(self, arrival: Arrival, request: Incoming, site: Site) -> Act:
        """Take the next act of the script, or the refusal that the request deserves."""
        act = self._scripts.next(arrival.provider, arrival.key, arrival.model)
        if act is None:
            self.observed.unscripted.append(f"{arrival.where}: {self._scripts.why_none(*arrival.names)}")
            return UNSCRIPTED
        if refused := [name for name in site.rejects if name in request.body]:
            return _refusal(400, f"Unsupported parameter: {refused[0]}", "unsupported_parameter", refused[0])
        found: Condition | None = self._conditions.get(act.reject_if or "")
        return _refusal(found.status, found.message) if found and found.holds(request) else act


def _refusal(status: int, message: str, code: str | None = None, param: str | None = None) -> Act:
    error: dict[str, object] = {"type": "invalid_request_error", "message": message}
    extra = {name: value for name, value in (("code", code), ("param", param)) if value}
    return Act(act="error", status=status, error=error | extra)


class VendorTransport(httpx2.AsyncBaseTransport):
    """Receives the SDK's requests and answers as the script says. Nothing leaves the process."""

    def __init__(self, vendors: Vendors, site: Site) -> None:
        self._vendors = vendors
        self._site = site
        self._pool = _Pool(site.pool_limit)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        patience = request.extensions.get("timeout", {})
        content = await request.aread()
        await self._pool.acquire(patience.get("pool"))
        try:
            return await self._exchange(request, content, patience)
        except BaseException:
            self._pool.release()
            raise

    async def _exchange(self, request: httpx2.Request, content: bytes, patience: Json) -> httpx2.Response:
        body = _decoded(content)
        arrival = self._arrival(request, body)
        exchange = _Exchange(self._vendors.observed, arrival, patience)
        incoming = Incoming(
            number=arrival.number,
            path=request.url.path,
            model=str(body.get("model", "")),
            body=body,
            issued=tuple(self._vendors.issued_by(self._site.name)),
            headers=request.headers,
        )
        act = self._vendors.act_for(arrival, incoming, self._site)
        arrival.act = act.act
        with exchange.closing_on_error():
            return await self._reply(act, incoming, exchange)

    def _arrival(self, request: httpx2.Request, body: Json) -> Arrival:
        secret = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get(
            "x-api-key", ""
        )
        model, now = str(body.get("model", "")), asyncio.get_running_loop().time()
        provider, key, called = self._site.place(secret, model)
        arrival = Arrival(
            number=len(self._vendors.observed.arrivals) + 1,
            at=now,
            silent_since=now,
            provider=provider,
            key=key,
            model=called,
            where="/".join((self._site.own or self._site).place(secret, model)),
            call=current_call.get(),
            streamed=bool(body.get("stream")),
            body=body,
        )
        self._vendors.observed.arrived(arrival)
        return arrival

    async def _reply(self, act: Act, request: Incoming, exchange: _Exchange) -> httpx2.Response:
        await exchange.before_headers(act)
        voice = _voice(request, act.model_reported or request.model)
        if act.act in {"ok", "ok_tool", "ok_json", "stream", "stream_tool"} and (said := thought(act)):
            self._vendors.issued_by(self._site.name).append(thinking_block(*said))
        now = EPOCH + asyncio.get_running_loop().time()
        status, headers, parts = _spoken(act.model_copy(update={"headers": dated(act.headers, now)}), voice, request)
        exchange.arrival.status = status
        end = act.end if act.act in {"stream", "stream_tool"} else _END_OF_PHASE.get(act.act, "done")
        return httpx2.Response(status, headers=headers, stream=_Body(parts, end, exchange, self._pool))


# An act that breaks after the headers is a body that begins and does not end.
_BEFORE: Final = {None, "connect", "headers", "before_headers", "first_byte"}
_END_OF_PHASE: Final = {"hang": "stall", "reset": "reset"}


def _voice(request: Incoming, model: str) -> Voice:
    if request.path.endswith("/messages"):
        return AnthropicMessages(request, model)
    return OpenAIResponses(request, model) if request.path.endswith("/responses") else OpenAIChat(request, model)


def _spoken(act: Act, voice: Voice, request: Incoming) -> tuple[int, dict[str, str], Iterator[Piece]]:
    if act.act == "raw":
        headers = {"content-type": act.content_type or "application/json"} | act.headers
        return act.status or 200, headers, iter([Piece(_bytes(act.body).ljust(act.body_chars or 0, b"x"))])
    if act.act == "error":
        return act.status or 500, _JSON | act.headers, iter([Piece(_bytes(voice.error(act)))])
    if act.act in _END_OF_PHASE and not request.streamed:
        return 200, _JSON | act.headers, iter([Piece(b'{"id": ')])
    if act.act in _END_OF_PHASE:
        broken = act.model_copy(update={"act": "stream", "end": _END_OF_PHASE[act.act]})
        return 200, _SSE | act.headers, pieces(broken, voice, request)
    if request.streamed:
        return 200, _SSE | act.headers, pieces(act, voice, request)
    return 200, _JSON | act.headers, iter([Piece(_bytes(voice.answer(_joined(act))), act.gap_s * len(act.chunks))])


def _joined(act: Act) -> Act:
    """Return what a streamed act says when nobody asked for a stream."""
    if act.act == "stream_tool":
        call = {"id": act.id or "call_1", "name": act.name, "args": "".join(act.arg_deltas)}
        return act.model_copy(update={"act": "ok_tool", "text": "".join(act.chunks) or None, "calls": [call]})
    return act.model_copy(update={"text": "".join(act.chunks)}) if act.act == "stream" else act


def _bytes(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()


def _decoded(content: bytes) -> Json:
    try:
        body = json.loads(content or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


class _Exchange:
    """One request under way: waits as long as the client is patient, and notes how it ended."""

    def __init__(self, observed: Observed, arrival: Arrival, patience: Json) -> None:
        self._observed = observed
        self.arrival = arrival
        self._patience = patience

    def end(self, outcome: str) -> None:
        self._observed.ended(self.arrival, asyncio.get_running_loop().time(), outcome)

    @contextmanager
    def closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit, httpx2.TimeoutException):
            self.end("gave up")
            raise
        except BaseException as exc:
            self.end(type(exc).__name__)
            raise

    async def silence(self, seconds: float, phase: str = "read") -> None:
        """Say nothing for *seconds*; the client's own timeout may come first."""
        limit = self._patience.get(phase)
        if isinstance(limit, int | float) and limit < seconds:
            await asyncio.sleep(limit)
            raise faults.silence(phase)
        if seconds:
            await asyncio.sleep(seconds)
            self.arrival.silent_since = asyncio.get_running_loop().time()

    async def before_headers(self, act: Act) -> None:
        await self.silence(act.delay_s)
        if act.raises:
            error = faults.named(act.raises)
            self._observed.injected.append(error)
            raise error
        if act.act == "refuse":
            raise faults.refused()
        if act.act == "reset" and act.phase in _BEFORE:
            raise faults.reset(after_headers=False)
        if act.act == "hang" and act.phase in _BEFORE:
            await self.silence(_FOREVER, "connect" if act.phase == "connect" else "read")


class _Body(httpx2.AsyncByteStream):
    def __init__(self, parts: Iterator[Piece], end: str, exchange: _Exchange, pool: _Pool) -> None:
        self._parts = parts
        self._end = end
        self._exchange = exchange
        self._pool = pool
        self._held = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._exchange.closing_on_error():
            for piece in self._parts:
                await self._exchange.silence(piece.after)
                if piece.data:
                    yield piece.data
            await self._broken_end()
        self._exchange.end("answered")
        self._release()

    async def _broken_end(self) -> None:
        if self._end == "cut":
            raise faults.cut()
        if self._end == "reset":
            raise faults.reset(after_headers=True)
        if self._end == "stall":
            await self._exchange.silence(_FOREVER)

    async def aclose(self) -> None:
        self._exchange.end("closed")
        self._release()

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._pool.release()


class _Pool:
    """The connections that a client may hold open at once."""

    def __init__(self, limit: int | None) -> None:
        self._free = asyncio.Semaphore(limit) if limit else None

    async def acquire(self, patience: float | None) -> None:
        if self._free is None:
            return
        try:
            async with asyncio.timeout(patience):  # wait_for of Python 3.11 may swallow a cancellation
                await self._free.acquire()
        except TimeoutError:
            raise faults.silence("pool") from None

    def release(self) -> None:
        if self._free is not None:
            self._free.release()
