"""What every test gets: an environment without keys. What some ask for: an independent vendor on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

OWN_VARIABLES = ("OPENAI_", "ANTHROPIC_", "RELIABLE_LLM_")

# The same examples each time, and no clock: a change is judged by what it does, not by the luck of a busy machine.
# `HYPOTHESIS_PROFILE=search pytest --timeout 0` looks for new examples; what it finds becomes an `@example`.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may reach a vendor with the key of whoever runs it; and a child process may keep what it compiled."""
    for name in [name for name in os.environ if name.startswith(OWN_VARIABLES)]:
        monkeypatch.delenv(name)
    # Compiling a vendor's SDK takes seconds: once is enough.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


@pytest.fixture(autouse=True)
def _structlog_as_it_comes() -> Iterator[None]:
    """The command line configures structlog, as an application does; the next test must not inherit that."""
    yield
    structlog.reset_defaults()


class Llmock:
    """A running `llmock serve`: both vendors on one port, with faults on demand and a verdict on the client."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.env = {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "sk-openai-test",
            "ANTHROPIC_BASE_URL": f"{url}/anthropic",
            "ANTHROPIC_API_KEY": "sk-ant-test",
        }

    def add(self, kind: str, /, *, provider: str | None = None, **fields: Any) -> None:
        """Queue a fault: `fail`, `delay`, `reply`, ...; `times=None` keeps it until the test ends."""
        match = {} if provider is None else {"match": {"provider": provider}}
        self._call("POST", "scenario", {"behaviors": [{"type": kind, **fields, **match}]})

    def requests(self, provider: str | None = None) -> list[dict[str, Any]]:
        """Return the requests received so far, oldest first."""
        found: list[dict[str, Any]] = self._call("GET", "requests")["requests"]
        return [request for request in found if provider in (None, request["provider"])]

    def findings(self) -> list[dict[str, Any]]:
        """What the server holds against its client, warnings too; none is a clean `assert_resilient(strict=True)`."""
        found: list[dict[str, Any]] = self._call("GET", "verdict")["findings"]
        return found

    def reset(self) -> None:
        self._call("POST", "reset")

    def _call(self, method: str, what: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_llmock/{what}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.loads(response.read())


@pytest.fixture(scope="session")
def _llmock_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llmock]:
    log = tmp_path_factory.mktemp("llmock") / "log"
    serve = [sys.executable, "-c", "from llmock.cli import app; app()", "serve", "--port", "0"]
    with log.open("wb") as output, subprocess.Popen(serve, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield Llmock(_announced_url(process, log))
        finally:
            process.terminate()
            process.wait(timeout=10)


def _announced_url(process: subprocess.Popen[bytes], log: Path, patience: float = 40.0) -> str:
    """Wait for the server's line that tells its address; the port is the operating system's choice."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up and process.poll() is None:
        found = re.search(r"running on (http://[\d.]+:\d+)", log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"llmock did not start:\n{log.read_text(errors='replace')}")


@pytest.fixture
def vendors(_llmock_process: Llmock, monkeypatch: pytest.MonkeyPatch) -> Llmock:
    """Both vendors, healthy, with the environment pointing at them."""
    _llmock_process.reset()
    for name, value in _llmock_process.env.items():
        monkeypatch.setenv(name, value)
    return _llmock_process
