"""The picture in the README: what it shows, and that it is the one that its command draws."""

from __future__ import annotations

import io
from pathlib import Path
from xml.dom import minidom

import pytest

from reliable_llm.drill.command import drill
from reliable_llm.drill.load import ScenarioError

COMMITTED = Path(__file__).parents[2] / ".github" / "timeline.svg"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("svg") / "timeline.svg"
    assert drill([], svg=str(path), out=io.StringIO()) == 0
    return path


def test_the_picture_in_the_repository_is_what_the_command_draws(drawn: Path) -> None:
    """If this fails after a change to the drill: `reliable-llm drill --svg .github/timeline.svg`, and look at it."""
    assert drawn.read_bytes() == COMMITTED.read_bytes()


def test_the_picture_is_xml_with_a_bar_for_every_request(drawn: Path) -> None:
    shapes = minidom.parse(str(drawn)).getElementsByTagName("rect")
    kinds = [shape.getAttribute("class") for shape in shapes if shape.hasAttribute("data-tip")]

    assert [kind for kind in kinds if kind.startswith("bar")].count("bar answered") == 8
    assert "bar limited" in kinds
    assert "bar quota" in kinds


def test_the_picture_has_colours_for_light_and_dark(drawn: Path) -> None:
    assert "@media (prefers-color-scheme: dark)" in drawn.read_text(encoding="utf-8")


def test_a_picture_of_many_scenarios_is_refused(tmp_path: Path) -> None:
    faults = str(Path(__file__).parent / "scenarios" / "faults.jsonl")

    with pytest.raises(ScenarioError, match="--svg draws one scenario"):
        drill([faults], svg=str(tmp_path / "x.svg"), out=io.StringIO())
