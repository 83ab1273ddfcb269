"""The faults by which other libraries were measured, and what this one does: each scenario says what must come."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliable_llm.drill.load import load
from reliable_llm.drill.runner import run_scenario
from reliable_llm.drill.scenario import Scenario
from reliable_llm.drill.story import names, story

FAULTS = [each for each in load(Path(__file__).parent / "scenarios" / "faults.jsonl") if isinstance(each, Scenario)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_each_fault_ends_as_its_scenario_says(fault: Scenario) -> None:
    report = run_scenario(fault)
    assert [*report.unsupported, *report.unchecked, *report.mismatches] == []


@pytest.mark.parametrize("name", names())
def test_each_built_in_story_ends_as_it_says(name: str) -> None:
    report = run_scenario(story(name))
    assert [*report.unsupported, *report.unchecked, *report.mismatches] == []


@pytest.mark.parametrize("name", names())
def test_each_built_in_story_says_what_must_come(name: str) -> None:
    told = story(name)
    assert told.expect.results
    assert told.expect.requests
    assert told.note
