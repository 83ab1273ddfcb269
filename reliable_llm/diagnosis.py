"""The taxonomy alone: what an exception of any vendor means, for people who have their own retry loop.

    try:
        response = client.chat.completions.create(...)
    except Exception as exc:
        verdict = diagnose(exc, vendor="groq")
        if verdict.retry_same:
            time.sleep(verdict.retry_after or 1)

It knows the exceptions of `openai`, `anthropic`, `google-genai`, `httpx2`, `httpx`, `aiohttp` and `botocore`, and reads
any other one that carries a status, a body or a telling text. Nothing is raised and no SDK is imported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from reliable_llm.adapters.failures import callers_own, failure_from_exception
from reliable_llm.clock import SystemClock
from reliable_llm.core.classify import Rule, classify
from reliable_llm.core.failure import Failure
from reliable_llm.core.unwrap import unwrap
from reliable_llm.errors import Kind, ReliableLLMError, Verdict, default_verdict
from reliable_llm.vendors import vendor_from_base_url

__all__ = ["Rule", "diagnose"]

# How botocore, and whatever wraps it, writes an answer that is an error.
_AWS: Final = re.compile(
    r"\ban error occurred \((\w{1,80})\) when calling the \w{1,80} operation(?: \(reached max retries: \d{1,4}\))?: ",
    re.IGNORECASE,
)

_BUGS: Final = (TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, NotImplementedError, NameError)


def diagnose(exc: BaseException, *, vendor: str | None = None, rules: Sequence[Rule] = ()) -> Verdict:
    """Return what *exc* means and what may be done about it.

    *vendor* decides how codes are read; by default it is guessed from the host that was called, else from the SDK.
    *rules* are your own, tried first. Cancellation is `cancelled`; a `TypeError` and its like is `invalid_request`: the
    caller's own.
    """
    if isinstance(exc, ReliableLLMError):
        return exc.verdict
    if not isinstance(exc, Exception):
        return default_verdict(Kind.CANCELLED, rule="base_exception")
    sdk = _sdk(exc)
    failure = failure_from_exception(exc, vendor=vendor or _vendor(exc, sdk), sdk=sdk)
    failure = _typed(failure)
    verdict = classify(failure, rules=rules, wall=SystemClock().time())
    if _is_a_bug(exc, failure, verdict):
        return default_verdict(Kind.INVALID_REQUEST, rule=f"caller.{type(exc).__name__}")
    return verdict


def _is_a_bug(exc: Exception, failure: Failure, verdict: Verdict) -> bool:
    """Tell whether *exc* is a programming error: no vendor's, no status, and no word of a quota or a rate in it.

    Wrappers of other libraries raise a bare `ValueError` for anything, so its text gets that one chance.
    """
    own = callers_own(exc)
    if own is None or failure.status is not None or failure.body is not None:
        return False
    if isinstance(own, ValueError):
        return not verdict.rule.startswith("untyped.")
    return isinstance(own, _BUGS)


def _typed(failure: Failure) -> Failure:
    """Return *failure* with the status and the body that a mere text holds: `Error code: 429 - {'error': {...}}`."""
    if failure.status is not None or failure.body is not None or failure.transport is not None:
        return failure
    body, status = body_in_text(failure.message)
    return replace(failure, status=status, body=body)


def body_in_text(text: str) -> tuple[object, int | None]:
    """Return the body and the HTTP status that an exception's text quotes, each None where it quotes none."""
    aws = _AWS.search(text, 0, 1_000)
    if aws:
        return {"error": {"code": aws.group(1), "message": text[aws.end() :]}}, None
    start = text.find("{")
    details = unwrap(text) if start >= 0 else None
    body = details.envelopes[0] if details is not None and details.envelopes else None
    return (dict(body) if body is not None else None), _status_in(text[: start if start >= 0 else 200][:200])


def _status_in(head: str) -> int | None:
    """Return the status that the start of a text names: `Error code: 429`, `HTTP 503`, `429 Too Many Requests`."""
    words = head.replace(":", " ").replace("(", " ").replace(",", " ").lower().split()
    for before, word in zip(["", *words], words, strict=False):
        named = before in {"code", "http", "status", "http/1.1", ""} or before.endswith("error")
        if named and len(word) == 3 and word.isascii() and word.isdigit() and "400" <= word <= "599":
            return int(word)
    return None


def _sdk(exc: Exception) -> str:
    packages = {cls.__module__.partition(".")[0] for cls in type(exc).__mro__}
    if "anthropic" in packages:
        return "anthropic"
    return "gemini" if "google" in packages else "openai"


def _vendor(exc: Exception, sdk: str) -> str:
    request = getattr(exc, "request", None)
    found = vendor_from_base_url(str(getattr(request, "url", "")))
    return sdk if found == "unknown" else found
