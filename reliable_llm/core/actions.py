"""What the machine of a call can ask its driver to do."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from reliable_llm.core.memory import Permit
from reliable_llm.core.pacing import Demand, Ticket
from reliable_llm.core.route import Stop
from reliable_llm.core.visit import Visit
from reliable_llm.errors import ReliableLLMError


class StartAttempt(NamedTuple):
    """Send the request to `stop` with the key at `key_place`.

    `until` is when it has to end for the deadline's sake, None without one; `reserved` tells that this is before the
    deadline, which keeps time for candidates not yet tried.
    `without` names features that this candidate lacks and that must be emulated. `cuts` is how often the history has to
    be cut first. `ticket` is what the attempt uses of a limited pace.
    """

    stop: Stop
    key_place: int
    permit: Permit
    number: int
    until: float | None
    reserved: bool
    without: frozenset[str]
    cuts: int = 0
    ticket: Ticket | None = None


class Sleep(NamedTuple):
    """Wait `seconds`, then ask again."""

    seconds: float


class AwaitTurn(NamedTuple):
    """Queue for the pace of a candidate (`visit.turn_at`), at most until `until`, then ask again."""

    visit: Visit
    demand: Demand
    until: float | None


class Raise(NamedTuple):
    """The call has failed with `error`."""

    error: ReliableLLMError


Action: TypeAlias = StartAttempt | Sleep | AwaitTurn | Raise
