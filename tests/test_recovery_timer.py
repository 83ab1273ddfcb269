"""The 300 s timer: no task runs it, freezegun moves it, and steps of the date do not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from freezegun import freeze_time

from reliable_llm.chat import FailoverChat
from reliable_llm.clock import SystemClock
from reliable_llm.errors import Kind
from reliable_llm.policy import RetryPolicy
from tests.support import ManualClock, ScriptedAdapter, fails, provider

NO_RETRIES = RetryPolicy(max_retries=0)


def chat_of(clock: object = None) -> FailoverChat:
    providers = [provider("a", ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED), "hello")), provider("b", ScriptedAdapter())]
    return FailoverChat(providers, retry=NO_RETRIES, clock=clock)  # type: ignore[arg-type]


async def served(chat: FailoverChat) -> str:
    return (await chat("hi")).served_by.provider


async def test_freezegun_moves_the_timer() -> None:
    with freeze_time("2026-01-01", real_asyncio=True) as time:
        chat = chat_of()
        await served(chat)
        time.tick(299)
        assert await served(chat) == "b"
        time.tick(1)
        assert await served(chat) == "a"


async def test_no_task_and_no_timer_is_left_running() -> None:
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks(loop)
    await served(chat_of())
    assert asyncio.all_tasks(loop) == before


@pytest.mark.parametrize("years", [-10, 10])
async def test_a_step_of_the_date_does_not_move_it(years: int) -> None:
    clock = ManualClock()
    clock.time = lambda: datetime(2026 + years, 1, 1, tzinfo=UTC).timestamp()  # type: ignore[method-assign]
    chat = chat_of(clock)
    await served(chat)
    clock.advance(299)
    assert await served(chat) == "b"
    clock.advance(1)
    assert await served(chat) == "a"


@pytest.mark.parametrize("late", [0, 1, 300, 86_400])
async def test_however_late_the_next_call_comes_it_probes(late: float) -> None:
    clock = ManualClock()
    chat = chat_of(clock)
    await served(chat)
    clock.advance(300 + late)
    assert (await chat("hi")).attempts[0].probe


def test_the_systems_clock_is_looked_up_at_every_call() -> None:
    with freeze_time("2026-01-01", real_asyncio=True) as time:
        clock = SystemClock()
        before = clock.monotonic(), clock.time()
        time.tick(5)
        assert (clock.monotonic() - before[0], clock.time() - before[1]) == (5, 5)


def test_chance_is_a_share() -> None:
    assert all(0 <= SystemClock().random() < 1 for _ in range(100))


async def test_the_systems_clock_sleeps() -> None:
    await SystemClock().sleep(0)
