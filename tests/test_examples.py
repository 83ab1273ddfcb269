"""The examples run as they stand, without a key, on simulated vendors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

SAYS = {
    "tools": "openai/gpt-5.1: It is warmer in Lisbon",
    "agent_failover": "anthropic/claude-sonnet-4-5 (after openai/gpt-5.1 [openai#1] quota_exhausted 429): order",
    "vision": "anthropic/claude-sonnet-4-5: A small red dot",
    "structured_output": "openai/gpt-5.1: Person(name='Ada Lovelace', born=1815, city='London')",
}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_without_a_key(name: str) -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=50, check=False
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert SAYS[name] in run.stdout
