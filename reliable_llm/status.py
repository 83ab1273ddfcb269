"""What the coordinator knows, as an immutable snapshot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reliable_llm.core.health import ProviderHealth
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
    """One key, by label: its state for all models, and for single ones."""

    label: str
    health: Health
    models: tuple[tuple[str, Health], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """One provider: its keys, and its models with the features they turned out to lack."""

    name: str
    endpoint: str
    keys: tuple[KeyStatus, ...]
    models: tuple[tuple[str, Health], ...]
    lacking: tuple[tuple[str, frozenset[str]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A snapshot of all providers, in order."""

    providers: tuple[ProviderStatus, ...]

    def __str__(self) -> str:
        return "\n".join(line for provider in self.providers for line in _lines(provider))


def provider_status(health: ProviderHealth, endpoint: str, models: Sequence[str], now: float) -> ProviderStatus:
    """Return what *health* holds at *now*."""
    ring = health.ring
    keys = tuple(
        KeyStatus(
            label=label,
            health=_health(ring.gate(index), now),
            models=tuple(
                (model, _health(gate, now)) for model, gate in ring.model_gates(index) if not gate.admits(now)
            ),
        )
        for index, label in enumerate(ring.labels)
    )
    return ProviderStatus(
        name=health.name,
        endpoint=endpoint,
        keys=keys,
        models=tuple((model, _health(health.candidate(model), now)) for model in models),
        lacking=tuple((model, lacks) for model in models if (lacks := health.lacks(model, now))),
    )


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
    for key in provider.keys:
        lines.append(f"  key {key.label}: {_words(key.health)}")
        lines += [f"    for {model}: {_words(health)}" for model, health in key.models]
    for model, health in provider.models:
        lacks = dict(provider.lacking).get(model)
        lines.append(f"  model {model}: {_words(health)}" + (f", lacks {', '.join(sorted(lacks))}" if lacks else ""))
    return lines


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
