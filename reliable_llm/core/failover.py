"""The machine of one call: told what happened, it says what to do next. It never waits, reads a clock or does I/O.

Three levels, outermost first: model chain > provider chain > retry loop; keys rotate inside the retry loop. The route
holds the first two, flattened; a `Visit` is the third, one per candidate.

    next(now) ──> StartAttempt ──> succeeded(now) ──> end
       ^               └────────> failed(now, error) ──┐
       ├──< Sleep <─────────────────────────────────────┤
       └──< (next key, same candidate, next candidate) <┘──> Raise ──> end

What happens on a failure is read off its `Verdict` (`core.decision`); which waits are worth it says `core.waiting`; who
is ready, and when, is known to the `Walk`; whose error is raised in the end says `core.ending`. No wait and no attempt
starts past the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reliable_llm import events
from reliable_llm.core.actions import Action, AwaitTurn, Raise, StartAttempt
from reliable_llm.core.backoff import backoff_delay
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.decision import Setback, cooldown
from reliable_llm.core.ending import complete, late_in_queue, primary_error
from reliable_llm.core.features import done_without
from reliable_llm.core.ledger import Ledger
from reliable_llm.core.memory import Permit, cede, release, remember_failure, remember_success, rest_spent
from reliable_llm.core.pacing import Demand, Pace, Ticket
from reliable_llm.core.route import Needs, Stop
from reliable_llm.core.visit import NO_DEMAND, NO_FEATURES, Visit
from reliable_llm.core.waiting import sleep, wait_for_first, wait_here
from reliable_llm.core.walk import Walk
from reliable_llm.errors import DeadlineExceededError, Kind, QueueFullError, ReliableLLMError
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.types import Attempt, Candidate, Usage

# What is left of a wait after it has been slept, by rounding: not worth, and on some clocks unable, to be slept.
A_MOMENT: Final = 1e-6


class FailoverCall:
    """One call's way through its route. Create one per call; feed it every outcome; do what `next` says.

    `needs` tells the features that the request needs, None for none. `cuts` is how often a history that is too long may
    be cut (`core.truncation`).
    `deadline` is a time on the same clock as `now`. `budget`, where there is one, is shared by all calls. `prefer` is
    the key's place to start from, for affinity. `demand` is what it needs of providers whose pace is limited.
    `is_hedge` tells that this machine is another call's second: one call fills the budget once.

    `attempts` is what was tried, in order; `events` what happened since the driver last cleared the list; `requested`
    the first choice.
    """

    __slots__ = (
        "_budget",
        "_cuts",
        "_end",
        "_final",
        "_last",
        "_ledger",
        "_moving",
        "_prefer",
        "_recovery",
        "_walk",
        "attempts",
        "events",
        "requested",
    )

    def __init__(
        self,
        route: Sequence[Stop],
        now: float,
        retry: RetryPolicy,
        recovery: RecoveryPolicy,
        needs: Needs | None = None,
        deadline: float | None = None,
        budget: RetryBudget | None = None,
        prefer: int | None = None,
        cuts: int = 0,
        demand: Demand | None = None,
        is_hedge: bool = False,
    ) -> None:
        self._walk = Walk(route, retry, needs, deadline, demand)
        self._ledger = Ledger(now)
        self.attempts: list[Attempt] = self._ledger.attempts
        self.events: list[events.Event] = self._ledger.events
        self.requested: Candidate = route[0].candidate
        self._recovery = recovery
        self._budget = budget
        if budget is not None and not is_hedge:
            budget.deposit()
        self._prefer = prefer
        self._cuts = cuts
        self._last: StartAttempt | None = None
        self._moving: Kind | None = None
        self._final: ReliableLLMError | None = None
        self._end: Raise | None = None

    @property
    def is_at_first(self) -> bool:
        """Whether the first choice is the one that is being asked or waited for."""
        return self._walk.index == 0

    def fails_over_on(self, kind: Kind) -> bool:
        """Tell whether the caller wants to move on for this kind, which is raised by default."""
        return kind in self._walk.retry.failover_on

    # ---------------------------------------------------------------- what next

    def next(self, now: float, chance: float = 0.0) -> Action:
        """Return what to do now; *chance* in [0, 1) is this moment's share of jitter."""
        walk = self._walk
        if self._end is not None:
            return self._end
        if self._final is not None:
            return self._raise(self._final, now)
        if walk.deadline is not None and now >= walk.deadline:
            return self._raise(DeadlineExceededError(), now)
        first = None if walk.visits else self._at_once(now)
        if first is not None:
            return first
        while walk.index < len(walk.route):
            action = self._at(walk.here, now, chance)
            if action is not None:
                return action
            walk.index += 1
        return self._with_all_passed(now, chance)

    def _at_once(self, now: float) -> StartAttempt | None:
        """Return the first attempt where nothing is known against the first candidate: most calls need no more."""
        stop = self._walk.route[0]
        gate = stop.health.candidate(stop.model)
        if stop.health.pace is not None or not (gate is None or gate.is_open) or self._walk.may_miss(stop):
            return None
        key = stop.health.ring.pick(now, stop.model, prefer=self._prefer)
        if key is None:
            return None
        return self._start(stop, Permit(key, None if gate is None else gate.permit, key.probe), now)

    def _at(self, visit: Visit, now: float, chance: float) -> Action | None:
        """Return the next action at this candidate, or None where there is none."""
        if visit.left or not self._may_serve(visit, now):
            return None
        if visit.wake - now > A_MOMENT:
            return sleep(self._ledger, visit.wake - now)
        permit = visit.permit(now, self._prefer)
        if permit is None:
            return None if visit.is_held_back(now) else wait_here(self._walk, self._ledger, visit, now, chance)
        if self._budget is not None and self._ledger.attempts and not self._budget.withdraw():
            release(visit.stop, permit)
            return self._raise(primary_error(self._walk, now), now)
        without = visit.without | self._walk.missing(visit.stop, now)
        return self._start(visit.stop, permit, now, without, visit.cuts)

    def _may_serve(self, visit: Visit, now: float) -> bool:
        """Tell whether the candidate can serve this request at all; if not, it is left without a request."""
        reason = self._walk.obstacle(visit.stop, now)
        if reason is None:
            return True
        visit.left = True
        self._ledger.tell_skipped(visit.stop, reason)
        return False

    def _start(
        self, stop: Stop, permit: Permit, now: float, without: frozenset[str] = NO_FEATURES, cuts: int = 0
    ) -> StartAttempt:
        if without and self._walk.needs is not None:
            without = done_without(without, self._walk.needs.at(stop), stop.lacks(now))
        until, reserved = self._walk.until(now)
        number = len(self._ledger.attempts) + 1
        place, pace = permit.key.place, stop.health.pace
        ticket = None if pace is None else self._take(pace, place, stop.model, now)
        action = StartAttempt(stop, place, permit, number, until, reserved, without, cuts, ticket)
        if self._moving is not None and self._last is not None:
            self._ledger.tell_move(self._last, action, self._moving)
            self._moving = None
        if permit.probe:
            self._ledger.tell_probe(action, now)
        self._last = action
        return action

    def _take(self, pace: Pace, place: int, model: str, now: float) -> Ticket:
        demand = self._walk.demand or NO_DEMAND
        demand.turn = False
        return pace.take(place, model, now, demand.tokens)

    # ---------------------------------------------------------------- waits

    def _with_all_passed(self, now: float, chance: float) -> Action:
        """Every candidate was passed: queue, force a breaker, look again, or wait for the one that is back first."""
        walk = self._walk
        held = walk.held_back(now)
        if held is not None:
            return self._await_turn(held, now)
        forced = self._force(now, chance)
        if forced is not None:
            return forced
        again = walk.back_by_now(now)
        if again is not None:
            walk.index = again
            return self.next(now, chance)
        return wait_for_first(walk, self._ledger, now, chance) or self._raise(primary_error(walk, now), now)

    def _await_turn(self, visit: Visit, now: float) -> Action:
        walk = self._walk
        at = visit.turn_at(now)
        if at is not None and not walk.fits(now, at - now):
            return self._raise(late_in_queue(), now)
        walk.index = 0
        demand = walk.demand or NO_DEMAND
        demand.turn = False
        return AwaitTurn(visit, demand, walk.deadline)

    def _force(self, now: float, chance: float) -> Action | None:
        """With nothing tried and nothing else to try, open breakers do not count: ask the first such candidate."""
        if self._ledger.attempts:
            return None
        for index, visit in self._walk.visits.items():
            if visit.is_behind_breaker and not visit.forced:
                visit.forced = True
                self._walk.index = index
                action = self._at(visit, now, chance)
                visit.forced = isinstance(action, StartAttempt)
                return action
        return None

    def waited(self, seconds: float) -> None:
        """The call has waited in a queue."""
        self._ledger.slept += seconds

    def gave_up(self, error: ReliableLLMError) -> None:
        """The call ends with *error* while nothing of it is under way."""
        self._final = error

    # ---------------------------------------------------------------- outcomes

    def succeeded(
        self, action: StartAttempt, now: float, started: float, *, usage: Usage | None, request_id: str | None
    ) -> None:
        """Record that this attempt answered."""
        if action.permit.probe:
            self._ledger.events.extend(remember_success(action.stop, action.permit))
        if self._budget is not None and self._ledger.attempts:
            self._budget.refund()
        action.stop.health.answered_at[action.stop.model] = now
        self._ledger.answered(action, now, started, usage, request_id)

    def spent(self, action: StartAttempt, now: float, seconds: float) -> None:
        """Record that an answer says that its key has nothing left for *seconds*."""
        self._ledger.events.extend(rest_spent(action.stop, action.permit, now, seconds, self._recovery))

    def failed(
        self, action: StartAttempt, now: float, started: float, error: ReliableLLMError, chance: float = 0.0
    ) -> None:
        """Record that this attempt failed, and decide what follows."""
        visit = self._walk.here
        visit.last_permit = action.permit
        visit.last_error = error
        visit.failing_since = started if visit.failing_since is None else visit.failing_since
        self._moving = error.kind
        self._ledger.failed(action, now, started, error)
        place = len(self._ledger.events)
        backoff = backoff_delay(visit.retry, visit.waits, chance)
        rest = cooldown(action, error, now, backoff)
        learned = remember_failure(action.stop, action.permit, error, now, self._recovery, rest)
        self._ledger.events.extend(learned)
        setback = Setback(
            self._walk, self._ledger, self._recovery, visit, action, error, now, backoff, chance, self._cuts
        )
        self._final = error if setback.decide() else None
        ended = visit.left or self._final is not None or len(visit.dead) == len(visit.stop.health.ring)
        left = 0 if ended else max(0, visit.retry.max_retries + 1 - visit.attempts)
        self._ledger.tell_failure(action, error, left, place)

    def abandoned(self, action: StartAttempt, now: float, started: float, *, usage: Usage | None = None) -> None:
        """Record that the caller went away: permits go back, health is untouched."""
        release(action.stop, action.permit)
        self._ledger.cancelled(action, now, started, usage)

    def broke_off(self, action: StartAttempt, now: float, started: float, error: ReliableLLMError) -> ReliableLLMError:
        """Record that a stream broke after output had reached the caller, and return the error to raise."""
        self._walk.here.last_error = error
        self._ledger.failed(action, now, started, error)
        place = len(self._ledger.events)
        self._ledger.events.extend(remember_failure(action.stop, action.permit, error, now, self._recovery, 0.0))
        self._ledger.tell_failure(action, error, 0, place)
        return self._raise(error, now).error

    def withdrawn(self, action: StartAttempt, error: ReliableLLMError | None = None) -> None:
        """Take back an attempt that was never sent; with *error*, the call ends with it."""
        self._unsent(action)
        self._walk.here.looked_again = False
        self._final = error

    def crowded_out(self, action: StartAttempt) -> None:
        """Leave a candidate whose provider has no place in the time there is for it; nothing was sent."""
        self._unsent(action)
        visit = self._walk.here
        visit.left = True
        visit.last_error = visit.last_error or QueueFullError(provider=action.stop.provider, model=action.stop.model)
        self._ledger.tell_skipped(action.stop, str(Kind.QUEUE_FULL))

    def ceded(self, action: StartAttempt, until: float) -> None:
        """Take back a probe that another process makes; *until* is when to ask for it again."""
        cede(action.stop, action.permit, until)
        self._unsent(action)
        announced = self._ledger.events
        announced[:] = [event for event in announced if not isinstance(event, events.QuotaProbe)]

    def refused(self, action: StartAttempt, error: ReliableLLMError) -> None:
        """Pass by a candidate whose adapter cannot express the request; nothing was sent."""
        self._unsent(action)
        visit = self._walk.here
        visit.left = True
        visit.refusal = error.verdict.feature or str(error.kind)
        self._ledger.tell_skipped(action.stop, visit.refusal)

    def _unsent(self, action: StartAttempt) -> None:
        """Take back what an attempt was given that was never sent."""
        release(action.stop, action.permit)
        if self._budget is not None and self._ledger.attempts:
            self._budget.refund()
        if action.ticket is not None and action.stop.health.pace is not None:
            action.stop.health.pace.settle(action.ticket, None, sent=False)

    # ---------------------------------------------------------------- the end

    def _raise(self, error: ReliableLLMError, now: float) -> Raise:
        """Complete the error with the story."""
        complete(error, self._walk, self._ledger.attempts, now)
        self._final = error
        self._ledger.events.append(
            events.CallFailed(error.kind, len(error.attempts), error.retry_after, error.provider, error.model)
        )
        self._end = Raise(error)
        return self._end
