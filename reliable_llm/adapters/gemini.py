"""Gemini on Google's official client (`google-genai`, the extra `gemini`).

The SDK makes the request: address, authentication, headers and exceptions are its own. What is sent is our body, given
as its public `extra_body`, and what comes back is read here: its stream hides pings, leaves responses open when it is
left early, and tells a cut stream from a whole one by nothing.
"""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reliable_llm.adapters.base import AdapterSettings, AdapterStream, Prepared, Target
from reliable_llm.adapters.decoding import decode
from reliable_llm.adapters.endpoint import Endpoint
from reliable_llm.adapters.gemini_format import VENDOR
from reliable_llm.adapters.gemini_reply import GeminiAssembly, read_reply
from reliable_llm.adapters.gemini_request import prepare
from reliable_llm.adapters.http import ClientPool
from reliable_llm.adapters.openai_stream import OpenAIStream
from reliable_llm.credentials import Credential
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import Timeouts
from reliable_llm.types import AdapterReply, ChatRequest

if TYPE_CHECKING:
    import httpx2
    from google.genai import Client

SDK: Final = "gemini"

# The SDK wants contents of its own; `extra_body` puts ours in their place.
_PLACE: Final = "-"

_received: ContextVar[list[httpx2.Response] | None] = ContextVar("received", default=None)


class GeminiAdapter:
    """One Gemini endpoint. Keys come with each call and share the connections."""

    def __init__(self, settings: AdapterSettings) -> None:
        self.vendor = settings.vendor
        self._client = GeminiClient(settings)

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; see `adapters.base.Adapter.prepare`."""
        return prepare(request, target, stream=stream, without=without, names=(VENDOR, self.vendor))

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        """Send once and return the answer."""
        response = await self._client.send(prepared, key, timeouts)
        try:
            body = decode(response.content)
        except ValueError as exc:
            raise self._client.refusal(response.text, response.status_code, response.headers) from exc
        if not isinstance(body, dict) or body.get("error"):
            raise self._client.refusal(body, response.status_code, response.headers)
        return read_reply(body, prepared, response.headers, self._client.request_id(response.headers))

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        """Send once; entering returns when the server has accepted. The plumbing is that of OpenAI's streams."""
        return OpenAIStream(self._client, prepared, key, timeouts, GeminiAssembly(prepared))

    async def warmup(self) -> None:
        """Import the SDK off the event loop and build the client."""
        await self._client.pool.client()

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        await self._client.pool.aclose()


# ---------------------------------------------------------------- the client


@dataclass(frozen=True, slots=True)
class _Sdk:
    """The vendor's client."""

    client: Client


class GeminiClient(Endpoint):
    """One endpoint: sends prepared requests and reads failures."""

    def __init__(self, settings: AdapterSettings) -> None:
        super().__init__(settings, SDK, ("x-goog-request-id", "x-request-id"))
        self._pool = ClientPool(settings, self._connect)
        self.errors: tuple[type[Exception], ...] = ()

    @property
    def pool(self) -> ClientPool[_Sdk]:
        return self._pool

    async def send(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool = False
    ) -> httpx2.Response:
        """Send *prepared* once and return the response of a success; raise the taxonomy's error for everything else."""
        sdk = self._pool.ready() or await self._pool.client()
        received: list[httpx2.Response] = []
        token = _received.set(received)
        try:
            await self._call(sdk, prepared, key, timeouts, stream=stream)
        except self.errors as exc:
            raise self.failure(exc) from exc
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as exc:
            if not received or received[-1].status_code == 200:
                raise  # the caller's own, such as a hook's
            # The SDK reads a failure's body as it comes, and fails itself where that is no object of JSON.
            raise self.refusal(received[-1].text, received[-1].status_code, received[-1].headers) from exc
        finally:
            _received.reset(token)
        return received[-1]

    async def _call(self, sdk: _Sdk, prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool) -> None:
        # Neither key nor prompt stands in a local: tracebacks may show them.
        models, model = sdk.client.aio.models, prepared.target.model_id
        if stream:
            chunks = await models.generate_content_stream(
                model=model, contents=_PLACE, config=_config(prepared, key, timeouts, stream=True)
            )
            async for _ in chunks:  # the response is read elsewhere: the SDK gets an empty one
                pass
        else:
            await models.generate_content(
                model=model, contents=_PLACE, config=_config(prepared, key, timeouts, stream=False)
            )

    def _connect(self, http: httpx2.AsyncClient) -> _Sdk:
        # Runs in a worker thread: importing the SDK takes seconds.
        import httpx2

        try:
            from google.genai import Client, errors
            from google.genai.types import HttpOptions
        except ImportError as missing:
            raise ConfigurationError("Gemini needs google-genai: pip install 'reliable-llm[gemini]'") from missing
        # Key and kind of API are always given: the SDK would look for them in the environment.
        client = Client(
            vertexai=False,
            api_key="per-call",
            http_options=HttpOptions(
                base_url=self._settings.base_url,
                headers=dict(self._settings.headers),
                httpx_async_client=_listening(http),
                httpx_client=httpx2.Client(transport=httpx2.MockTransport(_never)),
            ),
        )
        self.errors = (errors.APIError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConnectionError)
        return _Sdk(client)


def _never(request: httpx2.Request) -> httpx2.Response:
    raise RuntimeError("nothing is sent from here")


def _config(prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool) -> Any:
    config: dict[str, Any] = {
        "http_options": _options(prepared, key, timeouts, stream=stream),
        # One call is one request: the SDK would call functions, and ask on for more of an answer, by itself.
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
    }
    return config if stream else config | {"should_return_http_response": True}


def _options(prepared: Prepared, key: Credential, timeouts: Timeouts, *, stream: bool) -> dict[str, Any]:
    seconds = max(timeouts.first_byte, timeouts.first_token, timeouts.idle) if stream else timeouts.first_byte
    headers = {
        "x-goog-api-key": key.reveal(),
        # The SDK would tell the server the transport's timeout, which bounds silence, as if it bounded the answer.
        "X-Server-Timeout": str(math.ceil(max(timeouts.attempt, seconds))),
    }
    return {"headers": headers, "timeout": math.ceil(seconds * 1000), "extra_body": dict(prepared.body)}


def _listening(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Return a client that sends through *http* and notes the responses of the call under way."""
    import httpx2

    class Listening(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, *, stream: bool = False, **_: Any) -> httpx2.Response:
            response = await http.send(request, stream=stream, follow_redirects=False)
            received = _received.get()
            if received is None:
                return response
            received.append(response)
            if response.status_code != 200 or not stream:
                return response
            return httpx2.Response(200, headers=response.headers, request=request)

        async def request(self, method: str, url: Any, **given: Any) -> httpx2.Response:
            built = http.build_request(method, url, **given)
            return await self.send(built)

    return Listening(transport=httpx2.MockTransport(_never))
