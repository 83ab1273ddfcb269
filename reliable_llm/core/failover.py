"""The machine of one call: told what happened, it says what to do next. It never waits, reads a clock or does I/O.

Three levels, outermost first: model chain > provider chain > retry loop; keys rotate inside the retry loop. The route
holds the first two, flattened; a `Visit` is the third, one per candidate.

    next(now) ──> StartAttempt ──> succeeded(now) ──> end
       ^               └────────> failed(now, error) ──┐
       ├──< Sleep <─────────────────────────────────────┤
       └──< (next key, same candidate, next candidate) <┘──> Raise ──> end

What happens on a failure is read off its `Verdict` (`FailoverCall._decide`):

* it cannot be helped by anybody else: raise it now;
* another key can work: the next ready key, at once; rotation costs no retry;
* the same candidate can work: wait (backoff, or the server's hint), at most `max_retries` times;
* otherwise: the next candidate, at once.

A rate-limited candidate with no ready key is waited for where it is if the wait is within `patience`, or within `cap`
when no other candidate is ready. With every candidate resting, the first one to come back is waited for, if that is
within `cap`. No wait and no attempt starts past the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from reliable_llm import events
from reliable_llm.core.actions import Action, AwaitTurn, Raise, Sleep, StartAttempt
from reliable_llm.core.backoff import backoff_delay, spread
from reliable_llm.core.budget import RetryBudget
from reliable_llm.core.features import can_do_without, done_without, refused_feature
from reliable_llm.core.ledger import Ledger
from reliable_llm.core.memory import (
    TRANSIENT,
    Permit,
    cede,
    release,
    remember_failure,
    remember_success,
    repark_probe,
    rest_candidate,
)
from reliable_llm.core.pacing import Demand, Pace, Ticket
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.route import Stop, lacking, obstacle
from reliable_llm.core.summary import describe, from_fault
from reliable_llm.core.visit import NO_DEMAND, NO_FEATURES, Visit
from reliable_llm.errors import (
    ContextWindowError,
    DeadlineExceededError,
    Kind,
    QueueFullError,
    ReliableLLMError,
    Scope,
    UnsupportedFeatureError,
)
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.types import Attempt, Candidate, Usage

# How long to wait for another call's probe when there is nowhere else to go, before looking again.
PROBE_POLL: Final = 1.0

# What is left of a wait after it has been slept, by rounding: not worth, and on some clocks unable, to be slept.
A_MOMENT: Final = 1e-6

# Kinds for which "when will somebody be back" has an answer.
_TIME_HEALS: Final = TRANSIENT | {Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED}


class FailoverCall:
    """One call's way through its route. Create one per call; feed it every outcome; do what `next` says.

    `needs` are the features the request needs (`core.route.needs_of`); `needs_at` are those of candidates for which the
    caller changes the request. `cuts` is how often a history that is too long may be cut (`core.truncation`).
    `deadline` is a time on the same clock as `now`. `budget`, where there is one, is shared by all calls. `prefer` is
    the key's place to start from, for affinity. `demand` is what it needs of providers whose pace is limited.
    `is_hedge` tells that this machine is another call's second: one call fills the budget once.
    """

    __slots__ = (
        "_avoid",
        "_budget",
        "_cuts",
        "_deadline",
        "_demand",
        "_end",
        "_final",
        "_index",
        "_larger_than",
        "_last",
        "_ledger",
        "_moving",
        "_needs",
        "_needs_at",
        "_polled",
        "_prefer",
        "_recovery",
        "_retry",
        "_rounds",
        "_route",
        "_visits",
    )

    def __init__(
        self,
        route: Sequence[Stop],
        *,
        now: float,
        retry: RetryPolicy,
        recovery: RecoveryPolicy,
        needs: frozenset[str] = NO_FEATURES,
        deadline: float | None = None,
        budget: RetryBudget | None = None,
        prefer: int | None = None,
        needs_at: Mapping[Candidate, frozenset[str]] | None = None,
        cuts: int = 0,
        demand: Demand | None = None,
        is_hedge: bool = False,
    ) -> None:
        self._route = route
        self._budget = budget
        self._prefer = prefer
        if budget is not None and not is_hedge:
            budget.deposit()
        self._retry = retry
        self._recovery = recovery
        self._needs = needs
        self._needs_at = needs_at
        self._cuts = cuts
        self._deadline = deadline
        self._demand = demand
        self._ledger = Ledger(now)
        self._index = 0
        self._visits: dict[int, Visit] = {}
        self._rounds = 0
        self._polled = 0.0
        self._avoid: set[str] = set()
        self._larger_than: int | None = None
        self._last: StartAttempt | None = None
        self._moving: Kind | None = None
        self._final: ReliableLLMError | None = None
        self._end: Raise | None = None

    @property
    def attempts(self) -> list[Attempt]:
        """What was tried, in order."""
        return self._ledger.attempts

    @property
    def events(self) -> list[events.Event]:
        """What happened since the driver last cleared the list."""
        return self._ledger.events

    @property
    def requested(self) -> Candidate:
        """The first choice."""
        return self._route[0].candidate

    @property
    def is_at_first(self) -> bool:
        """Whether the first choice is the one that is being asked or waited for."""
        return self._index == 0

    def fails_over_on(self, kind: Kind) -> bool:
        """Tell whether the caller wants to move on for this kind, which is raised by default."""
        return kind in self._retry.failover_on

    # ---------------------------------------------------------------- what next

    def next(self, now: float, chance: float = 0.0) -> Action:
        """Return what to do now; *chance* in [0, 1) is this moment's share of jitter."""
        if self._end is not None:
            return self._end
        if self._final is not None:
            return self._raise(self._final, now)
        if self._deadline is not None and now >= self._deadline:
            return self._raise(DeadlineExceededError(), now)
        while self._index < len(self._route):
            action = self._at(self._visit(self._index), now, chance)
            if action is not None:
                return action
            self._index += 1
        return self._wait_for_first(now, chance)

    def _visit(self, index: int) -> Visit:
        visit = self._visits.get(index)
        if visit is None:
            visit = self._visits[index] = Visit(self._route[index], self._demand)
        return visit

    def _at(self, visit: Visit, now: float, chance: float) -> Action | None:
        """Return the next action at this candidate, or None where there is none."""
        if visit.left or not self._may_serve(visit, now):
            return None
        if visit.wake - now > A_MOMENT:
            return self._sleep(visit.wake - now)
        permit = visit.permit(now, self._prefer)
        if permit is None:
            return None if visit.is_held_back(now) else self._wait_here(visit, now, chance)
        if self._budget is not None and self._ledger.attempts and not self._budget.withdraw():
            release(visit.stop, permit)
            return self._raise(self._primary_error(now), now)
        return self._start(visit, permit, now)

    def _start(self, visit: Visit, permit: Permit, now: float) -> StartAttempt:
        stop = visit.stop
        needs = self._needed(stop)
        without = visit.without
        if needs:
            without = done_without(without | lacking(stop, needs, now), needs, stop.lacks(now))
        until, reserved = self._until(now)
        number = len(self._ledger.attempts) + 1
        place, pace = permit.key.place, stop.health.pace
        ticket = None if pace is None else self._take(pace, place, stop.model, now)
        action = StartAttempt(stop, place, permit, number, until, reserved, without, visit.cuts, ticket)
        if self._moving is not None and self._last is not None:
            self._announce_move(self._last, action, self._moving)
        if permit.probe:
            self._announce_probe(action, now)
        visit.last_permit = permit
        self._last = action
        return action

    def _take(self, pace: Pace, place: int, model: str, now: float) -> Ticket:
        demand = self._demand or NO_DEMAND
        demand.turn = False
        return pace.take(place, model, now, demand.tokens)

    def _needed(self, stop: Stop) -> frozenset[str]:
        return self._needs if self._needs_at is None else self._needs_at.get(stop.candidate, self._needs)

    def _until(self, now: float) -> tuple[float | None, bool]:
        if self._deadline is None:
            return None, False
        reserve = self._retry.reserve * (len(self._route) - self._index - 1)
        return (self._deadline - reserve, True) if 0 < reserve < self._deadline - now else (self._deadline, False)

    def _wait_here(self, visit: Visit, now: float, chance: float) -> Sleep | None:
        """Wait for a key of this candidate if that is worth it; otherwise move on."""
        back = visit.back_at(now)
        if back is None or visit.is_behind_breaker or visit.waits >= self._retry.max_retries:
            self._pass_by(visit, now, back)
            return None
        wait = max(back, visit.again) - now
        if wait > self._longest_wait(visit, wait, now) or not self._fits(now, wait):
            self._pass_by(visit, now, back)
            return None
        visit.waits += 1
        return self._rest(visit.stop, now, wait, chance)

    def _longest_wait(self, visit: Visit, wait: float, now: float) -> float:
        """Return how long a resting candidate may be waited for; *wait* is what it would take."""
        cap, patience = self._retry.cap, self._retry.patience
        if wait > cap and wait > patience:  # whoever else is there: a key that is out of quota, above all
            return cap
        if self._another_is_ready(now) or self._held_back(now):
            return patience if visit.is_rate_limited else -1.0
        return cap

    def _wait_for_first(self, now: float, chance: float) -> Action:
        """Every candidate was passed: wait for the one that is back first, if that is allowed and soon enough."""
        held = self._held_back(now)
        if held is not None:
            return self._await_turn(held, now)
        forced = self._force(now, chance)
        if forced is not None:
            return forced
        again = self._back_by_now(now)
        if again is not None:
            self._index = again
            return self.next(now, chance)
        allowed = {index: visit for index, visit in self._visits.items() if self._may_wait_for(visit)}
        back = {index: at for index, visit in allowed.items() if (at := visit.back_at(now)) is not None}
        if back and self._rounds < max(1, self._retry.max_retries):
            first = min(back, key=lambda index: back[index])
            wait = max(back[first] - now, 0.0)
            if wait <= self._retry.cap and self._fits(now, wait):
                self._rounds += 1
                self._visits[first].waits += 1
                self._index = 0
                return self._rest(self._route[first], now, wait, chance)
        if not back and self._a_probe_is_out(now) and self._polled < self._retry.cap and self._fits(now, PROBE_POLL):
            self._polled += PROBE_POLL
            self._index = 0
            return self._sleep(PROBE_POLL)
        return self._raise(self._primary_error(now), now)

    def _held_back(self, now: float) -> Visit | None:
        """Return the candidate that has room first, of those which nothing but their pace keeps from an attempt."""
        if self._demand is None:
            return None
        held = [visit for visit in self._visits.values() if visit.is_held_back(now)]
        return min(held, key=lambda visit: visit.turn_at(now) or FOREVER, default=None)

    def _await_turn(self, visit: Visit, now: float) -> Action:
        at = visit.turn_at(now)
        if at is not None and not self._fits(now, at - now):
            return self._raise(late_in_queue(), now)
        self._index = 0
        demand = self._demand or NO_DEMAND
        demand.turn = False
        return AwaitTurn(visit, demand, self._deadline)

    def waited(self, seconds: float) -> None:
        """The call has waited in a queue."""
        self._ledger.slept += seconds

    def gave_up(self, error: ReliableLLMError) -> None:
        """The call ends with *error* while nothing of it is under way."""
        self._final = error

    def _force(self, now: float, chance: float) -> Action | None:
        """With nothing tried and nothing else to try, open breakers do not count: ask the first such candidate."""
        if self._ledger.attempts:
            return None
        for index, visit in self._visits.items():
            if visit.is_behind_breaker and not visit.forced:
                visit.forced = True
                self._index = index
                action = self._at(visit, now, chance)
                visit.forced = isinstance(action, StartAttempt)
                return action
        return None

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

    def failed(
        self, action: StartAttempt, now: float, started: float, error: ReliableLLMError, chance: float = 0.0
    ) -> None:
        """Record that this attempt failed, and decide what follows."""
        visit = self._visit(self._index)
        visit.last_error = error
        visit.failing_since = started if visit.failing_since is None else visit.failing_since
        self._moving = error.kind
        self._ledger.failed(action, now, started, error)
        place = len(self._ledger.events)
        backoff = backoff_delay(self._retry, visit.waits, chance)
        cooldown = backoff if error.retry_after is None else error.retry_after
        learned = remember_failure(action.stop, action.permit, error, now, self._recovery, cooldown)
        self._ledger.events.extend(learned)
        self._decide(visit, action, error, now, backoff, chance)
        ended = visit.left or self._final is not None or len(visit.dead) == len(visit.stop.health.ring)
        left = 0 if ended else max(0, self._retry.max_retries + 1 - visit.attempts)
        self._ledger.tell_failure(action, error, left, place)

    def abandoned(self, action: StartAttempt, now: float, started: float, *, usage: Usage | None = None) -> None:
        """Record that the caller went away: permits go back, health is untouched."""
        release(action.stop, action.permit)
        self._ledger.cancelled(action, now, started, usage)

    def broke_off(self, action: StartAttempt, now: float, started: float, error: ReliableLLMError) -> ReliableLLMError:
        """Record that a stream broke after output had reached the caller, and return the error to raise."""
        self._visit(self._index).last_error = error
        self._ledger.failed(action, now, started, error)
        place = len(self._ledger.events)
        self._ledger.events.extend(remember_failure(action.stop, action.permit, error, now, self._recovery, 0.0))
        self._ledger.tell_failure(action, error, 0, place)
        return self._raise(error, now).error

    def withdrawn(self, action: StartAttempt, error: ReliableLLMError | None = None) -> None:
        """Take back an attempt that was never sent; with *error*, the call ends with it."""
        _unsent(action)
        self._visit(self._index).looked_again = False
        self._final = error

    def crowded_out(self, action: StartAttempt) -> None:
        """Leave a candidate whose provider has no place in the time there is for it; nothing was sent."""
        _unsent(action)
        visit = self._visit(self._index)
        visit.left = True
        visit.last_error = visit.last_error or QueueFullError(provider=action.stop.provider, model=action.stop.model)
        self._tell_skipped(action.stop, str(Kind.QUEUE_FULL))

    def ceded(self, action: StartAttempt, until: float) -> None:
        """Take back a probe that another process makes; *until* is when to ask for it again."""
        cede(action.stop, action.permit, until)
        _unsent(action)
        announced = self._ledger.events
        announced[:] = [event for event in announced if not isinstance(event, events.QuotaProbe)]

    def refused(self, action: StartAttempt, error: ReliableLLMError) -> None:
        """Pass by a candidate whose adapter cannot express the request; nothing was sent."""
        _unsent(action)
        visit = self._visit(self._index)
        visit.left = True
        visit.refusal = error.verdict.feature or str(error.kind)
        self._tell_skipped(action.stop, visit.refusal)

    def _decide(
        self, visit: Visit, action: StartAttempt, error: ReliableLLMError, now: float, backoff: float, chance: float
    ) -> None:
        """The rule: what happens on a failure."""
        verdict = error.verdict
        feature = refused_feature(error)
        if error.kind is Kind.DEADLINE:
            self._final = error
        elif feature is not None:
            self._do_without_or_leave(visit, action, feature, error, now)
        elif error.kind is Kind.INVALID_OUTPUT and visit.repairs < self._retry.schema_retries:
            visit.repair()
        elif error.kind is Kind.CONTEXT_WINDOW:
            self._need_larger(visit, error)
        elif not verdict.failover and error.kind not in self._retry.failover_on:
            self._final = error
        elif error.kind is Kind.RATE_LIMITED:
            self._rest_limited(visit, action.key_place, error, now, backoff)
        elif verdict.rotate_key and not verdict.retry_same:
            visit.dead.add(action.key_place)
        elif verdict.retry_same:
            self._retry_or_leave(visit, action.key_place, error, now, backoff, chance)
        else:
            if error.kind is Kind.PERMISSION and verdict.scope is Scope.PROVIDER:
                self._avoid.add(action.stop.provider)
            self._leave(visit, error, now)

    def _do_without_or_leave(
        self, visit: Visit, action: StartAttempt, feature: str, error: ReliableLLMError, now: float
    ) -> None:
        """Ask the candidate again in another form, where there is one; the next may have what this one refused."""
        needs, prompt_tools = self._needed(action.stop), action.stop.capabilities.prompt_tools
        if can_do_without(feature, without=action.without, needs=needs, prompt_tools=prompt_tools):
            visit.without |= {feature}
        else:
            self._leave(visit, error, now)

    def _need_larger(self, visit: Visit, error: ReliableLLMError) -> None:
        """Go on only to candidates known to have a larger window; with none, cut the history or let the error stand."""
        limit = visit.stop.capabilities.context_window or error.verdict.limit_tokens
        known = max((n for n in (limit, error.verdict.used_tokens, self._larger_than) if n is not None), default=None)
        later = self._route[self._index + 1 :]
        if known is not None and any(_is_larger(stop, known) for stop in later):
            visit.left = True
            self._larger_than = known
        elif visit.cuts < self._cuts:
            visit.cuts += 1
        else:
            visit.left = True
            self._larger_than = known
            self._final = error

    def _rest_limited(self, visit: Visit, place: int, error: ReliableLLMError, now: float, backoff: float) -> None:
        hint = error.retry_after
        visit.attempts += 1
        visit.tried.add(place)
        visit.again = now + backoff
        until = now + (backoff if hint is None else hint)
        worth_waiting = error.verdict.retry_same or hint is not None
        if error.verdict.rotate_key:
            visit.resting[place] = until
            visit.dead |= set() if worth_waiting else {place}
        else:
            visit.shut_until = until
            visit.left = not worth_waiting

    def _retry_or_leave(
        self, visit: Visit, place: int, error: ReliableLLMError, now: float, backoff: float, chance: float
    ) -> None:
        visit.attempts += 1
        visit.tried.add(place)
        hint = error.retry_after or 0.0
        delay = max(backoff, hint + spread(self._retry, hint, chance))
        spent = visit.attempts > self._retry.max_retries or self._is_last_chance(visit, error, now)
        if spent or hint > self._retry.cap or not self._fits(now, delay):
            self._leave(visit, error, now)
            return
        visit.waits += 1
        visit.wake = now + delay
        self._ledger.events.append(events.RetryScheduled(visit.stop.provider, visit.stop.model, delay, error.kind))

    def _is_last_chance(self, visit: Visit, error: ReliableLLMError, now: float) -> bool:
        """A probe gets one attempt; silence (not a 504) is not waited for twice while somebody else could answer."""
        permit = visit.last_permit
        if permit is not None and permit.candidate is not None and permit.candidate.probe:
            return True
        silent = error.kind is Kind.TIMEOUT and error.status is None
        return silent and not self._retry.retry_timeouts and self._another_is_ready(now)

    def _leave(self, visit: Visit, error: ReliableLLMError, now: float) -> None:
        """Go on to the next candidate for good; the breaker trips where it is on for this kind."""
        visit.left = True
        if visit.last_permit is None or error.kind not in TRANSIENT:
            return
        repark_probe(visit.stop, visit.last_permit, now, self._recovery)
        seconds = self._recovery.breaker.get(error.kind, 0.0)
        answered = visit.stop.health.answered_at.get(visit.stop.model, -1.0)
        if len(self._route) == 1 or (visit.failing_since is not None and answered >= visit.failing_since):
            return
        fault = Fault(kind=error.kind, at=now, status=error.status, code=error.code)
        self._ledger.events.extend(rest_candidate(visit.stop, visit.last_permit, fault, seconds))

    # ---------------------------------------------------------------- questions

    def _may_serve(self, visit: Visit, now: float) -> bool:
        """Tell whether the candidate can serve this request at all; if not, it is left without a request."""
        reason = self._obstacle(visit.stop, now)
        if reason is None:
            return True
        visit.left = True
        self._tell_skipped(visit.stop, reason)
        return False

    def _tell_skipped(self, stop: Stop, reason: str) -> None:
        hosted = reason.startswith("hosted_tool")
        skipped = events.ToolSkipped if hosted else events.CandidateSkipped
        told = skipped(stop.provider, stop.model, "unsupported_tool" if hosted else reason)
        self._ledger.events.append(told)

    def _obstacle(self, stop: Stop, now: float) -> str | None:
        if stop.provider in self._avoid:
            return "provider refused this caller"
        if self._larger_than is not None and not _is_larger(stop, self._larger_than):
            return "context_window"
        if not stop.health.ring.labels:
            return "no key"
        needs = self._needed(stop)
        return obstacle(stop, lacking(stop, needs, now)) if needs else None

    def _another_is_ready(self, now: float) -> bool:
        """Tell whether a later candidate could take an attempt at this moment."""
        for index in range(self._index + 1, len(self._route)):
            back = self._visit(index).back_at(now)
            ready = back is not None and back <= now and not self._visit(index).is_held_back(now)
            if ready and self._obstacle(self._route[index], now) is None:
                return True
        return False

    def _may_wait_for(self, visit: Visit) -> bool:
        """Tell whether the candidate may be waited for: as often as it may be retried, but once in any case.

        An open breaker is not waited for: it says when to try a candidate again, not that the candidate is well then.
        """
        wanted = self._retry.wait_for_cooldown and not visit.is_behind_breaker
        return wanted and visit.waits < max(1, self._retry.max_retries)

    def _back_by_now(self, now: float) -> int | None:
        """Return the place of a candidate that was passed by, and that has come back while the call was elsewhere."""
        for index, visit in self._visits.items():
            passed_by = visit.last_error is None and not visit.looked_again and not visit.is_behind_breaker
            back = visit.back_at(now) if passed_by else None
            if back is not None and back <= now:
                visit.looked_again = True
                return index
        return None

    def _a_probe_is_out(self, now: float) -> bool:
        untried = (visit for visit in self._visits.values() if not visit.left and visit.last_error is None)
        return any(visit.stop.health.ring.has_probe_out(now, visit.stop.model) for visit in untried)

    def _fits(self, now: float, wait: float) -> bool:
        return self._deadline is None or now + wait < self._deadline

    # ---------------------------------------------------------------- waits

    def _rest(self, stop: Stop, now: float, wait: float, chance: float) -> Sleep:
        padded = wait + spread(self._retry, wait, chance)
        delay = padded if self._fits(now, padded) else wait
        self._ledger.events.append(events.RetryScheduled(stop.provider, stop.model, delay, Kind.RATE_LIMITED))
        return self._sleep(delay)

    def _sleep(self, seconds: float) -> Sleep:
        self._ledger.slept += seconds
        return Sleep(seconds)

    # ---------------------------------------------------------------- the end

    def _raise(self, error: ReliableLLMError, now: float) -> Raise:
        """Complete the error with the story."""
        self._final = error
        error.attempts = tuple(self._ledger.attempts)
        times = [at - now for visit in self._visits.values() if (at := visit.rests_until(now)) > now]
        if times and error.kind in _TIME_HEALS:
            error.retry_after = min(times)
        untried = (
            [str(stop.candidate) for stop in self._route[self._index + 1 :]] if error.kind is Kind.DEADLINE else []
        )
        error.args = (describe(error, error.attempts, untried),)
        self._ledger.events.append(events.CallFailed(error.kind, len(error.attempts), error.retry_after))
        self._end = Raise(error)
        return self._end

    def _primary_error(self, now: float) -> ReliableLLMError:
        """Return the error of the first candidate that has one: met in this call, or remembered."""
        for index, stop in enumerate(self._route):
            visit = self._visit(index)
            if visit.last_error is not None:
                return visit.last_error
            fault = visit.stored_fault()
            if fault is not None:
                return from_fault(stop, fault)
        reasons = "; ".join(f"{stop.candidate}: {self._why_not(index, now)}" for index, stop in enumerate(self._route))
        error = UnsupportedFeatureError if self._larger_than is None else ContextWindowError
        return error(f"no candidate can serve this request ({reasons})")

    def _why_not(self, index: int, now: float) -> str | None:
        return self._visit(index).refusal or self._obstacle(self._route[index], now)

    # ---------------------------------------------------------------- announcements

    def _pass_by(self, visit: Visit, now: float, back: float | None) -> None:
        fault = visit.stored_fault()
        if fault is None or visit.last_error is not None:
            return
        stop = visit.stop
        remaining = None if back is None else back - now
        probing = stop.health.ring.has_probe_out(now, stop.model)
        self._ledger.events.append(events.CandidateResting(stop.provider, stop.model, fault.kind, remaining, probing))
        if fault.kind is Kind.QUOTA_EXHAUSTED and remaining is not None:
            self._ledger.events.append(events.QuotaModeActive(stop.provider, remaining))

    def _announce_move(self, last: StartAttempt, action: StartAttempt, reason: Kind) -> None:
        """Say that a failover or a rotation happens: now that it does, not when it was decided on."""
        self._moving = None
        labels = action.stop.health.ring.labels
        if last.stop.candidate != action.stop.candidate:
            move: events.Event = events.Failover(str(last.stop.candidate), str(action.stop.candidate), reason)
        elif last.key_place != action.key_place:
            move = events.KeyRotated(action.stop.provider, labels[last.key_place], labels[action.key_place], reason)
        else:
            return
        self._ledger.events.append(move)

    def _announce_probe(self, action: StartAttempt, now: float) -> None:
        ring = action.stop.health.ring
        fault = ring.gate(action.key_place).fault
        if action.permit.key.key.probe and fault is not None:
            label = ring.labels[action.key_place]
            self._ledger.events.append(events.QuotaProbe(action.stop.provider, label, now - fault.at))


def _unsent(action: StartAttempt) -> None:
    """Take back what an attempt was given that was never sent."""
    release(action.stop, action.permit)
    if action.ticket is not None and action.stop.health.pace is not None:
        action.stop.health.pace.settle(action.ticket, None, sent=False)


def late_in_queue() -> DeadlineExceededError:
    """Return the error of a call whose turn does not come within its deadline."""
    error = DeadlineExceededError("the deadline does not leave the time to wait for a turn (limits)")
    error.where = "local_queue"
    return error


def _is_larger(stop: Stop, tokens: int) -> bool:
    window = stop.capabilities.context_window
    return window is not None and window > tokens
