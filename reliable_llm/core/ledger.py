"""The record of one call: every attempt, in order, and the facts about it that listeners are told."""

from __future__ import annotations

from collections.abc import Sequence

from reliable_llm import events
from reliable_llm.core.actions import StartAttempt
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
        self.attempts.append(
            self._attempt(action, now, started, usage=usage, request_id=printable(request_id), status=200)
        )

    def cancelled(self, action: StartAttempt, now: float, started: float, usage: Usage | None) -> None:
        self.attempts.append(self._attempt(action, now, started, kind=Kind.CANCELLED, usage=usage))

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
                kind=error.kind,
                usage=error.usage,
                request_id=error.request_id,
                status=error.status,
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

    def _attempt(
        self,
        action: StartAttempt,
        now: float,
        started: float,
        *,
        kind: Kind | None = None,
        usage: Usage | None = None,
        request_id: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> Attempt:
        stop = action.stop
        waited, self.slept = self.slept, 0.0
        return Attempt(
            number=action.number,
            provider=stop.candidate.provider,
            model=stop.candidate.model,
            key_label=stop.health.ring.labels[action.key_place],
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
