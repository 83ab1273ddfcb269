"""The integrations' examples run as they stand, without a key, on simulated vendors."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import is_logged

EXAMPLES = Path(__file__).parents[2] / "examples"

# What an example needs beside this package, and a line that it must print.
SAYS = {
    "strategy_actor": (None, "by the deterministic stub, using_fallback=True"),
    "langchain_agent": ("langchain", "anthropic/claude-sonnet-4-5: It rains in Oslo."),
    "pydantic_ai_agent": ("pydantic_ai", "Forecast(city='Oslo', umbrella=True)"),
    "openai_agents": ("agents", "anthropic/claude-sonnet-4-5: message"),
    "migrations/from_litellm_router": (None, "ours: 'hello from the spare' by anthropic/claude-sonnet-4-5"),
    "migrations/from_langchain_with_fallbacks": (
        "langchain_core",
        "ours: 'hello from the spare' by anthropic/claude-sonnet-4-5",
    ),
    "migrations/from_pydantic_ai_fallback_model": (
        "pydantic_ai",
        "ours: 'hello from the spare' by anthropic/claude-sonnet-4-5",
    ),
}


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.timeout(150)  # the frameworks take their time to load where they are not compiled yet
def test_an_example_of_an_integration_runs_without_a_key(name: str) -> None:
    package, line = SAYS[name]
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed: it is in the dependency group `integrations`")

    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=140, check=False
    )

    assert run.returncode == 0, run.stderr
    assert all(map(is_logged, run.stderr.splitlines())), run.stderr
    assert line in run.stdout
