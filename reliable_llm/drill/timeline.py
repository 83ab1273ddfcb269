"""What happened and when: the drill's story, told as it goes and drawn afterwards."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reliable_llm.drill.vendors.observed import Arrival, current_call
from reliable_llm.events import Event

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something at second `at`: `what` is asked, sent, back, event, slept, answered or failed."""

    at: float
    what: str
    call: str | None
    fields: Mapping[str, object]


@dataclass(slots=True)
class Timeline:
    """Collects the moments of one drill; `tell` hears each as it comes."""

    tell: Callable[[Moment], None] | None = None
    moments: list[Moment] = field(default_factory=list)

    def add(self, what: str, call: str | None, fields: Mapping[str, object], *, at: float | None = None) -> None:
        moment = Moment(_now() if at is None else at, what, call, fields)
        self.moments.append(moment)
        if self.tell is not None:
            self.tell(moment)

    def arrival(self, arrival: Arrival) -> None:
        """Note that a request came, or that it ended."""
        place: Json = {"where": arrival.where, "number": arrival.number}
        if not arrival.outcome:
            self.add("sent", arrival.call, place)
            return
        outcome: Json = {"status": arrival.status, "act": arrival.act, "outcome": arrival.outcome}
        self.add("back", arrival.call, place | outcome | {"sent_at": arrival.at})

    def event(self, event: Event, tags: Mapping[str, str], /) -> None:
        """Listen to the coordinator."""
        self.add("event", current_call.get(), _fields(event))

    def events(self, keys: Mapping[str, str]) -> list[Json]:
        """Return the coordinator's events as plain data; *keys* names key labels as the scenario does."""
        told = [moment.fields for moment in self.moments if moment.what == "event"]
        return [{**facts, "key": keys.get(str(facts.get("key")), facts.get("key"))} for facts in told]


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


def _fields(event: Event) -> Json:
    facts: Json = {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}
    plain = {name: str(value) if isinstance(value, str) else value for name, value in facts.items()}
    return {"event": event.event, "level": logging.getLevelName(event.level), **plain}
