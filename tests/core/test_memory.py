"""What a failure leaves behind, where, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from reliable_llm import events
from reliable_llm.core.memory import (
    TRANSIENT,
    Permit,
    release,
    remember_failure,
    remember_success,
    repark_probe,
    rest_candidate,
)
from reliable_llm.core.recovery import FOREVER, Fault
from reliable_llm.core.route import Stop
from reliable_llm.core.visit import Visit
from reliable_llm.errors import Kind, Scope
from reliable_llm.events import Event
from reliable_llm.policy import DAY, RecoveryPolicy
from tests.core.trips import World, fail

NOW = 1_000.0
POLICY = RecoveryPolicy()
FAULT = Fault(kind=Kind.QUOTA_EXHAUSTED, at=0.0)


class Place:
    """One candidate, the permit of an attempt there, and what is known afterwards."""

    def __init__(self, keys: int = 2, policy: RecoveryPolicy = POLICY) -> None:
        self.stop: Stop = World(p=keys).stop("p/m1")
        self.policy = policy
        self.permit = self.enter(NOW)

    def enter(self, now: float) -> Permit:
        permit = Visit(self.stop).permit(now)
        assert permit is not None
        return permit

    def fail(
        self, kind: Kind, *, now: float = NOW, cooldown: float = 5.0, permit: Permit | None = None, **verdict: Any
    ) -> list[Event]:
        error = fail(kind, **verdict)
        return list(remember_failure(self.stop, permit or self.permit, error, now, self.policy, cooldown))

    @property
    def key(self) -> float | None:
        """Until when the key of the first attempt rests, for all models."""
        return self.stop.health.ring.gate(0).until

    @property
    def key_for_model(self) -> float | None:
        gates = dict(self.stop.health.ring.model_gates(0))
        return gates["m1"].until if "m1" in gates else None

    @property
    def candidate(self) -> float | None:
        gate = self.stop.health.candidate("m1")
        return None if gate is None else gate.until

    @property
    def rests(self) -> tuple[float | None, float | None, float | None]:
        return self.key, self.key_for_model, self.candidate


# ---------------------------------------------------------------- what rests, and until when


@pytest.mark.parametrize(
    ("kind", "verdict", "rests"),
    [
        (Kind.RATE_LIMITED, {}, (None, NOW + 5, None)),
        (Kind.RATE_LIMITED, {"rotate_key": False}, (None, None, NOW + 5)),
        (Kind.QUOTA_EXHAUSTED, {}, (NOW + 300, None, None)),
        (Kind.QUOTA_EXHAUSTED, {"retry_after": 3_600.0}, (NOW + 3_600, None, None)),
        (Kind.QUOTA_EXHAUSTED, {"retry_after": 40 * DAY}, (NOW + DAY, None, None)),
        (Kind.QUOTA_EXHAUSTED, {"scope": Scope.MODEL}, (None, NOW + 300, None)),
        (Kind.QUOTA_EXHAUSTED, {"scope": Scope.REQUEST}, (None, None, None)),
        (Kind.AUTHENTICATION, {}, (FOREVER, None, None)),
        (Kind.PERMISSION, {}, (None, NOW + 3_600, None)),
        (Kind.PERMISSION, {"rotate_key": False}, (None, None, NOW + 300)),
        (Kind.PERMISSION, {"scope": Scope.REQUEST}, (None, None, None)),
        (Kind.MODEL_NOT_FOUND, {}, (None, None, NOW + 3_600)),
        (Kind.UNSUPPORTED, {"feature": "vision"}, (None, None, None)),
        (Kind.UNSUPPORTED, {}, (None, None, None)),
        *((kind, {}, (None, None, None)) for kind in sorted(TRANSIENT)),
        (Kind.CONTEXT_WINDOW, {}, (None, None, None)),
        (Kind.INVALID_REQUEST, {}, (None, None, None)),
        (Kind.DEADLINE, {}, (None, None, None)),
    ],
)
def test_a_failure_rests_what_it_proves_unfit_and_nothing_else(
    kind: Kind, verdict: dict[str, Any], rests: tuple[float | None, float | None, float | None]
) -> None:
    place = Place()
    place.fail(kind, **verdict)
    assert place.rests == rests


def test_cooldowns_can_be_turned_off() -> None:
    place = Place(policy=RecoveryPolicy(cooldowns=False))
    place.fail(Kind.RATE_LIMITED)
    assert place.rests == (None, None, None)


def test_a_cooldown_ends_without_a_probe() -> None:
    place = Place(keys=1)
    place.fail(Kind.RATE_LIMITED)
    assert not place.enter(NOW + 5).probe


def test_a_park_ends_with_a_probe() -> None:
    place = Place(keys=1)
    place.fail(Kind.QUOTA_EXHAUSTED)
    assert place.enter(NOW + 300).probe


def test_the_feature_that_was_refused_is_remembered() -> None:
    place = Place()
    assert place.fail(Kind.UNSUPPORTED, feature="vision") == [events.CapabilityLearned("p", "m1", "vision")]
    assert place.stop.health.lacks("m1", NOW + 3_599) == {"vision"}
    assert place.stop.health.lacks("m1", NOW + 3_600) == frozenset()


def test_a_rest_of_no_time_is_none() -> None:
    place = Place(policy=RecoveryPolicy(memory=0))
    assert place.fail(Kind.MODEL_NOT_FOUND) == []
    assert place.candidate is None


# ---------------------------------------------------------------- what is told


def test_quota_mode_begins_with_the_last_key() -> None:
    place = Place(keys=2)
    second = place.enter(NOW)
    assert place.fail(Kind.QUOTA_EXHAUSTED, status=429, code="insufficient_quota") == [
        events.KeyParked("p", "p#1", None, Kind.QUOTA_EXHAUSTED, 300.0)
    ]
    assert place.fail(Kind.QUOTA_EXHAUSTED, permit=second, status=429, code="insufficient_quota") == [
        events.KeyParked("p", "p#2", None, Kind.QUOTA_EXHAUSTED, 300.0),
        events.QuotaModeEntered("p", "p#2", 300.0, "quota_exhausted 429 insufficient_quota"),
    ]


def test_a_refused_key_is_told_by_its_label() -> None:
    told = Place().fail(Kind.AUTHENTICATION, status=401)
    assert told == [events.KeyDisabled("p", "p#1", Kind.AUTHENTICATION, 401)]


def test_a_denied_model_is_told_with_the_key() -> None:
    assert Place().fail(Kind.PERMISSION) == [events.KeyParked("p", "p#1", "m1", Kind.PERMISSION, 3_600.0)]


def test_a_missing_model_is_told() -> None:
    told = Place().fail(Kind.MODEL_NOT_FOUND)
    assert told == [events.CandidateParked("p", "m1", Kind.MODEL_NOT_FOUND, 3_600.0)]


@pytest.mark.parametrize("kind", [Kind.QUOTA_EXHAUSTED, Kind.AUTHENTICATION, Kind.PERMISSION, Kind.MODEL_NOT_FOUND])
def test_the_same_news_twice_is_told_once(kind: Kind) -> None:
    place = Place(keys=1)
    second = place.enter(NOW)
    place.fail(kind)
    assert place.fail(kind, permit=second) == []


# ---------------------------------------------------------------- probes


def parked_probe(kind: Kind = Kind.QUOTA_EXHAUSTED, **verdict: Any) -> Place:
    """Return a place whose only key, or candidate, has just been given out as a probe."""
    place = Place(keys=1)
    place.fail(kind, **verdict)
    place.permit = place.enter(NOW + 3_600)
    assert place.permit.probe
    return place


def can_probe_again(place: Place, now: float) -> bool:
    permit = Visit(place.stop).permit(now)
    return permit is not None and permit.probe


def test_a_probes_success_is_told_and_opens_the_key() -> None:
    place = parked_probe()
    assert list(remember_success(place.stop, place.permit)) == [events.QuotaRecovered("p", "p#1")]
    assert place.rests == (None, None, None)


def test_a_probes_success_opens_the_candidate() -> None:
    place = parked_probe(Kind.MODEL_NOT_FOUND)
    assert list(remember_success(place.stop, place.permit)) == [events.CandidateRecovered("p", "m1")]
    assert place.candidate is None


def test_a_success_that_was_no_probe_is_no_news() -> None:
    place = Place()
    assert list(remember_success(place.stop, place.permit)) == []


def test_a_released_probe_can_be_made_again() -> None:
    for kind in (Kind.QUOTA_EXHAUSTED, Kind.PERMISSION, Kind.MODEL_NOT_FOUND):
        place = parked_probe(kind)
        release(place.stop, place.permit)
        assert can_probe_again(place, NOW + 3_600)


def test_a_permit_without_gates_is_released_without_harm() -> None:
    place = Place()
    release(place.stop, place.permit)
    assert place.rests == (None, None, None)


@pytest.mark.parametrize("parked", [Kind.QUOTA_EXHAUSTED, Kind.PERMISSION, Kind.MODEL_NOT_FOUND])
@pytest.mark.parametrize("kind", sorted(TRANSIENT | {Kind.DEADLINE}))
def test_a_probe_that_proves_nothing_leaves_the_next_one_to_probe(parked: Kind, kind: Kind) -> None:
    place = parked_probe(parked)
    place.fail(kind, now=NOW + 3_600)
    assert can_probe_again(place, NOW + 3_600)


@pytest.mark.parametrize("kind", [Kind.RATE_LIMITED, Kind.INVALID_REQUEST, Kind.CONTEXT_WINDOW, Kind.CONTENT_POLICY])
def test_an_answer_that_is_not_about_money_ends_quota_mode(kind: Kind) -> None:
    place = parked_probe()
    place.fail(kind, now=NOW + 3_600)
    assert place.key is None


def test_an_answer_about_the_request_ends_a_candidates_rest() -> None:
    place = parked_probe(Kind.MODEL_NOT_FOUND)
    place.fail(Kind.INVALID_REQUEST, now=NOW + 3_600)
    assert place.candidate is None


@pytest.mark.parametrize("parked", [Kind.QUOTA_EXHAUSTED, Kind.PERMISSION, Kind.MODEL_NOT_FOUND])
@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        *((kind, {}) for kind in Kind),
        (Kind.RATE_LIMITED, {"rotate_key": False}),
        (Kind.QUOTA_EXHAUSTED, {"scope": Scope.MODEL}),
        (Kind.QUOTA_EXHAUSTED, {"scope": Scope.REQUEST}),
        (Kind.PERMISSION, {"scope": Scope.REQUEST}),
        (Kind.PERMISSION, {"rotate_key": False}),
        (Kind.UNSUPPORTED, {"feature": "vision"}),
    ],
)
@pytest.mark.parametrize("memory", [0, 3_600])
def test_whatever_a_probe_meets_its_permit_does_not_get_lost(
    parked: Kind, kind: Kind, verdict: dict[str, Any], memory: float
) -> None:
    if kind in (Kind.CANCELLED, Kind.AUTHENTICATION):
        return  # handed back by `release`; out until `reset()`
    place = parked_probe(parked)
    place.policy = RecoveryPolicy(memory=memory)
    place.fail(kind, now=NOW + 3_600, **verdict)
    assert Visit(place.stop).permit(NOW + 1e6) is not None


@pytest.mark.parametrize("kind", [Kind.QUOTA_EXHAUSTED, Kind.PERMISSION, Kind.RATE_LIMITED])
def test_a_probe_of_two_gates_hands_both_back(kind: Kind) -> None:
    place = Place(keys=1)
    second, third = place.enter(NOW), place.enter(NOW)
    place.fail(Kind.QUOTA_EXHAUSTED)
    place.fail(Kind.PERMISSION, permit=second)
    place.fail(Kind.MODEL_NOT_FOUND, permit=third)
    place.permit = place.enter(NOW + 3_600)
    place.fail(kind, now=NOW + 3_600)
    assert Visit(place.stop).permit(NOW + 1e6) is not None


def test_a_limited_probe_of_a_model_rests_the_key_for_its_hint() -> None:
    place = parked_probe(Kind.PERMISSION)
    place.fail(Kind.RATE_LIMITED, now=NOW + 3_600, cooldown=20)
    assert place.key_for_model == NOW + 3_620


# ---------------------------------------------------------------- parking again


def test_an_undecided_probe_of_a_call_that_moves_on_is_parked_again() -> None:
    place = parked_probe()
    place.fail(Kind.SERVER_ERROR, now=NOW + 3_600)
    repark_probe(place.stop, place.permit, NOW + 3_601, POLICY)
    assert place.key == NOW + 3_901


def test_what_was_no_probe_is_not_parked_again() -> None:
    place = Place()
    repark_probe(place.stop, place.permit, NOW, POLICY)
    assert place.rests == (None, None, None)


def test_the_probe_of_a_candidate_does_not_park_its_key() -> None:
    place = parked_probe(Kind.MODEL_NOT_FOUND)
    repark_probe(place.stop, place.permit, NOW, POLICY)
    assert place.key is None


def test_a_probe_of_a_key_for_one_model_does_not_park_the_key() -> None:
    place = parked_probe(Kind.PERMISSION)
    repark_probe(place.stop, place.permit, NOW, POLICY)
    assert place.key is None


def test_a_probe_of_the_past_parks_nothing() -> None:
    place = parked_probe()
    place.stop.health.ring.reset()
    repark_probe(place.stop, place.permit, NOW, POLICY)
    assert place.key is None


def test_a_breaker_blocks_for_its_seconds() -> None:
    place = Place()
    fault = Fault(kind=Kind.SERVER_ERROR, at=NOW)
    told = list(rest_candidate(place.stop, place.permit, fault, 60))
    assert told == [events.CandidateParked("p", "m1", Kind.SERVER_ERROR, 60)]
    assert place.candidate == NOW + 60
