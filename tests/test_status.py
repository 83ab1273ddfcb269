"""What the coordinator knows, as a snapshot."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from reliable_llm.chat import FailoverChat
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import run
from reliable_llm.errors import ConfigurationError, Kind
from reliable_llm.policy import Limits
from reliable_llm.status import Health
from reliable_llm.types import AdapterReply
from tests.support import STEADY, Fails, ManualClock, ScriptedAdapter, answer, fails, provider


class Site:
    def __init__(self, *script: Fails | str, keys: int = 1, models: tuple[str, ...] = ("m1",)) -> None:
        self.clock = ManualClock()
        self.first = ScriptedAdapter(*script, "hello")
        self.second = ScriptedAdapter()
        providers = [provider("a", self.first, keys=keys, models=models), provider("b", self.second)]
        self.chat = FailoverChat(providers, retry=STEADY, clock=self.clock)

    def key(self, place: int = 0) -> Health:
        return self.chat.status().providers[0].keys[place].health

    def model(self, place: int = 0) -> Health:
        return self.chat.status().providers[0].models[place][1]


def test_at_the_start_everything_is_ready() -> None:
    assert str(Site(keys=2).chat.status()).splitlines() == [
        "a (default)",
        "  key a#1: ready",
        "  key a#2: ready",
        "  model m1: ready",
        "b (default)",
        "  key b#1: ready",
        "  model m1: ready",
    ]


async def test_a_spent_key_rests_with_reason_and_time() -> None:
    site = Site(fails(Kind.QUOTA_EXHAUSTED, status=429, code="insufficient_quota"))
    await site.chat("hi")
    site.clock.advance(100)
    assert site.key() == Health(
        state="resting", seconds_left=200, reason=Kind.QUOTA_EXHAUSTED, status=429, code="insufficient_quota"
    )
    assert "key a#1: resting for 200 s (quota_exhausted)" in str(site.chat.status())


async def test_a_key_whose_time_is_up_waits_for_its_probe() -> None:
    site = Site(fails(Kind.QUOTA_EXHAUSTED))
    await site.chat("hi")
    site.clock.advance(300)
    assert site.key().state == "ready"
    assert "key a#1: will be probed by the next call (quota_exhausted)" in str(site.chat.status())


async def test_a_refused_key_is_out() -> None:
    site = Site(fails(Kind.AUTHENTICATION, status=401))
    await site.chat("hi")
    assert (site.key().state, site.key().seconds_left) == ("out", None)
    assert "key a#1: out until reset() (authentication)" in str(site.chat.status())


async def test_a_limited_key_is_told_under_its_model() -> None:
    site = Site(fails(Kind.RATE_LIMITED, retry_after=20))
    await site.chat("hi")
    assert "    for m1: resting for 20 s (rate_limited)" in str(site.chat.status()).splitlines()
    site.clock.advance(20)
    assert site.chat.status().providers[0].keys[0].models == ()


async def test_a_missing_model_is_told() -> None:
    site = Site(fails(Kind.MODEL_NOT_FOUND))
    await site.chat("hi")
    assert (site.model().state, site.model().reason) == ("resting", Kind.MODEL_NOT_FOUND)


async def test_what_a_model_lacks_is_told() -> None:
    site = Site(fails(Kind.UNSUPPORTED, feature="vision"))
    await site.chat("hi")
    assert "  model m1: ready, lacks vision" in str(site.chat.status()).splitlines()


async def test_while_a_probe_is_out_that_is_told() -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(site.key().state)
        raise RuntimeError

    site = Site(fails(Kind.QUOTA_EXHAUSTED))
    await site.chat("hi")
    site.clock.advance(300)
    site.first.script = [look]  # type: ignore[list-item]
    with pytest.raises(RuntimeError):
        await site.chat("hi")
    assert seen == ["probing"]


def test_a_snapshot_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Site().chat.status().providers = ()  # type: ignore[misc]


async def test_a_snapshot_stays_as_it_was() -> None:
    site = Site(fails(Kind.QUOTA_EXHAUSTED))
    before = site.chat.status()
    await site.chat("hi")
    assert before.providers[0].keys[0].health.state == "ready"
    assert before != site.chat.status()


async def test_reset_forgets_one_provider_or_all() -> None:
    site = Site(fails(Kind.AUTHENTICATION))
    await site.chat("hi")
    site.chat.reset("b")
    assert site.key().state == "out"
    site.chat.reset("a")
    assert site.key().state == "ready"
    assert (await site.chat("hi")).served_by.provider == "a"


async def test_an_isolated_provider_is_not_asked_until_its_time() -> None:
    site = Site()
    site.chat.isolate("a", seconds=60)
    assert (await site.chat("hi")).served_by.provider == "b"
    site.clock.advance(60)
    assert (await site.chat("hi")).served_by.provider == "a"


async def test_without_a_time_a_provider_is_isolated_until_reset() -> None:
    site = Site()
    site.chat.isolate("a")
    site.clock.advance(1e9)
    assert (await site.chat("hi")).served_by.provider == "b"
    assert site.model().state == "out"
    site.chat.reset()
    assert (await site.chat("hi")).served_by.provider == "a"


async def test_one_model_can_be_isolated() -> None:
    site = Site(models=("m1", "m2"))
    site.chat.isolate("a", model="m1")
    assert str((await site.chat("hi", model="m2")).served_by) == "a/m2"
    assert str((await site.chat("hi")).served_by) == "b/m1"


@pytest.mark.parametrize("act", ["reset", "isolate"])
def test_an_unknown_provider_is_refused_and_the_known_are_named(act: str) -> None:
    with pytest.raises(ConfigurationError, match="configured are a, b"):
        getattr(Site().chat, act)("nobody")


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="m9"):
        Site().chat.isolate("a", model="m9")


def paced(**limits: int) -> FailoverChat:
    slow = ScriptedAdapter("hello")
    return FailoverChat([provider("a", slow, limits=Limits(**limits))], retry=STEADY, clock=DrillClock())


def test_without_limits_no_queue_is_told() -> None:
    (first, _) = Site().chat.status().providers
    assert (first.waiting, first.turn_in, first.keys[0].under_way) == (None, None, None)


def test_who_waits_for_a_turn_and_how_long_is_told() -> None:
    chat = paced(requests_per_minute=6)
    seen: list[str] = []

    async def crowd() -> None:
        calls = [asyncio.ensure_future(chat(f"call {n}")) for n in range(4)]
        await asyncio.sleep(1)
        seen.extend(str(chat.status()).splitlines()[1:2])
        await asyncio.gather(*calls)
        seen.extend(str(chat.status()).splitlines()[1:2])

    run(crowd())
    assert seen == ["  queue: 3 waiting, the next turn in 9 s", "  queue: 0 waiting, the next turn in 10 s"]


def test_what_is_under_way_is_told_and_that_a_turn_hangs_on_it() -> None:
    seen: list[str] = []

    async def look() -> AdapterReply:
        seen.extend(str(chat.status()).splitlines()[1:3])
        return answer("hello")

    chat = FailoverChat(
        [provider("a", ScriptedAdapter(look), limits=Limits(max_concurrency=1))], retry=STEADY, clock=DrillClock()
    )
    run(chat("hi"))
    assert seen == ["  queue: 0 waiting, the next turn when a request ends", "  key a#1: ready, 1 under way"]
    assert "queue: 0 waiting, the next turn now" in str(chat.status())
