"""One timer for many attempts: each still ends at its own time, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from reliable_llm.drill.loop import run
from reliable_llm.time_limits import TimeLimits


async def within(limits: TimeLimits, attempt: Awaitable[None]) -> None:
    with limits.begin():
        await attempt


async def ends_after(limits: TimeLimits, seconds: float, *, begin: float = 0.0) -> str:
    """Return when an attempt that begins then and takes *seconds* came to its end, and how."""
    await asyncio.sleep(begin)
    try:
        await within(limits, asyncio.sleep(seconds))
    except TimeoutError:
        return f"timeout at {asyncio.get_running_loop().time():g}"
    return f"answer at {asyncio.get_running_loop().time():g}"


def test_each_of_many_attempts_ends_at_its_own_time() -> None:
    async def attempts() -> list[str]:
        limits = TimeLimits(10)
        return await asyncio.gather(
            ends_after(limits, 99),
            ends_after(limits, 3, begin=1),
            ends_after(limits, 99, begin=4),
            ends_after(limits, 99, begin=4),
            ends_after(limits, 9, begin=5),
        )

    assert run(attempts()) == ["timeout at 10", "answer at 4", "timeout at 14", "timeout at 14", "answer at 14"]


def test_an_attempt_after_a_pause_is_timed_too() -> None:
    async def attempts() -> list[str]:
        limits = TimeLimits(10)
        return [await ends_after(limits, 1), await ends_after(limits, 99, begin=50), await ends_after(limits, 99)]

    assert run(attempts()) == ["answer at 1", "timeout at 61", "timeout at 71"]


def test_a_caller_who_cancels_at_the_end_of_the_time_is_cancelled() -> None:
    async def attempt() -> str:
        limits = TimeLimits(10)
        task = asyncio.ensure_future(within(limits, asyncio.sleep(99)))
        asyncio.get_running_loop().call_at(10, task.cancel)
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else repr(task.exception())

    assert run(attempt()) == "cancelled"


def test_a_failure_of_the_attempt_passes() -> None:
    async def attempt() -> None:
        await within(TimeLimits(10), broken())

    async def broken() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        run(attempt())


def test_a_time_that_is_up_leaves_no_cancellation_behind() -> None:
    async def attempts() -> int:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(TimeoutError):
            await within(TimeLimits(10), asyncio.sleep(99))
        with pytest.raises(LookupError):
            await within(TimeLimits(10), stubborn())
        return task.cancelling()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(99)
        except asyncio.CancelledError:
            raise LookupError from None

    assert run(attempts()) == 0


def test_an_attempt_on_another_event_loop_is_timed_there() -> None:
    limits = TimeLimits(10)
    assert [run(ends_after(limits, 99)) for _ in range(2)] == ["timeout at 10", "timeout at 10"]


def test_an_attempt_keeps_its_time_while_another_event_loop_runs() -> None:
    limits = TimeLimits(0.05)
    first = asyncio.new_event_loop()
    attempt = first.create_task(within(limits, asyncio.sleep(60)))
    first.run_until_complete(asyncio.sleep(0))
    run(ends_after(limits, 0.01))

    with pytest.raises(TimeoutError):
        first.run_until_complete(attempt)
    first.close()
