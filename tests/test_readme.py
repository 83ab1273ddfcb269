"""The README holds what it shows: its code runs, its file loads, its commands are the ones that CI runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reliable_llm import cli
from reliable_llm.config import load
from reliable_llm.errors import Kind
from reliable_llm.policy import BREAKER, RecoveryPolicy, RetryPolicy, Timeouts

if TYPE_CHECKING:
    from tests.conftest import Llmock

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[0])
def test_python_in_the_readme_runs_as_it_stands(vendors: Llmock, code: str) -> None:
    vendors.add("reply", text="The Rhine, the Rhone and the Po.")

    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False, env=dict(os.environ)
    )

    assert run.stderr == ""
    assert run.stdout.startswith("The Rhine, the Rhone and the Po.\nopenai/gpt-5.1\n")


def test_the_example_in_the_readme_is_short() -> None:
    assert len([line for line in blocks("python")[0].splitlines() if line]) <= 12


def test_the_toml_in_the_readme_loads(tmp_path: Path) -> None:
    file = tmp_path / "llm.toml"
    file.write_text(blocks("toml")[0], encoding="utf-8")

    settings = load(file, environ={"OPENAI_API_KEYS": "sk-a,sk-b", "ANTHROPIC_API_KEY": "sk-c"})

    assert [str(candidate) for candidate in settings.route or ()] == ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"]


def test_the_readme_has_two_commands_of_one_line() -> None:
    commands = blocks("sh")

    assert [command.count("\n") for command in commands] == [1, 1]
    assert "reliable-llm drill" in commands[0]
    assert "pytest" in commands[1]


def test_the_main_job_tells_the_whole_story_without_a_key() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "reliable_llm", "drill"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=dict(os.environ),
    )

    assert (run.returncode, run.stderr) == (0, "")
    story = (
        "answered by anthropic/claude",
        "time is up: this one call tries openai",
        "openai is back",
        "answered by openai/gpt",
        "As expected",
    )
    told = [run.stdout.find(part) for part in story]
    assert told == sorted(told)
    assert told[0] > 0


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("two retries with backoff from 0.5 s", (RetryPolicy().max_retries, RetryPolicy().backoff) == (2, 0.5)),
        ("cap of 30 s", RetryPolicy().cap == 30),
        ("a second or less", RetryPolicy().patience == 1),
        ("parked for 300 s", RecoveryPolicy().quota == 300),
        ("at most 120 s", Timeouts().attempt == 120),
        ("the candidate rests for 15 s", {BREAKER[kind] for kind in BREAKER if kind is not Kind.TIMEOUT} == {15}),
        ("the candidate rests for 60 s", BREAKER[Kind.TIMEOUT] == 60),
        ("| for an hour |", RecoveryPolicy().memory == 3600),
    ],
)
def test_numbers_in_the_readme_are_the_defaults(words: str, value: bool) -> None:
    assert words in " ".join(README.read_text(encoding="utf-8").split())
    assert value


def links() -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("link", [link for link in links() if not link.startswith("https://")])
def test_a_link_in_the_readme_leads_somewhere(link: str) -> None:
    assert (README.parent / link.partition("#")[0]).exists()


def test_the_readme_lists_every_command_and_no_other() -> None:
    listed = set(re.findall(r"^\| `reliable-llm (\w+)", README.read_text(encoding="utf-8"), re.MULTILINE))
    known = re.findall(r"^    (\w+)  ", cli._parser().format_help(), re.MULTILINE)

    assert listed == set(known) | {"completion"}
