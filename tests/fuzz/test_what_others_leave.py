"""What other processes leave for ours to read: records in a store, a status behind a socket, failures in a log."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reliable_llm import explain
from reliable_llm.commands.watch import rows, table
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import DAY
from reliable_llm.state.records import decode
from tests.fuzz.test_what_vendors_send import bent, values

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
NOW = 1_800_000_000.0

# ---------------------------------------------------------------- records of shared health

RECORD = {"at": NOW - 5, "until": NOW + 60, "kind": "quota_exhausted", "probe": True, "status": 429, "code": "spent"}


@given(bent(RECORD))
@example({"at": 10**400})
@example({"at": NOW, "until": float("inf"), "kind": "rate_limited"})
def test_any_record_is_none_or_a_rest_of_at_most_a_day(fields: Any) -> None:
    record = decode(json.dumps(fields).encode(), NOW)
    assert record is None or record.until <= NOW + 60 + DAY


@given(st.binary(max_size=300) | st.sampled_from([b"[" * 300, b'{"at":' * 50, b"9" * 300, b'{"at": 1e999}']))
def test_any_bytes_in_a_store_are_none_or_a_rest_of_at_most_a_day(raw: bytes) -> None:
    record = decode(raw, NOW)
    assert record is None or record.until <= NOW + 60 + DAY


# ---------------------------------------------------------------- a status behind a socket


HEALTH = {"state": "resting", "seconds_left": 3.5, "reason": "rate_limited", "status": 429, "code": "slow_down"}
PROVIDER = {
    "name": "a",
    "endpoint": "https://a.example",
    "keys": [{"label": "a#1", "health": HEALTH, "models": {"m1": HEALTH}, "under_way": 2}],
    "models": {"m1": HEALTH},
    "lacking": {"m1": ["vision"]},
    "waiting": 2,
    "turn_in": 1.5,
}
STATUS = {"v": 1, "pid": 7, "providers": [PROVIDER]}


@given(bent(STATUS) | values)
@example({"v": 1, "pid": "[/red]", "providers": []})
@example({"v": 1, "providers": [{"name": "\x1b[2J", "keys": [], "models": {}, "lacking": {}, "waiting": 10**400}]})
def test_any_status_is_a_table_or_an_error_of_ours(told: Any) -> None:
    with contextlib.suppress(ConfigurationError):
        assert table(told if isinstance(told, dict) else {"providers": told}).columns


@given(st.text(max_size=20))
def test_nothing_in_a_status_moves_the_cursor_of_a_terminal(name: str) -> None:
    provider = PROVIDER | {"name": f"\x1b[2J{name}\r\n\x9b"}
    assert all(cell.isprintable() for row in rows({"providers": [provider]}) for cell in row)


# ---------------------------------------------------------------- failures in a log

ROW = {
    "id": "r1",
    "vendor": "openai",
    "sdk": "openai",
    "status": 429,
    "headers": {"retry-after": "3"},
    "body": {"error": {"message": "slow down", "type": "rate_limit_error", "code": None}},
}


def explained(file: Path, text: str, *, as_json: bool) -> int:
    file.write_text(text, encoding="utf-8", errors="replace")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        return explain.run(str(file), as_json=as_json, out=said)


@FUZZ
@given(row=bent(ROW), as_json=st.booleans())
@example(row={**ROW, "status": "transport", "body": "openai.APITimeoutError: Request timed out."}, as_json=True)
@example(row={**ROW, "headers": {"a": "\n"}}, as_json=True)
def test_any_row_is_explained_or_refused(tmp_path: Path, row: Any, *, as_json: bool) -> None:
    assert explained(tmp_path / "log", json.dumps(row), as_json=as_json) in (0, 2)


@FUZZ
@given(text=st.text(max_size=200), as_json=st.booleans())
@example(text="[" * 100_000, as_json=True)
@example(text='{"error":' * 50_000, as_json=True)
@example(text="openai.RateLimitError: Error code: 429 - {'error': {'message': '" + "{" * 50_000, as_json=False)
@example(text="a." * 50_000 + "Error", as_json=False)
def test_any_text_is_explained_or_refused(tmp_path: Path, text: str, *, as_json: bool) -> None:
    assert explained(tmp_path / "log", text, as_json=as_json) in (0, 2)
