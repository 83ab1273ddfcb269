"""What vendors document, or are known to send, and what each message is: one line of the file beside this one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reliable_llm.core.classify import classify
from reliable_llm.core.failure import Failure

HERE = Path(__file__).parent
MESSAGES = [json.loads(line) for line in (HERE / "vendor_messages.jsonl").read_text().splitlines()]
ANSWERS = [json.loads(line) for line in (HERE / "vendor_waits.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: f"{m['vendor']}-{m['status']}-{m['kind']}")
def test_a_documented_message_is_told_for_what_it_is(message: Mapping[str, object]) -> None:
    status = message["status"]
    failure = Failure(
        vendor=str(message["vendor"]),
        sdk="openai",
        status=status if isinstance(status, int) else None,
        body=message["body"],
    )
    assert classify(failure).kind == message["kind"]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: f"{a['vendor']}-{a['status']}-{a['kind']}")
def test_what_a_whole_answer_asks_for_is_what_is_done(answer: Mapping[str, Any]) -> None:
    verdict = classify(
        Failure(
            vendor=answer["vendor"],
            sdk="openai",
            status=answer["status"],
            headers=answer["headers"],
            body=answer["body"],
        )
    )
    wait = pytest.approx(answer["retry_after"], abs=0.05) if answer["retry_after"] is not None else None
    names = ("kind", "retry_after", "rotate_key", "retry_same", "failover")
    assert [getattr(verdict, name) for name in names] == [answer["kind"], wait, *(answer[name] for name in names[2:])]


def test_a_number_in_brackets_is_a_code_only_where_the_vendor_writes_it_so() -> None:
    body = {"type": "error", "error": {"type": "api_error", "message": "something failed (1004)"}}
    kinds = {v: classify(Failure(vendor=v, sdk="anthropic", status=500, body=body)).kind for v in ("minimax", "other")}
    assert kinds == {"minimax": "authentication", "other": "server_error"}
