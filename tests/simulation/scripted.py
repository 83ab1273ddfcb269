"""A vendor as an adapter of its own: cheap, and able to do what no SDK would let through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NoReturn

import anyio

from reliable_llm.adapters.base import AdapterStream, Prepared, Target
from reliable_llm.credentials import Credential
from reliable_llm.drill.vendors.observed import current_call
from reliable_llm.errors import (
    ConnectionFailedError,
    EmptyResponseError,
    Kind,
    ReliableLLMError,
    StreamInterruptedError,
    default_verdict,
    error_from_verdict,
)
from reliable_llm.policy import Timeouts
from reliable_llm.provider import Provider
from reliable_llm.types import (
    AdapterReply,
    Alive,
    ChatRequest,
    Finished,
    FinishReason,
    StreamEvent,
    Text,
    TextDelta,
    Usage,
)
from tests.simulation.watch import Request, Watch
from tests.simulation.world import KEY, PROMPT, Deed, Site

FOREVER = 1e9
USAGE = Usage(input_tokens=3, output_tokens=2)


class VendorsBug(Exception):  # noqa: N818 - what a bug raises is named by nobody
    """Not an error of ours: it passes through as it is."""


def provider(site: Site, watch: Watch) -> Provider:
    return Provider.of(
        ScriptedVendor(site, watch),
        models=site.models,
        name=site.name,
        keys=[f"{KEY}-{site.name}-{n}" for n in range(site.keys)],
        timeouts=watch.world.timeouts,
        max_concurrency=site.max_concurrency,
        limits=site.limits,
    )


class ScriptedVendor:
    def __init__(self, site: Site, watch: Watch) -> None:
        self.vendor = site.protocol
        self._site = site
        self._watch = watch

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        return Prepared(target=target, body={}, stream=stream, request=request)

    def _arrived(self, prepared: Prepared, key: Credential) -> Request:
        call = current_call.get() or ""
        return self._watch.arrived(call, self._site.name, key.label, prepared.target.candidate.model)

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        request = self._arrived(prepared, key)
        gave_up = True
        try:
            await _silence(request.deed.delay)
            reply = await self._answer(request, prepared)
            gave_up, request.result = False, "answered"
            return reply
        except ReliableLLMError as error:
            gave_up, request.result = False, str(error.kind)
            raise
        finally:
            self._watch.left(request, gave_up=gave_up)

    async def _answer(self, request: Request, prepared: Prepared) -> AdapterReply:
        deed = request.deed
        if deed.what in ("hangs", "stalls"):
            await asyncio.sleep(FOREVER)
        if deed.what == "breaks":
            raise ConnectionFailedError
        if deed.what == "ends":
            raise EmptyResponseError
        if deed.what != "answers":
            _fail(deed)
        structured = prepared.request is not None and prepared.request.output is not None
        text = request.said
        if structured:
            text = "no JSON at all" if deed.bad_json else json.dumps({"who": request.said})
        return AdapterReply(parts=(Text(text),), finish_reason=FinishReason.STOP, usage=USAGE)

    @asynccontextmanager
    async def stream(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AsyncIterator[AdapterStream]:
        request = self._arrived(prepared, key)
        gave_up = True
        try:
            await _silence(request.deed.delay)
            if request.deed.what == "hangs":
                await asyncio.sleep(FOREVER)
            if request.deed.what in ("fails", "raises"):
                _fail(request.deed)
            stream = ScriptedStream(request)
            yield stream
            gave_up = not stream.over
        except ReliableLLMError as error:
            gave_up, request.result = False, str(error.kind)
            raise
        finally:
            if gave_up and not request.told:
                self._watch.book.release(request)
            try:
                await self._close()
            finally:
                self._watch.left(request, gave_up=gave_up)

    async def _close(self) -> None:
        if self._site.slow_to_close:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self._site.slow_to_close)

    async def warmup(self) -> None:
        """Nothing to import."""

    async def aclose(self) -> None:
        """Nothing to close."""


class ScriptedStream:
    headers: Mapping[str, str] = {}
    request_id: str | None = None
    model: str | None = None

    def __init__(self, request: Request) -> None:
        self._request = request
        self._text = ""
        self.over = False

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        deed = self._request.deed
        yield Alive()
        whole = deed.what == "answers"
        for piece in pieces(self._request.said, deed.chunks, whole=whole):
            await _silence(deed.gap)
            self._text += piece
            yield TextDelta(piece)
        if deed.what == "stalls":
            await asyncio.sleep(FOREVER)
        if not whole:
            self.over = True
            if deed.what == "ends" and self._text:
                return
            raise StreamInterruptedError if self._text else ConnectionFailedError
        self.over, self._request.result = True, "answered"
        yield Finished(FinishReason.STOP, USAGE)

    def reply(self) -> AdapterReply:
        return AdapterReply(parts=(Text(self._text),), finish_reason=FinishReason.STOP, usage=USAGE)


def pieces(text: str, count: int, *, whole: bool) -> list[str]:
    """Return *text* in about *count* pieces; not *whole*, only as many as *count* says and never the last."""
    size = max(1, len(text) // (count + 1))
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    return cut if whole else cut[: min(count, len(cut) - 1)]


async def _silence(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)


def _fail(deed: Deed) -> NoReturn:
    if deed.what == "raises":
        raise VendorsBug
    raise failure(deed) from RuntimeError(f"you wrote {PROMPT!r} with {KEY}-1, said the vendor")


def failure(deed: Deed) -> ReliableLLMError:
    verdict = default_verdict(deed.kind or Kind.SERVER_ERROR)
    verdict = replace(verdict, retry_after=deed.hint)
    if deed.rotate is not None:
        verdict = replace(verdict, rotate_key=deed.rotate)
    if deed.scope is not None:
        verdict = replace(verdict, scope=deed.scope)
    return error_from_verdict(verdict, "")
