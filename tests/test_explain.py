"""`reliable-llm explain`: what it accepts, what it prints, and that it goes through the real SDKs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from reliable_llm.core.classify import classify
from reliable_llm.core.failure import Failure
from reliable_llm.errors import ERROR_CLASSES, Kind, Verdict, default_verdict
from reliable_llm.explain import human, json_line, next_step, run

FIELDS = ["id", "kind", "scope", "retry_after_s", "should_rotate_key", "should_retry_same", "should_failover", "why"]


def row(status: object, body: object, **fields: object) -> str:
    return json.dumps({"id": "r1", "vendor": "openai", "sdk": "openai", "status": status, "body": body, **fields})


def explained(tmp_path: Path, text: str, **options: object) -> list[dict[str, object]]:
    """Run `explain --json` on a file with *text*; return the printed objects."""
    file = tmp_path / "failures.jsonl"
    file.write_text(text, encoding="utf-8")
    out = io.StringIO()
    status, vendor = options.get("status"), options.get("vendor")
    assert run(
        str(file),
        as_json=True,
        status=status if isinstance(status, int) else None,
        vendor=vendor if isinstance(vendor, str) else None,
        out=out,
    ) == 0  # fmt: skip
    return [json.loads(line) for line in out.getvalue().splitlines()]


def one(tmp_path: Path, text: str, **options: object) -> dict[str, object]:
    (found,) = explained(tmp_path, text, **options)
    return found


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> str:
    file = tmp_path / "bad"
    file.write_text(text, encoding="utf-8")
    assert run(str(file), as_json=True) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


# ---------------------------------------------------------------- rows


def test_json_has_exactly_the_documented_fields_in_their_order(tmp_path: Path) -> None:
    answer = one(tmp_path, row(429, {"error": {"message": "slow"}}, headers={"retry-after": "3"}))
    assert list(answer) == FIELDS
    assert [answer[name] for name in FIELDS[:-1]] == ["r1", "rate_limited", "key", 3, True, True, True]


def test_many_rows_give_one_object_each_in_their_order(tmp_path: Path) -> None:
    rows = [row(status, {}, id=f"r{status}") for status in (401, 503, 404)]
    assert [found["id"] for found in explained(tmp_path, "\n\n".join(rows))] == ["r401", "r503", "r404"]


def test_an_array_of_rows_is_taken_as_rows(tmp_path: Path) -> None:
    rows = [json.loads(row(status, {}, id=f"r{status}")) for status in (401, 503)]
    assert [found["id"] for found in explained(tmp_path, json.dumps(rows, indent=2))] == ["r401", "r503"]


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, "quota_exhausted"),
        (403, "<html>blocked</html>", "permission"),
        (200, {"error": {"code": 429, "message": "x"}}, "rate_limited"),
        (200, "<!doctype html><html>Sign in</html>", "malformed_response"),
        (200, "\n\n\n", "malformed_response"),
        (200, {"choices": []}, "malformed_response"),
        (204, None, "malformed_response"),
        (307, "", "configuration"),
        ("transport", "httpx.ConnectError: [Errno -3] Temporary failure in name resolution", "connection"),
        ("transport", "read ECONNRESET", "connection"),
        ("transport", "HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=600)", "timeout"),
        ("transport", "httpx.PoolTimeout", "timeout"),
        ("transport", "ValueError: Streaming is required for operations that may take long", "invalid_request"),
        ("transport", "peer closed connection without sending complete message body", "stream_interrupted"),
        ("stream", "httpx.RemoteProtocolError: peer closed connection", "stream_interrupted"),
    ],
)
def test_a_row_is_played_to_the_real_sdk(tmp_path: Path, sdk: str, status: object, body: object, kind: str) -> None:
    headers = {"content-type": "application/json"} if body == "\n\n\n" else {}
    assert one(tmp_path, row(status, body, sdk=sdk, headers=headers))["kind"] == kind


@pytest.mark.parametrize(
    ("sdk", "body", "kind"),
    [
        ("openai", {"error": {"type": "server_error", "code": "server_is_overloaded"}}, "overloaded"),
        ("openai", {"error": "Network connection lost."}, "stream_interrupted"),
        ("openai", {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}}, "rate_limited"),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error"}}, "overloaded"),
        ("anthropic", "not json at all", "stream_interrupted"),
    ],
)
def test_a_frame_is_played_in_a_real_stream(tmp_path: Path, sdk: str, body: object, kind: str) -> None:
    assert one(tmp_path, row("stream", body, sdk=sdk))["kind"] == kind


def test_headers_that_would_break_the_answer_are_not_served(tmp_path: Path) -> None:
    headers = {"Content-Length": "63", "content-encoding": "gzip", "x-amzn-errortype": "ThrottlingException"}
    answer = one(tmp_path, row(429, {"message": "Too many tokens, please wait"}, headers=headers, vendor="bedrock"))
    assert answer["kind"] == "rate_limited"


def test_a_recorded_time_of_day_is_no_wait_where_the_time_of_the_recording_is_not_known(tmp_path: Path) -> None:
    body = {"error": {"message": "You have reached your specified API usage limits. Regain access on 2999-01-01"}}
    assert one(tmp_path, row(400, body))["retry_after_s"] is None


def test_a_good_answer_is_no_failure(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"content": "quota 429 insufficient_quota"}, "finish_reason": "stop"}]}
    assert one(tmp_path, row(200, body))["kind"] is None


# ---------------------------------------------------------------- bare bodies and texts


def test_a_bare_body_is_completed_by_status_and_vendor(tmp_path: Path) -> None:
    body = json.dumps({"error": {"code": "1113", "message": "x"}}, indent=2)
    assert one(tmp_path, body, status=429, vendor="zhipu")["kind"] == "quota_exhausted"


def test_a_bare_body_may_name_its_status_itself(tmp_path: Path) -> None:
    assert one(tmp_path, '{"error": {"code": 402, "message": "x"}}')["kind"] == "quota_exhausted"


def test_a_bare_body_of_anthropics_goes_through_its_own_sdk(tmp_path: Path) -> None:
    body = '{"type": "error", "error": {"type": "overloaded_error"}}'
    assert one(tmp_path, body, vendor="anthropic")["kind"] == "overloaded"


def test_a_bare_list_is_a_body(tmp_path: Path) -> None:
    assert (
        one(tmp_path, '[{"error": {"code": 503, "message": "no capacity"}}]', vendor="gemini")["kind"] == "overloaded"
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("openai.RateLimitError: Error code: 429 - {'error': {'code': 'insufficient_quota'}}", "quota_exhausted"),
        ('anthropic.BadRequestError: {"error": {"code": 529, "type": "overloaded_error"}}', "overloaded"),
        ("HTTP 503: Service Unavailable", "overloaded"),
        ("Traceback (most recent call last):\n  ...\nRuntimeError: insufficient_quota", "quota_exhausted"),
        ("Connection error.", "connection"),
    ],
)
def test_a_pasted_exception_is_read_by_what_it_quotes(tmp_path: Path, text: str, kind: str) -> None:
    assert one(tmp_path, text)["kind"] == kind


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(row(401, {})))
    out = io.StringIO()
    assert run("-", as_json=True, out=out) == 0
    assert json.loads(out.getvalue())["kind"] == "authentication"


# ---------------------------------------------------------------- what this package has said itself


@pytest.mark.parametrize("kind", ERROR_CLASSES)
@pytest.mark.parametrize(
    "text",
    [
        "openai/gpt-5.1 [openai#1] {kind} 429",
        "2026-12-01 12:00:00 [warning  ] failover    from_=openai/m1 reason={kind} to=anthropic/m2",
        "2026-12-01 12:00:00 [error    ] all_failed    attempts=1 primary_kind={kind} retry_after=None",
        "openai.RateLimitError: Error code: 429 - {{}}\n\nreliable_llm.errors.{error}: said it",
    ],
)
def test_our_own_words_are_understood(tmp_path: Path, text: str, kind: Kind) -> None:
    told = text.format(kind=kind, error=ERROR_CLASSES[kind].__name__)

    assert one(tmp_path, told)["kind"] == kind


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_word_for_a_person(kind: Kind) -> None:
    assert not human("x", default_verdict(kind)).endswith("person: nothing\n")


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the input is empty"),
        (" \n ", "the input is empty"),
        ('{"id": 1, ', "line 1 is not JSON"),
        (row(429, {}) + "\n{oops", "line 2 is not JSON"),
        (row("sometimes", {}), 'line 1: "status" must be'),
        (row(99, {}), 'line 1: "status" must be'),
        (row(True, {}), 'line 1: "status" must be'),
        (row(429, {}, headers=["x"]), 'line 1: "headers" must be'),
        ("[" * 100_000, "line 1 is not JSON"),
    ],
)
def test_bad_input_gets_a_clear_message_and_exit_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
) -> None:
    assert says in refused(capsys, tmp_path, text)


def test_a_missing_file_is_told_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(str(tmp_path / "absent")) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe\x00")
    assert run(str(file)) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_a_status_that_is_none_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text("{}")
    assert run(str(file), status=42) == 2
    assert "--status 42" in capsys.readouterr().err


def test_a_vendor_that_nobody_knows_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text("{}")
    assert run(str(file), status=429, vendor="opnai") == 2
    assert "unknown vendor 'opnai': did you mean 'openai'?" in capsys.readouterr().err


# ---------------------------------------------------------------- for people


def test_people_are_told_what_it_is_how_sure_that_is_and_what_to_do() -> None:
    body = {"error": {"code": "context_length_exceeded", "message": "prompt is too long: 9 tokens > 8 maximum"}}
    verdict = classify(Failure(vendor="openai", sdk="openai", status=400, body=body))
    assert human("r1", verdict).splitlines() == [
        "r1: context window (status 400, code context_length_exceeded, window 8 tokens, request 9 tokens)",
        "  sure:   certain; decided by code.context_window: longer than the model's window",
        "  scope:  the request must change",
        "  next:   only candidates known to have a larger window",
        "  person: shorten the prompt, ask for less output, or add a model with a larger window",
    ]


def test_the_next_steps_stand_in_the_coordinators_order() -> None:
    verdict = classify(Failure(vendor="x", sdk="openai", status=429, body={}, headers={"retry-after": "5"}))
    assert next_step(verdict) == (
        "the next ready key of this provider, at once; else the same request again after 5 s; else the next candidate"
    )


def test_where_nothing_helps_it_is_raised() -> None:
    assert next_step(default_verdict(Kind.INVALID_REQUEST)).startswith("raise it")


def test_a_good_answer_is_told_as_one_to_people_too() -> None:
    assert "no failure" in human("r1", None)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_can_be_printed(kind: Kind) -> None:
    verdict: Verdict = default_verdict(kind)
    assert human("r1", verdict).startswith("r1: ")
    assert json.loads(json_line("r1", verdict))["kind"] == kind


def test_without_json_a_paragraph_a_failure_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows"
    file.write_text(
        row(529, {}, headers={"retry-after": "5"}) + "\n" + row(400, {"error": {"message": "no image support"}})
    )
    assert run(str(file)) == 0
    assert capsys.readouterr().out.count("person:") == 2


AWS = "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): "


@pytest.mark.parametrize(
    ("vendor", "text", "kind"),
    [
        ("bedrock", f"botocore.errorfactory.ThrottlingException: {AWS}Too many tokens, please wait.", "rate_limited"),
        ("bedrock", f"botocore.errorfactory.ThrottlingException: {AWS}Too many tokens per day.", "quota_exhausted"),
        ("bedrock", "botocore.exceptions.NoCredentialsError: Unable to locate credentials", "authentication"),
        ("vertex", "google.auth.exceptions.RefreshError: ('invalid_grant: revoked', {})", "authentication"),
        ("vertex", "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for x", "rate_limited"),
        (
            "openai",
            "openai.RateLimitError: Error code: 429 - {'error': {'code': 'insufficient_quota'}}",
            "quota_exhausted",
        ),
        ("openai", "openai.APITimeoutError: Request timed out. 429", "timeout"),
        ("openai", "httpx.ReadError: [Errno 104] Connection reset by peer", "connection"),
    ],
)
def test_an_exceptions_text_is_told_alike_in_a_row_and_alone(tmp_path: Path, vendor: str, text: str, kind: str) -> None:
    recorded = one(tmp_path, json.dumps({"id": "r1", "vendor": vendor, "status": "transport", "body": text}))
    pasted = one(tmp_path, text, vendor=vendor)

    assert (recorded["kind"], pasted["kind"]) == (kind, kind)
