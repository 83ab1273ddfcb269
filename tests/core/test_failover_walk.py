"""Random walks over many calls at once that share what is known about keys and candidates.

The walk keeps its own record of who was parked, limited and probing, from what was told and what came of each attempt,
and holds every next action against it. A failing walk is repeated by its seed, which is in the test's name.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliable_llm import events
from reliable_llm.core.actions import Raise, Sleep, StartAttempt
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.failover import FailoverCall
from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.memory import TRANSIENT
from reliable_llm.core.recovery import FOREVER, Fault, Gate
from reliable_llm.core.route import Stop
from reliable_llm.errors import (
    DeadlineExceededError,
    Kind,
    ReliableLLMError,
    Scope,
    default_verdict,
    error_from_verdict,
)
from reliable_llm.policy import BudgetPolicy, RecoveryPolicy, RetryPolicy
from reliable_llm.types import Candidate, Capabilities

KINDS = [kind for kind in Kind if kind is not Kind.CANCELLED]
USUAL = [
    Kind.RATE_LIMITED,
    Kind.QUOTA_EXHAUSTED,
    Kind.SERVER_ERROR,
    Kind.TIMEOUT,
    Kind.PERMISSION,
    Kind.MODEL_NOT_FOUND,
    Kind.INVALID_OUTPUT,
]

# A probe that ends so has said nothing about a key's quota.
UNDECIDED = TRANSIENT | {
    Kind.DEADLINE,
    Kind.QUOTA_EXHAUSTED,
    Kind.AUTHENTICATION,
    Kind.PERMISSION,
    Kind.CONFIGURATION,
    Kind.QUEUE_FULL,
    Kind.CLOSED,
}


@dataclass
class Running:
    """One call of the walk."""

    call: FailoverCall
    retry: RetryPolicy
    deadline: float | None
    wakes: float = 0.0
    under_way: StartAttempt | None = None
    began: float = 0.0
    generations: tuple[int, int, int] = (0, 0, 0)
    started: list[tuple[str, str]] = field(default_factory=list)
    actions: int = 0
    limited_until: dict[tuple[str, str], float] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = chance = random.Random(seed)
        self.now = 1_000.0
        self.health = {
            name: ProviderHealth(name, [f"{name}#{n + 1}" for n in range(chance.choice([1, 1, 2, 3]))]) for name in "ab"
        }
        self.stops = [
            Stop(
                candidate=Candidate(name, model),
                health=self.health[name],
                model_id=model,
                vendor=name,
                capabilities=Capabilities(context_window=chance.choice([None, 100, 200])),
            )
            for model in ("m1", "m2")
            for name in "ab"
        ]
        self.recovery = RecoveryPolicy(
            quota=chance.choice([5, 300]),
            memory=chance.choice([0, 20, 3_600]),
            cooldowns=chance.random() < 0.8,
            breaker=chance.choice([{}, {Kind.SERVER_ERROR: 30, Kind.TIMEOUT: 10}]),
        )
        self.budget = chance.choice([None, RetryBudget(BudgetPolicy(share=0.5, burst=3))])
        self.running: list[Running] = []
        self.parked: dict[str, float] = {}
        self.half_open: set[str] = set()
        self.probing: dict[str, Running] = {}
        self.limited: dict[tuple[str, str], float] = defaultdict(float)
        self.ended = 0

    # ---------------------------------------------------------------- steps

    def step(self) -> None:
        chance = self.random
        what = chance.random()
        if what < 0.15 and len(self.running) < 12:
            self.begin()
        elif what < 0.3:
            self.now += chance.choice([0.0, 0.1, 1.0, 7.0, 40.0, 301.0])
        elif what < 0.33:
            self.operate()
        elif self.running:
            one = chance.choice(self.running)
            if one.under_way is not None:
                self.finish(one)
            elif one.wakes <= self.now:
                self.act(one)

    def operate(self) -> None:
        """Somebody forgets all, or another process has heard about a key."""
        known = self.random.choice(list(self.health.values()))
        probed = [key for key in known.ring.labels if key in self.probing]
        key = self.random.choice(probed or known.ring.labels)
        place = known.ring.labels.index(key)
        if self.random.random() < 0.3:
            known.reset()
            for each in known.ring.labels:
                self.parked.pop(each, None)
                self.probing.pop(each, None)
                self.half_open.discard(each)
            self.limited.clear()
        elif self.parked.get(key) != FOREVER:
            fault = Fault(kind=Kind.QUOTA_EXHAUSTED, at=self.now)
            self.parked[key] = self.now + self.random.choice([0, 0, 30])
            known.ring.gate(place).force(until=self.parked[key], fault=fault, probe=True)
            self.half_open.add(key)
            self.probing.pop(key, None)

    def begin(self) -> None:
        chance = self.random
        route = chance.sample(self.stops, chance.randint(1, 4))
        retry = RetryPolicy(
            max_retries=chance.choice([0, 1, 2]),
            jitter=chance.choice([0, 0.5, 1]),
            patience=chance.choice([0, 1, 10]),
            wait_for_cooldown=chance.random() < 0.7,
            failover_on=frozenset(chance.sample([Kind.CONTENT_POLICY, Kind.INVALID_OUTPUT], chance.randint(0, 2))),
        )
        deadline = chance.choice([None, self.now + chance.uniform(0.1, 60)])
        call = FailoverCall(
            route, now=self.now, retry=retry, recovery=self.recovery, deadline=deadline, budget=self.budget
        )
        self.running.append(Running(call, retry, deadline))

    def act(self, one: Running) -> None:
        one.actions += 1
        assert one.actions < 300, "a call goes on for ever"
        action = one.call.next(self.now, self.random.random())
        if isinstance(action, StartAttempt):
            self.check_start(one, action)
            one.under_way, one.began = action, self.now
            one.generations = self.generations(action)
            one.started.append((label(action), action.stop.model))
            if action.permit.key.key.probe:
                self.probing[label(action)] = one
        elif isinstance(action, Sleep):
            assert action.seconds >= 0
            assert one.deadline is None or self.now + action.seconds < one.deadline, "a sleep past the deadline"
            one.wakes = self.now + action.seconds
        else:
            self.end(one, action)
        self.listen(one)

    def finish(self, one: Running, *, well: bool = False) -> None:
        """Let something come of the attempt under way."""
        chance, action = self.random, one.under_way
        assert action is not None
        what = 0.0 if well else chance.random()
        gates = self.gates(action)
        before = [(gate.generation, gate.until) for gate in gates]
        kind: Kind | None = None
        if what < 0.3:
            one.call.succeeded(action, self.now, one.began, usage=None, request_id=None)
        elif what < 0.38:
            one.call.abandoned(action, self.now, one.began)
            kind = Kind.CANCELLED
        elif what < 0.42:
            one.call.withdrawn(action, chance.choice([None, DeadlineExceededError()]))
            one.started.pop()
            kind = Kind.CANCELLED
        elif what < 0.45:
            one.call.refused(action, failure(Kind.UNSUPPORTED))
            one.started.pop()
            kind = Kind.CANCELLED
        elif what < 0.48:
            error = failure(Kind.STREAM_INTERRUPTED)
            one.call.broke_off(action, self.now, one.began, error)
            kind = error.kind
        else:
            error = self.failure()
            kind = error.kind
            self.note_limit(one, action, error)
            one.broken[str(action.stop.candidate)] += kind in TRANSIENT
            if kind is Kind.INVALID_OUTPUT:
                one.broken.clear()
            one.call.failed(action, self.now, one.began, error, chance.random())
        self.check_stale(one, action, gates, before)
        one.under_way = None
        self.settle(one, action, kind)
        self.listen(one)
        if kind is None or (kind is Kind.CANCELLED and 0.3 <= what < 0.38):
            self.running.remove(one)
            self.check_ledger(one)

    def failure(self) -> ReliableLLMError:
        chance = self.random
        kind = chance.choice(USUAL if chance.random() < 0.7 else KINDS)
        verdict: dict[str, Any] = {}
        if kind in (Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED, Kind.SERVER_ERROR):
            verdict["retry_after"] = chance.choice([None, 0.5, 3, 25, 90])
        if kind in (Kind.RATE_LIMITED, Kind.PERMISSION) and chance.random() < 0.3:
            verdict["rotate_key"] = False
        if kind is Kind.RATE_LIMITED and chance.random() < 0.2:
            verdict["retry_same"] = False
        if kind in (Kind.QUOTA_EXHAUSTED, Kind.PERMISSION) and chance.random() < 0.3:
            verdict["scope"] = chance.choice([Scope.MODEL, Scope.REQUEST])
        if kind is Kind.UNSUPPORTED:
            verdict["feature"] = chance.choice([None, "structured_output", "vision"])
        return failure(kind, **verdict)

    # ---------------------------------------------------------------- the walk's own record

    def listen(self, one: Running) -> None:
        for event in one.call.events:
            if isinstance(event, events.KeyParked) and event.model is None:
                self.parked[event.key] = self.now + event.seconds
                self.half_open.add(event.key)
            elif isinstance(event, events.KeyDisabled):
                self.parked[event.key] = FOREVER
        one.call.events.clear()

    def settle(self, one: Running, action: StartAttempt, kind: Kind | None) -> None:
        key = label(action)
        if self.probing.get(key) is one:
            del self.probing[key]
            if kind is not Kind.CANCELLED and kind not in UNDECIDED:
                self.half_open.discard(key)

    def note_limit(self, one: Running, action: StartAttempt, error: ReliableLLMError) -> None:
        if error.kind is not Kind.RATE_LIMITED or error.retry_after is None:
            return
        place = (label(action), action.stop.model) if error.verdict.rotate_key else ("", str(action.stop.candidate))
        one.limited_until[place] = self.now + error.retry_after
        fresh = one.generations == self.generations(action)
        if self.recovery.cooldowns and fresh:
            self.limited[place] = max(self.limited[place], self.now + error.retry_after)

    def gates(self, action: StartAttempt) -> list[Gate]:
        stop, place = action.stop, action.key_place
        ring = stop.health.ring
        return [ring.gate(place), ring.model_gate(place, stop.model), stop.health.candidate_gate(stop.model)]

    def generations(self, action: StartAttempt) -> tuple[int, int, int]:
        one, two, three = (gate.generation for gate in self.gates(action))
        return one, two, three

    # ---------------------------------------------------------------- invariants

    def check_start(self, one: Running, action: StartAttempt) -> None:
        key, model, candidate = label(action), action.stop.model, str(action.stop.candidate)
        assert self.now >= self.parked.get(key, 0.0), f"an attempt on {key}, which is parked"
        assert key not in self.probing, f"an attempt on {key} while it is probed"
        if key in self.half_open:
            assert action.permit.key.key.probe, f"{key} comes back without a probe"
        for place in ((key, model), ("", candidate)):
            assert self.now >= self.limited[place], f"{place} was used under its hint"
            assert self.now >= one.limited_until.get(place, 0.0), f"{place} was used under its hint by the same call"
        if one.deadline is not None:
            assert self.now < one.deadline, "an attempt starts at or after the deadline"
            assert action.until is not None
            assert self.now < action.until <= one.deadline
        of_key, of_model, of_candidate = self.gates(action)
        for gate in (of_key, of_model):
            assert gate.until is None or gate.until <= self.now
        if of_candidate.until is not None and of_candidate.until > self.now:
            assert of_candidate.fault is not None
            assert of_candidate.fault.kind in TRANSIENT, f"{candidate} was asked although it rests"
        assert one.broken[candidate] <= one.retry.max_retries, "more retries than allowed"
        self.check_bounds(one, candidate, action)

    def check_bounds(self, one: Running, candidate: str, action: StartAttempt) -> None:
        made = Counter(model for key, model in one.started if key.startswith(action.stop.provider))[action.stop.model]
        retries, keys = one.retry.max_retries, len(action.stop.health.ring)
        # Retries and rotations; a repair begins anew, a feature is left out, everybody may be waited for again.
        most = 2 * (retries + 1 + keys) + 2 + max(1, retries) * keys
        assert made < most, f"{made} attempts at {candidate}"

    def check_stale(
        self, one: Running, action: StartAttempt, gates: list[Gate], before: list[tuple[int, float | None]]
    ) -> None:
        """A result of a past generation changes nothing, but bad news may lengthen the rest that it was part of."""
        for held, gate, (generation, until) in zip(one.generations, gates, before, strict=True):
            if held != generation:
                assert gate.generation == generation
                assert until is None or (gate.until is not None and gate.until >= until)

    def check_ledger(self, one: Running) -> None:
        assert [(attempt.key_label, attempt.model) for attempt in one.call.attempts] == one.started
        assert [attempt.number for attempt in one.call.attempts] == list(range(1, len(one.started) + 1))
        self.ended += 1

    def end(self, one: Running, action: Raise) -> None:
        self.running.remove(one)
        self.check_ledger(one)
        assert action.error.attempts == tuple(one.call.attempts)
        assert action.error.retry_after is None or action.error.retry_after >= 0

    def check_nothing_leaked(self) -> None:
        """Everybody has gone: every gate that is not out for good admits somebody, some day."""
        self.now += 1e7
        for known in self.health.values():
            gates = [gate for _, gate in known.candidates()]
            for place in range(len(known.ring)):
                gates += [known.ring.gate(place), *(gate for _, gate in known.ring.model_gates(place))]
            for gate in gates:
                assert gate.until == FOREVER or gate.admits(self.now), "a permit got lost"


def label(action: StartAttempt) -> str:
    return action.stop.health.ring.labels[action.key_place]


def failure(kind: Kind, **verdict: Any) -> ReliableLLMError:
    return error_from_verdict(replace(default_verdict(kind), **verdict), "")


def go(seed: int, steps: int) -> Walk:
    walk = Walk(seed)
    for _ in range(steps):
        walk.step()
    for _ in range(20_000):
        if not walk.running:
            break
        one = walk.running[0]
        if one.under_way is not None:
            walk.finish(one)
        else:
            walk.now = max(walk.now, one.wakes)
            walk.act(one)
    assert not walk.running, "a call does not end"
    walk.check_nothing_leaked()
    return walk


@pytest.mark.parametrize("seed", range(150))
def test_a_walk_keeps_the_invariants(seed: int) -> None:
    assert go(seed, steps=400).ended > 0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 150))
def test_a_short_walk_keeps_the_invariants(seed: int, steps: int) -> None:
    go(seed, steps)
