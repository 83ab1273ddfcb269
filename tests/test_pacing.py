"""Calls are paced by the limits of each key, in virtual time; a vendor that counts every minute is the judge."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import Any

import pytest

from reliable_llm import FailoverChat, events
from reliable_llm.adapters.base import Prepared
from reliable_llm.credentials import Credential
from reliable_llm.drill import loop
from reliable_llm.drill.clock import DrillClock
from reliable_llm.errors import (
    ConfigurationError,
    DeadlineExceededError,
    Kind,
    QueueFullError,
    RateLimitedError,
    ReliableLLMError,
)
from reliable_llm.policy import Limits, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.types import AdapterReply, Usage
from tests.support import ScriptedAdapter, answer, fails, failure, provider


class Counting(ScriptedAdapter):
    """A vendor that allows each key `per_minute` requests in any minute, and `tokens` tokens; takes `seconds` each.

    `fixed` counts by the minute of the clock instead. With `says`, every answer has OpenAI's rate-limit headers.
    """

    def __init__(
        self,
        per_minute: float = 60,
        *,
        seconds: float = 0.5,
        tokens: float = 1e12,
        uses: int = 10,
        fixed: bool = False,
        says: bool = False,
    ) -> None:
        super().__init__()
        self.per_minute, self.seconds, self.tokens, self.uses = per_minute, seconds, tokens, uses
        self.fixed, self.says = fixed, says
        self.seen: dict[str, deque[float]] = defaultdict(deque)
        self.served: list[float] = []
        self.refused: list[float] = []
        self.under_way: dict[str, int] = defaultdict(int)
        self.most: dict[str, int] = defaultdict(int)

    async def complete(self, prepared: Prepared, key: Credential, timeouts: Timeouts) -> AdapterReply:
        self._note(prepared, key)
        now = asyncio.get_running_loop().time()
        seen = self.seen[key.label]
        start = now // 60 * 60 if self.fixed else now - 60
        while seen and (seen[0] < start if self.fixed else seen[0] <= start):
            seen.popleft()
        if len(seen) >= self.per_minute or (len(seen) + 1) * self.uses > self.tokens:
            self.refused.append(now)
            raise failure(Kind.RATE_LIMITED, retry_after=1.0)
        seen.append(now)
        self.under_way[key.label] += 1
        self.most[key.label] = max(self.most[key.label], self.under_way[key.label])
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way[key.label] -= 1
        self.served.append(now)
        return answer("hello", Usage(input_tokens=self.uses - 1, output_tokens=1), headers=self._headers(seen, now))

    def _headers(self, seen: deque[float], now: float) -> dict[str, str]:
        if not self.says:
            return {}
        return {
            "x-ratelimit-limit-requests": f"{self.per_minute:g}",
            "x-ratelimit-remaining-requests": f"{self.per_minute - len(seen):g}",
            "x-ratelimit-reset-requests": f"{seen[0] + 60 - now:.3f}s" if seen else "0s",
        }


def chat_of(*providers: Provider, **fields: Any) -> FailoverChat:
    return FailoverChat(list(providers), clock=DrillClock(), **fields)


async def callers(chat: FailoverChat, count: int, until: float) -> None:
    """Let *count* callers ask again and again until a virtual time."""
    now = asyncio.get_running_loop().time

    async def caller() -> None:
        while now() < until:
            await chat("hi")

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(caller())


# ---------------------------------------------------------------- the limits are kept, and used


@pytest.mark.parametrize("fixed", [False, True])
def test_200_callers_get_all_that_three_limited_keys_allow_and_no_429(fixed: bool) -> None:
    vendor = Counting(60, fixed=fixed)
    chat = chat_of(provider("main", vendor, keys=3, limits=Limits(requests_per_minute=60)))

    loop.run(callers(chat, 200, until=600))

    in_time = [at for at in vendor.served if 60 <= at < 600]
    assert vendor.refused == []
    assert len(in_time) >= 0.95 * 3 * 60 * 9


def test_limits_learned_from_headers_leave_no_429_after_the_first_minute() -> None:
    vendor = Counting(60, says=True)
    chat = chat_of(provider("main", vendor, keys=3, limits=Limits()))

    loop.run(callers(chat, 200, until=600))

    assert [at for at in vendor.refused if at >= 60] == []
    assert len([at for at in vendor.served if 120 <= at < 600]) >= 0.95 * 3 * 60 * 8


class SpentForToday(Counting):
    """Every answer says that it was the last one for two hours."""

    def _headers(self, seen: deque[float], now: float) -> dict[str, str]:
        return {
            "x-ratelimit-limit-requests": "200",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "2h",
        }


def test_nobody_queues_for_a_limit_that_resets_in_hours() -> None:
    chat = chat_of(provider("main", SpentForToday(), limits=Limits()))

    async def two() -> float:
        await chat("hi")
        with pytest.raises(RateLimitedError) as caught:
            await chat("hi")
        assert caught.value.retry_after == pytest.approx(7_200.0)
        return asyncio.get_running_loop().time()

    assert loop.run(two()) < 1.0


def test_a_key_with_nothing_left_for_hours_is_told_of() -> None:
    heard: list[events.Event] = []
    chat = chat_of(provider("main", SpentForToday(), limits=Limits()), listeners=[lambda event, _: heard.append(event)])
    loop.run(chat("hi"))
    assert [event.seconds for event in heard if isinstance(event, events.CooldownStarted)] == [7_200.0]


def test_a_batch_is_spread_over_the_providers_that_limit_it() -> None:
    shared = [Counting(60), Counting(60)]
    chat = chat_of(
        *(provider(name, each, limits=Limits(requests_per_minute=60)) for name, each in zip("ab", shared, strict=True))
    )

    async def batch() -> float:
        await asyncio.gather(*(chat("hi") for _ in range(240)))
        return asyncio.get_running_loop().time()

    assert loop.run(batch()) < 240 * 0.6
    assert not any(each.refused for each in shared)


def test_tokens_are_reserved_and_corrected_by_the_usage() -> None:
    vendor = Counting(1e9, tokens=6_000, uses=100)
    chat = chat_of(provider("main", vendor, limits=Limits(tokens_per_minute=6_000)))

    loop.run(callers(chat, 50, until=600))

    assert [at for at in vendor.refused if at >= 60] == []
    assert len([at for at in vendor.served if 60 <= at < 600]) >= 0.95 * 60 * 9


def test_no_key_has_more_attempts_under_way_than_allowed() -> None:
    vendor = Counting(1e9)
    chat = chat_of(provider("main", vendor, keys=2, limits=Limits(max_concurrency=3)))

    loop.run(callers(chat, 40, until=20))

    assert vendor.most == {"main#1": 3, "main#2": 3}
    assert len(vendor.served) >= 2 * 3 * 20 / 0.5


# ---------------------------------------------------------------- capacity elsewhere comes first


def test_a_call_takes_another_key_before_it_waits() -> None:
    vendor = Counting(1, seconds=0)
    chat = chat_of(provider("main", vendor, keys=2, limits=Limits(requests_per_minute=1)))

    async def two() -> float:
        await chat("hi")
        await chat("hi")
        return asyncio.get_running_loop().time()

    assert loop.run(two()) == 0.0
    assert vendor.keys == ["main#1", "main#2"]


def test_a_call_takes_another_candidate_before_it_waits() -> None:
    vendor, other = Counting(1, seconds=0), ScriptedAdapter("from the other")
    chat = chat_of(provider("main", vendor, limits=Limits(requests_per_minute=1)), provider("other", other))

    async def two() -> str:
        await chat("hi")
        return (await chat("hi")).text

    assert loop.run(two()) == "from the other"


def test_a_call_waits_for_its_turn_rather_than_for_a_rate_limited_candidate() -> None:
    vendor, other = Counting(60, seconds=0), ScriptedAdapter(fails(Kind.RATE_LIMITED, retry_after=20.0))
    chat = chat_of(provider("main", vendor, limits=Limits(requests_per_minute=60)), provider("other", other))

    async def eleven() -> tuple[str, float]:
        replies = [await chat("hi") for _ in range(11)]
        return str(replies[-1].served_by), asyncio.get_running_loop().time()

    served_by, took = loop.run(eleven())

    assert served_by == "main/m1"
    assert took == pytest.approx(1.0, abs=0.2)


async def test_what_keeps_a_candidate_besides_its_pace_is_no_reason_to_queue() -> None:
    """A candidate that was isolated has room, and nobody waits for it."""
    chat = chat_of(provider("main", Counting(60), limits=Limits(requests_per_minute=60)))
    chat.isolate("main", seconds=1_000.0)

    with pytest.raises(ReliableLLMError) as caught:
        await chat("hi")

    assert caught.value.attempts == ()


# ---------------------------------------------------------------- the queue


def test_those_who_wait_are_served_in_order() -> None:
    vendor = Counting(6, seconds=0)
    chat = chat_of(provider("main", vendor, limits=Limits(requests_per_minute=6)))
    served: list[int] = []

    async def caller(number: int) -> None:
        await asyncio.sleep(number / 1000)
        await chat("hi")
        served.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(caller(number) for number in range(12)))

    loop.run(all_of_them())

    assert served == list(range(12))


def test_a_higher_priority_goes_first() -> None:
    vendor = Counting(6, seconds=0)
    chat = chat_of(provider("main", vendor, limits=Limits(requests_per_minute=6)))
    served: list[str] = []

    async def caller(name: str, after: float, priority: int) -> None:
        await asyncio.sleep(after)
        await chat("hi", priority=priority)
        served.append(name)

    async def all_of_them() -> None:
        await asyncio.gather(
            caller("first", 0, 0), caller("low", 0.1, -1), caller("normal", 0.2, 0), caller("high", 0.3, 5)
        )

    loop.run(all_of_them())

    assert served == ["first", "high", "normal", "low"]


def test_a_full_queue_is_a_typed_error_that_says_when_to_come_back() -> None:
    chat = chat_of(provider("main", Counting(1), limits=Limits(requests_per_minute=1, queue=1)))

    async def three() -> BaseException:
        await chat("hi")
        waiting = asyncio.create_task(chat("hi"))
        await asyncio.sleep(1)
        with pytest.raises(QueueFullError) as caught:
            await chat("hi")
        waiting.cancel()
        return caught.value

    error = loop.run(three())

    assert isinstance(error, QueueFullError)
    assert error.retry_after == pytest.approx(59, abs=2)


def test_the_wait_for_a_turn_is_inside_the_deadline() -> None:
    vendor = Counting(1e9, seconds=30)
    chat = chat_of(provider("main", vendor, limits=Limits(max_concurrency=1)))

    async def two() -> float:
        first = asyncio.create_task(chat("hi"))
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceededError):
            await chat("hi", deadline=5)
        at = asyncio.get_running_loop().time()
        await first
        return at

    assert loop.run(two()) == pytest.approx(5)
    assert len(vendor.sent) == 1


def test_a_turn_that_cannot_come_in_time_is_not_waited_for() -> None:
    chat = chat_of(provider("main", Counting(1, seconds=0), limits=Limits(requests_per_minute=1)))

    async def two() -> float:
        await chat("hi")
        with pytest.raises(DeadlineExceededError):
            await chat("hi", deadline=5)
        return asyncio.get_running_loop().time()

    assert loop.run(two()) == 0.0


def test_who_is_cancelled_while_waiting_holds_nobody_up() -> None:
    vendor = Counting(1e9, seconds=1)
    chat = chat_of(provider("main", vendor, limits=Limits(max_concurrency=1)))

    async def story() -> float:
        first = asyncio.create_task(chat("hi"))
        await asyncio.sleep(0)
        gone = asyncio.create_task(chat("hi"))
        last = asyncio.create_task(chat("hi"))
        await asyncio.sleep(0.5)
        gone.cancel()
        await asyncio.gather(first, last)
        return asyncio.get_running_loop().time()

    assert loop.run(story()) == pytest.approx(2.0)


def test_a_failed_attempt_gives_its_place_back() -> None:
    adapter = ScriptedAdapter(fails(Kind.SERVER_ERROR), "hello")
    chat = chat_of(provider("main", adapter, limits=Limits(max_concurrency=1)))

    assert loop.run(chat("hi")).text == "hello"


def test_the_wait_in_the_queue_is_in_the_attempt() -> None:
    chat = chat_of(provider("main", Counting(1, seconds=0), limits=Limits(requests_per_minute=1)))

    async def two() -> float:
        await chat("hi")
        return (await chat("hi")).attempts[0].waited

    assert loop.run(two()) == pytest.approx(60.6)


def test_limits_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="limits of provider 'main'"):
        Provider.openai(name="main", models=["m1"], keys=["k"], limits={"requests_per_minute": 3})  # type: ignore[arg-type]
