"""Virtual time: nothing waits, nothing is real, everything is repeatable."""

from __future__ import annotations

import asyncio
import socket

import anyio
import anyio.to_thread
import pytest

from reliable_llm.drill.clock import EPOCH, DrillClock
from reliable_llm.drill.loop import NothingLeftError, RealIOError, run


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run(main()) == 3600.0


def test_time_adds_up_without_crumbs() -> None:
    async def main() -> float:
        for _ in range(10):
            await asyncio.sleep(0.1)
        await asyncio.sleep(299)
        return asyncio.get_running_loop().time()

    assert run(main()) == 300.0


def test_time_can_start_later() -> None:
    async def main() -> float:
        return asyncio.get_running_loop().time()

    assert run(main(), start=42.0) == 42.0


def test_equal_timers_fire_in_the_order_in_which_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        loop.call_later(60, fired.append, -1)
        for number in range(50):
            loop.call_at(30.0, fired.append, number)
        await asyncio.sleep(40)
        return fired

    assert run(main()) == list(range(50))


def test_timeouts_of_anyio_and_asyncio_are_in_virtual_time() -> None:
    async def main() -> float:
        with anyio.move_on_after(5):
            await anyio.sleep(100)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert run(main()) == 12.0


@pytest.mark.parametrize("in_thread", [asyncio.to_thread, anyio.to_thread.run_sync])
def test_time_stands_still_while_a_thread_works(in_thread) -> None:
    def work() -> str:
        return "done"

    async def main() -> tuple[str, float]:
        timer = asyncio.create_task(asyncio.sleep(3600))
        result = await in_thread(work)
        now = asyncio.get_running_loop().time()
        timer.cancel()
        return result, now

    assert run(main()) == ("done", 0.0)


def test_an_error_in_a_thread_reaches_who_awaits_it() -> None:
    async def main() -> None:
        await asyncio.to_thread(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        run(main())


def test_a_connection_is_refused_with_the_remedy() -> None:
    async def main() -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    with pytest.raises(RealIOError, match=r"drills have no network.*http_client"):
        run(main())


def test_a_plain_socket_is_refused_too() -> None:
    async def main() -> None:
        with socket.socket() as one:
            asyncio.get_running_loop().add_reader(one, print)

    with pytest.raises(RealIOError):
        run(main())


def test_waiting_for_nothing_is_an_error_and_no_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeftError, match="t=0 s"):
        run(main())


def test_the_clock_starts_at_a_fixed_date() -> None:
    async def main() -> float:
        await asyncio.sleep(5)
        return DrillClock().time()

    assert run(main()) == EPOCH + 5


def test_the_wall_clock_jumps_alone() -> None:
    clock = DrillClock()

    async def main() -> tuple[float, float]:
        clock.jump(-3600)
        return clock.time(), clock.monotonic()

    assert run(main()) == (EPOCH - 3600, 0.0)


def test_the_clock_tells_how_long_was_really_slept() -> None:
    slept: list[float] = []
    clock = DrillClock(slept=slept.append)

    async def main() -> None:
        await clock.sleep(2)
        with anyio.move_on_after(3):
            await clock.sleep(100)

    run(main())
    assert slept == [2.0, 3.0]


def test_one_seed_gives_one_course_of_chance() -> None:
    assert DrillClock(seed=7).random() == DrillClock(seed=7).random() != DrillClock(seed=8).random()
