"""What an adapter is: one vendor, one request, no policy.

An adapter translates a `ChatRequest` into its vendor's terms (`prepare`), makes exactly one HTTP request with the key
it is given (`complete`, `stream`), and translates the answer and every failure. It raises `ReliableLLMError` and
nothing else, except what is not its business: cancellation, `BaseException`, and the caller's own errors. It does not
retry, choose, wait or log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from reliable_llm.clock import Clock, SystemClock
from reliable_llm.credentials import Credential
from reliable_llm.policy import Timeouts
from reliable_llm.types import AdapterReply, Candidate, ChatRequest, FinishReason, StreamEvent

if TYPE_CHECKING:
    import httpx2

    from reliable_llm.core.classify import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """What an adapter is built from.

    `vendor` decides how failures are read (`openai`, `azure`, `groq`, ...). `http_client` is the user's own
    `httpx2.AsyncClient`: used as it is, and never closed by us. Without one, the adapter keeps a pool of at most
    `pool_limit` connections per event loop, shared by all keys. `rules` are the user's own, tried before the built-in.
    `clients` are vendors' clients that the user built, one per key, or functions that build them: those bring their own
    address and credentials.
    """

    vendor: str
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    http_client: httpx2.AsyncClient | None = field(default=None, repr=False)
    transport: Literal["httpx2", "aiohttp"] = "httpx2"
    pool_limit: int = 1000
    rules: tuple[Rule, ...] = ()
    clients: tuple[object, ...] = field(default=(), repr=False)
    clock: Clock = field(default_factory=SystemClock, repr=False)


class Target(NamedTuple):
    """Where a request goes: the candidate as the chain names it, and the vendor's own model id."""

    candidate: Candidate
    model_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request in the vendor's terms: built once per candidate, sent on every retry and with every key.

    `dropped` names request fields that this vendor has no word for. `answer_tool` names the tool that stands in for a
    structured answer: its input is the answer. `content` is `body` as JSON, where the adapter sends bytes.
    `prompted_tools` tells that tools are described in the prompt, and calls have to be read from the answer.
    """

    target: Target
    body: Mapping[str, object]
    stream: bool = False
    dropped: tuple[str, ...] = ()
    headers: Mapping[str, str] | None = None
    request: ChatRequest | None = None
    answer_tool: str | None = None
    content: bytes | None = None
    prompted_tools: bool = False

    def __repr__(self) -> str:
        return f"Prepared({self.target.candidate})"

    def takes_silence(self, finish: FinishReason) -> bool:
        """Tell whether an answer without a word is one: the caller allows it, and nothing has cut it short."""
        return finish is FinishReason.STOP and self.request is not None and self.request.allow_empty


class AdapterStream(Protocol):
    """One open stream: iterate it for events; `headers`, `request_id` and `model` are the answer's own.

    Yields `Alive` for pings and empty chunks, and ends after `Finished`. A stream that ends without the vendor's
    terminal event raises `StreamInterruptedError` or, where no output came before, `ConnectionFailedError`.
    `reply()` is what has come so far, complete or not.
    """

    headers: Mapping[str, str]
    request_id: str | None
    model: str | None

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    def reply(self) -> AdapterReply: ...


class Adapter(Protocol):
    """One vendor's client."""

    vendor: str

    def prepare(
        self, request: ChatRequest, target: Target, *, stream: bool = False, without: frozenset[str] = frozenset()
    ) -> Prepared:
        """Translate *request*; *without* names features to do without (they are emulated or left out).

        Raises `InvalidRequestError` for what no vendor could take, `UnsupportedFeatureError` for what this one cannot.
        """

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        """Send once and return the answer. A 200 that is no answer is raised as what it is."""

    def stream(
        self, prepared: Prepared, key: Credential, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[AdapterStream]:
        """Send once; entering returns when the server has accepted. Leaving closes the response, shielded, in 1 s."""

    async def warmup(self) -> None:
        """Import the vendor's SDK off the event loop and build its client."""

    async def aclose(self) -> None:
        """Close the connection pool. The adapter may be used again afterwards."""
