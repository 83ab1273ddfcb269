"""One timer for many attempts: each still ends at its own time, and only that."""

from __future__ import annotations

import asyncio

import pytest

from reliable_llm.drill.loop import run
from reliable_llm.time_limits import TimeLimits


async def ends_after(limits: TimeLimits, seconds: float, *, begin: float = 0.0) -> str:
    """Return when an attempt that begins then and takes *seconds* came to its end, and how."""
    await asyncio.sleep(begin)
    try:
        await limits.within(asyncio.sleep(seconds))
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
        task = asyncio.ensure_future(limits.within(asyncio.sleep(99)))
        asyncio.get_running_loop().call_at(10, task.cancel)
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else repr(task.exception())

    assert run(attempt()) == "cancelled"


def test_a_failure_of_the_attempt_passes() -> None:
    async def attempt() -> None:
        await TimeLimits(10).within(broken())

    async def broken() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        run(attempt())
