"""Who is told what happens: the log, the listeners, and the store of health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from reliable_llm import events
from reliable_llm.calls import CallTeller
from reliable_llm.telemetry.log import EventLog

if TYPE_CHECKING:
    from reliable_llm.core.actions import StartAttempt
    from reliable_llm.core.failover import FailoverCall
    from reliable_llm.events import Event, Listener
    from reliable_llm.state.base import Member


class Announcer:
    """Hands events on. `teller` tells of whole calls those listeners that want to hear of them."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self.member: Member | None = None
        self._log = EventLog()
        self._listeners: tuple[Listener, ...] = tuple(listeners)
        self.teller = CallTeller.of(self._listeners, self._log.listener_failed)

    def announce(self, call: FailoverCall, action: StartAttempt, tags: Mapping[str, str]) -> bool:
        """Tell that an attempt starts, if anybody wants to know; return whether somebody does."""
        if call.events:
            self.emit(call.events, tags)
        if not self._listeners and not self._log.wants(events.DEBUG):
            return False
        stop = action.stop
        label = stop.health.ring.labels[action.key_place]
        started = events.AttemptStarted(stop.provider, stop.model, label, action.number, action.permit.probe)
        self.emit([started], tags)
        return True

    def answered(self, call: FailoverCall, action: StartAttempt, elapsed: float) -> None:
        """Tell, with what happens next, that an attempt has answered: to those who were told that it started."""
        stop, first = action.stop, str(call.requested)
        label = stop.health.ring.labels[action.key_place]
        call.events.append(events.AttemptSucceeded(stop.provider, stop.model, label, action.number, elapsed, first))

    def emit(self, happened: list[Event], tags: Mapping[str, str]) -> None:
        """Hand events on and clear the list."""
        for event in happened:
            self._log(event, tags)
            if self.member is not None:
                self.member(event, tags)
            for listener in self._listeners:
                try:
                    listener(event, tags)
                except Exception as error:  # noqa: BLE001 - whoever listens in must not fail the call
                    self._log.listener_failed(listener, error)
        happened.clear()
