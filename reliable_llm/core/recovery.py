"""A gate in front of something that may have to rest: a key, a key for one model, a candidate.

    open ──block──> blocked ──time is up──> half-open ──probe succeeds──> open
                       ^                        │
                       └──────probe fails───────┘

Rules of this file:

* No timer runs. A gate compares `now` with the time it was blocked until.
* Every attempt holds a permit with the gate's generation. Each change of state starts a new generation, and a result of
  a past one changes nothing: a success that began before the bad news cannot clear it. (With a bare `probing: bool`,
  500 random walks gave 671 second probes and 1,652 openings by a stale success; with generations, none.)
* Half-open admits one probe. A probe that ends without a verdict (cancelled, or the transport failed) hands its permit
  back, and the next call may probe.
* A cooldown (rate limit) needs no probe: when its time is up, the gate is open.
* Where many processes share what they know, one of them probes: the others cede theirs, for a bounded time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from reliable_llm.errors import Kind

FOREVER: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a gate is blocked: enough to raise the same kind of error again without asking the vendor."""

    kind: Kind
    at: float
    status: int | None = None
    code: str | None = None


class GatePermit(NamedTuple):
    """The right to one attempt, valid in one generation of its gate.

    `forced`: it went through a shut gate, perhaps beside the probe, whose place is not this one's to give back.
    """

    generation: int
    probe: bool
    forced: bool = False


class Gate:
    """One gate. All methods are synchronous; on one event loop nothing comes between.

    `until` None means open, and then `permit` is what every attempt of this generation holds.
    """

    __slots__ = ("_elsewhere", "_needs_probe", "_probing", "fault", "generation", "permit", "until")

    def __init__(self) -> None:
        self.generation = 0
        self.permit = GatePermit(0, probe=False)
        self.until: float | None = None
        self.fault: Fault | None = None
        self._needs_probe = False
        self._probing = False
        self._elsewhere = 0.0

    @property
    def is_open(self) -> bool:
        """Tell whether nothing is known against what is behind it."""
        return self.until is None

    def admits(self, now: float) -> bool:
        """Tell whether an attempt may start now."""
        if self.until is None:
            return True
        return now >= self.until and not self._probing and now >= self._elsewhere

    def enter(self, now: float) -> GatePermit:
        """Return a permit. Call only when the gate admits; the first one after a park is the probe."""
        if self.until is not None and now >= self.until:
            if not self._needs_probe:
                self.open()
            else:
                self._probing = True
                return GatePermit(self.generation, probe=True)
        return self.permit

    def force_enter(self) -> GatePermit:
        """Return a permit although the gate is shut, valid as a probe: for when there is nothing else to try."""
        return GatePermit(self.generation, probe=self.until is not None, forced=True)

    def opens_at(self, now: float) -> float | None:
        """Return when the gate admits again; `now` if it does, None while a probe is out."""
        if self.until is None:
            return now
        return None if self._probing or now < self._elsewhere else max(self.until, now)

    def block(self, permit: GatePermit, *, until: float, fault: Fault, probe: bool) -> bool:
        """Block until *until* and tell whether that is news.

        A second failure of the generation just past (two attempts were under way) may still lengthen the rest.
        """
        if permit.generation == self.generation:
            self._set(until, fault, needs_probe=probe)
            return True
        if permit.generation == self.generation - 1 and self.until is not None and not self._probing:
            self.until = max(self.until, until)
        return False

    def succeed(self, permit: GatePermit) -> bool:
        """Record a success; tell whether it was the probe that opens the gate."""
        if permit.generation != self.generation or not permit.probe:
            return False
        self.open()
        return True

    def release(self, permit: GatePermit) -> None:
        """Take back a permit whose attempt proved nothing."""
        if permit.generation == self.generation and permit.probe and not permit.forced:
            self._probing = False

    def cede(self, permit: GatePermit, *, until: float) -> None:
        """Leave the probe to another process: until *until* this gate is as if the probe were out here."""
        if permit.generation == self.generation and permit.probe and not permit.forced:
            self._probing = False
            self._elsewhere = until

    @property
    def needs_probe(self) -> bool:
        """Tell whether this rest ends with a probe."""
        return self.until is not None and self._needs_probe

    @property
    def probing(self) -> bool:
        """Tell whether a probe of this process is out."""
        return self._probing

    def open(self) -> None:
        """Admit everybody, from now on."""
        self._next_generation()
        self.until = None
        self.fault = None
        self._probing = False
        self._elsewhere = 0.0

    def force(self, *, until: float, fault: Fault, probe: bool) -> None:
        """Block whatever the permits say: an operator, or another process, knows."""
        self._set(until, fault, needs_probe=probe)

    def _next_generation(self) -> None:
        self.generation += 1
        self.permit = GatePermit(self.generation, probe=False)

    def _set(self, until: float, fault: Fault, *, needs_probe: bool) -> None:
        self._next_generation()
        self.until = until
        self.fault = fault
        self._needs_probe = needs_probe
        self._probing = False
        self._elsewhere = 0.0
