"""One request to an OpenAI-compatible host on the official client, through its public generic `post()`.

`create()` transforms every message and builds a pydantic model of every answer, about 3 ms of CPU for ten messages;
`post(..., cast_to=httpx2.Response)` has the same authentication, headers and exceptions for about 0.4 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from reliable_llm.adapters.base import AdapterSettings, Prepared
from reliable_llm.adapters.clients import built, failure_of_set_up
from reliable_llm.adapters.endpoint import Endpoint
from reliable_llm.adapters.http import ClientPool, http_timeout
from reliable_llm.adapters.openai_request import to_json
from reliable_llm.credentials import Credential
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import Timeouts

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

SDK: Final = "openai"

# The client wants a key when it is built; each request brings its own in its header.
_PLACEHOLDER: Final = "set-per-request"


@dataclass(frozen=True, slots=True)
class _Sdk:
    """The vendor's client, and what goes with a call, looked up once."""

    client: AsyncOpenAI
    url: str
    response: type[httpx2.Response]
    own: tuple[AsyncOpenAI, ...] = ()


class OpenAIClient(Endpoint):
    """One endpoint: sends prepared requests and reads failures. Keys come with each call and share the connections.

    `errors` is what a request, or reading the body of its response, raises; known once the client is built.
    """

    def __init__(self, settings: AdapterSettings, path: str) -> None:
        super().__init__(settings, SDK, ("x-request-id",))
        self._path = path
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
        try:
            if sdk.own:
                return await self._send_by(sdk.own[key.index], prepared, timeouts, stream=stream)
            # Neither key nor prompt stands in a local: tracebacks may show them.
            return await sdk.client.post(
                sdk.url,
                cast_to=sdk.response,
                content=prepared.content if prepared.content is not None else to_json(prepared.body),
                options={
                    "headers": {**(prepared.headers or {}), "Authorization": f"Bearer {key.reveal()}"},
                    "timeout": http_timeout(timeouts, stream=stream),
                },
                stream=stream,
                stream_cls=None,
            )
        except self.errors as exc:
            raise self.failure(exc) from exc
        except RuntimeError as exc:
            if (sdk.own[key.index] if sdk.own else sdk.client).is_closed():
                raise ConfigurationError("the http_client of this provider is closed") from exc
            raise

    async def _send_by(
        self, client: AsyncOpenAI, prepared: Prepared, timeouts: Timeouts, *, stream: bool
    ) -> httpx2.Response:
        """Send by a client that the user built: it knows its credentials and makes the address from path and body."""
        import httpx2

        try:
            return await client.post(
                f"/{self._path}",
                cast_to=httpx2.Response,
                body=dict(prepared.body),
                options={
                    "headers": {**self._settings.headers, **(prepared.headers or {})},
                    "timeout": http_timeout(timeouts, stream=stream),
                    "max_retries": 0,
                },
                stream=stream,
                stream_cls=None,
            )
        except (ImportError, RuntimeError, ValueError) as failure:
            known = failure_of_set_up(failure)
            if known is None:
                raise
            raise known from failure

    def _connect(self, http: httpx2.AsyncClient) -> _Sdk:
        # Runs in a worker thread: importing the SDK takes most of a second.
        import httpx2
        import jiter  # noqa: F401 - the first answer is decoded on the event loop
        import openai

        self.errors = (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConnectionError)
        if self._settings.clients:
            own = cast("tuple[AsyncOpenAI, ...]", tuple(built(self._settings.clients, http, SDK)))
            return _Sdk(own[0], self._path, httpx2.Response, own)
        client = openai.AsyncOpenAI(
            api_key=_PLACEHOLDER,
            base_url=self._settings.base_url,
            max_retries=0,
            default_headers=dict(self._settings.headers),
            http_client=http,
        )
        # An absolute address spares the client from joining it anew for every request. A base without a path has no
        # slash at its end.
        url = str(client.base_url).rstrip("/") + f"/{self._path}"
        return _Sdk(client, url, httpx2.Response)
