"""What happens on a failure: the rule, read off the failure's verdict.

* it cannot be helped by anybody else: the call ends with it, unless the caller has asked to fail over on this kind;
* another key can work: the next ready key, at once; rotation costs no retry (a 429: the key rests until the server's
  hint, and is waited for only where nobody else is ready, or within `patience`);
* the same candidate can work: wait (backoff, or the server's hint), at most `max_retries` times;
* otherwise: the next candidate, at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.backoff import REST_WITHOUT_HINT, spread
from reliable_llm.core.features import can_do_without, refused_feature
from reliable_llm.core.ledger import Ledger
from reliable_llm.core.memory import TRANSIENT, repark_probe, rest_candidate
from reliable_llm.core.recovery import Fault
from reliable_llm.core.visit import NO_FEATURES, Visit
from reliable_llm.core.walk import Walk, is_larger
from reliable_llm.errors import Kind, ReliableLLMError, Scope
from reliable_llm.policy import RecoveryPolicy


@dataclass(slots=True)
class Setback:
    """One failed attempt, and all that bears on what follows. `backoff` is the wait before the next try here.

    `cuts` is how often a history that is too long may be cut; `chance` this moment's share of jitter.
    """

    walk: Walk
    ledger: Ledger
    recovery: RecoveryPolicy
    visit: Visit
    action: StartAttempt
    error: ReliableLLMError
    now: float
    backoff: float
    chance: float
    cuts: int

    def decide(self) -> bool:
        """Change the visit and the walk as the rule says; return whether the call ends with this error."""
        error, verdict, visit = self.error, self.error.verdict, self.visit
        feature = refused_feature(error)
        if error.kind is Kind.DEADLINE:
            return True
        if feature is not None:
            self._do_without_or_leave(feature)
        elif error.kind is Kind.INVALID_OUTPUT and visit.repairs < visit.retry.schema_retries:
            visit.repair()
        elif error.kind is Kind.CONTEXT_WINDOW:
            return self._ends_for_want_of_a_larger_window()
        elif not verdict.failover and error.kind not in self.walk.retry.failover_on:
            return True
        elif error.kind is Kind.RATE_LIMITED:
            self._rest_limited()
        elif verdict.rotate_key and not verdict.retry_same:
            visit.dead.add(self.action.key_place)
        elif verdict.retry_same:
            self._retry_or_leave()
        else:
            if error.kind is Kind.PERMISSION and verdict.scope is Scope.PROVIDER:
                self.walk.avoid(self.action.stop.provider)
            self._leave()
        return False

    def _do_without_or_leave(self, feature: str) -> None:
        """Ask the candidate again in another form, where there is one; the next may have what this one refused."""
        action, visit = self.action, self.visit
        needs = NO_FEATURES if self.walk.needs is None else self.walk.needs.at(action.stop)
        prompt_tools = action.stop.capabilities.prompt_tools
        if can_do_without(feature, without=action.without, needs=needs, prompt_tools=prompt_tools):
            visit.without |= {feature}
        else:
            self._leave()

    def _ends_for_want_of_a_larger_window(self) -> bool:
        """Go on only to candidates known to have a larger window; with none, cut the history or let the error stand."""
        walk, visit, verdict = self.walk, self.visit, self.error.verdict
        limit = visit.stop.capabilities.context_window or verdict.limit_tokens
        known = max((n for n in (limit, verdict.used_tokens, walk.larger_than) if n is not None), default=None)
        later = walk.route[walk.index + 1 :]
        if known is not None and any(is_larger(stop, known) for stop in later):
            visit.left = True
            walk.larger_than = known
            return False
        if visit.cuts < self.cuts:
            visit.cuts += 1
            return False
        visit.left = True
        walk.larger_than = known
        return True

    def _rest_limited(self) -> None:
        visit, hint, place = self.visit, self.error.retry_after, self.action.key_place
        visit.attempts += 1
        visit.tried.add(place)
        visit.again = self.now + self.backoff
        until = self.now + (self.backoff if hint is None else hint)
        worth_waiting = self.error.verdict.retry_same or hint is not None
        if self.error.verdict.rotate_key:
            visit.resting[place] = until
            visit.dead |= set() if worth_waiting else {place}
        else:
            visit.shut_until = until
            visit.left = not worth_waiting

    def _retry_or_leave(self) -> None:
        visit = self.visit
        visit.attempts += 1
        visit.tried.add(self.action.key_place)
        hint = self.error.retry_after or 0.0
        delay = max(self.backoff, hint + spread(visit.retry, hint, self.chance))
        spent = visit.attempts > visit.retry.max_retries or self._is_last_chance()
        if spent or hint > visit.retry.cap or not self.walk.fits(self.now, delay):
            self._leave()
            return
        visit.waits += 1
        visit.wake = self.now + delay
        self.ledger.tell_retry(visit.stop, delay, self.error.kind)

    def _is_last_chance(self) -> bool:
        """A probe gets one attempt; silence (not a 504) is not waited for twice while somebody else could answer."""
        permit, error = self.visit.last_permit, self.error
        if permit is not None and permit.candidate is not None and permit.candidate.probe:
            return True
        silent = error.kind is Kind.TIMEOUT and error.status is None
        return silent and not self.visit.retry.retry_timeouts and self.walk.another_is_ready(self.now)

    def _leave(self) -> None:
        """Go on to the next candidate for good; the breaker trips where it is on for this kind."""
        visit, error = self.visit, self.error
        visit.left = True
        if visit.last_permit is None or error.kind not in TRANSIENT:
            return
        repark_probe(visit.stop, visit.last_permit, self.now, self.recovery)
        seconds = self.recovery.breaker.get(error.kind, 0.0)
        answered = visit.stop.health.answered_at.get(visit.stop.model, -1.0)
        if len(self.walk.route) == 1 or (visit.failing_since is not None and answered >= visit.failing_since):
            return
        fault = Fault(kind=error.kind, at=self.now, status=error.status, code=error.code)
        self.ledger.events.extend(rest_candidate(visit.stop, visit.last_permit, fault, seconds))


def cooldown(action: StartAttempt, error: ReliableLLMError, now: float, backoff: float) -> float:
    """Return how long a rate limit rests: as the server says; else long, if another key is ready, or a backoff."""
    if error.retry_after is not None:
        return error.retry_after
    if error.kind is not Kind.RATE_LIMITED or not error.verdict.rotate_key:
        return backoff
    stop = action.stop
    spare = stop.health.ring.ready_at(now, stop.model, skip=(action.key_place,)) == now
    return max(backoff, REST_WITHOUT_HINT) if spare else backoff
