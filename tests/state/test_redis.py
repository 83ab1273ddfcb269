"""Two coordinators of one fleet and a real Valkey server: what one learns, the other need not."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from reliable_llm import FailoverChat
from reliable_llm.errors import ConfigurationError, Kind
from reliable_llm.events import QuotaProbe, StoreBack, StoreUnavailable
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.state.redis import RedisHealth
from tests.state.conftest import Server
from tests.support import Listening, ScriptedAdapter, answer, fails, provider

AT_ONCE = RetryPolicy(max_retries=0, wait_for_cooldown=False)


class Worker:
    """One process of the fleet, with two keys at `main` and a fallback. `adapter` is what `main` does."""

    def __init__(self, url: str, *script: Any, keys: int = 2, quota: float = 300.0, **store: Any) -> None:
        self.adapter = ScriptedAdapter(*script)
        self.fallback = ScriptedAdapter("from the fallback")
        self.heard = Listening()
        store.setdefault("claim_timeout", 2.0)
        self.chat = FailoverChat(
            [provider("main", self.adapter, keys=keys), provider("other", self.fallback)],
            health=RedisHealth(url, **store),
            retry=AT_ONCE,
            recovery=RecoveryPolicy(quota=quota),
            listeners=[self.heard],
        )

    def key(self, number: int = 1) -> Any:
        return self.chat.status().providers[0].keys[number - 1]

    def state(self, number: int = 1) -> str:
        return str(self.key(number).health.state)


async def until(holds: Callable[[], object], seconds: float = 15.0) -> None:
    """Wait for *holds*; the test ends where it never does."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in a server
            await asyncio.sleep(0.01)


@pytest.fixture
async def fleet(valkey_server: Server) -> AsyncIterator[Callable[..., Any]]:
    async with contextlib.AsyncExitStack() as stack:

        async def join(*script: Any, url: str | None = None, **settings: Any) -> Worker:
            worker = Worker(url or valkey_server.url, *script, **settings)
            stack.push_async_callback(worker.chat.aclose)
            await worker.chat.warmup()
            return worker

        yield join


@pytest.fixture
async def store(valkey_server: Server) -> AsyncIterator[Redis]:
    client = Redis.from_url(valkey_server.url)
    yield client
    await client.aclose()


# ---------------------------------------------------------------- what is shared


async def test_a_key_that_one_worker_finds_spent_rests_in_the_other(fleet: Any) -> None:
    finder, other = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello"), await fleet()

    await finder.chat("hi")

    await until(lambda: other.state() == "resting")
    assert other.key().health.reason is Kind.QUOTA_EXHAUSTED
    assert other.key().health.seconds_left == pytest.approx(300, abs=20)


async def test_a_worker_that_starts_later_learns_of_it_before_its_first_call(fleet: Any) -> None:
    finder = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello")
    await finder.chat("hi")
    await finder.chat.aclose()

    late = await fleet()

    assert late.state() == "resting"


async def test_a_refused_key_is_out_for_a_day_at_the_others(fleet: Any) -> None:
    finder, other = await fleet(fails(Kind.AUTHENTICATION), "hello"), await fleet()

    await finder.chat("hi")

    await until(lambda: other.state() == "resting")
    assert finder.state() == "out"
    assert other.key().health.seconds_left == pytest.approx(86_400, abs=20)


async def test_a_rate_limit_is_shared_for_its_model(fleet: Any) -> None:
    finder, other = await fleet(fails(Kind.RATE_LIMITED, retry_after=60.0), "hello"), await fleet()

    await finder.chat("hi")

    await until(lambda: other.key().models)
    assert other.state() == "ready"
    assert other.key().models[0][1].reason is Kind.RATE_LIMITED


async def test_a_missing_model_is_shared(fleet: Any) -> None:
    finder, other = await fleet(fails(Kind.MODEL_NOT_FOUND)), await fleet()

    await finder.chat("hi")

    await until(lambda: other.chat.status().providers[0].models[0][1].state == "resting")
    assert (await other.chat("hi")).text == "from the fallback"
    assert other.adapter.sent == []


async def test_a_recovery_is_shared(fleet: Any) -> None:
    prober = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello", keys=1, quota=1.0)
    other = await fleet(keys=1)
    await prober.chat("hi")
    await until(lambda: other.state() == "resting")
    await until(lambda: prober.state() == "ready")

    await prober.chat("hi")

    await until(lambda: other.key().health.reason is None)


async def test_reset_is_shared(fleet: Any) -> None:
    finder, other = await fleet(fails(Kind.AUTHENTICATION), "hello"), await fleet()
    await finder.chat("hi")
    await until(lambda: other.state() == "resting")

    other.chat.reset()

    await until(lambda: finder.state() == "ready")


async def test_what_an_operator_isolates_stays_local(fleet: Any) -> None:
    one, other = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello"), await fleet()
    one.chat.isolate("main", model="m1")

    await one.chat("hi", route=["other/m1"])
    one.chat.reset("other")
    await asyncio.sleep(0.1)

    assert other.chat.status().providers[0].models[0][1].state == "ready"


# ---------------------------------------------------------------- one probe in the fleet


async def test_while_one_worker_probes_the_other_goes_to_the_fallback(fleet: Any) -> None:
    answering, may_answer = asyncio.Event(), asyncio.Event()

    async def slowly() -> Any:
        answering.set()
        await may_answer.wait()
        return answer("recovered")

    prober = await fleet(fails(Kind.QUOTA_EXHAUSTED), slowly, keys=1, quota=1.0)
    other = await fleet("never asked", keys=1)
    await prober.chat("hi")
    await until(lambda: other.state() == "resting")
    await until(lambda: prober.state() == "ready" and other.state() == "ready")
    probe = asyncio.create_task(prober.chat("hi"))
    await answering.wait()

    reply = await other.chat("hi")

    assert reply.text == "from the fallback"
    assert other.adapter.sent == []
    assert other.heard.of(QuotaProbe) == []
    may_answer.set()
    await probe


async def test_a_cancelled_probe_is_the_next_workers(fleet: Any) -> None:
    begun = asyncio.Event()

    async def for_ever() -> Any:
        begun.set()
        await asyncio.Event().wait()

    prober = await fleet(fails(Kind.QUOTA_EXHAUSTED), for_ever, keys=1, quota=1.0)
    other = await fleet("recovered", keys=1)
    await prober.chat("hi")
    await until(lambda: other.state() == "resting")
    await until(lambda: prober.state() == "ready" and other.state() == "ready")
    probe = asyncio.create_task(prober.chat("hi"))
    await begun.wait()
    probe.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await probe

    async with asyncio.timeout(15):
        while (await other.chat("hi")).text != "recovered":  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_the_outcome_of_a_probe_is_heard_even_without_news(fleet: Any, store: Redis) -> None:
    """A worker whose news got lost asks for the right to probe, and is told that somebody has probed in vain."""
    prober = await fleet(fails(Kind.QUOTA_EXHAUSTED), keys=1, quota=1.0)
    await store.acl_setuser("deaf", enabled=True, nopass=True, keys=["*"], commands=["+@all"], reset_channels=True)
    await prober.chat("hi")
    await _until_stored(store)
    deaf = await fleet("never asked", keys=1, url=_as_user("deaf", store), sync=3600.0)
    assert deaf.state() == "resting"
    await until(lambda: prober.state() == "ready" and deaf.state() == "ready")
    await prober.chat("hi")

    await deaf.chat("hi")

    assert deaf.adapter.sent == []


def _as_user(name: str, store: Redis) -> str:
    port = store.connection_pool.connection_kwargs["port"]
    return f"redis://{name}:any@127.0.0.1:{port}/0"


# ---------------------------------------------------------------- when the store fails


async def test_without_a_server_calls_go_on_with_one_warning(fleet: Any, valkey_server: Server) -> None:
    valkey_server.kill()
    worker = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello")

    replies = [await worker.chat("hi") for _ in range(20)]

    assert {reply.text for reply in replies} == {"hello"}
    assert len(worker.heard.of(StoreUnavailable)) == 1


async def test_a_store_that_comes_back_empty_is_told_again(fleet: Any, valkey_server: Server, store: Redis) -> None:
    worker = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello")
    await worker.chat("hi")
    valkey_server.kill()
    await until(lambda: worker.heard.of(StoreUnavailable))
    valkey_server.start()
    await until(lambda: worker.heard.of(StoreBack))

    late = await fleet()

    assert late.state() == "resting"


async def test_a_flushed_store_is_told_again(fleet: Any, store: Redis) -> None:
    worker = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello", sync=0.1)
    await worker.chat("hi")
    await _until_stored(store)

    await store.flushall()

    await _until_stored(store)


async def _until_stored(store: Redis) -> None:
    async with asyncio.timeout(15):
        while not await store.keys("*:g:k:*"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_probe_waits_for_a_frozen_store_no_longer_than_allowed(fleet: Any, valkey_server: Server) -> None:
    worker = await fleet(fails(Kind.QUOTA_EXHAUSTED), "recovered", keys=1, quota=0.5, claim_timeout=0.05)
    await worker.chat("hi")
    await until(lambda: worker.state() == "ready")
    valkey_server.signal(signal.SIGSTOP)
    try:
        reply = await worker.chat("hi")
    finally:
        valkey_server.signal(signal.SIGCONT)

    assert reply.text == "recovered"


async def test_a_full_store_still_carries_the_news(fleet: Any, store: Redis) -> None:
    finder, other = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello"), await fleet()
    await store.config_set("maxmemory", "1")

    await finder.chat("hi")

    await until(lambda: other.state() == "resting")
    assert len(finder.heard.of(StoreUnavailable)) == 1


async def test_closing_tells_what_is_untold(fleet: Any) -> None:
    finder = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello")
    await finder.chat("hi")
    await finder.chat.aclose()

    assert (await fleet()).state() == "resting"


async def test_closing_leaves_no_task_behind(fleet: Any) -> None:
    before = asyncio.all_tasks()
    worker = await fleet()

    await worker.chat.aclose()

    assert asyncio.all_tasks() == before


# ---------------------------------------------------------------- what is in the store


async def test_no_part_of_a_key_is_in_the_store(fleet: Any, store: Redis) -> None:
    worker = await fleet(fails(Kind.QUOTA_EXHAUSTED), fails(Kind.AUTHENTICATION))
    await worker.chat("hi")
    await _until_stored(store)

    held = b"".join([key + (await store.get(key) or b"") for key in await store.keys("*")])

    assert b"sk-" not in held
    assert b"main" not in held


async def test_everything_in_the_store_expires(fleet: Any, store: Redis) -> None:
    worker = await fleet(fails(Kind.QUOTA_EXHAUSTED), fails(Kind.AUTHENTICATION), round_robin=True)
    await worker.chat("hi")
    await _until_stored(store)

    lasting = {key: await store.ttl(key) for key in await store.keys("*")}

    assert lasting
    assert all(0 < seconds <= 90_001 for seconds in lasting.values())


async def test_workers_that_start_together_start_on_different_keys(fleet: Any) -> None:
    workers = [await fleet(keys=3, round_robin=True) for _ in range(3)]

    for worker in workers:
        await worker.chat("hi")

    assert {worker.adapter.keys[0] for worker in workers} == {"main#1", "main#2", "main#3"}


# ---------------------------------------------------------------- what a stranger may write


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 300,
        b'{"at":1e999,"until":1e999}',
        b'{"at":' + b"9" * 280 + b"}",
        b'{"at":99999999999,"until":999999999999,"kind":"quota_exhausted"}',
        b'{"at":1,"until":-5,"kind":"quota_exhausted"}',
        b'{"at":1,"until":[],"kind":"no such kind"}',
        b'{"at":1700000000,"until":9999999999,"kind":"configuration"}',
        b"x" * 100_000,
    ],
)
async def test_what_is_no_record_is_ignored(fleet: Any, store: Redis, value: bytes) -> None:
    finder = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello")
    await finder.chat("hi")
    await _until_stored(store)
    [name] = await store.keys("*:g:k:*")
    await finder.chat.aclose()
    await store.set(name, value)
    victim = await fleet()

    await store.publish("reliable_llm:news", name.split(b":g:")[1] + b" " + value)
    await store.publish("reliable_llm:news", value)

    assert (await victim.chat("hi")).text == "hello"
    assert victim.state() == "ready"


async def test_a_value_of_another_type_is_replaced(fleet: Any, store: Redis) -> None:
    finder = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello", sync=0.1)
    await finder.chat("hi")
    await _until_stored(store)
    [name] = await store.keys("*:g:k:*")

    await store.delete(name)
    await store.lpush(name, "not", "a", "record")

    async with asyncio.timeout(15):
        while await store.type(name) != b"string":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_rest_without_an_end_ends_within_a_day(fleet: Any, store: Redis) -> None:
    finder = await fleet(fails(Kind.QUOTA_EXHAUSTED), "hello")
    await finder.chat("hi")
    await _until_stored(store)
    [name] = await store.keys("*:g:k:*")
    await finder.chat.aclose()
    now = (await store.time())[0]
    await store.set(name, b'{"at":%d,"until":1e300,"kind":"authentication","status":401}' % now)

    victim = await fleet()

    assert 0 < victim.key().health.seconds_left <= 86_400


async def test_a_name_that_nobody_knows_parks_nobody(fleet: Any, store: Redis) -> None:
    victim = await fleet()
    now = (await store.time())[0]
    record = b'{"at":%d,"until":%d,"kind":"quota_exhausted"}' % (now, now + 1000)

    for name in (b"*", b"k:*", b"k:" + b"0" * 32, b"", b"\xff"):
        await store.publish("reliable_llm:news", name + b" " + record)
    await asyncio.sleep(0.1)

    assert [victim.state(1), victim.state(2)] == ["ready", "ready"]


# ---------------------------------------------------------------- set-up


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://localhost", "redis//nowhere"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="redis"):
        RedisHealth(url)


def test_the_password_is_not_shown() -> None:
    assert "hush" not in repr(RedisHealth("redis://user:hush@localhost:1/0"))
