"""Runs one world in virtual time under the eyes of the watch."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from reliable_llm import FailoverChat
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import NothingLeftError, VirtualTimeLoop, run
from reliable_llm.drill.vendors.observed import current_call
from reliable_llm.errors import ReliableLLMError
from reliable_llm.events import Event
from reliable_llm.status import Status
from reliable_llm.types import Candidate, OutputSchema, Restarted, TextDelta
from tests.simulation import scripted, wired
from tests.simulation.scripted import VendorsBug
from tests.simulation.watch import Log, ViolationError, Watch
from tests.simulation.world import PROMPT, Ask, Meddling, World

LONG_AFTER = 1e7
SCHEMA = OutputSchema(
    name="answer",
    schema={
        "type": "object",
        "properties": {"who": {"type": "string"}},
        "required": ["who"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a world: `objections` are broken rules; two runs of one world have one `digest`."""

    seed: int
    objections: tuple[tuple[str, str], ...]
    digest: str
    calls: int
    answers: int
    requests: int
    outcomes: Counter[str]
    wired: bool

    @property
    def rule(self) -> str | None:
        return self.objections[0][0] if self.objections else None


class SimulatedClock(DrillClock):
    """Tells the watch how long a sleep is meant to be."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(seed=watch.world.seed)
        self._watch = watch

    async def sleep(self, seconds: float) -> None:
        self._watch.slept(current_call.get(), seconds)
        await super().sleep(seconds)


def simulate(world: World) -> Outcome:
    """Run *world* to its end, or to the first broken rule."""
    watch = Watch(world)
    structlog.configure(processors=[_Inspector(watch)], cache_logger_on_first_use=False)
    try:
        run(_live(world, watch))
    except NothingLeftError as stuck:
        watch.objections.append(("a call that never ends", str(stuck)))
    except ViolationError:
        pass
    finally:
        structlog.reset_defaults()
    return Outcome(
        seed=world.seed,
        objections=tuple(watch.objections),
        digest=watch.digest,
        calls=watch.outcomes["calls"],
        answers=watch.answers,
        requests=watch.requests,
        outcomes=watch.outcomes,
        wired=world.wired,
    )


class _Inspector:
    """A structlog processor that looks at each line and lets none through."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __call__(self, _logger: object, _name: str, line: Mapping[str, Any]) -> Mapping[str, Any]:
        self._watch.secret("a log line", repr(line))
        raise structlog.DropEvent


async def _live(world: World, watch: Watch) -> None:
    chat = _coordinator(world, watch)
    async with chat:
        doings = [_at(ask.at, _call(chat, ask, watch)) for ask in world.asks]
        doings += [_at(each.at, _meddle(chat, each, watch)) for each in world.meddlings]
        await _together(doings)
        await _swept()
        watch.check_nothing_is_left()
        await _afterwards(chat, world, watch)
        await _swept()
        watch.check_nothing_is_left()


async def _swept() -> None:
    """Let asyncio close the generators that nobody holds any more: it does so in tasks of its own."""
    for _ in range(3):
        await asyncio.sleep(0)


async def _together(doings: list[Any]) -> None:
    """Wait for all; a broken rule that makes going on senseless ends all."""
    tasks = [asyncio.ensure_future(doing) for doing in doings]
    if tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    failed = [task.exception() for task in tasks if task.done() and task.exception()]
    for task in tasks:
        task.cancel()
    if failed:
        raise failed[0] or ViolationError


def _coordinator(world: World, watch: Watch) -> FailoverChat:
    if world.wired:
        vendors = wired.WiredVendors(watch)
        providers = [wired.provider(site, watch, vendors) for site in world.sites]
    else:
        providers = [scripted.provider(site, watch) for site in world.sites]
    chance = random.Random(f"listener {world.seed}")

    def nasty(event: Event, tags: Mapping[str, str]) -> None:
        if world.listener_fails and chance.random() < 0.2:
            raise RuntimeError("a listener's own bug")

    return FailoverChat(
        providers,
        retry=world.retry,
        recovery=world.recovery,
        budget=world.budget,
        hedge=world.hedge,
        clock=SimulatedClock(watch),
        listeners=[nasty, watch.event],
    )


async def _at(moment: float, doing: Any) -> None:
    try:
        now = asyncio.get_running_loop().time()
        if moment > now:
            await asyncio.sleep(moment - now)
    except BaseException:
        doing.close()
        raise
    await doing


# ---------------------------------------------------------------- callers


async def _call(chat: FailoverChat, ask: Ask, watch: Watch) -> None:
    current_call.set(ask.name)
    log = watch.begin(ask)
    ask_it = _stream if ask.stream else _plain
    task = asyncio.ensure_future(_begun(ask_it(chat, ask, watch, log), watch, log))
    timer = None
    if ask.cancel_after is not None:
        timer = asyncio.get_running_loop().call_later(ask.cancel_after, _cancel, task, watch, log)
    how = "answered"
    try:
        await task
    except asyncio.CancelledError:
        if log.cancelled is None:
            raise  # the run itself is being stopped
        how = "cancelled"
        watch.outcomes[how] += 1
    except ReliableLLMError as error:
        how = str(error.kind)
    except (VendorsBug, RuntimeError) as bug:
        how = type(bug).__name__
        if not any(request.deed.what == "raises" for request in log.requests):
            watch.object("an error of no known kind", f"{ask.name}: {bug!r}")
    except Exception as surprise:  # noqa: BLE001 - whatever it is, it should not have come
        how = "surprise"
        watch.object("an error of no known kind", f"{ask.name}: {surprise!r}")
    if timer is not None:
        timer.cancel()
    if log.cancelled is not None and how != "cancelled":
        watch.object("a cancellation swallowed", f"{ask.name} was cancelled and {how}")
    watch.end(log, how)


async def _begun(doing: Any, watch: Watch, log: Log) -> None:
    log.began = watch.now  # the process may have been stopped between the decision to call and the call
    await doing


def _cancel(task: asyncio.Future[None], watch: Watch, log: Log) -> None:
    if task.cancel():
        log.cancelled = watch.now
        if log.ask.cancel_twice:
            asyncio.get_running_loop().call_soon(task.cancel)


def _settings(ask: Ask) -> dict[str, Any]:
    return {
        "route": ask.route,
        "retry": ask.retry,
        "deadline": ask.deadline,
        "failover": ask.failover,
        "failover_on": ask.failover_on,
        "affinity": ask.affinity,
        "tags": {"call": ask.name},
    }


async def _plain(chat: FailoverChat, ask: Ask, watch: Watch, log: Log) -> None:
    try:
        reply = await chat(f"{PROMPT} {ask.name}", output=SCHEMA if ask.structured else None, **_settings(ask))
    except Exception as error:
        watch.failed(log, error)
        raise
    watch.answered(log, reply)


async def _stream(chat: FailoverChat, ask: Ask, watch: Watch, log: Log) -> None:
    read: list[str] = []
    try:
        stream = chat.stream(f"{PROMPT} {ask.name}", on_interrupt=ask.on_interrupt, **_settings(ask))
        async with stream:
            seen = 0
            async for event in stream:
                if isinstance(event, TextDelta):
                    read.append(event.text)
                elif isinstance(event, Restarted):
                    read.clear()
                seen += 1
                if ask.leave_after is not None and seen > ask.leave_after:
                    watch.outcomes["left early"] += 1
                    return
                if ask.dawdle:
                    await asyncio.sleep(ask.dawdle)
            reply = await stream.reply()
    except Exception as error:
        watch.failed(log, error, "".join(read))
        raise
    watch.answered(log, reply, "".join(read))


# ---------------------------------------------------------------- from outside


async def _meddle(chat: FailoverChat, meddling: Meddling, watch: Watch) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    match meddling.what:
        case "reset":
            chat.reset(meddling.provider)
            watch.book.reset(meddling.provider)
        case "isolate":
            chat.isolate(meddling.provider or "p1", seconds=meddling.seconds)
            for candidate in watch.world.route():
                if candidate.provider == meddling.provider:
                    watch.book.isolated(str(candidate), watch.now + meddling.seconds)
        case "look":
            before = chat.status()
            chat.plan(PROMPT, deadline=5, stream=True)
            if chat.status() != before:
                watch.object("looking changes something", f"{before} is now {chat.status()}")
            watch.secret("the status", f"{before} {before!r} {chat!r}")
        case "jump":
            chat._coordination.driver.clock.jump(meddling.seconds)  # type: ignore[attr-defined]
        case _:
            # The process was stopped: every timer that came due in the meantime is late.
            watch.paused.append((watch.now, watch.now + meddling.seconds))
            loop._virtual.now += meddling.seconds


async def _afterwards(chat: FailoverChat, world: World, watch: Watch) -> None:
    """Long after the storm: everybody is back, and everybody can be had."""
    await asyncio.sleep(LONG_AFTER)
    watch.check_everybody_is_back(_states(chat.status()))
    chat.reset()
    watch.book.reset(None)
    for deeds in watch.deeds.values():
        deeds.clear()
    for candidate in world.route():
        calls = max(2, 2 * (watch.limits[candidate.provider] or 0))
        asks = [Ask(name=f"late {candidate} {n}", at=0, route=(candidate,)) for n in range(calls)]
        before = watch.answers
        await _together([_call(chat, ask, watch) for ask in asks])
        if watch.answers != before + calls:
            watch.object("not everybody is back", f"{watch.answers - before} of {calls} calls to {candidate} answered")


def _states(status: Status) -> Iterator[tuple[str, str]]:
    for provider in status.providers:
        for key in provider.keys:
            yield key.label, key.health.state
            yield from ((f"{key.label} for {model}", health.state) for model, health in key.models)
        for model, health in provider.models:
            yield str(Candidate(provider.name, model)), health.state
