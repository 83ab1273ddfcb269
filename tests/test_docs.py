"""The documentation's pages: their code runs, and what is generated is complete. CI builds them all, strictly."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from reliable_llm.policy import BudgetPolicy, HedgePolicy, Limits, RecoveryPolicy, RetryPolicy, Timeouts

DOCS = Path(__file__).parents[1] / ".docs"


def blocks() -> list[str]:
    text = (DOCS / "pages" / "recipes.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = spec_from_file_location("pages", DOCS / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("code", blocks(), ids=lambda code: code.splitlines()[0])
def test_code_in_the_recipes_runs(code: str) -> None:
    exec(compile(code, "recipes.md", "exec"), {})


@pytest.mark.parametrize("page", ["how-it-works.md", "recipes.md"])
def test_a_file_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`", (DOCS / "pages" / page).read_text(encoding="utf-8")))
    roots = (DOCS.parent, DOCS.parent / "reliable_llm")

    assert named
    assert [name for name in sorted(named) if not any((root / name).exists() for root in roots)] == []


@pytest.mark.parametrize("policy", [BudgetPolicy, HedgePolicy, Limits, RecoveryPolicy, RetryPolicy, Timeouts])
def test_every_setting_is_on_the_page_of_settings_with_a_word_about_it(pages: ModuleType, policy: type) -> None:
    text = "\n".join(pages.settings_page())
    table = text.split(f"## {policy.__name__}")[1].split("\n## ")[0]

    rows = dict(re.findall(r"^\| `(\w+)` \| `[^`]+` \| (.*) \|$", table, re.MULTILINE))
    assert list(rows) == [field.name for field in fields(policy)]
    assert [name for name, says in rows.items() if not says] == []


def test_the_first_page_is_the_readme_without_links_out_of_the_site(pages: ModuleType) -> None:
    page = pages.first_page()

    assert "# reliable_llm" in page
    assert re.findall(r"\]\((?!https?://)([^)]+)\)", page) == ["timeline.svg"]
