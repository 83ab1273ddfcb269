"""The taxonomy as the HTTP answers of the vendors, so that their SDKs raise their own classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

import httpx2

from reliable_llm.errors import ClosedError, ConfigurationError, Kind, ReliableLLMError

# Our errors are final: everything that could be tried was. The SDKs obey this header, whatever their `max_retries`.
_FINAL: Final = {"x-should-retry": "false"}


class Words(NamedTuple):
    """How a vendor says it: HTTP status, `error.type`, `error.code` (OpenAI only)."""

    status: int
    type: str
    code: str | None = None


OPENAI_WORDS: Final[Mapping[Kind, Words]] = {
    Kind.RATE_LIMITED: Words(429, "requests", "rate_limit_exceeded"),
    Kind.QUOTA_EXHAUSTED: Words(429, "insufficient_quota", "insufficient_quota"),
    Kind.QUEUE_FULL: Words(429, "requests", "queue_full"),
    Kind.AUTHENTICATION: Words(401, "invalid_request_error", "invalid_api_key"),
    Kind.PERMISSION: Words(403, "invalid_request_error", "permission_denied"),
    Kind.MODEL_NOT_FOUND: Words(404, "invalid_request_error", "model_not_found"),
    Kind.CONFIGURATION: Words(404, "invalid_request_error", "model_not_found"),
    Kind.CONTEXT_WINDOW: Words(400, "invalid_request_error", "context_length_exceeded"),
    Kind.REQUEST_TOO_LARGE: Words(413, "invalid_request_error", "request_too_large"),
    Kind.CONTENT_POLICY: Words(400, "invalid_request_error", "content_policy_violation"),
    Kind.UNSUPPORTED: Words(400, "invalid_request_error", "unsupported_parameter"),
    Kind.INVALID_REQUEST: Words(400, "invalid_request_error"),
    Kind.INVALID_OUTPUT: Words(502, "server_error", "invalid_output"),
    Kind.OUTPUT_TRUNCATED: Words(502, "server_error", "output_truncated"),
    Kind.OVERLOADED: Words(503, "server_error", "overloaded"),
}
_OPENAI_ELSE: Final = Words(500, "server_error")

ANTHROPIC_WORDS: Final[Mapping[Kind, Words]] = {
    Kind.RATE_LIMITED: Words(429, "rate_limit_error"),
    Kind.QUOTA_EXHAUSTED: Words(402, "billing_error"),
    Kind.QUEUE_FULL: Words(429, "rate_limit_error"),
    Kind.AUTHENTICATION: Words(401, "authentication_error"),
    Kind.PERMISSION: Words(403, "permission_error"),
    Kind.MODEL_NOT_FOUND: Words(404, "not_found_error"),
    Kind.CONFIGURATION: Words(404, "not_found_error"),
    Kind.REQUEST_TOO_LARGE: Words(413, "request_too_large"),
    Kind.OVERLOADED: Words(529, "overloaded_error"),
    **dict.fromkeys(
        (Kind.CONTEXT_WINDOW, Kind.CONTENT_POLICY, Kind.UNSUPPORTED, Kind.INVALID_REQUEST),
        Words(400, "invalid_request_error"),
    ),
}
_ANTHROPIC_ELSE: Final = Words(500, "api_error")


def raise_transport_error(error: ReliableLLMError, request: httpx2.Request) -> None:
    """Raise what the SDK takes for a failed transport, where *error* is one: no vendor's answer stands behind it."""
    if error.kind in (Kind.TIMEOUT, Kind.DEADLINE):
        raise httpx2.ReadTimeout(str(error), request=request) from error
    if error.kind is Kind.CONNECTION:
        raise httpx2.ConnectError(str(error), request=request) from error
    if isinstance(error, ClosedError):
        raise error


def openai_error(error: ReliableLLMError) -> tuple[int, dict[str, str], dict[str, object]]:
    """Return status, headers and body of *error* as OpenAI says it."""
    words = OPENAI_WORDS.get(error.kind, _OPENAI_ELSE)
    body = {"message": str(error), "type": words.type, "param": None, "code": words.code or error.code}
    return words.status, _headers(error), {"error": body | _story(error)}


def anthropic_error(error: ReliableLLMError) -> tuple[int, dict[str, str], dict[str, object]]:
    """Return status, headers and body of *error* as Anthropic says it."""
    words = ANTHROPIC_WORDS.get(error.kind, _ANTHROPIC_ELSE)
    body = {"type": words.type, "message": str(error)}
    return words.status, _headers(error), {"type": "error", "error": body | _story(error)}


def _story(error: ReliableLLMError) -> dict[str, object]:
    return {"reliable_llm": {"kind": str(error.kind), "attempts": [str(attempt) for attempt in error.attempts]}}


def _headers(error: ReliableLLMError) -> dict[str, str]:
    hint = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:.0f}"}
    named = {"x-request-id": error.request_id, "request-id": error.request_id} if error.request_id else {}
    return {"content-type": "application/json", **_FINAL, **hint, **named}


def wrong_endpoint(path: str, served: str) -> ConfigurationError:
    """Return the error for a call that does not go through the coordinator."""
    return ConfigurationError(f"only {served} goes through the coordinator, not {path}")


def as_json(value: object) -> bytes:
    """Return *value* as JSON bytes."""
    return json.dumps(value, ensure_ascii=False).encode()
