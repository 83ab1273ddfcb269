"""The keys of one provider: round robin over those that are ready for a model.

An atomic counter (`itertools.count`) gives each pick its place in the ring, on success as well as on failure; keys that
rest are passed over and their turns with them, so that the load stays even. Choosing costs O(log n) of n keys however
many rest: a `_Lane` remembers per model which keys are ready and finds out lazily, once per rest.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, insort
from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple

from reliable_llm.core.recovery import FOREVER, Fault, Gate, GatePermit

_NO_GATE: Final = GatePermit(0, probe=False)


class KeyPermit(NamedTuple):
    """The right to one attempt with the key at `place`: permits of its gate for all models and of that for this one."""

    place: int
    key: GatePermit
    model: GatePermit

    @property
    def probe(self) -> bool:
        return self.key.probe or self.model.probe


class _Lane:
    """Which keys are ready for one model: a cache over the gates, corrected when a key is picked."""

    __slots__ = ("ready", "resting")

    def __init__(self, size: int) -> None:
        self.ready = list(range(size))
        self.resting: list[tuple[float, int]] = []

    def first(self, place: int) -> int | None:
        """Return the first key at or after *place* that may be ready."""
        if not self.ready:
            return None
        at = bisect_left(self.ready, place)
        return self.ready[at if at < len(self.ready) else 0]

    def wake(self, now: float) -> None:
        while self.resting and self.resting[0][0] <= now:
            insort(self.ready, heapq.heappop(self.resting)[1])

    def rest(self, place: int, until: float) -> None:
        index = self.ready.pop(place)
        heapq.heappush(self.resting, (until, index))


class KeyRing:
    """Health and turns of one provider's keys. `labels` are their printable names."""

    __slots__ = ("_counter", "_gates", "_lanes", "_model_gates", "labels")

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self._counter = itertools.count()
        self._gates = [Gate() for _ in labels]
        self._model_gates: dict[tuple[int, str], Gate] = {}
        self._lanes: dict[str, _Lane] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, now: float, model: str, *, skip: Container[int] = (), prefer: int | None = None) -> KeyPermit | None:
        """Return a permit for the next ready key that is not in *skip*, or None.

        *prefer* names a place to start from instead of the ring's turn: the same one gives the same key while that is
        ready, and the one after it otherwise.
        """
        if not self.labels:
            return None
        place = (next(self._counter) if prefer is None else prefer) % len(self.labels)
        picked = self._unquestioned(place, model, skip)
        if picked is not None:
            return picked
        lane = self._lanes.get(model) or self._new_lane(model)
        lane.wake(now)
        first = lane.first(place)
        if first is None:
            return None
        picked = self._unquestioned(first, model, skip) or self._pick_from(lane, place, now, model, skip)
        if picked is not None and prefer is None:
            self._counter = itertools.count(picked.place + 1)
        return picked

    def _unquestioned(self, place: int, model: str, skip: Container[int]) -> KeyPermit | None:
        """Return a permit for a key that nothing is known against; None where it has to be looked at."""
        gate = self._gates[place]
        if gate.until is None and (place, model) not in self._model_gates and place not in skip:
            return KeyPermit(place, gate.permit, _NO_GATE)
        return None

    def _pick_from(self, lane: _Lane, place: int, now: float, model: str, skip: Container[int]) -> KeyPermit | None:
        """Return a permit for the first ready key at or after *place*."""
        index = self._next_ready(lane, now, model, place, skip)
        return None if index is None else self._enter(index, now, model)

    def ready_at(self, now: float, model: str, *, skip: Container[int] = ()) -> float | None:
        """Return the earliest time at which a key outside *skip* is ready; None if that is not known or never."""
        times = [at for at in self._opening_times(now, model, skip) if at is not None and at < FOREVER]
        return min(times, default=None)

    def has_probe_out(self, now: float, model: str) -> bool:
        """Tell whether some key is being probed at this moment."""
        return any(at is None for at in self._opening_times(now, model, ()))

    def fault(self, model: str) -> Fault | None:
        """Return why the keys rest: the fault of the one that is back first."""
        blocked = [gate for index in range(len(self.labels)) for gate in self._blocked_gates(index, model)]
        first = min(blocked, key=lambda gate: gate.until or 0.0, default=None)
        return first.fault if first else None

    def gate(self, index: int) -> Gate:
        """Return the key's gate for all models."""
        return self._gates[index]

    def model_gate(self, index: int, model: str) -> Gate:
        """Return the key's gate for one model, made when first needed."""
        gate = self._model_gates.get((index, model))
        if gate is None:
            gate = self._model_gates[index, model] = Gate()
        return gate

    def known_model_gate(self, index: int, model: str) -> Gate | None:
        """Return the key's gate for one model, if it ever needed one."""
        return self._model_gates.get((index, model))

    def model_gates(self, index: int) -> Iterator[tuple[str, Gate]]:
        """Yield the models for which the key has a gate of its own."""
        return ((model, gate) for (owner, model), gate in self._model_gates.items() if owner == index)

    def cede(self, permit: KeyPermit, model: str, *, until: float) -> None:
        """Leave a probe to another process; *until* is when to ask for it again."""
        self._gates[permit.place].cede(permit.key, until=until)
        gate = self._model_gates.get((permit.place, model))
        if gate:
            gate.cede(permit.model, until=until)

    def start_at(self, turn: int) -> None:
        """Let the ring go on at *turn*."""
        self._counter = itertools.count(turn)

    def succeed(self, permit: KeyPermit, model: str) -> bool:
        """Record a success; tell whether it ended a rest of the key."""
        opened = self._gates[permit.place].succeed(permit.key)
        gate = self._model_gates.get((permit.place, model))
        return (gate.succeed(permit.model) if gate else False) or opened

    def release(self, permit: KeyPermit, model: str) -> None:
        """Take back a permit whose attempt proved nothing."""
        self._gates[permit.place].release(permit.key)
        gate = self._model_gates.get((permit.place, model))
        if gate is not None:
            gate.release(permit.model)

    def reset(self, index: int | None = None) -> None:
        """Forget what is known about one key, or all."""
        for each in range(len(self.labels)) if index is None else (index,):
            self._gates[each].open()
            for _, gate in self.model_gates(each):
                gate.open()
        self.refresh()

    def refresh(self) -> None:
        """Look at every gate anew: needed when a rest is ended from outside before its time."""
        self._lanes.clear()

    def _new_lane(self, model: str) -> _Lane:
        lane = self._lanes[model] = _Lane(len(self.labels))
        return lane

    def _next_ready(self, lane: _Lane, now: float, model: str, start: int, skip: Container[int]) -> int | None:
        """Walk the ready keys once, from ring position *start*, putting to rest the ones that turn out not to be."""
        place = bisect_left(lane.ready, start)
        for _ in range(len(lane.ready)):
            if place >= len(lane.ready):
                place = 0
            index = lane.ready[place]
            until = self._blocked_until(index, now, model)
            if until is not None and until > now:
                lane.rest(place, until)
            elif until is None and index not in skip:
                return index
            else:
                place += 1
        return None

    def _blocked_until(self, index: int, now: float, model: str) -> float | None:
        """Return None for a key that is ready, else when it may be; `now` while a probe of it is out."""
        gate = self._gates[index]
        model_gate = self._model_gates.get((index, model))
        if gate.admits(now) and (model_gate is None or model_gate.admits(now)):
            return None
        return max(gate.until or now, (model_gate.until if model_gate else None) or now, now)

    def _enter(self, index: int, now: float, model: str) -> KeyPermit:
        gate = self._model_gates.get((index, model))
        return KeyPermit(index, self._gates[index].enter(now), gate.enter(now) if gate else _NO_GATE)

    def _opening_times(self, now: float, model: str, skip: Container[int]) -> Iterator[float | None]:
        for index in range(len(self.labels)):
            if index not in skip:
                yield self.opens_at(index, now, model)

    def opens_at(self, index: int, now: float, model: str) -> float | None:
        """Return when the key may be used for *model*: `now` if it may, None while a probe of it is out."""
        key = self._gates[index].opens_at(now)
        gate = self._model_gates.get((index, model))
        other = gate.opens_at(now) if gate else now
        return None if key is None or other is None else max(key, other)

    def _blocked_gates(self, index: int, model: str) -> Iterator[Gate]:
        for gate in (self._gates[index], self._model_gates.get((index, model))):
            if gate is not None and gate.until is not None:
                yield gate
