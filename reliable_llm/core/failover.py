"""The machine of one call: told what happened, it says what to do next. It never waits, reads a clock or does I/O.

Three levels, outermost first: model chain > provider chain > retry loop; keys rotate inside the retry loop. The route
holds the first two, flattened; a `_Visit` is the third, one per candidate.

    next(now) ──> StartAttempt ──> succeeded(now) ──> end
       ^               └────────> failed(now, error) ──┐
       ├──< Sleep <─────────────────────────────────────┤
       └──< (next key, same candidate, next candidate) <┘──> Raise ──> end

What happens on a failure is read off its `Verdict` (DESIGN.md, section 3):

* it cannot be helped by anybody else: raise it now;
* another key can work: the next ready key, at once; rotation costs no retry;
* the same candidate can work: wait (backoff, or the server's hint), at most `max_retries` times;
* otherwise: the next candidate, at once.

A rate-limited candidate with no ready key is waited for where it is if the wait is within `patience`, or within `cap`
when no other candidate is ready. With every candidate resting, the first one to come back is waited for, if that is
within `cap`. No wait and no attempt starts past the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from reliable_llm import events
from reliable_llm.core.backoff import backoff_delay, spread
from reliable_llm.core.memory import (
    TRANSIENT,
    Permit,
    release,
    remember_failure,
    remember_success,
    repark_probe,
    rest_candidate,
)
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.route import EMULATED, Stop, lacking, obstacle
from reliable_llm.core.summary import describe
from reliable_llm.errors import (
    ERROR_CLASSES,
    ContextWindowError,
    DeadlineExceededError,
    Kind,
    ReliableLLMError,
    Scope,
    UnsupportedFeatureError,
    Verdict,
    default_verdict,
)
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.types import Attempt, Candidate, Usage

# How long to wait for another call's probe when there is nowhere else to go, before looking again.
PROBE_POLL: Final = 1.0

# Kinds for which "when will somebody be back" has an answer.
_TIME_HEALS: Final = TRANSIENT | {Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED}

NO_FEATURES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Send the request to `stop` with the key at `key_index`. `budget` is what the deadline leaves, None without one.

    `reserved`: a part of that time is kept back for candidates not yet tried.
    `without` names features that this candidate does not have and that must be emulated.
    """

    stop: Stop
    key_index: int
    permit: Permit
    number: int
    budget: float | None
    without: frozenset[str]
    reserved: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait `seconds`, then ask again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Raise:
    """The call has failed with `error`."""

    error: ReliableLLMError


Action: TypeAlias = StartAttempt | Sleep | Raise


class _Visit:
    """What this call has done at one candidate.

    `attempts` counts those that failed in a way a retry can mend; `waits` the sleeps. `tried` keys are not fresh any
    more, `dead` ones are not used again in this call, `resting` ones not before their time. Nothing starts before
    `wake`, and no tried key before `again`. `left` is final, whatever comes back to life.
    """

    __slots__ = (
        "again",
        "attempts",
        "dead",
        "last_error",
        "last_permit",
        "left",
        "resting",
        "shut_until",
        "stop",
        "tried",
        "waits",
        "wake",
        "without",
    )

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.attempts = 0
        self.waits = 0
        self.tried: set[int] = set()
        self.dead: set[int] = set()
        self.resting: dict[int, float] = {}
        self.shut_until = 0.0
        self.wake = 0.0
        self.again = 0.0
        self.left = False
        self.without = NO_FEATURES
        self.last_error: ReliableLLMError | None = None
        self.last_permit: Permit | None = None

    def unready(self, now: float) -> set[int]:
        return self.dead | {index for index, until in self.resting.items() if until > now}


class FailoverCall:
    """One call's way through its route. Create one per call; feed it every outcome; do what `next` says.

    `needs` are the features the request needs (`core.route.needs_of`). `deadline` is a time on the same clock as `now`.
    `events` collects what happened, for the driver to hand on and clear.
    """

    __slots__ = (
        "_avoid",
        "_deadline",
        "_failed_from",
        "_final",
        "_index",
        "_larger_than",
        "_last_key",
        "_needs",
        "_number",
        "_polled",
        "_reason",
        "_recovery",
        "_retry",
        "_rounds",
        "_route",
        "_slept",
        "_started",
        "_visits",
        "attempts",
        "events",
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
    ) -> None:
        self._route = route
        self._retry = retry
        self._recovery = recovery
        self._needs = needs
        self._deadline = deadline
        self._started = now
        self._index = 0
        self._visits: dict[int, _Visit] = {}
        self._number = 0
        self._slept = 0.0
        self._rounds = 0
        self._polled = 0.0
        self._avoid: set[str] = set()
        self._larger_than: int | None = None
        self._reason: Kind | None = None
        self._failed_from: Stop | None = None
        self._last_key: int | None = None
        self._final: ReliableLLMError | None = None
        self.attempts: list[Attempt] = []
        self.events: list[events.Event] = []

    # ---------------------------------------------------------------- what next

    def next(self, now: float, chance: float = 0.0) -> Action:
        """Return what to do now; *chance* in [0, 1) is this moment's share of jitter."""
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

    def _visit(self, index: int) -> _Visit:
        visit = self._visits.get(index)
        if visit is None:
            visit = self._visits[index] = _Visit(self._route[index])
        return visit

    def _at(self, visit: _Visit, now: float, chance: float) -> Action | None:
        """Return the next action at this candidate, or None where there is none."""
        if visit.left or not self._may_serve(visit, now):
            return None
        if visit.wake > now:
            return self._sleep(visit.wake - now)
        permit = self._permit(visit, now)
        if permit is not None:
            return self._start(visit, permit, now)
        return self._wait_here(visit, now, chance)

    def _permit(self, visit: _Visit, now: float) -> Permit | None:
        """Return a permit for a fresh key, else for a tried one whose time has come again."""
        stop = visit.stop
        gate = stop.health.candidate(stop.model)
        if visit.shut_until > now or (gate is not None and not gate.admits(now)):
            return None
        ring = stop.health.ring
        if not visit.tried and not visit.dead:
            key = ring.pick(now, stop.model)
        else:
            unready = visit.unready(now)
            key = ring.pick(now, stop.model, skip=visit.tried | unready)
            if key is None and now >= visit.again:
                key = ring.pick(now, stop.model, skip=unready)
        if key is None:
            return None
        return Permit(key, gate.enter(now) if gate is not None else None)

    def _start(self, visit: _Visit, permit: Permit, now: float) -> StartAttempt:
        stop = visit.stop
        self._number += 1
        if self._reason is not None:
            self._announce_move(stop, permit.key.place)
        if permit.probe:
            self._announce_probe(stop, permit, now)
        visit.last_permit = permit
        self._last_key = permit.key.place
        without = visit.without | lacking(stop, self._needs, now) if self._needs else visit.without
        budget, reserved = self._budget(now)
        return StartAttempt(stop, permit.key.place, permit, self._number, budget, without, reserved)

    def _budget(self, now: float) -> tuple[float | None, bool]:
        if self._deadline is None:
            return None, False
        left = self._deadline - now
        reserved = self._retry.reserve * (len(self._route) - self._index - 1)
        return (left - reserved, True) if 0 < reserved < left else (left, False)

    def _wait_here(self, visit: _Visit, now: float, chance: float) -> Sleep | None:
        """Wait for a key of this candidate if that is worth it; otherwise move on."""
        back = self._back_at(visit, now)
        if back is None or visit.waits >= self._retry.max_retries:
            self._pass_by(visit, now, back)
            return None
        wait = max(back, visit.again) - now
        longest = self._retry.patience if self._another_is_ready(now) else self._retry.cap
        if wait > longest or not self._fits(now, wait):
            self._pass_by(visit, now, back)
            return None
        visit.waits += 1
        return self._rest(visit.stop, now, wait, chance)

    def _wait_for_first(self, now: float, chance: float) -> Action:
        """Every candidate was passed: wait for the one that is back first, if that is allowed and soon enough."""
        back = {i: at for i, visit in self._visits.items() if (at := self._back_at(visit, now)) is not None}
        if self._retry.wait_for_cooldown and back and self._rounds < max(1, self._retry.max_retries):
            first = min(back, key=lambda i: back[i])
            wait = max(back[first] - now, 0.0)
            if wait <= self._retry.cap and self._fits(now, wait):
                self._rounds += 1
                self._index = 0
                return self._rest(self._route[first], now, wait, chance)
        if not back and self._a_probe_is_out(now) and self._polled < self._retry.cap and self._fits(now, PROBE_POLL):
            self._polled += PROBE_POLL
            self._index = 0
            return self._sleep(PROBE_POLL)
        return self._raise(self._primary_error(now), now)

    # ---------------------------------------------------------------- outcomes

    def succeeded(
        self, action: StartAttempt, now: float, started: float, *, usage: Usage | None, request_id: str | None
    ) -> None:
        """Record that this attempt answered."""
        stop = action.stop
        self.events.extend(remember_success(stop, action.permit))
        self.attempts.append(self._attempt(action, now, started, None, usage=usage, request_id=request_id, status=200))

    def failed(
        self, action: StartAttempt, now: float, started: float, error: ReliableLLMError, chance: float = 0.0
    ) -> None:
        """Record that this attempt failed, and decide what follows."""
        stop = action.stop
        visit = self._visit(self._index)
        visit.last_error = error
        self._reason = error.kind
        self._failed_from = stop
        self.attempts.append(self._failed_attempt(action, now, started, error))
        backoff = backoff_delay(self._retry, visit.waits, chance)
        cooldown = backoff if error.retry_after is None else error.retry_after
        self.events.extend(remember_failure(stop, action.permit, error, now, self._recovery, cooldown))
        self._decide(visit, action, error, now, backoff, chance)
        left = max(0, self._retry.max_retries + 1 - visit.attempts) if not visit.left and self._final is None else 0
        self.events.append(self._failure_event(action, error, now - started, left))

    def abandoned(self, action: StartAttempt, now: float, started: float, *, usage: Usage | None = None) -> None:
        """Record that the caller went away: permits go back, health is untouched."""
        release(action.stop, action.permit)
        self.attempts.append(self._attempt(action, now, started, Kind.CANCELLED, usage=usage))

    def withdrawn(self, action: StartAttempt) -> None:
        """Take back an attempt that was never sent: the request cannot be put in the vendor's terms."""
        release(action.stop, action.permit)

    def refused(self, action: StartAttempt, error: ReliableLLMError) -> None:
        """Pass by a candidate whose adapter cannot express the request; nothing was sent."""
        release(action.stop, action.permit)
        self._visit(self._index).left = True
        reason = error.verdict.feature or str(error.kind)
        self.events.append(events.CandidateSkipped(action.stop.provider, action.stop.model, reason))

    def fails_over_on(self, kind: Kind) -> bool:
        """Tell whether the caller wants to move on for this kind, which is raised by default."""
        return kind in self._retry.failover_on

    @property
    def requested(self) -> Candidate:
        """The first choice."""
        return self._route[0].candidate

    def _decide(
        self, visit: _Visit, action: StartAttempt, error: ReliableLLMError, now: float, backoff: float, chance: float
    ) -> None:
        verdict = error.verdict
        key = action.key_index
        if error.kind is Kind.DEADLINE:
            self._final = error
        elif self._can_do_without(visit, error):
            visit.without |= {verdict.feature or ""}
        elif error.kind is Kind.CONTEXT_WINDOW:
            self._need_larger(visit, error)
        elif not verdict.failover and error.kind not in self._retry.failover_on:
            self._final = error
        elif error.kind is Kind.RATE_LIMITED:
            self._rest_limited(visit, key, verdict, now, backoff)
        elif verdict.rotate_key and not verdict.retry_same:
            visit.dead.add(key)
        elif verdict.retry_same:
            self._retry_or_leave(visit, key, error, now, backoff, chance)
        else:
            if error.kind is Kind.PERMISSION and verdict.scope is Scope.PROVIDER:
                self._avoid.add(action.stop.provider)
            self._leave(visit, now)

    def _can_do_without(self, visit: _Visit, error: ReliableLLMError) -> bool:
        feature = error.verdict.feature
        if error.kind is not Kind.UNSUPPORTED or feature is None or feature in visit.without:
            return False
        return feature in EMULATED or (feature == "tools" and visit.stop.capabilities.prompt_tools)

    def _need_larger(self, visit: _Visit, error: ReliableLLMError) -> None:
        """Go on only to candidates known to have a larger window; with none, the error stands."""
        limit = visit.stop.capabilities.context_window or error.verdict.limit_tokens
        used = error.verdict.used_tokens
        known = max((n for n in (limit, used, self._larger_than) if n is not None), default=None)
        visit.left = True
        self._larger_than = known
        later = self._route[self._index + 1 :]
        if known is None or not any(self._is_larger(stop, known) for stop in later):
            self._final = error

    def _rest_limited(self, visit: _Visit, key: int, verdict: Verdict, now: float, backoff: float) -> None:
        visit.attempts += 1
        visit.tried.add(key)
        visit.again = now + backoff
        until = now + (backoff if verdict.retry_after is None else verdict.retry_after)
        if not verdict.rotate_key:
            visit.shut_until = until
            if not verdict.retry_same and verdict.retry_after is None:
                self._leave(visit, now)
        elif not verdict.retry_same and verdict.retry_after is None:
            visit.dead.add(key)
        else:
            visit.resting[key] = until

    def _retry_or_leave(
        self, visit: _Visit, key: int, error: ReliableLLMError, now: float, backoff: float, chance: float
    ) -> None:
        visit.attempts += 1
        visit.tried.add(key)
        hint = error.retry_after or 0.0
        delay = max(backoff, hint + spread(self._retry, hint, chance))
        if visit.attempts > self._retry.max_retries or hint > self._retry.cap or not self._fits(now, delay):
            self._leave(visit, now)
            self._trip_breaker(visit, error, now)
            return
        visit.waits += 1
        visit.wake = now + delay
        self.events.append(events.RetryScheduled(visit.stop.provider, visit.stop.model, delay, error.kind))

    def _leave(self, visit: _Visit, now: float) -> None:
        visit.left = True
        if visit.last_permit is not None and visit.last_error is not None and visit.last_error.kind in TRANSIENT:
            repark_probe(visit.stop, visit.last_permit, now, self._recovery)

    def _trip_breaker(self, visit: _Visit, error: ReliableLLMError, now: float) -> None:
        seconds = self._recovery.breaker.get(error.kind, 0.0)
        if seconds and visit.last_permit is not None:
            fault = Fault(kind=error.kind, at=now, status=error.status, code=error.code)
            self.events.extend(rest_candidate(visit.stop, visit.last_permit, fault, seconds))

    # ---------------------------------------------------------------- questions

    def _may_serve(self, visit: _Visit, now: float) -> bool:
        """Tell whether the candidate can serve this request at all; if not, it is left without a request."""
        reason = self._obstacle(visit.stop, now)
        if reason is None:
            return True
        visit.left = True
        self.events.append(events.CandidateSkipped(visit.stop.provider, visit.stop.model, reason))
        return False

    def _obstacle(self, stop: Stop, now: float) -> str | None:
        if stop.provider in self._avoid:
            return "provider refused this caller"
        if self._larger_than is not None and not self._is_larger(stop, self._larger_than):
            return "context_window"
        if not len(stop.health.ring):
            return "no key"
        return obstacle(stop, lacking(stop, self._needs, now)) if self._needs else None

    @staticmethod
    def _is_larger(stop: Stop, tokens: int) -> bool:
        window = stop.capabilities.context_window
        return window is not None and window > tokens

    def _another_is_ready(self, now: float) -> bool:
        """Tell whether a later candidate could take an attempt at this moment."""
        for stop in self._route[self._index + 1 :]:
            gate = stop.health.candidate(stop.model)
            if self._obstacle(stop, now) is None and (gate is None or gate.admits(now)):
                ready = stop.health.ring.ready_at(now, stop.model)
                if ready is not None and ready <= now:
                    return True
        return False

    def _back_at(self, visit: _Visit, now: float) -> float | None:
        """Return when this candidate can take another attempt; None if that is not known, or never."""
        stop = visit.stop
        gate = stop.health.candidate(stop.model)
        shut = gate.opens_at(now) if gate is not None else now
        if visit.left or shut is None:
            return None
        ready = stop.health.ring.ready_at(now, stop.model, skip=visit.dead | visit.resting.keys())
        locally = [self._own_return(visit, index, until, now) for index, until in visit.resting.items()]
        times = [at for at in (ready, *locally) if at is not None]
        return max(min(times), shut, visit.shut_until) if times else None

    def _own_return(self, visit: _Visit, index: int, until: float, now: float) -> float | None:
        others = set(range(len(visit.stop.health.ring))) - {index}
        ready = visit.stop.health.ring.ready_at(now, visit.stop.model, skip=others)
        return None if ready is None or index in visit.dead else max(ready, until)

    def _a_probe_is_out(self, now: float) -> bool:
        return any(
            visit.stop.health.ring.has_probe_out(now, visit.stop.model)
            for visit in self._visits.values()
            if not visit.left and visit.last_error is None
        )

    def _fits(self, now: float, wait: float) -> bool:
        return self._deadline is None or now + wait < self._deadline

    # ---------------------------------------------------------------- making actions

    def _rest(self, stop: Stop, now: float, wait: float, chance: float) -> Sleep:
        padded = wait + spread(self._retry, wait, chance)
        delay = padded if self._fits(now, padded) else wait
        self.events.append(events.RetryScheduled(stop.provider, stop.model, delay, Kind.RATE_LIMITED))
        return self._sleep(delay)

    def _sleep(self, seconds: float) -> Sleep:
        self._slept += seconds
        return Sleep(seconds)

    def _pass_by(self, visit: _Visit, now: float, back: float | None) -> None:
        stop = visit.stop
        fault = self._stored_fault(stop)
        if fault is None:
            return
        remaining = None if back is None else back - now
        self.events.append(events.CandidateResting(stop.provider, stop.model, fault.kind, remaining))
        if fault.kind is Kind.QUOTA_EXHAUSTED and remaining is not None and visit.last_error is None:
            self.events.append(events.QuotaModeActive(stop.provider, remaining))

    def _raise(self, error: ReliableLLMError, now: float) -> Raise:
        """Complete the error with the story, once."""
        self._final = error
        error.attempts = tuple(self.attempts)
        earliest = self._earliest_return(now)
        if earliest is not None and error.kind in _TIME_HEALS:
            error.retry_after = earliest
        untried = [str(s.candidate) for s in self._route[self._index + 1 :]] if error.kind is Kind.DEADLINE else []
        error.args = (describe(error, self.attempts, untried),)
        self.events.append(events.CallFailed(error.kind, len(self.attempts), error.retry_after))
        return Raise(error)

    def _earliest_return(self, now: float) -> float | None:
        """Return in how many seconds the first resting candidate is back; None where none of them rests."""
        times = [at - now for visit in self._visits.values() if (at := self._rests_until(visit, now)) > now]
        return min(times, default=None)

    def _rests_until(self, visit: _Visit, now: float) -> float:
        stop = visit.stop
        ready = stop.health.ring.ready_at(now, stop.model) or 0.0
        locally = min(visit.resting.values(), default=0.0) if len(visit.resting) == len(stop.health.ring) else 0.0
        gate = stop.health.candidate(stop.model)
        shut = (gate.opens_at(now) if gate is not None else None) or 0.0
        return max(ready, locally, visit.shut_until, 0.0 if shut == FOREVER else shut)

    def _primary_error(self, now: float) -> ReliableLLMError:
        """Return the error of the first candidate that has one: met in this call, or remembered."""
        for index in range(len(self._route)):
            visit = self._visit(index)
            if visit.last_error is not None:
                return visit.last_error
            fault = self._stored_fault(visit.stop)
            if fault is not None:
                return self._from_fault(visit.stop, fault)
        return self._nobody_can(now)

    @staticmethod
    def _stored_fault(stop: Stop) -> Fault | None:
        gate = stop.health.candidate(stop.model)
        if gate is not None and gate.fault is not None:
            return gate.fault
        return stop.health.ring.fault(stop.model)

    @staticmethod
    def _from_fault(stop: Stop, fault: Fault) -> ReliableLLMError:
        usual = default_verdict(fault.kind, rule="remembered")
        verdict = Verdict(
            kind=usual.kind,
            scope=usual.scope,
            rotate_key=usual.rotate_key,
            retry_same=usual.retry_same,
            failover=usual.failover,
            status=fault.status,
            code=fault.code,
            rule=usual.rule,
        )
        return ERROR_CLASSES[fault.kind](verdict=verdict, provider=stop.provider, model=stop.model)

    def _nobody_can(self, now: float) -> ReliableLLMError:
        reasons = [f"{stop.candidate}: {self._obstacle(stop, now)}" for stop in self._route]
        message = "no candidate can serve this request (" + "; ".join(reasons) + ")"
        if self._larger_than is not None:
            return ContextWindowError(message)
        return UnsupportedFeatureError(message)

    # ---------------------------------------------------------------- the ledger and the announcements

    def _attempt(
        self,
        action: StartAttempt,
        now: float,
        started: float,
        kind: Kind | None,
        *,
        usage: Usage | None = None,
        request_id: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> Attempt:
        stop = action.stop
        waited, self._slept = self._slept, 0.0
        return Attempt(
            number=action.number,
            provider=stop.candidate.provider,
            model=stop.candidate.model,
            key_label=stop.health.ring.labels[action.key_index],
            started=started - self._started,
            elapsed=now - started,
            waited=waited,
            kind=kind,
            status=status,
            code=code,
            request_id=request_id,
            retry_after=retry_after,
            usage=usage,
            probe=action.permit.probe,
        )

    def _failed_attempt(self, action: StartAttempt, now: float, started: float, error: ReliableLLMError) -> Attempt:
        error.provider = action.stop.provider
        error.model = action.stop.model
        error.key_label = action.stop.health.ring.labels[action.key_index]
        return self._attempt(
            action,
            now,
            started,
            error.kind,
            usage=error.usage,
            request_id=error.request_id,
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
        )

    def _failure_event(
        self, action: StartAttempt, error: ReliableLLMError, elapsed: float, left: int
    ) -> events.AttemptFailed:
        return events.AttemptFailed(
            provider=action.stop.provider,
            model=action.stop.model,
            key=error.key_label or "",
            number=action.number,
            retries_left=left,
            kind=error.kind,
            status=error.status,
            code=error.code,
            request_id=error.request_id,
            retry_after=error.retry_after,
            elapsed=elapsed,
        )

    def _announce_move(self, stop: Stop, key_index: int) -> None:
        origin, reason = self._failed_from, self._reason
        self._reason = None
        if origin is None or reason is None:
            return
        if origin.candidate != stop.candidate:
            self.events.append(events.Failover(str(origin.candidate), str(stop.candidate), reason))
        elif self._last_key is not None and self._last_key != key_index:
            labels = stop.health.ring.labels
            self.events.append(events.KeyRotated(stop.provider, labels[self._last_key], labels[key_index], reason))

    def _announce_probe(self, stop: Stop, permit: Permit, now: float) -> None:
        ring = stop.health.ring
        fault = ring.gate(permit.key.place).fault
        if permit.key.key.probe and fault is not None:
            self.events.append(events.QuotaProbe(stop.provider, ring.labels[permit.key.place], now - fault.at))
