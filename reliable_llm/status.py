"""What the coordinator knows, as an immutable snapshot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.pacing import Pace
from reliable_llm.core.recovery import Gate
from reliable_llm.errors import Kind

State: TypeAlias = Literal["ready", "resting", "probing", "out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One gate: `seconds_left` until it may be tried again (None: ready, or nobody knows), and why it rests."""

    state: State = "ready"
    seconds_left: float | None = None
    reason: Kind | None = None
    status: int | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """One key, by label: its state for all models, and for single ones.

    Where the provider has `limits`, `under_way` is how many requests the key has in flight.
    """

    label: str
    health: Health
    models: tuple[tuple[str, Health], ...] = ()
    under_way: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """One provider: its keys, and its models with the features they turned out to lack.

    Where it has `limits`, `waiting` is how many calls queue for it, and `turn_in` how many seconds it is until a key of
    it may be used for the next request: 0 for now, None where that hangs on a request under way.
    """

    name: str
    endpoint: str
    keys: tuple[KeyStatus, ...]
    models: tuple[tuple[str, Health], ...]
    lacking: tuple[tuple[str, frozenset[str]], ...] = ()
    waiting: int | None = None
    turn_in: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A snapshot of all providers, in order."""

    providers: tuple[ProviderStatus, ...]

    def __str__(self) -> str:
        return "\n".join(line for provider in self.providers for line in _lines(provider))


def provider_status(health: ProviderHealth, endpoint: str, models: Sequence[str], now: float) -> ProviderStatus:
    """Return what *health* holds at *now*."""
    ring, pace = health.ring, health.pace
    keys = tuple(
        KeyStatus(
            label=label,
            health=_health(ring.gate(index), now),
            models=tuple(
                (model, _health(gate, now)) for model, gate in ring.model_gates(index) if not gate.admits(now)
            ),
            under_way=pace.under_way(index) if pace else None,
        )
        for index, label in enumerate(ring.labels)
    )
    return ProviderStatus(
        name=health.name,
        endpoint=endpoint,
        keys=keys,
        models=tuple((model, _health(health.candidate(model), now)) for model in models),
        lacking=tuple((model, lacks) for model in models if (lacks := health.lacks(model, now))),
        waiting=pace.waiting if pace else None,
        turn_in=_turn_in(pace, len(keys), models, now) if pace else None,
    )


def _turn_in(pace: Pace, keys: int, models: Sequence[str], now: float) -> float | None:
    """Return after how many seconds the first key may be used for a request of one token."""
    times = (pace.ready_at(place, model, now, 1.0) for place in range(keys) for model in models)
    return min((at - now for at in times if at is not None), default=None)


def _health(gate: Gate | None, now: float) -> Health:
    if gate is None or gate.until is None:
        return Health()
    fault = gate.fault
    details = {"reason": fault.kind, "status": fault.status, "code": fault.code} if fault else {}
    back = gate.opens_at(now)
    state: State = "probing" if back is None else "out" if back == math.inf else "resting" if back > now else "ready"
    left = None if back is None or back == math.inf else max(0.0, back - now)
    return Health(state=state, seconds_left=left, **details)  # type: ignore[arg-type]


def _lines(provider: ProviderStatus) -> list[str]:
    lines = [f"{provider.name} ({provider.endpoint})"]
    if provider.waiting is not None:
        lines.append(f"  queue: {provider.waiting} waiting, {_turn(provider.turn_in)}")
    for key in provider.keys:
        busy = f", {key.under_way} under way" if key.under_way else ""
        lines.append(f"  key {key.label}: {_words(key.health)}{busy}")
        lines += [f"    for {model}: {_words(health)}" for model, health in key.models]
    for model, health in provider.models:
        lacks = dict(provider.lacking).get(model)
        lines.append(f"  model {model}: {_words(health)}" + (f", lacks {', '.join(sorted(lacks))}" if lacks else ""))
    return lines


def _turn(seconds: float | None) -> str:
    if seconds is None:
        return "the next turn when a request ends"
    return f"the next turn in {seconds:.0f} s" if seconds else "the next turn now"


def _words(health: Health) -> str:
    if health.state == "ready" and health.reason is None:
        return "ready"
    left = f" for {health.seconds_left:.0f} s" if health.seconds_left else ""
    reason = f" ({health.reason})" if health.reason else ""
    return (
        {"ready": "will be probed by the next call", "out": "out until reset()"}.get(health.state, health.state)
        + left
        + reason
    )
