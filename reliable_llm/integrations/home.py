"""Where a coordinator lives when both synchronous and asynchronous code use it.

A coordinator belongs to one event loop at a time and to no second thread. Its home is the loop that first awaited it,
or, where only synchronous code has asked so far, a loop in a thread of its own. Whoever comes from elsewhere is taken
there and waits; a home that has stopped is replaced by the next caller's.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

from reliable_llm.callers import CallerChat
from reliable_llm.chat import FailoverChat

T = TypeVar("T")
Start = Callable[[], Coroutine[object, object, T]]


class Home:
    """One event loop for all callers of one coordinator."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None

    async def run(self, start: Start[T]) -> T:
        """Await what *start* returns, at home. Cancellation goes along."""
        loop = asyncio.get_running_loop()
        home = self._claim(loop)
        if home is loop:
            return await start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(), home))

    def run_sync(self, start: Start[T]) -> T:
        """Wait, in synchronous code, for what *start* returns.

        Raises `RuntimeError` in the thread of the home loop itself: it would wait for itself.
        """
        home = self._claim(None)
        if _running_loop() is home:
            raise RuntimeError(
                "a synchronous call inside the event loop that would have to answer it: "
                "await the asynchronous form, or call it in a worker thread (asyncio.to_thread)"
            )
        waiting = asyncio.run_coroutine_threadsafe(start(), home)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()  # Ctrl-C leaves nothing running; a call that has ended is not touched
            raise

    def close(self) -> None:
        """Stop the thread, if there is one."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.call_soon_threadsafe(own.stop)

    def _claim(self, loop: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or not self._loop.is_running():
                self._loop = loop or self._thread()
            return self._loop

    def _thread(self) -> asyncio.AbstractEventLoop:
        """Return a loop that runs in a thread of its own; the thread does not keep the process alive."""
        loop, running = asyncio.new_event_loop(), threading.Event()
        loop.call_soon(running.set)
        threading.Thread(target=_serve, args=(loop,), name="reliable_llm", daemon=True).start()
        running.wait()
        self._own = loop
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_homes: Final[weakref.WeakKeyDictionary[FailoverChat, Home]] = weakref.WeakKeyDictionary()
_homes_lock: Final = threading.Lock()


def home_of(chat: FailoverChat) -> Home:
    """Return the one home of *chat*, whoever asks; a caller's view lives where the coordinator does."""
    owner = chat.shared if isinstance(chat, CallerChat) else chat
    with _homes_lock:
        home = _homes.get(owner)
        if home is None:
            home = _homes[owner] = Home()
            weakref.finalize(owner, home.close)
        return home
