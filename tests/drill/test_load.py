"""Scenario files are refused with the line, the field and the remedy."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from reliable_llm.drill.load import ScenarioError, load, parse, suggestion
from reliable_llm.drill.scenario import Scenario, json_schema, shape_of

SOUND = {
    "id": "S1",
    "setup": {
        "providers": [{"name": "P1", "kind": "openai", "keys": ["k1"], "models": ["m1"]}],
        "route": [["P1", "m1"]],
    },
    "upstream": [{"match": "P1/*/m1", "script": [{"act": "ok", "text": "hi", "repeat": True}]}],
    "calls": [{"id": "c1"}],
}


def _refusal(text: str) -> str:
    """Return why *text* is refused, as a file or as its only scenario."""
    try:
        found = parse(text, "outage.json")
    except ScenarioError as error:
        return str(error)
    assert isinstance(found[0], ScenarioError)
    return str(found[0])


def _with(**changes: object) -> dict[str, object]:
    return {**SOUND, **changes}


def test_lines_a_list_and_a_document_are_read_alike() -> None:
    twice = [SOUND, _with(id="S2")]
    as_lines = "\n".join(json.dumps(each) for each in twice)
    as_list = json.dumps(twice, indent=2)
    assert parse(as_lines) == parse(as_list)
    assert parse(json.dumps(SOUND, indent=2)) == parse(as_lines)[:1]


def test_broken_json_names_line_and_column() -> None:
    assert "outage.json, line 2: not JSON" in _refusal(json.dumps(SOUND) + '\n{"id": }')


def test_a_missing_field_is_found_on_its_line_with_a_guess() -> None:
    text = json.dumps(SOUND, indent=1).replace('"keys"', '"key"')
    line = next(n for n, each in enumerate(text.splitlines(), 1) if '"providers"' in each) + 1
    assert _refusal(text) == (
        f"outage.json, line {line}: scenario S1, field setup.providers.0.keys: is missing; "
        "found 'key', did you mean 'keys'?"
    )


def test_a_wrong_value_says_what_is_allowed() -> None:
    text = json.dumps(SOUND).replace('"openai"', '"openal"')
    assert "field setup.providers.0.kind: must be 'openai', 'anthropic' or a known host" in _refusal(text)


def test_a_route_to_nowhere_names_what_there_is() -> None:
    text = json.dumps(SOUND).replace('[["P1", "m1"]]', '[["P1", "m9"]]')
    assert "P1/m9 is none of P1/m1; list the provider and its model" in _refusal(text)


def test_two_scenarios_with_one_id_are_refused() -> None:
    found = parse(f"{json.dumps(SOUND)}\n{json.dumps(SOUND)}")
    assert isinstance(found[0], Scenario)
    assert "field id: an earlier scenario has the id 'S1'" in str(found[1])


def test_a_match_in_another_form_is_told_the_form() -> None:
    said = _refusal(json.dumps(_with(upstream=[{"match": "P1", "script": [{"act": "ok"}]}])))
    assert "field upstream.0.match: write provider/key/model, with * for any" in said


def test_two_calls_with_one_id_are_refused() -> None:
    said = _refusal(json.dumps(_with(calls=[{"id": "c1"}, {"id": "c1"}]), indent=1))
    assert "scenario S1, field calls.1.id: an earlier call has the id 'c1'; give each its own" in said


def test_a_misspelt_act_is_told_with_its_place_and_what_was_meant() -> None:
    [found] = parse(json.dumps(_with(upstream=[{"match": "P1/*/*", "script": [{"act": "okay"}]}])))
    assert isinstance(found, Scenario)
    assert found.unsupported() == ["upstream[0].script[0].act 'okay': not known: did you mean 'ok'?"]


def test_a_broken_scenario_leaves_its_neighbours_alone() -> None:
    found = parse(json.dumps([_with(calls=[]), _with(id="S2")]))
    assert [type(each) for each in found] == [ScenarioError, Scenario]
    assert isinstance(found[0], ScenarioError)
    assert found[0].scenario == "S1"


@pytest.mark.parametrize(("text", "said"), [("", "holds no scenario"), ("7", "a scenario is a JSON object")])
def test_what_is_no_scenario_says_so(text: str, said: str) -> None:
    assert said in _refusal(text)


def test_a_missing_file_and_a_binary_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load(tmp_path / "binary")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weather": "rain"}, "weather: unknown field"),
        ({"calls": [{"id": "c1", "op": "sing"}]}, "op 'sing': not known"),
        ({"calls": [{"id": "c1", "then": "dance"}]}, "then 'dance': not known"),
        ({"upstream": [{"match": "P1/*/*", "script": [{"act": "explode"}]}]}, "act 'explode': not known"),
        ({"upstream": [{"match": "P1/*/*", "script": [{"act": "ok", "delay": 3}]}]}, "script[0].delay: unknown field"),
    ],
)
def test_what_is_not_known_is_listed_and_never_passed_over(changes: dict[str, object], said: str) -> None:
    scenario = Scenario.model_validate(_with(**changes))
    assert any(said in reason for reason in scenario.unsupported())


def test_words_for_people_are_never_unsupported() -> None:
    scenario = Scenario.model_validate(_with(expect={"never": ["a crash"], "also": ["joy"], "mood": "good"}))
    assert scenario.unsupported() == []


def test_a_misspelt_field_gets_a_suggestion() -> None:
    assert suggestion("delay_sec") == " (did you mean 'delay_s'?)"
    assert suggestion("weather") == ""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("null content", "content_null"),
        ("only thinking", "thinking_only"),
        ("choices: []", "choices_empty"),
        ("?", "_"),
    ],
)
def test_an_empty_answer_may_be_described_in_words(said: str, meant: str) -> None:
    assert shape_of(said) == meant


def test_the_shipped_schema_is_the_one_of_the_models() -> None:
    shipped = resources.files("reliable_llm.drill").joinpath("scenario.schema.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == json_schema(), "write it anew from json_schema()"
