"""What is known about one provider."""

from __future__ import annotations

from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.errors import Kind

FAULT = Fault(kind=Kind.MODEL_NOT_FOUND, at=0.0)


def health() -> ProviderHealth:
    return ProviderHealth("openai", ["openai#1"])


def test_a_model_has_no_gate_until_it_needs_one() -> None:
    known = health()
    assert known.candidate("m1") is None
    gate = known.candidate_gate("m1")
    assert known.candidate("m1") is gate
    assert known.candidate_gate("m1") is gate
    assert list(known.candidates()) == [("m1", gate)]


def test_what_a_model_lacks_is_known_until_its_time() -> None:
    known = health()
    known.learn("m1", "vision", until=100)
    assert known.lacks("m1", 99) == {"vision"}
    assert known.lacks("m1", 100) == frozenset()


def test_nothing_is_known_about_another_model() -> None:
    known = health()
    known.learn("m1", "vision", until=100)
    assert known.lacks("m2", 0) == frozenset()


def test_reset_forgets_everything() -> None:
    known = health()
    known.learn("m1", "vision", until=100)
    known.candidate_gate("m1").force(until=FOREVER, fault=FAULT, probe=True)
    known.ring.gate(0).force(until=FOREVER, fault=FAULT, probe=True)
    known.reset()
    assert known.lacks("m1", 0) == frozenset()
    assert known.candidate_gate("m1").admits(0)
    assert known.ring.pick(0, "m1") is not None
