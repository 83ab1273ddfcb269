"""An event loop on which an hour passes at once.

When nothing is ready to run, time jumps to the next timer; nothing ever waits. The order of events depends on the
program alone, so two runs give the same result. There is no real I/O: a socket on this loop is an error.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, TypeVarTuple, Unpack

import anyio.to_thread

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Time is kept to the nanosecond: 300.0 must not become 299.99999999999994 by adding up differences.
_DIGITS: Final = 9
_GRACE_S: Final = 1.0
_TIE_S: Final = 1e-13
_MANY: Final = 10_000


class RealIOError(RuntimeError):
    """Code under a drill asked for the network."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} on a virtual-time event loop: drills have no network. "
            "Give the provider an http_client of the drill, for example reliable_llm.testing.Drill.http_client()."
        )


class NothingLeftError(RuntimeError):
    """Every task waits for something that can never come."""


class _VirtualSelector(selectors.BaseSelector):
    """Polls the loop's own wake-up socket and turns every wait into a jump."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0
        self.threads_busy: Callable[[], bool] = lambda: False

    def register(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        if self._real.get_map():
            raise RealIOError("a socket was opened")
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(0)
        if events or timeout == 0:
            return events
        if self.threads_busy():
            return self._real.select(None)
        if timeout is None:
            return self._last_call()
        self.now = round(self.now + timeout, _DIGITS)
        return events

    def _last_call(self) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(_GRACE_S)
        if not events:
            raise NothingLeftError(f"nothing is left to do at t={self.now:g} s, and a task still waits")
        return events

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._real.get_map() or {}

    def close(self) -> None:
        self._real.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An `asyncio` loop in virtual time, from *start* seconds on.

    Work for threads (`asyncio.to_thread`, `run_in_executor`) is done at once and in order, which keeps runs
    repeatable; anyio's worker threads are waited for in real time while virtual time stands still.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._virtual = _VirtualSelector()
        self._virtual.now = start
        self._ties: dict[float, int] = {}
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        # asyncio keeps timers in a heap, which forgets the order of equal ones. A part of a nanosecond, far below the
        # loop's resolution, keeps it: two calls that wait equally long go on in the order in which they began to.
        ties = self._ties.get(when, 0)
        self._ties[when] = ties + 1
        if len(self._ties) > _MANY:
            self._ties = {at: count for at, count in self._ties.items() if at > self._virtual.now}
        when += ties * _TIE_S
        return super().call_at(when, callback, *args, context=context)

    def wait_for_threads_of(self, limiter: anyio.CapacityLimiter) -> None:
        """Let virtual time stand still while *limiter* has lent out worker threads."""
        self._virtual.threads_busy = lambda: limiter.borrowed_tokens > 0

    def run_in_executor(self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as exc:  # noqa: BLE001 - it belongs to whoever awaits the future
            done.set_exception(exc)
        return done

    async def create_connection(self, *args: object, **kwargs: object) -> NoReturn:
        raise RealIOError("a connection was opened")

    async def create_server(self, *args: object, **kwargs: object) -> NoReturn:
        raise RealIOError("a server was started")

    async def create_datagram_endpoint(self, *args: object, **kwargs: object) -> NoReturn:
        raise RealIOError("a datagram socket was opened")

    async def sock_connect(self, *args: object) -> NoReturn:
        raise RealIOError("a socket was connected")

    async def getaddrinfo(self, *args: object, **kwargs: object) -> NoReturn:
        raise RealIOError("a host name was looked up")


def run(main: Coroutine[object, object, T], *, start: float = 0.0) -> T:
    """Run *main* to its end in virtual time. Raises `NothingLeftError` where it can never end."""
    loop = VirtualTimeLoop(start)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_watched(loop, main))


async def _watched(loop: VirtualTimeLoop, main: Coroutine[object, object, T]) -> T:
    loop.wait_for_threads_of(anyio.to_thread.current_default_thread_limiter())
    return await main
