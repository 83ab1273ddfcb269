"""Two candidates at once: the next one is started beside a first one that is slow, and the first output wins.

The loser is cancelled and stands in the ledger as `cancelled`. Neither is blamed for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from reliable_llm.core.hedge import Hedges
from reliable_llm.errors import ReliableLLMError
from reliable_llm.types import Attempt, ChatReply, ChatRequest, HostedTool

if TYPE_CHECKING:
    from reliable_llm.core.failover import FailoverCall

ResultT = TypeVar("ResultT")

# A cancelled loser gets this long to close its connection before the winner is handed out.
FAREWELL: Final = 1.0


def may_hedge(request: ChatRequest) -> bool:
    """Tell whether sending *request* twice is harmless: tools that the vendor itself runs may have effects."""
    return not any(isinstance(tool, HostedTool) for tool in request.tools)


async def race(
    first: Callable[[], Awaitable[ResultT]],
    second: Callable[[], Awaitable[ResultT]],
    delay: float,
    hedges: Hedges,
    *,
    call: FailoverCall,
) -> tuple[ResultT, bool]:
    """Return the result of whichever is first to give one, and whether that was the second.

    The second starts *delay* seconds after the first, or never: where *call*, the machine of the first, is at another
    candidate by then, both would ask the same one. When one fails, the other's outcome decides; when both fail, the
    first one's error is raised. A cancellation passes to both.
    """
    tasks: list[asyncio.Task[ResultT]] = [asyncio.ensure_future(_run(first))]
    try:
        done, _ = await asyncio.wait(tasks, timeout=delay)
        if not done and call.is_at_first and hedges.allow():
            tasks.append(asyncio.ensure_future(_run(second)))
        winner = await _first_good(tasks)
        return winner.result(), winner is not tasks[0]
    finally:
        await _dismiss(tasks)


async def _run(start: Callable[[], Awaitable[ResultT]]) -> ResultT:
    return await start()


async def _first_good(tasks: Sequence[asyncio.Task[ResultT]]) -> asyncio.Task[ResultT]:
    waiting = set(tasks)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in (task for task in tasks if task in done):
            if task.cancelled() or not isinstance(task.exception(), ReliableLLMError):
                return task
    return tasks[0]


async def _dismiss(tasks: Sequence[asyncio.Task[ResultT]]) -> None:
    """Cancel who is still running and wait for them to be gone, shielded and bounded."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        with anyio.move_on_after(FAREWELL, shield=True):
            await asyncio.wait(running)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that a second failure is not reported as never retrieved


def merged(reply: ChatReply, ledgers: Sequence[Sequence[Attempt]]) -> ChatReply:
    """Return *reply* with the attempts of both calls in the order they began."""
    return replace(reply, attempts=in_order(*ledgers))


def in_order(*ledgers: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the attempts of several calls in the order they began, numbered anew."""
    attempts = sorted((attempt for ledger in ledgers for attempt in ledger), key=lambda attempt: attempt.started)
    return tuple(attempt._replace(number=number) for number, attempt in enumerate(attempts, 1))
