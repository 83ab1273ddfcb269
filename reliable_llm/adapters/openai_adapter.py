"""What the adapters of OpenAI's two APIs have in common: all but the request and the answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from reliable_llm.adapters.base import AdapterSettings, AdapterStream, Prepared, Target
from reliable_llm.adapters.decoding import decode
from reliable_llm.adapters.openai_client import OpenAIClient
from reliable_llm.adapters.openai_stream import Assembly, OpenAIStream
from reliable_llm.credentials import Credential
from reliable_llm.policy import Timeouts
from reliable_llm.types import AdapterReply, ChatRequest


class OpenAIAdapter(ABC):
    """One endpoint of *path*."""

    def __init__(self, settings: AdapterSettings, path: str) -> None:
        self.vendor = settings.vendor
        self._client = OpenAIClient(settings, path)

    @abstractmethod
    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; see `adapters.base.Adapter.prepare`."""

    @abstractmethod
    def _read(self, body: object, headers: Mapping[str, str], prepared: Prepared) -> AdapterReply:
        """Return the answer in a decoded *body*."""

    @abstractmethod
    def _assembly(self, prepared: Prepared) -> Assembly:
        """Return what puts a stream's chunks together."""

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        """Send once and return the answer."""
        response = await self._client.send(prepared, key, timeouts)
        try:
            body = decode(response.content)
        except ValueError as exc:
            raise self._client.refusal(response.text, response.status_code, response.headers) from exc
        return self._read(body, response.headers, prepared)

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        """Send once; entering returns when the server has accepted."""
        return OpenAIStream(self._client, prepared, key, timeouts, self._assembly(prepared))

    async def warmup(self) -> None:
        """Import the SDK off the event loop and build the client."""
        await self._client.pool.client()

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        await self._client.pool.aclose()
