"""The edge where vendors' failures become ours: exceptions and bodies in, `ReliableLLMError` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reliable_llm.core.classify import Rule, classify
from reliable_llm.core.failure import Failure
from reliable_llm.errors import ReliableLLMError, error_from_verdict


def error_from_exception(
    exc: Exception, *, vendor: str, sdk: str, rules: Sequence[Rule] = (), wall: float, output_started: bool = False
) -> ReliableLLMError:
    """Return the taxonomy's error for *exc*, with *exc* as its cause."""
    response = getattr(exc, "response", None)
    headers = {k.lower(): v for k, v in response.headers.items()} if response is not None else {}
    failure = Failure(
        vendor=vendor,
        sdk=sdk,
        status=getattr(exc, "status_code", None),
        headers=headers,
        body=getattr(exc, "body", None),
        exceptions=tuple(cls.__name__ for cls in type(exc).__mro__),
        output_started=output_started,
    )
    verdict = classify(failure, rules=rules, wall=wall)
    error = error_from_verdict(verdict, f"{verdict.kind}", request_id=getattr(exc, "request_id", None))
    error.__cause__ = exc
    return error


def error_from_body(
    body: object,
    *,
    status: int | None,
    headers: Mapping[str, str],
    vendor: str,
    sdk: str,
    rules: Sequence[Rule] = (),
    wall: float,
    output_started: bool = False,
) -> ReliableLLMError:
    """Return the taxonomy's error for a *body* that came where an answer was due."""
    failure = Failure(
        vendor=vendor, sdk=sdk, status=status, headers=headers, body=body, output_started=output_started
    )
    verdict = classify(failure, rules=rules, wall=wall)
    return error_from_verdict(verdict, f"{verdict.kind}", request_id=headers.get("x-request-id"))
