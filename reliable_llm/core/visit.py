"""What one call has done at one candidate, and what it may still do there: the retry loop's state."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from reliable_llm.core.memory import TRANSIENT, Permit
from reliable_llm.core.pacing import Demand, Pace
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.route import Stop
from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.policy import RetryPolicy

NO_FEATURES: Final[frozenset[str]] = frozenset()
NO_PLACES: Final[frozenset[int]] = frozenset()
NO_DEMAND: Final = Demand(0.0, 0)
USUAL: Final = RetryPolicy()


class Visit:
    """One candidate within one call. `retry` is the policy here: the provider's own, or the call's.

    `attempts` counts those that failed in a way a retry can mend; `waits` the sleeps. `tried` keys are not fresh any
    more, `dead` ones are not used again in this call, `resting` ones not before their time. Nothing starts before
    `wake`, no tried key before `again`, no key at all before `shut_until`. `left` is final; `looked_again`
    tells that it was passed by and then asked after once more; `refusal` is why, where the request cannot be put in the
    candidate's terms. `cuts` and `repairs` count how often the history was cut, and a bad answer sent back.
    """

    __slots__ = (
        "again",
        "attempts",
        "cuts",
        "dead",
        "demand",
        "failing_since",
        "forced",
        "last_error",
        "last_permit",
        "left",
        "looked_again",
        "refusal",
        "repairs",
        "resting",
        "retry",
        "shut_until",
        "stop",
        "tried",
        "waits",
        "wake",
        "without",
    )

    def __init__(self, stop: Stop, retry: RetryPolicy = USUAL, demand: Demand | None = None) -> None:
        self.stop = stop
        self.retry = stop.retry or retry
        self.demand = demand
        self.forced = False
        self.failing_since: float | None = None
        self.attempts = 0
        self.waits = 0
        self.tried: set[int] = set()
        self.dead: set[int] = set()
        self.resting: dict[int, float] = {}
        self.shut_until = 0.0
        self.wake = 0.0
        self.again = 0.0
        self.left = False
        self.looked_again = False
        self.without = NO_FEATURES
        self.cuts = 0
        self.repairs = 0
        self.refusal: str | None = None
        self.last_error: ReliableLLMError | None = None
        self.last_permit: Permit | None = None

    def repair(self) -> None:
        """Begin anew with a bad answer sent back: that request has transport retries of its own."""
        self.repairs += 1
        self.attempts = 0
        self.waits = 0
        self.tried.clear()

    def permit(self, now: float, prefer: int | None = None) -> Permit | None:
        """Return a permit for a fresh key (from place *prefer* on), else for a tried one that may go again."""
        stop = self.stop
        gate = stop.health.candidate(stop.model)
        forced = self.forced and self.is_behind_breaker
        if self.shut_until > now or (gate is not None and not gate.admits(now) and not forced):
            return None
        ring = stop.health.ring
        held = NO_PLACES if stop.health.pace is None else self._held_back(stop.health.pace, now)
        if not self.tried and not self.dead and not self.resting and not held:
            key = ring.pick(now, stop.model, prefer=prefer)
        else:
            unready = self.dead | held | {place for place, until in self.resting.items() if until > now}
            key = ring.pick(now, stop.model, skip=self.tried | unready, prefer=prefer)
            if key is None and now >= self.again:
                key = ring.pick(now, stop.model, skip=unready, prefer=prefer)
        if key is None:
            return None
        entered = None if gate is None else gate.force_enter() if forced else gate.enter(now)
        return Permit(key, entered, key.probe or (entered is not None and entered.probe))

    @property
    def is_behind_breaker(self) -> bool:
        """Tell whether the candidate rests only because other calls' retries on it were spent."""
        gate = self.stop.health.candidate(self.stop.model)
        return gate is not None and gate.fault is not None and gate.fault.kind in TRANSIENT and not self.left

    @property
    def may_be_waited_for(self) -> bool:
        """Whether the candidate may be waited for: as often as it may be retried, but once in any case.

        An open breaker is not waited for: it says when to try a candidate again, not that the candidate is well then.
        """
        wanted = self.retry.wait_for_cooldown and not self.is_behind_breaker
        return wanted and self.waits < max(1, self.retry.max_retries)

    def back_at(self, now: float) -> float | None:
        """Return when this candidate can take another attempt of this call; None if that is not known, or never."""
        stop = self.stop
        gate = stop.health.candidate(stop.model)
        shut = now if gate is None else gate.opens_at(now)
        if self.left or shut is None or shut == FOREVER:
            return None
        ring = stop.health.ring
        places = [place for place in range(len(ring)) if place not in self.dead]
        times = [self._key_back_at(place, now) for place in places]
        known = [at for at in times if at is not None]
        return max(min(known), shut, self.shut_until) if known else None

    def _key_back_at(self, place: int, now: float) -> float | None:
        at = self.stop.health.ring.opens_at(place, now, self.stop.model)
        return None if at is None or at == FOREVER else max(at, self.resting.get(place, at))

    # ---------------------------------------------------------------- pace

    def _held_back(self, pace: Pace, now: float) -> AbstractSet[int]:
        """Return the places of the keys that may not be used now: all of them while others queue."""
        demand = self.demand or NO_DEMAND
        if pace.waiting and not demand.turn:
            return set(range(len(self.stop.health.ring)))
        return pace.unready(self.stop.model, now, demand.tokens)

    def is_held_back(self, now: float) -> bool:
        """Tell whether nothing but the pace keeps this candidate from an attempt."""
        pace = self.stop.health.pace
        if pace is None or self.left:
            return False
        wells = self._wells(now)
        return bool(wells) and wells <= self._held_back(pace, now)

    def queue_at(self, now: float) -> float:
        """Return when about a call that comes now would have its turn; for ever where that is not known."""
        pace, at, demand = self.stop.health.pace, self.turn_at(now), self.demand or NO_DEMAND
        backlog = 0.0 if pace is None else pace.backlog(self.stop.model, demand.tokens)
        return FOREVER if at is None else at + backlog

    @property
    def has_full_queue(self) -> bool:
        """Tell whether nobody else may queue here."""
        pace = self.stop.health.pace
        return pace is not None and pace.waiting >= pace.limits.queue

    def _wells(self, now: float) -> set[int]:
        """Return the places of the keys that might be used now, were it not for the pace."""
        gate = self.stop.health.candidate(self.stop.model)
        if self.shut_until > now or (gate is not None and not gate.admits(now)):
            return set()
        return {place for place in range(len(self.stop.health.ring)) if self._is_well(place, now)}

    def _is_well(self, place: int, now: float) -> bool:
        at = self.stop.health.ring.opens_at(place, now, self.stop.model)
        may_again = place not in self.tried or now >= self.again
        well = place not in self.dead and self.resting.get(place, now) <= now and may_again
        return well and at is not None and at <= now

    def turn_at(self, now: float) -> float | None:
        """Return when the first key has room, for whoever is first in the queue; None while that is not known.

        That is `now` where no key may be used any more: nobody has to queue for what others have found unfit meanwhile.
        """
        pace, demand, wells = self.stop.health.pace, self.demand or NO_DEMAND, self._wells(now)
        if pace is None or not wells:
            return now
        times = [pace.ready_at(place, self.stop.model, now, demand.tokens) for place in wells]
        return min((at for at in times if at is not None), default=None)

    def rests_until(self, now: float) -> float:
        """Return when the candidate stops resting, for any call; `now` or earlier where it does not rest."""
        stop = self.stop
        ring = stop.health.ring
        times = [self._key_back_at(place, now) for place in range(len(ring))]
        gate = stop.health.candidate(stop.model)
        shut = None if gate is None else gate.opens_at(now)
        known = [at for at in times if at is not None]
        return max(min(known, default=0.0), self.shut_until, 0.0 if shut is None or shut == FOREVER else shut)

    @property
    def is_rate_limited(self) -> bool:
        """Tell whether it is a rate limit that this candidate rests for."""
        fault = self.stored_fault()
        return bool(self.resting) or self.shut_until > 0 or (fault is not None and fault.kind is Kind.RATE_LIMITED)

    def stored_fault(self) -> Fault | None:
        """Return why the candidate rests, where other calls have found out."""
        stop = self.stop
        gate = stop.health.candidate(stop.model)
        if gate is not None and gate.fault is not None:
            return gate.fault
        return stop.health.ring.fault(stop.model)
