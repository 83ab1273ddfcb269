"""Any file may be given for a scenario or a configuration: it is read, or refused by an error of ours."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reliable_llm import config
from reliable_llm.drill.load import ScenarioError, parse
from reliable_llm.drill.runner import Report, run_scenario
from reliable_llm.drill.scenario import ACTS, ENDS, OPS, Scenario
from reliable_llm.errors import ReliableLLMError

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 400) | st.text(max_size=12) | st.just("9" * 5_000)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def scenario(act: Any, call: Any, policy: Any) -> dict[str, Any]:
    return {
        "id": "fuzz",
        "setup": {
            "providers": [{"name": "P1", "kind": "openai", "keys": ["k1"], "models": ["m1"]}],
            "route": [["P1", "m1"]],
            "policy": policy,
        },
        "upstream": [{"match": "P1/*/*", "script": [act, {"act": "ok", "text": "hello", "repeat": True}]}],
        "calls": [{"id": "c1", "t": 0, "op": "chat", "prompt": "hi"} | call],
        "expect": {"results": []},
    }


acts = st.fixed_dictionaries(
    {"act": st.sampled_from(ACTS)},
    optional={
        "status": st.integers(90, 610),
        "end": st.sampled_from([*ENDS, "?"]),
        "chunks": st.lists(st.text(max_size=5), max_size=3),
        "text": st.text(max_size=5),
        "delay_s": st.floats(-1, 1e6),
        "phase": st.text(max_size=6) | st.sampled_from(["headers", "body", "connect"]),
        "reject_if": st.text(max_size=20),
        "raise": st.sampled_from(
            ["KeyError", "ssl.SSLError", "os.system('x')", "builtins.exec", "Nonsense", "__import__"]
        ),
        "headers": st.dictionaries(
            st.sampled_from(["retry-after", "x"]),
            st.text(st.characters(max_codepoint=126, min_codepoint=32), max_size=8),
        ),
        "error": values,
        "calls": values,
        "usage": values,
    },
)
calls = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from([*OPS, "?"]),
        "deadline_s": st.floats(-1, 1e6),
        "cancel_at": st.floats(0, 100),
        "tokens": st.integers(-1, 10),
        "schema": st.text(max_size=10),
        "history": st.text(max_size=10),
        "tools": values,
    },
)
policies = st.dictionaries(
    st.sampled_from(["max_retries", "backoff_s", "cap_s", "jitter", "quota_recovery_s", "cooldown"]), values, max_size=2
)


@FUZZ
@given(text=st.text(max_size=300) | values.map(json.dumps))
@example(text="[" * 100_000)
@example(text='{"id":' * 50_000)
@example(text="\x00")
def test_any_text_is_scenarios_or_says_what_is_wrong(text: str) -> None:
    try:
        found = parse(text)
    except ScenarioError as refused:
        found = [refused]
    assert all(isinstance(each, Scenario | ScenarioError) for each in found)


@FUZZ
@given(act=acts, call=calls, policy=policies)
def test_any_scenario_runs_to_an_end_or_says_what_is_wrong(act: Any, call: Any, policy: Any) -> None:
    for each in parse(json.dumps(scenario(act, call, policy))):
        if isinstance(each, Scenario):
            assert isinstance(run_scenario(each), Report)


TOML = """
[[provider]]
kind = "openai"
name = "a"
models = ["m1"]
keys = ["sk-a"]

[retry]
max_retries = 2
"""


@FUZZ
@given(text=st.text(max_size=200), at=st.integers(0, len(TOML)), gone=st.integers(0, 30))
@example(text="a = " + "[" * 100_000, at=0, gone=0)
@example(text="x = 99999999999999999999999999999999", at=0, gone=0)
def test_any_configuration_is_read_or_refused_by_an_error_of_ours(
    tmp_path: Path, text: str, at: int, gone: int
) -> None:
    file = tmp_path / "llm.toml"
    file.write_text(TOML[:at] + text + TOML[at + gone :], encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(ReliableLLMError):
        config.load(file, environ={})


@FUZZ
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_by_an_error_of_ours(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "llm.toml"
    file.write_bytes(content)
    with pytest.raises(ReliableLLMError):
        config.load(file, environ={})
