"""Anthropic messages on the official client, through its public generic `post()`.

`messages.create()` builds a pydantic model of every answer; `post(..., cast_to=httpx2.Response)` has the same
authentication, headers and exceptions for half the CPU. The typed `Message` is built when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reliable_llm.adapters.anthropic_blocks import VENDOR
from reliable_llm.adapters.anthropic_reply import reply_from_body
from reliable_llm.adapters.anthropic_request import prepare
from reliable_llm.adapters.anthropic_stream import AnthropicStream, Reader
from reliable_llm.adapters.base import AdapterSettings, AdapterStream, Prepared, Target
from reliable_llm.adapters.http import ClientPool, http_timeout
from reliable_llm.adapters.sdk_log import hide_keys
from reliable_llm.credentials import Credential
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import Timeouts
from reliable_llm.types import AdapterReply, ChatRequest

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic, Omit

BASE_URL: Final = "https://api.anthropic.com"
PATH: Final = "/v1/messages"


@dataclass(frozen=True, slots=True)
class Sdk:
    """The vendor's client, and what goes with a call, looked up once."""

    client: AsyncAnthropic
    url: str
    response: type[httpx2.Response]
    omit: Omit
    own: tuple[AsyncAnthropic, ...] = ()


class AnthropicAdapter:
    """One Anthropic endpoint. Keys come with each call and share the connections."""

    def __init__(self, settings: AdapterSettings) -> None:
        headers = {name.lower(): value for name, value in settings.headers.items()}
        if "x-api-key" in headers:
            raise ConfigurationError(
                "headers of an Anthropic provider must not hold X-Api-Key: give the key in keys=[...]"
            )
        self.vendor = settings.vendor
        self._settings = settings
        self._version = headers.get("anthropic-version")
        self._reader = Reader(settings)
        self._pool = ClientPool(settings, self._connect)

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; see `adapters.base.Adapter.prepare`."""
        names = (VENDOR, self.vendor)
        return prepare(request, target, stream=stream, without=without, names=names, version=self._version)

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        """Send once and return the answer."""
        response = await self._send(prepared, key, timeouts)
        request_id = response.headers.get("request-id")
        body = self._reader.answer(response)
        return reply_from_body(body, prepared, response.headers, request_id, response.status_code)

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        """Send once; entering returns when the server has accepted."""
        return self._stream(prepared, key, timeouts)

    @asynccontextmanager
    async def _stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AsyncGenerator[AdapterStream, None]:
        response = await self._send(prepared, key, timeouts, stream=True)
        stream = await self._open(response, prepared, key)
        try:
            yield stream
        finally:
            await stream.aclose()

    async def _open(self, response: httpx2.Response, prepared: Prepared, key: Credential) -> AnthropicStream:
        """Return the events of *response*, got with *key*."""
        return AnthropicStream(self._reader, response, prepared)

    async def warmup(self) -> None:
        """Import the SDK off the event loop and build the client."""
        await self._pool.client()

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        await self._pool.aclose()

    def _connect(self, http: httpx2.AsyncClient) -> Sdk:
        import httpx2
        import jiter  # noqa: F401 - the first answer is decoded on the event loop
        from anthropic import AsyncAnthropic, omit

        hide_keys()  # each call brings its own, in the options that the SDK logs
        # Key and address are always given: the SDK would look for them in the environment and in profiles on disk.
        # The key is a stand-in, replaced in the header of each call.
        try:
            client = AsyncAnthropic(
                api_key="per-call",
                base_url=self._settings.base_url or BASE_URL,
                max_retries=0,
                http_client=http,
                default_headers=dict(self._settings.headers),
            )
        except httpx2.InvalidURL as malformed:
            raise ConfigurationError("base_url of an Anthropic provider is no URL") from malformed
        # An absolute address spares the client from joining it anew for every request.
        return Sdk(client, str(client.base_url).rstrip("/") + PATH, httpx2.Response, omit)

    async def _send(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool = False
    ) -> httpx2.Response:
        sdk = self._pool.ready() or await self._pool.client()
        try:
            # Neither key nor prompt stands in a local: tracebacks may show them.
            return await sdk.client.post(
                sdk.url,
                cast_to=sdk.response,
                content=prepared.content,
                options={
                    "headers": {
                        "Authorization": f"Bearer {key.reveal()}",
                        "X-Api-Key": sdk.omit,
                        **(prepared.headers or {}),
                    },
                    "timeout": http_timeout(timeouts, stream=stream),
                },
                stream=stream,
            )
        except Exception as failure:
            raise self._reader.failure(failure) from failure
