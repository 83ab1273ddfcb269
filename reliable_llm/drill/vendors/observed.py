"""What was seen on the wire: the drill's counts come from here, never from the product's own ledger."""

from __future__ import annotations

import contextvars
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from reliable_llm.drill.vendors.shapes import Json

# The application's call on whose behalf code runs; set by whoever makes the call.
current_call: Final[contextvars.ContextVar[str | None]] = contextvars.ContextVar("drill_call", default=None)


@dataclass(slots=True, kw_only=True)
class Arrival:
    """One request and what became of it: `outcome` is empty while it is open, `silent_since` the last sign of life.

    `provider`, `key` and `model` are the script's names, `where` is what reports say.
    """

    number: int
    at: float
    provider: str
    key: str
    model: str
    call: str | None
    streamed: bool
    where: str
    body: Json = field(repr=False)
    act: str = ""
    status: int | None = None
    outcome: str = ""
    ended: float | None = None
    silent_since: float = 0.0

    @property
    def names(self) -> tuple[str, str, str]:
        return self.provider, self.key, self.model

    @property
    def waited(self) -> float:
        """Seconds in which the caller waited for nothing, until it gave up."""
        return self.ended - self.silent_since if self.outcome == "gave up" and self.ended is not None else 0.0


class Observed:
    """All arrivals, in order. `watch` is called when one comes and when one ends."""

    def __init__(self, watch: Callable[[Arrival], None] | None = None) -> None:
        self.arrivals: list[Arrival] = []
        self.injected: list[BaseException] = []
        self.unscripted: list[str] = []
        self._watch = watch or (lambda _arrival: None)

    def arrived(self, arrival: Arrival) -> None:
        self.arrivals.append(arrival)
        self._watch(arrival)

    def ended(self, arrival: Arrival, at: float, outcome: str) -> None:
        if not arrival.outcome:
            arrival.ended, arrival.outcome = at, outcome
            self._watch(arrival)

    def requests(self) -> dict[str, int]:
        """Return how many requests came, by provider/key/model."""
        return dict(Counter(arrival.where for arrival in self.arrivals))

    def order(self) -> list[str]:
        return [arrival.where for arrival in self.arrivals]

    def open(self) -> list[Arrival]:
        return [arrival for arrival in self.arrivals if not arrival.outcome]
