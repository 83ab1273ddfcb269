"""A dry run: where a call would go, in which order, and what each candidate would make of it. Sends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reliable_llm.adapters.base import Target
from reliable_llm.core.backoff import HINT_SPREAD
from reliable_llm.core.features import EMULATED, SPELLINGS, done_without
from reliable_llm.core.pacing import Demand
from reliable_llm.core.recovery import FOREVER
from reliable_llm.core.route import Stop, lacking, obstacle
from reliable_llm.core.truncation import possible_cuts
from reliable_llm.core.visit import Visit
from reliable_llm.errors import UnsupportedFeatureError
from reliable_llm.needs import RequestNeeds
from reliable_llm.policy import RetryPolicy
from reliable_llm.preparing import refuse_losses
from reliable_llm.types import Candidate, ChatRequest

if TYPE_CHECKING:
    from reliable_llm.driver import Driver
    from reliable_llm.provider import Provider

# What `status` counts with, too: whether there is room at all.
_SHORT: Final = Demand(tokens=1.0, priority=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCandidate:
    """One candidate of a plan.

    `out` says why it cannot serve the request at all, None where it can; `rests` is in how many seconds it would be
    ready, 0 for now, None where that is not known. `queues` is in about how many seconds a call would have its turn
    where the provider has `limits` (a short one: its tokens are not estimated), 0 for at once, None where that depends
    on when others end. `dropped` names what it has no word for, `emulated` what it would be asked for in another form.
    `worst_case` bounds the seconds that it may take: for all of an answer, or for the first output of a stream. Neither
    `queues` nor waiting for a place of `max_concurrency` is in it.
    """

    candidate: Candidate
    out: str | None
    rests: float | None
    queues: float | None
    dropped: tuple[str, ...]
    emulated: tuple[str, ...]
    worst_case: float

    @property
    def usable(self) -> bool:
        return self.out is None

    def __str__(self) -> str:
        if self.out is not None:
            return f"{self.candidate}: out ({self.out})"
        told = [f"up to {self.worst_case:.0f} s"]
        told += ["resting"] if self.rests is None else [f"ready in {self.rests:.0f} s"] if self.rests else []
        told += ["queues until another request ends"] if self.queues is None else []
        told += [f"queues for about {self.queues:.0f} s"] if self.queues else []
        told += [f"without {', '.join(self.dropped)}"] if self.dropped else []
        told += [f"in another form: {', '.join(self.emulated)}"] if self.emulated else []
        return f"{self.candidate}: {'; '.join(told)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Candidates in the order in which they would be tried, and a bound of the whole call's seconds."""

    candidates: tuple[PlannedCandidate, ...]
    worst_case: float

    @property
    def usable(self) -> tuple[PlannedCandidate, ...]:
        return tuple(each for each in self.candidates if each.usable)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.candidates), f"in all: up to {self.worst_case:.0f} s"])


class Planner:
    """Plans calls of one coordinator. Looks at health and changes none of it."""

    def __init__(self, driver: Driver, providers: Mapping[str, Provider], retry: RetryPolicy, *, stream: bool) -> None:
        self._driver = driver
        self._providers = providers
        self._retry = retry
        self._stream = stream

    def plan(self, request: ChatRequest, stops: Sequence[Stop], deadline: float | None) -> Plan:
        """Return what a call of *request* over *stops* would do now; *deadline* in seconds.

        Raises `InvalidRequestError` where the call would.
        """
        needs = RequestNeeds(request, self._stream)
        found = tuple(self._planned(request, stop, needs.at(stop)) for stop in stops)
        total = sum(each.worst_case for each in found)
        if total:
            total += self._waits_for_all([stop for stop, each in zip(stops, found, strict=True) if each.usable])
        return Plan(candidates=found, worst_case=total if deadline is None else min(total, deadline))

    def _planned(self, request: ChatRequest, stop: Stop, needs: frozenset[str]) -> PlannedCandidate:
        now = self._driver.clock.monotonic()
        missing = lacking(stop, needs, now)
        without = done_without(missing, needs, stop.lacks(now))
        out = "no key" if not stop.health.ring.labels else obstacle(stop, missing)
        dropped: tuple[str, ...] = ()
        if out is None:
            out, dropped = self._translated(request, stop, without)
        visit = Visit(stop, demand=_SHORT)
        back, turn = visit.back_at(now), visit.queue_at(now)
        return PlannedCandidate(
            candidate=stop.candidate,
            out=out,
            rests=None if back is None else max(0.0, back - now),
            queues=None if turn == FOREVER else max(0.0, turn - now),
            dropped=dropped,
            emulated=tuple(sorted(without)) if out is None else (),
            worst_case=self._worst_case(request, stop, needs) if out is None else 0.0,
        )

    def _translated(
        self, request: ChatRequest, stop: Stop, without: frozenset[str]
    ) -> tuple[str | None, tuple[str, ...]]:
        """Return why the candidate's adapter cannot express the request, or None and what it leaves out."""
        target = Target(candidate=stop.candidate, model_id=stop.model_id)
        streamed = self._stream and "streaming" not in without
        try:
            adapter = self._driver.entrance.access(stop.provider).adapter
            prepared = adapter.prepare(request, target, stream=streamed, without=without)
            if request.strict:
                refuse_losses(prepared)
        except UnsupportedFeatureError as error:
            return error.feature or str(error.kind), ()
        return None, prepared.dropped

    # ---------------------------------------------------------------- how long

    def _worst_case(self, request: ChatRequest, stop: Stop, needs: frozenset[str]) -> float:
        """Every key refused in turn, every retry after the longest wait, every form refused, every answer repaired."""
        retry = stop.retry or self._retry
        others = needs & (EMULATED | SPELLINGS | {"tools"})
        forms = len(others) + (possible_cuts(request.messages) if request.truncate else 0)
        attempts = len(stop.health.ring) + retry.max_retries + forms
        once = attempts * self._attempt(stop) + retry.max_retries * (retry.cap + HINT_SPREAD)
        return once * (1 + (retry.schema_retries if request.output is not None else 0))

    def _waits_for_all(self, stops: Sequence[Stop]) -> float:
        """With every candidate resting: the waits for the first to come back, and another try at each after it."""
        retry = self._retry
        rounds = max(1, retry.max_retries) if retry.wait_for_cooldown else 0
        again = sum(len(stop.health.ring) * self._attempt(stop) for stop in stops)
        return rounds * (retry.cap + HINT_SPREAD + again) + retry.cap  # the last is for another call's probe

    def _attempt(self, stop: Stop) -> float:
        timeouts = self._providers[stop.provider].timeouts
        return timeouts.first_token if self._stream else timeouts.attempt
