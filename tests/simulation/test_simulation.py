"""A bounded run of the simulation; by hand, `python -m tests.simulation` goes further (see its help)."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.run import simulate
from tests.simulation.shrink import shrunk, story
from tests.simulation.world import Meddling, World, world

SEEDS = 48
CALLS = 40

# Seeds that once broke a rule, with as many calls as it took; `tests/test_found_by_simulation.py` says what it was.
ONCE_BROKEN = (0, 2, 5, 10, 14, 24, 58, 154, 158)


def problems(tested: World) -> str:
    outcome = simulate(tested)
    if not outcome.objections:
        return ""
    smaller = shrunk(tested, outcome.rule or "")
    return f"{outcome.rule}: {outcome.objections[0][1]}\n{story(smaller)}"


@pytest.mark.parametrize("part", range(8))
def test_no_rule_is_broken(part: int) -> None:
    for seed in range(part, SEEDS, 8):
        assert not problems(world(seed, CALLS))


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_what_once_broke_a_rule_does_so_no_more(seed: int) -> None:
    assert not problems(world(seed, 100))


def test_a_seed_reproduces_its_run() -> None:
    first, second = (simulate(world(1, CALLS)) for _ in range(2))
    assert first.digest == second.digest
    assert simulate(world(4, CALLS)).digest != first.digest


def test_real_sdks_are_among_the_worlds() -> None:
    wired = [seed for seed in range(SEEDS) if world(seed, 1).wired]
    assert wired


def test_there_are_more_than_ten_mutants() -> None:
    assert len(MUTANTS) >= 10


def test_a_failing_world_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(tested: World) -> object:
        class Outcome:
            rule = "a rule" if any(ask.name == "c7" for ask in tested.asks) and tested.meddlings else None

        return Outcome

    monkeypatch.setattr("tests.simulation.shrink.simulate", breaks)
    big = world(3, 40)
    big = type(big)(**{**{name: getattr(big, name) for name in big.__slots__}, "meddlings": (LOOK, LOOK)})
    smaller = shrunk(big, "a rule")
    assert [ask.name for ask in smaller.asks] == ["c7"]
    assert len(smaller.meddlings) == 1
    assert not any(site.deeds for site in smaller.sites)


LOOK = Meddling(what="look", at=1.0, provider="p1")
