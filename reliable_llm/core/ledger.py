"""The record of one call: every attempt, in order, and the facts about it that listeners are told."""

from __future__ import annotations

from collections.abc import Sequence

from reliable_llm import events
from reliable_llm.core.actions import StartAttempt
from reliable_llm.core.route import Stop
from reliable_llm.core.visit import Visit
from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.types import Attempt, Usage


class Ledger:
    """Attempts and events of one call. `slept` is the time waited since the last attempt."""

    __slots__ = ("_started", "attempts", "events", "slept")

    def __init__(self, now: float) -> None:
        self._started = now
        self.slept = 0.0
        self.attempts: list[Attempt] = []
        self.events: list[events.Event] = []

    def answered(
        self, action: StartAttempt, now: float, started: float, usage: Usage | None, request_id: str | None
    ) -> None:
        self.attempts.append(self._attempt(action, now, started, None, usage, printable(request_id), 200))

    def cancelled(self, action: StartAttempt, now: float, started: float, usage: Usage | None) -> None:
        self.attempts.append(self._attempt(action, now, started, Kind.CANCELLED, usage))

    def failed(self, action: StartAttempt, now: float, started: float, error: ReliableLLMError) -> None:
        """Record a failure, and write on the error where it happened."""
        error.request_id = printable(error.request_id)
        error.provider = action.stop.provider
        error.model = action.stop.model
        error.key_label = action.stop.health.ring.labels[action.key_place]
        self.attempts.append(
            self._attempt(
                action,
                now,
                started,
                error.kind,
                error.usage,
                error.request_id,
                error.status,
                code=error.code,
                retry_after=error.retry_after,
            )
        )
        if error.inner:
            open_up(self.attempts, error.inner)

    def tell_failure(self, action: StartAttempt, error: ReliableLLMError, retries_left: int, place: int) -> None:
        """Announce the failure just recorded, at *place*: before what followed from it."""
        attempt = self.attempts[-1]
        self.events.insert(
            place,
            events.AttemptFailed(
                provider=attempt.provider,
                model=attempt.model,
                key=attempt.key_label,
                number=action.number,
                retries_left=retries_left,
                kind=error.kind,
                status=error.status,
                code=error.code,
                request_id=error.request_id,
                retry_after=error.retry_after,
                elapsed=attempt.elapsed,
            ),
        )

    # ---------------------------------------------------------------- what listeners are told besides

    def tell_retry(self, stop: Stop, delay: float, reason: Kind) -> None:
        self.events.append(events.RetryScheduled(stop.provider, stop.model, delay, reason))

    def tell_skipped(self, stop: Stop, reason: str) -> None:
        hosted = reason.startswith("hosted_tool")
        skipped = events.ToolSkipped if hosted else events.CandidateSkipped
        self.events.append(skipped(stop.provider, stop.model, "unsupported_tool" if hosted else reason))

    def tell_resting(self, visit: Visit, now: float, back: float | None) -> None:
        """Say that a candidate is passed by because of what other calls have found out."""
        fault = visit.stored_fault()
        if fault is None or visit.last_error is not None:
            return
        stop = visit.stop
        remaining = None if back is None else back - now
        probing = stop.health.ring.has_probe_out(now, stop.model)
        self.events.append(events.CandidateResting(stop.provider, stop.model, fault.kind, remaining, probing))
        if fault.kind is Kind.QUOTA_EXHAUSTED and remaining is not None:
            self.events.append(events.QuotaModeActive(stop.provider, remaining))

    def tell_move(self, last: StartAttempt, action: StartAttempt, reason: Kind) -> None:
        """Say that a failover or a rotation happens: now that it does, not when it was decided on."""
        labels = action.stop.health.ring.labels
        if last.stop.candidate != action.stop.candidate:
            self.events.append(events.Failover(str(last.stop.candidate), str(action.stop.candidate), reason))
        elif last.key_place != action.key_place:
            here, there = labels[last.key_place], labels[action.key_place]
            self.events.append(events.KeyRotated(action.stop.provider, here, there, reason))

    def tell_probe(self, action: StartAttempt, now: float) -> None:
        ring = action.stop.health.ring
        fault = ring.gate(action.key_place).fault
        if action.permit.key.key.probe and fault is not None:
            label = ring.labels[action.key_place]
            self.events.append(events.QuotaProbe(action.stop.provider, label, now - fault.at))

    def _attempt(
        self,
        action: StartAttempt,
        now: float,
        started: float,
        kind: Kind | None,
        usage: Usage | None,
        request_id: str | None = None,
        status: int | None = None,
        *,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> Attempt:
        stop = action.stop
        waited, self.slept = self.slept, 0.0
        label = stop.health.ring.labels[action.key_place]
        began, elapsed = started - self._started, now - started
        return Attempt(
            action.number,
            stop.provider,
            stop.model,
            label,
            began,
            elapsed,
            waited,
            kind,
            status,
            code,
            request_id,
            retry_after,
            usage,
            action.permit.probe,
        )


def printable(request_id: str | None) -> str | None:
    """Return *request_id* without what would write a line of its own into a log, or colour it: a vendor chose it."""
    if request_id is None or request_id.isprintable():
        return request_id
    return "".join(character for character in request_id if character.isprintable())


def open_up(attempts: list[Attempt], inner: Sequence[Attempt]) -> None:
    """Put the attempts of a coordinator inside in place of the last of *attempts*, which stands for all of them."""
    outer = attempts.pop()
    for number, each in enumerate(inner, start=len(attempts) + 1):
        waited = each.waited + (outer.waited if each is inner[0] else 0.0)
        attempts.append(each._replace(number=number, started=outer.started + each.started, waited=waited))
