"""The built-in outages: ready scenarios, told by `reliable-llm drill` and by `reliable-llm drill --story NAME`."""

from __future__ import annotations

from importlib import resources
from typing import Final

from reliable_llm.drill.load import ScenarioError, parse
from reliable_llm.drill.scenario import Scenario
from reliable_llm.tomlfile import nearest

DEFAULT: Final = "two-keys"


def names() -> list[str]:
    """Return the names of all stories, the default first."""
    found = sorted(f.name.removesuffix(".json") for f in _folder().iterdir() if f.name.endswith(".json"))
    return [DEFAULT, *(name for name in found if name != DEFAULT)]


def story(name: str) -> Scenario:
    """Return the story *name*. Raises `ScenarioError` naming those there are."""
    if name not in names():
        raise ScenarioError(f"no story {name!r}{nearest(name, names())}")
    told = parse(_folder().joinpath(f"{name}.json").read_text(encoding="utf-8"), f"story {name}")[0]
    if isinstance(told, ScenarioError):
        raise told
    return told


def _folder() -> resources.abc.Traversable:
    return resources.files("reliable_llm.drill").joinpath("stories")
