"""What the simulation itself knows about who must rest: written from the rules, not from the core's code.

It is never stricter than the rules and sometimes more lenient (what it says of a hint-less limit is a lower bound), so
that every objection it raises is a broken rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reliable_llm.errors import Kind, Scope

if TYPE_CHECKING:
    from tests.simulation.watch import Request

FOREVER = float("inf")
BREAKER = "breaker"

# A probe that ends so has proved nothing.
UNDECIDED = {
    Kind.OVERLOADED,
    Kind.SERVER_ERROR,
    Kind.TIMEOUT,
    Kind.CONNECTION,
    Kind.MALFORMED_RESPONSE,
    Kind.EMPTY_RESPONSE,
    Kind.STREAM_INTERRUPTED,
    Kind.DEADLINE,
    Kind.CONFIGURATION,
    Kind.QUEUE_FULL,
    Kind.CLOSED,
}
NOT_THE_KEY = UNDECIDED | {Kind.QUOTA_EXHAUSTED, Kind.AUTHENTICATION, Kind.PERMISSION}
NOT_THE_CANDIDATE = NOT_THE_KEY | {Kind.RATE_LIMITED, Kind.MODEL_NOT_FOUND}


@dataclass(slots=True)
class Rest:
    """One thing that may have to rest. `murky`: late news came in of which it is not clear whether it still counts."""

    until: float | None = None
    needs_probe: bool = False
    probe: Request | None = None
    epoch: int = 0
    murky: bool = False
    reason: str = ""

    def open(self) -> None:
        self.epoch += 1
        self.until, self.probe, self.needs_probe, self.reason = None, None, False, ""

    def block(self, until: float, *, needs_probe: bool, reason: str) -> None:
        self.epoch += 1
        self.until, self.probe, self.needs_probe, self.reason = until, None, needs_probe, reason


@dataclass(slots=True)
class Book:
    """Rests of keys (all models), of keys for one model, and of candidates."""

    quota: float
    max_reset: float
    memory: float
    cooldowns: bool
    rests: dict[tuple[str, ...], Rest] = field(default_factory=dict)

    def rest(self, *place: str) -> Rest:
        return self.rests.setdefault(place, Rest())

    def _gates(self, request: Request) -> Iterator[tuple[str, Rest]]:
        yield f"key {request.key}", self.rest("key", request.key)
        yield f"key {request.key} for {request.model}", self.rest("key", request.key, request.model)
        yield f"candidate {request.candidate}", self.rest("candidate", str(request.candidate))

    def start(self, request: Request, now: float, *, nowhere_else: bool) -> Iterator[tuple[str, str]]:
        """Note that *request* starts; yield the rules that this breaks.

        *nowhere_else*: its call has asked nobody else so far, and may ask who rests behind a breaker.
        """
        probe = False
        for name, rest in self._gates(request):
            if rest.until is not None and not (rest.reason == BREAKER and nowhere_else):
                if now < rest.until:
                    yield "an attempt on what rests", f"{name} rests until {rest.until:g} ({rest.reason})"
                elif not rest.needs_probe:
                    rest.open()
                elif rest.probe is not None:
                    yield "a second probe", f"{name} is being probed by {rest.probe}"
                else:
                    rest.probe, probe = request, True
            request.epochs[name] = rest.epoch
        if probe and not request.probe:
            yield "a probe that is none", f"{request} goes to what has to be probed, and does not know"

    def release(self, request: Request) -> None:
        """The request was given up: nothing is proved."""
        for _, rest in self._gates(request):
            if rest.probe is request:
                rest.probe = None

    def succeeded(self, request: Request) -> None:
        for name, rest in self._gates(request):
            if (rest.probe is request or rest.reason == BREAKER) and request.epochs.get(name) == rest.epoch:
                rest.open()

    def failed(self, request: Request, kind: Kind, hint: float | None, now: float) -> None:
        """Note what this failure proves to be unfit, and what it says about a probe."""
        key, key_model, candidate = self._gates(request)
        rotate = request.rotate is not False
        match kind:
            case Kind.RATE_LIMITED if self.cooldowns:
                self._block(request, key_model if rotate else candidate, now + (hint or 0.04), probe=False, kind=kind)
            case Kind.QUOTA_EXHAUSTED if request.scope is not Scope.REQUEST:
                seconds = self.quota if hint is None else min(hint, self.max_reset)
                place = key_model if request.scope is Scope.MODEL else key
                self._block(request, place, now + seconds, probe=True, kind=kind)
            case Kind.AUTHENTICATION:
                self._block(request, key, FOREVER, probe=True, kind=kind)
            case Kind.PERMISSION:
                self._block(request, key_model, now + self.memory, probe=True, kind=kind)
            case Kind.MODEL_NOT_FOUND if self.memory > 0:
                self._block(request, candidate, now + self.memory, probe=True, kind=kind)
            case _:
                pass
        for (name, rest), undecided in zip(
            (key, key_model, candidate), (NOT_THE_KEY, NOT_THE_KEY, NOT_THE_CANDIDATE), strict=True
        ):
            if (rest.probe is request or rest.reason == BREAKER) and request.epochs.get(name) == rest.epoch:
                if kind in undecided:
                    rest.probe = None if rest.probe is request else rest.probe
                else:
                    rest.open()

    def _block(self, request: Request, place: tuple[str, Rest], until: float, *, probe: bool, kind: Kind) -> None:
        name, rest = place
        if request.epochs.get(name) == rest.epoch:
            rest.block(until, needs_probe=probe, reason=str(kind))
        else:
            rest.murky = True

    def parked(self, candidate: str, until: float) -> None:
        """The product has told that it rests a candidate after transient failures."""
        self.rest("candidate", candidate).block(until, needs_probe=True, reason=BREAKER)

    def isolated(self, candidate: str, until: float) -> None:
        self.rest("candidate", candidate).block(until, needs_probe=False, reason="isolated")

    def reset(self, provider: str | None) -> None:
        for place, rest in self.rests.items():
            if provider is None or place[1].startswith((f"{provider}#", f"{provider}/")):
                rest.open()
                rest.murky = False

    def surely_ready(self, candidate: str, model: str, keys: list[str]) -> bool:
        """Tell whether an attempt there would be allowed beyond doubt."""
        return self._clear("candidate", candidate) and any(
            self._clear("key", key) and self._clear("key", key, model) for key in keys
        )

    def _clear(self, *place: str) -> bool:
        rest = self.rests.get(place)
        return rest is None or (rest.until is None and not rest.murky)
