"""Play a recorded failure to the real SDK and translate what it raises, as an adapter would.

A recorded answer is served by `httpx2.MockTransport`: nothing leaves the machine. The SDK's own retries are off.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

import anthropic
import httpx2
import openai

from reliable_llm.adapters.failures import error_from_body, error_from_exception
from reliable_llm.core.answer import is_answer
from reliable_llm.core.unwrap import mapping
from reliable_llm.diagnosis import diagnose
from reliable_llm.errors import ReliableLLMError, Verdict

_HOST: Final = "http://replay.invalid"
_NOT_SERVED: Final = frozenset({"content-length", "content-encoding", "transfer-encoding", "connection"})
_NAMED = re.compile(r"\b(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Timeout|Exception|InvalidURL|Redirects|Protocol))\b")
_WORDS: Final = (
    ("ConnectTimeout", ("connect timeout", "connection timed out", "connecttimeout")),
    ("PoolTimeout", ("pool timeout", "connection pool is full")),
    ("ReadTimeout", ("timed out", "timeout", "time out")),
    ("ReadError", ("econnreset", "connection reset", "broken pipe", "socket hang up", "econnaborted")),
    ("RemoteProtocolError", ("disconnected", "peer closed", "incomplete chunked")),
)
_CUT: Final = ("incomplete chunked", "without sending complete", "mid-stream")
_FIRST_CHUNK: Final[Mapping[str, str]] = {
    "openai": 'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n',
    "anthropic": 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    '"delta":{"type":"text_delta","text":"Hi"}}\n\n',
}
_PATHS: Final[Mapping[str, str]] = {"openai": "/chat/completions", "anthropic": "/v1/messages"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded failure. `status` is an HTTP status, "stream" (a frame after a 200) or "transport" (no answer).

    `body` is JSON, or text: HTML, plain text, or how the transport's exception read. `wall` is the time of the
    recording in Unix seconds, 0 where it is not known.
    """

    id: str
    status: int | Literal["stream", "transport"]
    body: object = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    vendor: str = "openai"
    sdk: str = "openai"
    wall: float = 0.0


class Replay:
    """The two SDKs' clients on one mock transport. Usable as an async context manager."""

    def __init__(self) -> None:
        self._current = Recorded(id="", status=500)
        self._http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._serve), timeout=5)
        self._openai = openai.AsyncOpenAI(api_key="replay", base_url=_HOST, http_client=self._http, max_retries=0)
        self._anthropic = anthropic.AsyncAnthropic(
            api_key="replay", base_url=_HOST, http_client=self._http, max_retries=0
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._http.aclose()

    async def verdict(self, recorded: Recorded) -> Verdict | None:
        """Return what *recorded* means, or None where it is a good answer."""
        self._current = recorded
        try:
            answer, headers = await (self._stream() if recorded.status == "stream" else self._complete())
        except ReliableLLMError as exc:
            return exc.verdict
        except Exception as exc:  # noqa: BLE001 - the SDK's own complaint before any request: the caller's error
            return diagnose(exc, vendor=recorded.vendor)
        if is_answer(answer):
            return None
        status = recorded.status if isinstance(recorded.status, int) else None
        return self._body_error(answer, status, headers).verdict

    async def _complete(self) -> tuple[object, Mapping[str, str]]:
        """Make one call; return the decoded answer and its headers, or raise an error of ours."""
        recorded = self._current
        cut = recorded.status == "transport" and _says(recorded.body, _CUT)
        try:
            answer = await self._post(stream=cut)
        except Exception as exc:
            raise self._error(exc, output_started=cut) from exc
        return answer, recorded.headers

    async def _stream(self) -> tuple[object, Mapping[str, str]]:
        """Read a stream to its end; return the last event, or raise an error of ours."""
        last: object = None
        try:
            async for event in await self._events():
                last = event
        except Exception as exc:
            raise self._error(exc, output_started=_is_transport_text(self._current.body)) from exc
        return last, self._current.headers

    def _error(self, exc: Exception, *, output_started: bool) -> ReliableLLMError:
        recorded = self._current
        return error_from_exception(
            exc, vendor=recorded.vendor, sdk=recorded.sdk, wall=recorded.wall, output_started=output_started
        )

    def _body_error(self, body: object, status: int | None, headers: Mapping[str, str]) -> ReliableLLMError:
        recorded = self._current
        return error_from_body(
            body, status=status, headers=headers, vendor=recorded.vendor, sdk=recorded.sdk, wall=recorded.wall
        )

    async def _post(self, *, stream: bool) -> object:
        if stream:
            return [event async for event in await self._events()]
        body = {"model": "replay", "messages": []}
        if self._current.sdk == "anthropic":
            return await self._anthropic.post(_PATHS["anthropic"], body=body, cast_to=object)
        return await self._openai.post(_PATHS["openai"], body=body, cast_to=object)

    async def _events(self) -> AsyncIterator[object]:
        body = {"model": "replay", "messages": [], "stream": True}
        if self._current.sdk == "anthropic":
            return await self._anthropic.post(
                _PATHS["anthropic"], body=body, cast_to=object, stream=True, stream_cls=anthropic.AsyncStream[object]
            )
        return await self._openai.post(
            _PATHS["openai"], body=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
        )

    def _serve(self, request: httpx2.Request) -> httpx2.Response:
        recorded = self._current
        if recorded.status == "stream" or (recorded.status == "transport" and _says(recorded.body, _CUT)):
            return httpx2.Response(
                200, headers={"content-type": "text/event-stream"}, stream=_Frames(recorded, request)
            )
        if isinstance(recorded.status, int):
            return httpx2.Response(recorded.status, headers=_served(recorded), content=_content(recorded.body))
        raise _exception(str(recorded.body), request)


class _Frames(httpx2.AsyncByteStream):
    """A stream that yields one chunk of output, then the recorded frame, or breaks as recorded."""

    def __init__(self, recorded: Recorded, request: httpx2.Request) -> None:
        self._recorded = recorded
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        recorded = self._recorded
        yield _FIRST_CHUNK["anthropic" if recorded.sdk == "anthropic" else "openai"].encode()
        if _is_transport_text(recorded.body):
            raise _exception(str(recorded.body), self._request)
        kind = mapping(recorded.body).get("type", "error")
        event = f"event: {kind}\n" if recorded.sdk == "anthropic" or isinstance(recorded.body, str) else ""
        data = _content(recorded.body).decode().replace("\n", " ")
        yield f"{event}data: {data}\n\n".encode()


def _content(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _served(recorded: Recorded) -> dict[str, str]:
    headers = {k.lower(): v for k, v in recorded.headers.items() if k.lower() not in _NOT_SERVED}
    page = isinstance(recorded.body, str) and recorded.body.lstrip()[:1] == "<"
    plain = "text/html" if page else "text/plain" if isinstance(recorded.body, str) else "application/json"
    return {"content-type": plain, **headers}


def _says(body: object, words: tuple[str, ...]) -> bool:
    return isinstance(body, str) and any(word in body.lower() for word in words)


def _is_transport_text(body: object) -> bool:
    """Tell whether a stream broke by an exception of the transport rather than by a frame."""
    return isinstance(body, str) and (_httpx2_class(body) is not None or _says(body, _CUT))


def _httpx2_class(text: str) -> type[httpx2.TransportError] | None:
    for name in _NAMED.findall(text[:500]):
        found = getattr(httpx2, name, None)
        if isinstance(found, type) and issubclass(found, httpx2.TransportError):
            return found
    return None


def _exception(text: str, request: httpx2.Request) -> Exception:
    """Return the exception that *text* is the record of."""
    named = _httpx2_class(text)
    if named is not None:
        return named(text, request=request)
    if "JSONDecodeError:" in text[:100]:
        return json.JSONDecodeError(text.partition(":")[2].strip(), "", 0)
    if text.startswith(("ValueError:", "TypeError:")):
        return ValueError(text.partition(":")[2].strip())
    spoken = next((name for name, words in _WORDS if any(word in text.lower() for word in words)), "ConnectError")
    transport: type[httpx2.TransportError] = getattr(httpx2, spoken)
    return transport(text, request=request)
