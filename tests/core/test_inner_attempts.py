"""The ledger opens up what a coordinator inside has tried; what fails in this process leaves no memory."""

from __future__ import annotations

from dataclasses import replace

from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.ledger import open_up
from reliable_llm.core.memory import Permit, remember_failure
from reliable_llm.core.route import Stop
from reliable_llm.errors import AuthenticationError, Kind, Scope, default_verdict
from reliable_llm.policy import RecoveryPolicy
from reliable_llm.types import Attempt, Candidate


def attempt(number: int, provider: str, *, started: float = 0.0, waited: float = 0.0) -> Attempt:
    return Attempt(number, provider, "m", f"{provider}#1", started, 1.0, waited)


def test_inner_attempts_take_the_place_of_the_row_that_stands_for_them() -> None:
    rows = [attempt(1, "first"), attempt(2, "team", started=10.0, waited=3.0)]

    open_up(rows, (attempt(1, "in1", waited=1.0), attempt(2, "in2", started=2.0, waited=2.0)))

    assert [(row.number, row.provider, row.started, row.waited) for row in rows] == [
        (1, "first", 0.0, 0.0),
        (2, "in1", 10.0, 4.0),
        (3, "in2", 12.0, 2.0),
    ]


def test_a_failure_of_this_process_is_not_held_against_the_key() -> None:
    health = ProviderHealth("team", ["team#1"])
    stop = Stop(candidate=Candidate("team", "m"), health=health, model_id="m", vendor="reliable_llm")
    key = health.ring.pick(0.0, "m")
    assert key is not None
    error = AuthenticationError(verdict=replace(default_verdict(Kind.AUTHENTICATION), scope=Scope.LOCAL))

    told = list(remember_failure(stop, Permit(key, None, probe=False), error, 0.0, RecoveryPolicy(), 0.0))

    assert told == []
    assert health.ring.gate(0).admits(0.0)
