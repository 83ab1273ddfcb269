"""Runs one scenario: the coordinator under drill, the calls at their seconds, and what came of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from reliable_llm.drill import phrases
from reliable_llm.drill.asking import Conversations
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.compare import Findings, compare, expanded
from reliable_llm.drill.load import suggestion
from reliable_llm.drill.loop import NothingLeftError, run
from reliable_llm.drill.operations import Outcome, Performer
from reliable_llm.drill.scenario import Call, Scenario
from reliable_llm.drill.setup import Blueprint, blueprint, from_settings, hook_error, key_names, kind_of
from reliable_llm.drill.timeline import Moment, Timeline
from reliable_llm.drill.vendors import faults
from reliable_llm.drill.vendors.observed import Observed, current_call
from reliable_llm.drill.vendors.wire import Vendors
from reliable_llm.errors import ConfigurationError

if TYPE_CHECKING:
    from reliable_llm.chat import FailoverChat
    from reliable_llm.config import Settings

Json = dict[str, object]
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a scenario was, what was observed, and whether that is what it expects.

    `compared` is False where the set-up was the user's own: the scenario's figures are no measure of it.
    `keys` is what reports call each key, by its label.
    """

    scenario: Scenario
    compared: bool = True
    unsupported: Sequence[str] = ()
    mismatches: Sequence[str] = ()
    unchecked: Sequence[str] = ()
    observed: Json = field(default_factory=dict)
    moments: Sequence[Moment] = ()
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not (self.unsupported or self.mismatches or self.unchecked)

    @property
    def verdict(self) -> str:
        """One word: holds, fails or unsupported; `ran` where there was nothing to hold against."""
        if self.unsupported:
            return "unsupported"
        return "fails" if not self.passed else "holds" if self.compared else "ran"

    def as_json(self) -> Json:
        head: Json = {"id": self.scenario.id, "passed": self.passed, "unsupported": list(self.unsupported)}
        if self.unchecked:
            head["unchecked"] = list(self.unchecked)
        return head | {"mismatches": list(self.mismatches), "observed": self.observed}


def held(reports: Sequence[Report]) -> str:
    """Return the word for reports that passed: `ran` where there was nothing to hold against."""
    return "hold" if all(report.compared for report in reports) else "ran"


def run_scenario(
    scenario: Scenario,
    *,
    seed: int = 0,
    settings: Settings | None = None,
    tell: Callable[[Moment], None] | None = None,
) -> Report:
    """Run *scenario* in virtual time and compare. *settings* is the user's own set-up, used in its place."""
    unsupported = list(_not_understood(scenario))
    if unsupported:
        return Report(scenario=scenario, unsupported=unsupported)
    try:
        plan = from_settings(scenario, settings) if settings else None
    except ValueError as exc:
        return Report(scenario=scenario, unsupported=[f"--config: {exc}"])
    drill = _Drill(scenario, plan, seed, tell, key_names(scenario.setup, settings))
    drill.run()
    return drill.report()


def _not_understood(scenario: Scenario) -> list[str]:
    found = [f"{each}{suggestion(each.split(':')[0].rsplit('.', 1)[-1])}" for each in scenario.unsupported()]
    for check in (_check_vendors, _check_calls, _check_setup):
        try:
            check(scenario)
        except ConfigurationError:
            continue  # that the product refuses a set-up is for the scenario to expect
        except (ValueError, TypeError) as exc:
            found.append(str(exc))
    return found


def _check_vendors(scenario: Scenario) -> None:
    Vendors(scenario.upstream)
    for act in scenario.acts():
        if act.raises:
            faults.named(act.raises)


def _check_calls(scenario: Scenario) -> None:
    for call in scenario.calls:
        phrases.check(call)
        for text in (call.hook or {}).values():
            hook_error(text)
        for name in call.failover_on:
            kind_of(name)


def _check_setup(scenario: Scenario) -> None:
    blueprint(scenario.setup)


@dataclass(frozen=True, slots=True)
class _Step:
    call: Call
    name: str


class _Drill:
    def __init__(
        self,
        scenario: Scenario,
        plan: Blueprint | None,
        seed: int,
        tell: Callable[[Moment], None] | None,
        keys: Mapping[str, str],
    ) -> None:
        self._scenario = scenario
        self._timeline = Timeline(tell)
        self._observed = Observed(self._timeline.arrival)
        self._vendors = Vendors(scenario.upstream, self._observed)
        self._slept: dict[str, float] = {}
        self._clock = DrillClock(seed=seed, slept=self._note_sleep)
        self._plan = plan
        self._keys = keys
        self._chats: dict[str | None, FailoverChat] = {}
        self._hooks: dict[str, dict[str, BaseException]] = {}
        for call in scenario.calls:
            for hook, text in (call.hook or {}).items():
                self._hooks.setdefault(hook, {}).update({name: hook_error(text) for name in expanded(call.id)})
        self._talk = Conversations()
        self._performer = Performer(
            self._chat,
            self._talk,
            self._clock,
            self._own_errors,
            scenario.setup.policy.deadline_s,
            self._keys,
            self._timeline.add,
        )
        self._results: dict[str, Json] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._done = {name: asyncio.Event() for call in scenario.calls for name in expanded(call.id)}

    def _note_sleep(self, seconds: float) -> None:
        call = current_call.get() or ""
        self._slept[call] = self._slept.get(call, 0.0) + seconds
        self._timeline.add("slept", call, {"seconds": round(seconds, _DIGITS)})

    def _own_errors(self) -> list[BaseException]:
        return [*self._observed.injected, *(error for errors in self._hooks.values() for error in errors.values())]

    def _chat(self, name: str | None) -> FailoverChat:
        """Return the coordinator of that name, built when first used."""
        if name not in self._chats:
            plan = self._plan or blueprint(self._scenario.setup)
            self._chats[name] = plan.build(self._vendors, self._clock, self._timeline.event, self._hooks)
        return self._chats[name]

    # ---------------------------------------------------------------- the calls

    def run(self) -> None:
        """Make all calls; those that name an event loop of their own get one, one after another."""
        now = 0.0
        groups = [list(calls) for _, calls in groupby(self._scenario.calls, key=lambda call: call.loop)]
        for calls in groups:
            try:
                now = run(self._run_calls(calls, last=calls is groups[-1]), start=now)
            except NothingLeftError as exc:
                self._timeline.add("failed", None, {"kind": "hung", "message": str(exc)}, at=now)

    async def _run_calls(self, calls: Sequence[Call], *, last: bool) -> float:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        for call in sorted(calls, key=lambda call: call.t):
            await _until(call.t)
            steps = [_Step(call, name) for name in expanded(call.id)]
            rows = [steps] if call.sequential else [[step] for step in steps]
            tasks += [asyncio.create_task(self._row(row)) for row in rows]
        await asyncio.gather(*tasks)
        for chat in self._chats.values() if last else ():
            await chat.aclose()
        return loop.time()

    async def _row(self, steps: Sequence[_Step]) -> None:
        for step in steps:
            await self._step(step)

    async def _step(self, step: _Step) -> None:
        current_call.set(step.name)
        if step.call.history:
            for earlier in phrases.history(step.call.history).calls:
                if earlier in self._done:
                    await self._done[earlier].wait()
        self._timeline.add("asked", step.name, {"op": step.call.op})
        task = asyncio.create_task(self._performer.perform(step.call, step.name))
        timer = self._cancel_later(step.call, task)
        outcome = await task
        if timer is not None:
            timer.cancel()
        self._finish(step.name, outcome)

    def _cancel_later(self, call: Call, task: asyncio.Task[Outcome]) -> asyncio.TimerHandle | None:
        if not isinstance(call.cancel_at, int | float):
            return None
        loop = asyncio.get_running_loop()
        at = loop.time() + call.cancel_at if call.sequential or call.cancel_at <= call.t else call.cancel_at

        def cancel() -> None:
            task.cancel()
            if call.cancel_twice:
                loop.call_soon(task.cancel)

        return loop.call_at(at, cancel)

    def _finish(self, name: str, outcome: Outcome) -> None:
        at = round(asyncio.get_running_loop().time(), _DIGITS)
        outcome.figures["at"] = at
        self._results[name] = {"call": name, outcome.what: outcome.figures}
        self._outcomes[name] = outcome
        self._done[name].set()
        what = "answered" if outcome.what == "ok" else "failed"
        self._timeline.add(what, name, outcome.figures)

    # ---------------------------------------------------------------- the figures

    def report(self) -> Report:
        seen = self._figures()
        events = self._timeline.events(self._keys)
        findings = Findings() if self._plan else compare(self._scenario.expect, seen, events)
        findings.mismatches += [f"the caller's {name} changed" for name in self._talk.changed()]
        findings.mismatches += dict.fromkeys(self._observed.unscripted)
        findings.mismatches += [f"{a.where}: request {a.number} was never closed" for a in self._observed.open()]
        return Report(
            scenario=self._scenario,
            compared=self._plan is None,
            mismatches=findings.mismatches,
            unchecked=findings.unchecked,
            observed=seen,
            moments=self._timeline.moments,
            keys=self._keys,
        )

    def _figures(self) -> Json:
        names = [name for call in self._scenario.calls for name in expanded(call.id)]
        hung: Json = {"kind": "hung", "attempts": 0}
        return {
            "results": [self._results.get(name, {"call": name, "raises": hung}) for name in names],
            "requests": self._observed.requests(),
            "waited_s": {name: round(self._waited(name), _DIGITS) for name in names},
            "order": self._observed.order(),
        }

    def _waited(self, name: str) -> float:
        """Sleeps between attempts, and attempts that ended in a timeout; not the one that the application cut off."""
        outcome = self._outcomes.get(name)
        waits = [a for a in self._observed.arrivals if a.call == name and a.waited]
        if outcome is not None and outcome.cut_off and waits and waits[-1].ended == outcome.figures["at"]:
            waits.pop()
        return self._slept.get(name, 0.0) + sum(arrival.waited for arrival in waits)


async def _until(at: float) -> None:
    now = asyncio.get_running_loop().time()
    if at > now:
        await asyncio.sleep(at - now)
