"""Anthropic messages on clients that the user built: Bedrock, Vertex, Foundry and Anthropic's own.

Those clients rewrite the request by its path and its body (the model moves into the address) and sign what results, so
they get the plain path and the body as an object. Bedrock frames a stream in its own way; the SDK's public stream class
decodes it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final, cast

from reliable_llm.adapters.anthropic_messages import PATH, AnthropicAdapter, Sdk
from reliable_llm.adapters.anthropic_stream import AnthropicStream, Reader
from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.clients import built, failure_of_set_up, missing_extra
from reliable_llm.adapters.http import http_timeout
from reliable_llm.credentials import Credential
from reliable_llm.policy import Timeouts

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic, AsyncStream

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"

# These take the API's version in the body, and put today's there where it is not.
_VERSION_IN_BODY: Final = ("AsyncAnthropicBedrock", "AsyncAnthropicVertex")


class AnthropicClientsAdapter(AnthropicAdapter):
    """One endpoint behind one or several ready clients: a key's place tells which of them sends."""

    def _connect(self, http: httpx2.AsyncClient) -> Sdk:
        import httpx2
        from anthropic import omit

        clients = cast("tuple[AsyncAnthropic, ...]", tuple(built(self._settings.clients, http, "anthropic")))
        return Sdk(clients[0], PATH, httpx2.Response, omit, clients)

    async def _send(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool = False
    ) -> httpx2.Response:
        sdk = self._pool.ready() or await self._pool.client()
        client = sdk.own[key.index]
        try:
            return await client.post(
                PATH,
                cast_to=sdk.response,
                body=_body(client, prepared),
                options={
                    "headers": {**self._settings.headers, **(prepared.headers or {})},
                    "timeout": http_timeout(timeouts, stream=stream),
                    "max_retries": 0,
                },
                stream=stream,
            )
        except Exception as failure:
            raise failure_of_set_up(failure) or self._reader.failure(failure) from failure

    async def _open(self, response: httpx2.Response, prepared: Prepared, key: Credential) -> AnthropicStream:
        if EVENT_STREAM not in response.headers.get("content-type", ""):
            return AnthropicStream(self._reader, response, prepared)
        from anthropic import AsyncStream

        client = (await self._pool.client()).own[key.index]
        try:
            events: AsyncStream[object] = AsyncStream(cast_to=object, response=response, client=client)
        except ImportError as missing:
            raise missing_extra(missing) from missing
        return FramedStream(self._reader, response, prepared, events)


class FramedStream(AnthropicStream):
    """One open stream in frames that the SDK decodes. Pings do not come through: it keeps them to itself."""

    def __init__(
        self, reader: Reader, response: httpx2.Response, prepared: Prepared, events: AsyncStream[object]
    ) -> None:
        super().__init__(reader, response, prepared)
        self._chunks = cast("AsyncGenerator[Any, None]", aiter(events))

    async def _receive(self) -> None:
        """Take the next event; leave what it means in `_ready`, or the failure in `_failure`."""
        try:
            event = await anext(self._chunks, None)
        except Exception as broken:  # noqa: BLE001 - whatever the transport and the decoder of frames raise
            self._fail(self._reader.failure(broken))
            return
        if event is None:
            self._fail(self._cut())
            return
        try:
            self._take_event(event, "")
        except ValueError as broken:
            self._fail(self._malformed(broken))


def _body(client: AsyncAnthropic, prepared: Prepared) -> dict[str, object]:
    version = (prepared.headers or {}).get("anthropic-version")
    if version is not None and type(client).__name__ in _VERSION_IN_BODY:
        return {**prepared.body, "anthropic_version": version}
    return dict(prepared.body)
