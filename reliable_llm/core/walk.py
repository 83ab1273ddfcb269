"""Where one call stands on its route, and what it has found out about the candidates there. Questions, no decisions."""

from __future__ import annotations

from collections.abc import Sequence

from reliable_llm.core.pacing import Demand
from reliable_llm.core.route import Needs, Stop, lacking, obstacle
from reliable_llm.core.visit import NO_FEATURES, Visit
from reliable_llm.policy import RetryPolicy


class Walk:
    """`index` is the place of the candidate that is being asked or waited for; `retry` the policy of the call.

    `larger_than` is the number of tokens that a candidate's window has to exceed, once a smaller one has refused.
    `rounds` counts how often the call has waited for whoever is back first, `polled` the seconds for another's probe.
    """

    __slots__ = (
        "_avoid",
        "deadline",
        "demand",
        "index",
        "larger_than",
        "needs",
        "polled",
        "retry",
        "rounds",
        "route",
        "visits",
    )

    def __init__(
        self,
        route: Sequence[Stop],
        retry: RetryPolicy,
        needs: Needs | None,
        deadline: float | None,
        demand: Demand | None,
    ) -> None:
        self.route = route
        self.retry = retry
        self.deadline = deadline
        self.demand = demand
        self.index = 0
        self.visits: dict[int, Visit] = {}
        self.larger_than: int | None = None
        self.rounds = 0
        self.polled = 0.0
        self.needs = needs
        self._avoid: frozenset[str] = frozenset()

    @property
    def here(self) -> Visit:
        """The visit to the candidate at `index`."""
        return self.visit(self.index)

    def visit(self, index: int) -> Visit:
        """Return the visit to a candidate, made when first asked for."""
        visit = self.visits.get(index)
        if visit is None:
            visit = self.visits[index] = Visit(self.route[index], self.retry, self.demand)
        return visit

    # ---------------------------------------------------------------- what a candidate could take

    def may_miss(self, stop: Stop) -> bool:
        """Tell whether the candidate may lack a feature that the request needs: most need not be looked at further."""
        return self.needs is not None and (self.needs.hosted or not stop.is_complete)

    def missing(self, stop: Stop, now: float) -> frozenset[str]:
        """Return the features that the request needs and the candidate lacks."""
        if self.needs is None or not self.may_miss(stop):
            return NO_FEATURES
        return lacking(stop, self.needs.at(stop), now)

    def avoid(self, provider: str) -> None:
        """Go to no candidate of *provider* any more."""
        self._avoid |= {provider}

    def obstacle(self, stop: Stop, now: float) -> str | None:
        """Return why a candidate cannot serve this request at all; None where it can."""
        if stop.provider in self._avoid:
            return "provider refused this caller"
        if self.larger_than is not None and not is_larger(stop, self.larger_than):
            return "context_window"
        if not stop.health.ring.labels:
            return "no key"
        missing = self.missing(stop, now)
        return obstacle(stop, missing) if missing else None

    def why_not(self, index: int, now: float) -> str | None:
        """Return why nothing was sent to a candidate."""
        return self.visit(index).refusal or self.obstacle(self.route[index], now)

    # ---------------------------------------------------------------- who is ready, and when

    def another_is_ready(self, now: float) -> bool:
        """Tell whether a later candidate could take an attempt at this moment."""
        for index in range(self.index + 1, len(self.route)):
            back = self.visit(index).back_at(now)
            ready = back is not None and back <= now and not self.visit(index).is_held_back(now)
            if ready and self.obstacle(self.route[index], now) is None:
                return True
        return False

    def held_back(self, now: float) -> Visit | None:
        """Return the candidate that has room first, of those which nothing but their pace keeps from an attempt.

        Those who queue there already go first; a queue that is full comes last.
        """
        if self.demand is None:
            return None
        held = [visit for visit in self.visits.values() if visit.is_held_back(now)]
        return min(held, key=lambda visit: (visit.has_full_queue, visit.queue_at(now)), default=None)

    def back_by_now(self, now: float) -> int | None:
        """Return the place of a candidate that was passed by, and that has come back while the call was elsewhere."""
        for index, visit in self.visits.items():
            passed_by = visit.last_error is None and not visit.looked_again and not visit.is_behind_breaker
            back = visit.back_at(now) if passed_by else None
            if back is not None and back <= now:
                visit.looked_again = True
                return index
        return None

    def first_back(self, now: float) -> tuple[int, float] | None:
        """Return the place of the candidate that is back first, of those that may be waited for, and when that is."""
        allowed = {index: visit for index, visit in self.visits.items() if visit.may_be_waited_for}
        back = {index: at for index, visit in allowed.items() if (at := visit.back_at(now)) is not None}
        return min(back.items(), key=lambda each: each[1]) if back else None

    def a_probe_is_out(self, now: float) -> bool:
        """Tell whether another call tries a candidate that this one has nothing else to ask than."""
        untried = (visit for visit in self.visits.values() if not visit.left and visit.last_error is None)
        return any(visit.stop.health.ring.has_probe_out(now, visit.stop.model) for visit in untried)

    def seconds_left(self, now: float) -> float | None:
        """Return in how many seconds the first candidate that rests is back; None where none does."""
        times = [at - now for visit in self.visits.values() if (at := visit.rests_until(now)) > now]
        return min(times, default=None)

    # ---------------------------------------------------------------- how long

    def fits(self, now: float, wait: float) -> bool:
        """Tell whether a wait ends before the deadline."""
        return self.deadline is None or now + wait < self.deadline

    def until(self, now: float) -> tuple[float | None, bool]:
        """Return when an attempt that starts now has to end, and whether that is to leave time for later candidates."""
        if self.deadline is None:
            return None, False
        reserve = self.retry.reserve * (len(self.route) - self.index - 1)
        return (self.deadline - reserve, True) if 0 < reserve < self.deadline - now else (self.deadline, False)

    def longest_wait(self, visit: Visit, wait: float, now: float) -> float:
        """Return how long a resting candidate may be waited for; *wait* is what it would take."""
        cap, patience = visit.retry.cap, visit.retry.patience
        if wait > cap and wait > patience:  # whoever else is there: a key that is out of quota, above all
            return cap
        if self.another_is_ready(now) or self.held_back(now):
            return patience if visit.is_rate_limited else -1.0
        return cap


def is_larger(stop: Stop, tokens: int) -> bool:
    """Tell whether a candidate is known to have a window of more than *tokens*."""
    window = stop.capabilities.context_window
    return window is not None and window > tokens
