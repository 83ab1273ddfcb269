"""The traffic with Redis or Valkey on one event loop: one background task, and the short question of a probing call.

The task connects, subscribes, compares everything once, and then tells what is new, listens, and compares everything
again from time to time. Whatever goes wrong ends the connection: it is warned about once, and tried again after a
growing pause. No call waits for any of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

import anyio

from reliable_llm import events
from reliable_llm.clock import Clock
from reliable_llm.policy import DAY
from reliable_llm.state.base import Release, Shared, Tell
from reliable_llm.state.gates import SharedGates
from reliable_llm.state.news import News
from reliable_llm.state.records import MAX_BYTES, Record, decode, encode

# A store that takes longer than this for anything is down.
_PATIENCE: Final = 1.0
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0

# A store that comes and goes is not warned about more often than this.
_QUIET: Final = 60.0

# Gates compared in one go: a few milliseconds of work.
_CHUNK: Final = 200

# A rest is kept beyond its end, so that a process that starts then knows of the probe that is due; a recovery for as
# long as anybody may believe in the rest before it.
_PROBE_DUE: Final = 3600.0
_RECOVERY: Final = DAY + 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `RedisHealth` was given."""

    url: str = field(repr=False)
    namespace: str
    sync: float
    claim_timeout: float
    round_robin: bool


class Exchange:
    """One event loop's connection to the store. `first_sync` is set once the store has been read."""

    def __init__(
        self,
        settings: Settings,
        providers: Mapping[str, Shared],
        gates: SharedGates,
        news: News,
        clock: Clock,
        tell: Tell,
    ) -> None:
        self._settings = settings
        self._providers = providers
        self._gates = gates
        self._news = news
        self._clock = clock
        self._tell = tell
        self._client: Any = None
        self._up = False
        self._stopping = False
        self._down_since: float | None = None
        self._warned_at: float | None = None
        self._turns_taken = False
        self.first_sync = asyncio.Event()

    def stop(self) -> None:
        """Tell what is untold, then end."""
        self._stopping = True
        self._news.poke()

    # ---------------------------------------------------------------- the background task

    async def run(self) -> None:
        """Keep in touch until stopped or cancelled."""
        pause = _PAUSE
        while not self._stopping:
            try:
                await self._converse()
            except Exception as error:  # noqa: BLE001 - whatever the store does, calls go on
                self._failed(error)
            finally:
                was_up, self._up = self._up, False
                await self._disconnect()
            pause = _PAUSE if was_up else min(pause * 2, _LONGEST_PAUSE)
            if not self._stopping:
                await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))

    async def _converse(self) -> None:
        """Exchange news over one connection, until it breaks or there is no more to say."""
        self._client = _connect(self._settings.url)
        async with asyncio.TaskGroup() as group:
            heard = asyncio.Event()
            listening = group.create_task(self._listen(heard))
            async with asyncio.timeout(_PATIENCE):
                await heard.wait()
            await self._sync()
            while not self._stopping:
                await self._tell_news()
                await self._wait_for_news()
            await self._tell_news()
            listening.cancel()

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(self._settings.sync):
                await self._news.wait()
        except TimeoutError:
            await self._sync()
        if not self._up:
            await self._sync()

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with anyio.move_on_after(_PATIENCE, shield=True):
                await client.aclose()

    def _failed(self, error: Exception) -> None:
        """Warn once: by the name of what happened, for its text may hold the address with the password."""
        now = self._clock.monotonic()
        if self._down_since is None:
            self._down_since = now
            if self._warned_at is None or now - self._warned_at >= _QUIET:
                self._warned_at = now
                self._tell(events.StoreUnavailable(_reason(error)))

    def _worked(self) -> None:
        self._up = True
        since, self._down_since = self._down_since, None
        if since is not None and self._warned_at == since:
            self._tell(events.StoreBack(self._clock.monotonic() - since))

    # ---------------------------------------------------------------- listening

    async def _listen(self, heard: asyncio.Event) -> None:
        """Apply news as it comes. Where the store forbids that, the comparisons have to do."""
        from redis.exceptions import ResponseError

        async with self._client.pubsub() as channel:
            await channel.subscribe(f"{self._settings.namespace}:news")
            while True:
                try:
                    message = await channel.get_message(timeout=self._settings.sync)
                except ResponseError as error:
                    self._tell(events.StoreUnavailable(f"no news: {_reason(error)}"))
                    heard.set()
                    return
                heard.set()
                if message is not None and message["type"] == "message":
                    self._hear(message["data"])

    def _hear(self, data: object) -> None:
        if not isinstance(data, bytes) or len(data) > MAX_BYTES + 100:
            return
        name, _, raw = data.partition(b" ")
        now = self._clock.monotonic()
        record = decode(raw, now + self._gates.offset)
        if record is not None:
            self._gates.apply(name.decode("ascii", "replace"), record, now)

    # ---------------------------------------------------------------- telling

    async def _tell_news(self) -> None:
        """Write and publish what has changed, then give back the rights to probes that are over."""
        changed, over = self._news.take()
        now = self._clock.monotonic()
        changed |= {name: now for name in over if name not in changed and self._gates.is_settled(name, now)}
        try:
            untold = await self._write(changed, [name for name, until in over.items() if now < until])
        except BaseException:
            self._news.put_back(changed, over)
            raise
        self._news.changed = untold | self._news.changed

    async def _write(self, changed: Mapping[str, float], over: Sequence[str]) -> dict[str, float]:
        """Return what the store refused to take."""
        records = {name: record for name, at in changed.items() if (record := self._gates.record(name, at)) is not None}
        if not records and not over:
            return {}
        pipe = self._client.pipeline(transaction=False)
        for name, record in records.items():
            self._put(pipe, name, record)
        for name in over:
            pipe.delete(self._key("p", name))
        results = await pipe.execute(raise_on_error=False)
        refused: dict[str, float] = {}
        for (name, record), result in zip(records.items(), results[: 2 * len(records) : 2], strict=True):
            if isinstance(result, Exception):
                refused[name] = changed[name]
                self._failed(result)
            else:
                self._gates.told(name, record)
        if records and not refused:
            self._worked()
        return refused

    def _put(self, pipe: Any, name: str, record: Record, *, only_if_missing: bool = False) -> None:
        now = self._clock.monotonic() + self._gates.offset
        lasts = _RECOVERY if record.is_open else max(record.until - now, 1.0) + (_PROBE_DUE if record.probe else 0.0)
        line = encode(record)
        pipe.set(self._key("g", name), line, px=int(lasts * 1000), nx=only_if_missing)
        pipe.publish(f"{self._settings.namespace}:news", name.encode() + b" " + line)

    def _key(self, kind: str, name: str) -> str:
        return f"{self._settings.namespace}:{kind}:{name}"

    # ---------------------------------------------------------------- comparing everything

    async def _sync(self) -> None:
        """Set the common clock, read every gate the store knows, and give it back what it has lost."""
        await self._set_clock()
        names = iter(self._gates)
        while chunk := tuple(islice(names, _CHUNK)):
            await self._compare(chunk)
        if self._settings.round_robin and not self._turns_taken:
            await self._take_turns()
        self._worked()
        self.first_sync.set()

    async def _set_clock(self) -> None:
        before = self._clock.monotonic()
        seconds, microseconds = await self._client.time()
        after = self._clock.monotonic()
        self._gates.offset = seconds + microseconds / 1e6 - (before + after) / 2

    async def _compare(self, names: Sequence[str]) -> None:
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.getrange(self._key("g", name), 0, MAX_BYTES)
        found = await pipe.execute(raise_on_error=False)
        now = self._clock.monotonic()
        lost = self._client.pipeline(transaction=False)
        for name, raw in zip(names, found, strict=True):
            record = decode(raw, now + self._gates.offset)
            if record is not None:
                self._hear_later_of(name, record, now)
            elif (untold := self._gates.untold(name, now)) is not None:
                self._gates.told(name, untold)
                self._put(lost, name, untold, only_if_missing=not raw)
        if len(lost):
            await lost.execute(raise_on_error=False)

    def _hear_later_of(self, name: str, record: Record, now: float) -> None:
        """Apply *record*, unless this process has later news of its own to tell."""
        mine = self._news.changed.get(name)
        if mine is None or record.at > mine + self._gates.offset:
            self._news.changed.pop(name, None)
            self._gates.apply(name, record, now)

    async def _take_turns(self) -> None:
        """Begin after the process that began last."""
        for shared in self._providers.values():
            name = self._key("t", self._gates.name_of(shared))
            pipe = self._client.pipeline(transaction=False)
            pipe.incr(name)
            pipe.expire(name, int(DAY))
            turn, _ = await pipe.execute(raise_on_error=False)
            if isinstance(turn, int):
                shared.health.ring.start_at(turn % max(1, len(shared.keys)))
        self._turns_taken = True

    # ---------------------------------------------------------------- one probe in the fleet

    async def claim(self, names: Sequence[str], seconds: float) -> Release | None:
        """Ask for the right to probe these gates, bounded; None where another process has it, or has just used it."""
        if not self._up:
            return _nothing
        until = self._clock.monotonic() + seconds
        release = partial(self._news.release, names, until)
        try:
            async with asyncio.timeout(self._settings.claim_timeout):
                answers = await self._ask_for(names, seconds)
        except TimeoutError:
            self._up = False  # the next call must not wait again: the background task finds out
            self._news.poke()
            return _nothing
        except Exception as error:  # noqa: BLE001 - the local decision stands
            self._failed(error)
            return _nothing
        granted = [name for name, claimed in zip(names, answers[::2], strict=True) if claimed]
        refused = [name for name, claimed in zip(names, answers[::2], strict=True) if claimed is None]
        if not refused and not self._is_news(names, answers[1::2]):
            return release
        self._news.release(granted, until)
        return None

    async def _ask_for(self, names: Sequence[str], seconds: float) -> list[object]:
        """Return for every name whether the right is ours (an exception where the store cannot say), and its state."""
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.set(self._key("p", name), secrets.token_hex(4), nx=True, px=max(1, int(seconds * 1000)))
            pipe.getrange(self._key("g", name), 0, MAX_BYTES)
        answers: list[object] = await pipe.execute(raise_on_error=False)
        return answers

    def _is_news(self, names: Sequence[str], states: Sequence[object]) -> bool:
        """Tell whether the store knows of a probe that is over already, and learn what came of it."""
        now = self._clock.monotonic()
        news = False
        for name, raw in zip(names, states, strict=True):
            record = decode(raw, now + self._gates.offset)
            news |= record is not None and self._gates.apply(name, record, now, probed=True)
        return news


def _connect(url: str) -> Any:
    """Return a client that fails soon and retries nothing: that is decided here."""
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Redis.from_url(
        url,
        protocol=2,
        socket_timeout=_PATIENCE,
        socket_connect_timeout=_PATIENCE,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=15,
    )


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__


def _nothing() -> None:
    """Give back a right that nobody was asked for."""
