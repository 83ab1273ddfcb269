"""Health shared through Redis or Valkey (`pip install "reliable-llm[redis]"`).

    chat = FailoverChat([...], health=RedisHealth("rediss://user:password@host:6379/0"))

What is stored, all of it with an expiry, under `namespace`:

    g:<name>      the state of one gate (`records.py`): the latest news of it, rest or recovery
    p:<name>      the right to probe it, while a process has it
    t:<name>      whose turn it is, with `round_robin`

News is also published on the channel `<namespace>:news`. A name is a digest (`gates.py`): there is no key in the store.
Who can write to the store can make a fleet's keys rest for up to a day, or wake them too early; nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

import anyio

from reliable_llm.clock import Clock
from reliable_llm.core.memory import Permit
from reliable_llm.core.route import Stop
from reliable_llm.credentials import is_one_word
from reliable_llm.errors import ConfigurationError
from reliable_llm.events import Event
from reliable_llm.policy import check_number
from reliable_llm.state.base import Release, Shared, Tell
from reliable_llm.state.exchange import Exchange, Settings
from reliable_llm.state.gates import SharedGates
from reliable_llm.state.news import News

_SCHEMES: Final = ("redis", "rediss", "unix")

# What is untold when a coordinator closes gets this long to be told.
_LAST_WORDS: Final = 0.5
_FAREWELL: Final = 1.0


class RedisHealth:
    """A store for `FailoverChat(health=...)`. TLS (`rediss://`), user and password come with *url*.

    `sync`: seconds between two full comparisons, the safety net below the news. `claim_timeout`: how long a call that
    would probe waits for the store's word; where it is silent, the call probes. `round_robin` lets every process begin
    its turns after the last one's, so that a fleet that starts together does not start on one key.
    Raises `ConfigurationError` for an address that is none, and where redis-py is missing.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "reliable_llm",
        sync: float = 30.0,
        claim_timeout: float = 0.05,
        round_robin: bool = False,
    ) -> None:
        if urlsplit(url).scheme not in _SCHEMES:
            raise ConfigurationError(f"RedisHealth needs an address with one of {', '.join(_SCHEMES)}://")
        if not is_one_word(namespace):
            raise ConfigurationError(f"RedisHealth.namespace must be a word, got {namespace!r}")
        check_number("RedisHealth", "sync", sync, low=0.05, high=3600)
        check_number("RedisHealth", "claim_timeout", claim_timeout, low=0.001, high=5)
        if find_spec("redis") is None:
            raise ConfigurationError('RedisHealth needs redis-py: pip install "reliable-llm[redis]"')
        self._settings = Settings(
            url=url, namespace=namespace, sync=sync, claim_timeout=claim_timeout, round_robin=round_robin
        )

    def join(self, providers: Mapping[str, Shared], clock: Clock, tell: Tell) -> RedisMember:
        """Return a coordinator's part. Connects when the first call is made, or by `warmup()`."""
        return RedisMember(self._settings, providers, clock, tell)

    def __repr__(self) -> str:
        return f"RedisHealth(namespace={self._settings.namespace!r})"


class RedisMember:
    """One coordinator's part: takes note of events, and keeps one exchange running per event loop."""

    def __init__(self, settings: Settings, providers: Mapping[str, Shared], clock: Clock, tell: Tell) -> None:
        self._settings = settings
        self._providers = providers
        self._clock = clock
        self._tell = tell
        self._gates = SharedGates(providers)
        self._news = News()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        names = self._gates.touched(event)
        if names:
            self._news.add(names, self._clock.monotonic())

    def wake(self) -> None:
        """Start the exchange where it does not run; without a running loop, later."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._loop is not loop and not self._closed:
            self._loop = loop
            self._news.attach()
            self._exchange = Exchange(self._settings, self._providers, self._gates, self._news, self._clock, self._tell)
            self._task = loop.create_task(self._exchange.run(), name="reliable_llm health store")

    async def ready(self, seconds: float) -> None:
        """Wait at most *seconds* for what the store knows."""
        self.wake()
        if self._exchange is not None:
            with anyio.move_on_after(seconds):
                await self._exchange.first_sync.wait()

    async def claim(self, stop: Stop, permit: Permit, seconds: float) -> Release | None:
        """Ask for the right to this probe; None where another process has it."""
        names = self._gates.probed(stop, permit)
        if self._exchange is None or not names:
            return _nothing
        return await self._exchange.claim(names, seconds)

    def forget(self, provider: str) -> None:
        """Let everybody forget what rests at *provider*."""
        self._news.add(self._gates.resting(provider), self._clock.monotonic())

    async def aclose(self) -> None:
        """Tell what is untold, bounded, and stop."""
        self._closed = True
        task, self._task, exchange = self._task, None, self._exchange
        if task is None or exchange is None or self._loop is not asyncio.get_running_loop():
            return
        with anyio.CancelScope(shield=True):
            exchange.stop()
            await asyncio.wait({task}, timeout=_LAST_WORDS)
            task.cancel()
            await asyncio.wait({task}, timeout=_FAREWELL)


def _nothing() -> None:
    """Give back a right that nobody was asked for."""
