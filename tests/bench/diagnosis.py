"""How often four ways of reading a failure are right, on the same rows: one Markdown table.

    python tests/bench/diagnosis.py CORPUS.jsonl [--litellm PYTHON]

CORPUS holds one failure a line: `id, vendor, sdk, status, headers, body, kind`. LiteLLM is asked where it is installed,
or in the interpreter PYTHON. It has no class for some of our kinds (spent money is its RateLimitError or
BadRequestError); a class of its own that stands for two of our kinds counts as right for either.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from reliable_llm.core.rules.statuses import kind_of_status
from reliable_llm.replay import Recorded, Replay

Row = Mapping[str, Any]

SUBSTRINGS: Final = (
    ("context_window", ("context", "too many tokens", "prompt is too long")),
    ("quota_exhausted", ("quota", "billing", "insufficient", "credit")),
    ("rate_limited", ("429", "rate limit", "rate_limit", "too many requests")),
    ("authentication", ("401", "api key", "unauthorized", "authentication")),
    ("permission", ("403", "permission", "forbidden")),
    ("overloaded", ("overloaded", "503", "529", "capacity")),
    ("model_not_found", ("404", "not found", "does not exist")),
    ("content_policy", ("content_filter", "policy", "safety")),
    ("timeout", ("timeout", "timed out")),
    ("server_error", ("500", "502", "server error")),
    ("connection", ("connect",)),
)

LITELLM_KINDS: Final = {
    "RateLimitError": {"rate_limited"},
    "AuthenticationError": {"authentication"},
    "PermissionDeniedError": {"permission"},
    "NotFoundError": {"model_not_found"},
    "ContextWindowExceededError": {"context_window"},
    "ContentPolicyViolationError": {"content_policy"},
    "BadRequestError": {"invalid_request", "request_too_large"},
    "UnprocessableEntityError": {"invalid_request"},
    "ServiceUnavailableError": {"overloaded", "server_error"},
    "InternalServerError": {"server_error", "overloaded"},
    "BadGatewayError": {"server_error"},
    "Timeout": {"timeout"},
    "APIConnectionError": {"connection", "server_error"},
    "APIResponseValidationError": {"malformed_response"},
    "JSONSchemaValidationError": {"malformed_response"},
    "BudgetExceededError": {"quota_exhausted"},
    "APIError": {"server_error"},
}

# Runs where LiteLLM is: rows in on standard input, one class name a line out.
LITELLM_SCRIPT: Final = """
import io, json, sys, contextlib
import httpx, litellm
from litellm.litellm_core_utils.exception_mapping_utils import exception_type
litellm.suppress_debug_info = True
KNOWN = {"vertex-anthropic": "vertex_ai", "together": "together_ai", "fireworks": "fireworks_ai", "azure": "azure"}
for line in sys.stdin:
    row = json.loads(line)
    status = row["status"] if isinstance(row["status"], int) else 500
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    vendor = KNOWN.get(row["vendor"], row["vendor"])
    request = httpx.Request("POST", "http://x")
    provider = vendor if vendor in {p.value for p in litellm.provider_list} else row["sdk"]
    error = litellm.llms.base_llm.chat.transformation.BaseLLMException(
        status_code=status, message=body, headers=httpx.Headers(row["headers"]), request=request,
        response=httpx.Response(status, request=request, headers=row["headers"], text=body),
    )
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exception_type(model="m", original_exception=error, custom_llm_provider=provider)
            name = "none"
        except Exception as exc:
            name = type(exc).__name__
    print(name)
"""


def by_status(row: Row) -> str:
    """The status alone; a stream's frame and a transport failure have none."""
    status = row["status"]
    if isinstance(status, int):
        return str(kind_of_status(status)) if status >= 300 else "ok"
    return "connection" if status == "transport" else "stream_interrupted"


def by_substring(row: Row) -> str:
    """The first list with a word that is anywhere in the status, the headers or the body."""
    text = f"{row['status']} {json.dumps(row['headers'])} {json.dumps(row['body'])}".lower()
    return next((kind for kind, words in SUBSTRINGS if any(word in text for word in words)), "invalid_request")


async def ours(rows: Sequence[Row]) -> list[str]:
    """What the real SDKs' exceptions are translated to."""
    found = []
    async with Replay() as replay:
        for row in rows:
            recorded = Recorded(**{name: row[name] for name in ("id", "status", "body", "headers", "vendor", "sdk")})
            verdict = await replay.verdict(recorded)
            found.append(str(verdict.kind) if verdict else "ok")
    return found


def litellms(rows: Sequence[Row], python: str) -> list[set[str]]:
    """What LiteLLM's exception mapping makes of the same status, headers and body."""
    lines = "\n".join(json.dumps(dict(row)) for row in rows)
    done = subprocess.run(
        [python, "-c", LITELLM_SCRIPT], input=lines, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        raise SystemExit(f"LiteLLM failed: {done.stderr[-500:]}")
    return [LITELLM_KINDS.get(name, {name}) for name in done.stdout.splitlines()]


def line(name: str, rows: Sequence[Row], right: Callable[[int], bool], per_row: float | None) -> str:
    """One row of the table: all rows, the hard ones, and money read as a rate limit or the reverse."""
    hard = [i for i, row in enumerate(rows) if row.get("adversarial")]
    hits, hard_hits = sum(map(right, range(len(rows)))), sum(map(right, hard))
    money = [i for i, row in enumerate(rows) if row["kind"] in ("quota_exhausted", "rate_limited")]
    speed = f"{per_row * 1e3:.2f}" if per_row is not None else "-"
    return (
        f"| {name} | {hits} of {len(rows)} ({hits / len(rows):.1%}) | {hard_hits} of {len(hard)} "
        f"| {sum(map(right, money))} of {len(money)} | {speed} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--litellm", metavar="PYTHON", help="an interpreter that has LiteLLM")
    args = parser.parse_args()
    rows: list[Row] = [
        json.loads(text) for text in args.corpus.read_text(encoding="utf-8").splitlines() if text.strip()
    ]
    want = [row["kind"] for row in rows]

    started = time.perf_counter()
    got = asyncio.run(ours(rows))
    took = (time.perf_counter() - started) / len(rows)
    print("| way | right | of the hard ones | money and rate told apart | ms a row |\n|---|---|---|---|---|")
    print(line("reliable_llm, through the real SDKs", rows, lambda i: got[i] == want[i], took))
    print(line("status alone", rows, lambda i: by_status(rows[i]) == want[i], None))
    print(line("substrings", rows, lambda i: by_substring(rows[i]) == want[i], None))
    python = args.litellm or (sys.executable if importlib.util.find_spec("litellm") else None)
    if python is None:
        print("| LiteLLM's exception mapping | not installed | - | - | - |")
        return
    theirs = litellms(rows, python)
    print(line("LiteLLM's exception mapping", rows, lambda i: want[i] in theirs[i], None))


if __name__ == "__main__":
    main()
