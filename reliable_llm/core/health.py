"""What is known about one provider: its keys, its models, and what they turned out not to support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reliable_llm.core.keyring import KeyRing
from reliable_llm.core.pacing import Pace
from reliable_llm.core.recovery import Gate


class ProviderHealth:
    """Shared by all calls of one coordinator. Synchronous; one event loop at a time.

    `answered_at` tells when each model last gave an answer; `learned` until when a model is believed to lack a feature
    that it has turned out not to have. `pace` bounds how fast the keys are used, if anything does.
    """

    __slots__ = ("_candidates", "answered_at", "learned", "name", "pace", "ring")

    def __init__(self, name: str, labels: Sequence[str], pace: Pace | None = None) -> None:
        self.name = name
        self.pace = pace
        self.ring = KeyRing(labels)
        self.answered_at: dict[str, float] = {}
        self._candidates: dict[str, Gate] = {}
        self.learned: dict[str, dict[str, float]] = {}

    def candidate(self, model: str) -> Gate | None:
        """Return the gate in front of a model, if it ever needed one."""
        return self._candidates.get(model)

    def candidate_gate(self, model: str) -> Gate:
        """Return the gate in front of a model, made when first needed."""
        gate = self._candidates.get(model)
        if gate is None:
            gate = self._candidates[model] = Gate()
        return gate

    def candidates(self) -> Iterator[tuple[str, Gate]]:
        """Yield the models that have a gate."""
        return iter(self._candidates.items())

    def learn(self, model: str, feature: str, until: float) -> None:
        """Remember until then that *model* lacks *feature*."""
        self.learned.setdefault(model, {})[feature] = until

    def lacks(self, model: str, now: float) -> frozenset[str]:
        """Return the features that *model* is known to lack."""
        learned = self.learned.get(model)
        if not learned:
            return frozenset()
        return frozenset(feature for feature, until in learned.items() if now < until)

    def reset(self) -> None:
        """Forget everything."""
        self.ring.reset()
        self.learned.clear()
        for gate in self._candidates.values():
            gate.open()
