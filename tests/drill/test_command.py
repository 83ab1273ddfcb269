"""`reliable-llm drill`: what it prints, writes and returns."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from reliable_llm.drill.command import drill
from reliable_llm.drill.load import ScenarioError

FAULTS = Path(__file__).parent / "scenarios" / "faults.jsonl"


def told(*files: str, **options: object) -> tuple[int, str]:
    """Return the exit status and what was written."""
    out = io.StringIO()
    return drill(files, out=out, **options), out.getvalue()


def written(tmp_path: Path, *rows: object) -> str:
    path = tmp_path / "outage.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def row(name: str, **expect: object) -> dict[str, object]:
    provider = {"name": "P1", "kind": "openai", "keys": ["k1"], "models": ["m1"]}
    return {
        "id": name,
        "setup": {"providers": [provider], "route": [["P1", "m1"]]},
        "upstream": [{"match": "P1/*/*", "script": [{"act": "ok", "text": "hi", "usage": [3, 4]}]}],
        "calls": [{"id": "c1"}],
        "expect": {"requests": {"P1/k1/m1": 1}, **expect},
    }


def test_without_a_file_the_story_is_told_to_its_end() -> None:
    status, text = told()
    assert status == 0
    assert "is out of quota" in text or "is left alone for 300 s (quota_exhausted)" in text
    assert "time is up: this one call tries openai key-2 again" in text
    assert "openai is back" in text
    assert "24/31" in text


def test_a_story_is_told_by_name_and_an_unknown_one_names_the_others() -> None:
    assert told(story_name="region-block")[0] == 0
    with pytest.raises(ScenarioError, match="no story 'rain': known are brown-out, "):
        told(story_name="rain")


def test_a_story_beside_files_is_refused() -> None:
    with pytest.raises(ScenarioError, match="give either FILE or --story NAME"):
        drill(["mine.json"], story_name="region-block")


def test_no_colour_goes_into_a_file() -> None:
    assert "\x1b" not in told()[1]


def test_json_is_one_object_a_scenario_and_twice_the_same() -> None:
    first, second = (told(str(FAULTS), as_json=True, seed=1)[1] for _ in range(2))
    assert first == second
    rows = [json.loads(line) for line in first.splitlines()]
    assert {"id", "passed", "unsupported", "mismatches", "observed"} <= rows[0].keys()
    assert {"results", "requests", "waited_s", "order"} <= rows[0]["observed"].keys()


def test_one_that_fails_makes_the_status_1_and_says_why(tmp_path: Path) -> None:
    status, text = told(written(tmp_path, row("good"), row("bad", waited_s={"c1": 9})))
    assert status == 1
    assert re.search(r"^holds +good", text, re.MULTILINE)
    assert "waited c1: want 9.0 s, got 0.0 s" in text
    assert "1 of 2 hold, 0 unsupported, 1 fail" in text


def test_an_unsupported_one_is_printed_and_counted(tmp_path: Path) -> None:
    status, text = told(written(tmp_path, row("good"), {**row("odd"), "weather": "rain"}))
    assert status == 1
    assert "unsupported odd" in text
    assert "weather: unknown field" in text
    assert "1 of 2 hold, 1 unsupported, 0 fail" in text


def test_a_broken_one_is_named_after_the_sound_ones_have_run(tmp_path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(ScenarioError, match=r"outage.jsonl, line 2: scenario broken, field calls: "):
        drill([written(tmp_path, row("good"), {**row("broken"), "calls": []})], as_json=True, out=out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(each["id"], each["passed"]) for each in rows] == [("good", True), ("broken", False)]


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    told(str(FAULTS), html=str(page))
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", text)
    assert "prefers-color-scheme: dark" in text
    assert text.count("<section") == len(FAULTS.read_text(encoding="utf-8").splitlines())
    assert "{{" not in text


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be written"):
        told(html=str(tmp_path / "nowhere" / "report.html"))


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "reliable_llm.toml"
    path.write_text(
        """
        [[providers]]
        kind = "openai"
        keys = ["sk-first", "sk-second"]
        models = ["gpt-big", "gpt-small"]

        [[providers]]
        kind = "anthropic"
        keys = ["sk-ant"]
        models = ["claude-big"]

        [retry]
        max_retries = 0
        jitter = 0
        """,
        encoding="utf-8",
    )
    return str(path)


def test_a_story_runs_against_the_users_own_set_up(config: str) -> None:
    status, text = told(story_name="two-keys", config=config, as_json=True)
    seen = json.loads(text)["observed"]
    assert status == 0
    assert seen["results"][0]["ok"]["served_by"] == "anthropic/claude-big"
    assert seen["requests"] == {
        "openai/key-1/gpt-big": 1,
        "openai/key-2/gpt-big": 3,
        "anthropic/key-1/claude-big": 6,
    }


def test_a_report_calls_the_users_own_providers_by_their_names(tmp_path: Path, config: str) -> None:
    page = tmp_path / "report.html"
    _, text = told(story_name="brown-out", config=config, html=str(page))
    shown = text + page.read_text(encoding="utf-8")
    assert "-> openai/key-1/gpt-big" in shown
    assert "claude-sonnet-4-5" not in shown


def test_a_set_up_of_the_users_own_ran_and_does_not_hold(tmp_path: Path, config: str) -> None:
    page = tmp_path / "report.html"
    status, text = told(written(tmp_path, row("one"), row("two")), config=config, html=str(page))
    assert status == 0
    assert "2 of 2 ran" in text
    assert ">ran</b>" in page.read_text(encoding="utf-8")


def test_a_file_that_is_wrong_throughout_is_told_in_twenty_lines(tmp_path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(ScenarioError) as caught:
        drill([written(tmp_path, *(row("one") for _ in range(31)))], out=out)
    assert "1 of 31 hold, 0 unsupported, 0 fail, 30 cannot be read" in out.getvalue()
    assert str(caught.value).count("\n") == 20
    assert "line 2: field id: an earlier scenario has the id 'one'; give each its own" in str(caught.value)
    assert str(caught.value).endswith("... and 10 more")


def test_the_users_own_policies_count(config: str) -> None:
    status, text = told(story_name="brown-out", config=config, as_json=True)
    assert status == 0
    assert set(json.loads(text)["observed"]["waited_s"].values()) == {0.0}


def test_a_set_up_that_is_too_small_is_unsupported(tmp_path: Path, config: str) -> None:
    three = row("three")
    providers = [{"name": f"P{n}", "kind": "openai", "keys": ["k1"], "models": ["m1"]} for n in (1, 2, 3)]
    three["setup"] = {"providers": providers, "route": [["P1", "m1"]]}
    status, text = told(written(tmp_path, three), config=config)
    assert status == 1
    assert "needs 3 providers, and the configuration has 2" in text


def one_key(tmp_path: Path, config: str) -> str:
    small = tmp_path / "one_key.toml"
    text = Path(config).read_text(encoding="utf-8")
    small.write_text(text.replace('["sk-first", "sk-second"]', '["sk-first"]'), encoding="utf-8")
    return str(small)


def test_a_story_that_treats_all_keys_alike_runs_with_as_many_as_there_are(tmp_path: Path, config: str) -> None:
    status, text = told(story_name="vendor-down", config=one_key(tmp_path, config))
    assert status == 0
    assert "7 of 7 calls were answered" in text


def test_a_story_that_tells_keys_apart_needs_them(tmp_path: Path, config: str) -> None:
    status, text = told(story_name="two-keys", config=one_key(tmp_path, config))
    assert status == 1
    assert "needs 2 keys for openai, which its script tells apart, and the configuration has 1: add keys" in text


def test_a_set_up_of_the_users_own_is_not_said_to_be_as_expected(config: str) -> None:
    _, text = told(story_name="everything-down", config=config)
    assert re.search(r"\d of 3 calls were answered", text)
    assert "As expected" not in text


def test_a_call_beside_a_probe_is_told_that_another_one_tries() -> None:
    _, text = told(story_name="two-keys")
    assert text.count("passes openai over without a request: another call is trying it") == 3


def test_no_key_of_the_users_is_printed(tmp_path: Path, config: str) -> None:
    page = tmp_path / "report.html"
    _, text = told(story_name="two-keys", config=config, html=str(page))
    assert "sk-" not in text + page.read_text(encoding="utf-8")
