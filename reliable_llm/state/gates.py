"""The gates of one coordinator under the names that all processes use for them.

A name is a digest of provider, endpoint, key and model: the same in every process that is configured alike, whatever
its labels, and no way back to the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from reliable_llm import events
from reliable_llm.core.memory import Permit
from reliable_llm.core.recovery import Fault, Gate
from reliable_llm.core.route import Stop
from reliable_llm.policy import DAY
from reliable_llm.state.base import Shared
from reliable_llm.state.records import SHARED_KINDS, Record

_PERSON: Final = b"reliable_llm/1"

# A cooldown that is over sooner than this is not worth the news of it.
_WORTH_TELLING: Final = 1.0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a gate is: that of a key, of a key for one model, or (`place` None) of a candidate."""

    shared: Shared
    place: int | None
    model: str | None

    def find(self) -> Gate | None:
        """Return the gate, if there ever was need of it."""
        health = self.shared.health
        if self.place is None:
            return health.candidate(self.model or "")
        return (
            health.ring.gate(self.place) if self.model is None else health.ring.known_model_gate(self.place, self.model)
        )

    def make(self) -> Gate:
        """Return the gate, made if there was none."""
        health = self.shared.health
        if self.place is None:
            return health.candidate_gate(self.model or "")
        return health.ring.gate(self.place) if self.model is None else health.ring.model_gate(self.place, self.model)


class SharedGates:
    """Finds gates by name and names by event; turns gates into records and records into gates.

    Local times are the coordinator's monotonic ones; `offset` is what to add for the server's time.
    """

    def __init__(self, providers: Mapping[str, Shared]) -> None:
        self._providers = providers
        self._spots = dict(_spots(providers))
        self._names = {(spot.shared.health.name, spot.place, spot.model): name for name, spot in self._spots.items()}
        self._seen: dict[str, float] = {}
        self._rests: set[str] = set()
        self.offset = 0.0

    def __iter__(self) -> Iterator[str]:
        return iter(self._spots)

    # ---------------------------------------------------------------- names

    def touched(self, event: events.Event) -> tuple[str, ...]:
        """Return the names of the gates that *event* is about."""
        match event:
            case events.KeyParked() | events.CooldownStarted() if event.key is not None:
                return self._named(event.provider, self._place(event.provider, event.key), event.model)
            case events.KeyDisabled():
                return self._named(event.provider, self._place(event.provider, event.key), None)
            case events.CandidateParked() | events.CandidateRecovered() | events.CooldownStarted():
                return self._named(event.provider, None, event.model)
            case events.QuotaRecovered():
                return self._opened(event.provider, self._place(event.provider, event.key))
        return ()

    def resting(self, provider: str) -> tuple[str, ...]:
        """Return the names at *provider* that the store holds to be resting."""
        return tuple(name for name in self._rests if self._spots[name].shared.health.name == provider)

    def probed(self, stop: Stop, permit: Permit) -> tuple[str, ...]:
        """Return the names of what an attempt with *permit* probes; one sent for want of a choice asks nobody."""
        names: tuple[str, ...] = ()
        if permit.key.key.probe:
            names += self._named(stop.provider, permit.key.place, None)
        if permit.key.model.probe:
            names += self._named(stop.provider, permit.key.place, stop.model)
        if permit.candidate is not None and permit.candidate.probe:
            names += self._named(stop.provider, None, stop.model)
        return tuple(name for name in names if (gate := self._spots[name].find()) is not None and gate.probing)

    def _named(self, provider: str, place: int | None, model: str | None) -> tuple[str, ...]:
        name = self._names.get((provider, place, model))
        return () if name is None else (name,)

    def _place(self, provider: str, label: str) -> int:
        return self._providers[provider].health.ring.labels.index(label)

    def _opened(self, provider: str, place: int) -> tuple[str, ...]:
        """A key was proved well: for all models, or for one. Return those of its names that rest no more."""
        models = (None, *self._providers[provider].models)
        names = (name for model in models for name in self._named(provider, place, model))
        return tuple(name for name in names if (gate := self._spots[name].find()) is not None and gate.until is None)

    # ---------------------------------------------------------------- from gates to records

    def record(self, name: str, at: float) -> Record | None:
        """Return what to tell of a gate as it is now, learned at local time *at*; None if of no use to others."""
        gate = self._spots[name].find()
        if gate is None:
            return None
        at += self.offset
        if gate.until is None:
            return Record(at=at)
        fault = gate.fault
        if fault is None or fault.kind not in SHARED_KINDS:
            return None
        until = min(gate.until + self.offset, at + DAY)
        if not gate.needs_probe and until - at < _WORTH_TELLING:
            return None
        return Record(at=at, until=until, kind=fault.kind, status=fault.status, code=fault.code, probe=gate.needs_probe)

    def untold(self, name: str, now: float) -> Record | None:
        """Return what the store has lost: a rest of which it knows nothing."""
        gate = self._spots[name].find()
        if gate is None or gate.until is None or gate.fault is None:
            return None
        if gate.until <= now and not gate.needs_probe:
            return None
        return self.record(name, gate.fault.at)

    def is_settled(self, name: str, now: float) -> bool:
        """Tell whether a gate is open, or rests: not where a probe is still due."""
        gate = self._spots[name].find()
        return gate is not None and (gate.until is None or gate.until > now)

    @staticmethod
    def name_of(shared: Shared) -> str:
        """Return the name of a provider."""
        return _name("t", shared.health.name, shared.endpoint)

    def told(self, name: str, record: Record) -> None:
        """Remember what the store was told: its echo is no news."""
        self._note(name, record)

    def _note(self, name: str, record: Record) -> None:
        self._seen[name] = record.at
        (self._rests.discard if record.is_open else self._rests.add)(name)

    # ---------------------------------------------------------------- from records to gates

    def apply(self, name: str, record: Record, now: float, *, probed: bool = False) -> bool:
        """Do as *record* says, if it is news; *now* is local. Tell whether a gate has changed.

        What this process is probing at the moment it knows better itself, unless *probed* says that it only asks to.
        """
        spot = self._spots.get(name)
        if spot is None or record.at <= self._seen.get(name, 0.0):
            return False
        self._note(name, record)
        changed = self._open(spot, record) if record.is_open else self._block(spot, record, now, probed)
        if changed:
            spot.shared.health.ring.refresh()
        return changed

    def _open(self, spot: Spot, record: Record) -> bool:
        """End a rest, unless it began after *record* was written or is none of the store's business."""
        gate = spot.find()
        if gate is None or gate.until is None or gate.fault is None or gate.fault.kind not in SHARED_KINDS:
            return False
        if gate.fault.at > record.at - self.offset:
            return False
        gate.open()
        return True

    def _block(self, spot: Spot, record: Record, now: float, probed: bool) -> bool:
        """Begin a rest, or lengthen one."""
        until = record.until - self.offset
        gate = spot.find()
        if until <= now and not record.probe:
            return False
        if gate is not None and ((gate.probing and not probed) or (gate.until is not None and gate.until >= until)):
            return False
        fault = Fault(kind=record.kind, at=record.at - self.offset, status=record.status, code=record.code)
        spot.make().force(until=until, fault=fault, probe=record.probe)
        return True


def _spots(providers: Mapping[str, Shared]) -> Iterator[tuple[str, Spot]]:
    for shared in providers.values():
        where = (shared.health.name, shared.endpoint)
        for model in shared.models:
            yield _name("c", *where, model), Spot(shared, None, model)
        for place, key in enumerate(shared.keys):
            yield _name("k", *where, key.reveal()), Spot(shared, place, None)
            for model in shared.models:
                yield _name("m", *where, key.reveal(), model), Spot(shared, place, model)


def _name(kind: str, *parts: str) -> str:
    """Return a digest that tells nothing of its parts; the zero byte keeps them apart."""
    return f"{kind}:{blake2b(chr(0).join(parts).encode(), digest_size=16, person=_PERSON).hexdigest()}"
