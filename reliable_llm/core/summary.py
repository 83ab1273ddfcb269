"""The error of a call that nobody answered: the primary candidate's own kind, with the whole story in its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from reliable_llm.core.recovery import Fault
from reliable_llm.core.route import Stop
from reliable_llm.errors import ERROR_CLASSES, Kind, ReliableLLMError, default_verdict
from reliable_llm.types import Attempt

# ZeroClaw's bounds: the text may end up in a chat window or a log line.
MAX_LINES: Final = 8
MAX_BYTES: Final = 2_048

_PLAIN: Final = {
    Kind.RATE_LIMITED: "is rate-limited",
    Kind.QUOTA_EXHAUSTED: "is out of quota: top up the account or wait for the reset",
    Kind.OVERLOADED: "is overloaded",
    Kind.SERVER_ERROR: "failed on the vendor's side",
    Kind.TIMEOUT: "did not answer in time",
    Kind.CONNECTION: "could not be reached",
    Kind.MALFORMED_RESPONSE: "sent something that is not an answer",
    Kind.EMPTY_RESPONSE: "sent an empty answer",
    Kind.AUTHENTICATION: "refused the API key: check that it is right and active",
    Kind.PERMISSION: "does not allow this to the key: check its model access, region and role",
    Kind.MODEL_NOT_FOUND: "does not serve this model: check the model's name",
    Kind.CONTEXT_WINDOW: "has too small a window for this prompt, and no candidate is known to have a larger one: "
    "shorten it, or add a model with a larger window",
    Kind.REQUEST_TOO_LARGE: "takes no request of this size: make it smaller",
    Kind.CONTENT_POLICY: "refused the content by policy: change it, or let other candidates try with failover_on",
    Kind.UNSUPPORTED: "cannot serve what the request needs",
    Kind.INVALID_REQUEST: "found the request invalid: what the vendor says is in __cause__",
    Kind.STREAM_INTERRUPTED: "broke off in the middle of the answer",
    Kind.INVALID_OUTPUT: "answered in a form that does not fit the schema",
    Kind.OUTPUT_TRUNCATED: "was cut by the output limit: raise max_tokens",
    Kind.CONFIGURATION: "cannot be used as it is set up",
    Kind.DEADLINE: "had not answered when the deadline passed",
    Kind.QUEUE_FULL: "has too many calls waiting for their turn: add keys, or raise Limits(queue=...)",
}


def headline(kind: Kind, where: str, status: int | None, code: str | None) -> str:
    """Return one plain sentence about a failure, without a word of the vendor's."""
    detail = " ".join(str(word) for word in (status, code) if word is not None)
    return f"{where} {_PLAIN.get(kind, str(kind))}" + (f" ({detail})" if detail else "")


def describe(error: ReliableLLMError, attempts: Sequence[Attempt], untried: Sequence[str]) -> str:
    """Return the message: the headline, what was tried in order, what was not; bounded in lines and bytes."""
    lines = [_first_line(error)]
    if error.retry_after is not None:
        lines[0] += f"; worth trying again in {error.retry_after:.0f} s"
    if len(attempts) > 1 or untried:
        lines += [f"  {attempt.number}. {attempt}" for attempt in attempts[:MAX_LINES]]
    if len(attempts) > MAX_LINES:
        lines.append(f"  ... and {len(attempts) - MAX_LINES} more, see .attempts")
    if untried:
        lines.append(f"  not tried: {', '.join(untried[:MAX_LINES])}")
    return _bounded("\n".join(lines))


def _first_line(error: ReliableLLMError) -> str:
    """Return the headline, and what the error says itself where that is more than its kind."""
    said = str(error.args[0]) if error.args else ""
    if error.provider is None:
        return said or headline(error.kind, "", error.status, error.code).strip()
    line = headline(error.kind, f"{error.provider}/{error.model}", error.status, error.code)
    is_news = said and not said.startswith(str(error.kind).replace("_", " "))
    more = said if is_news else error.verdict.feature
    return f"{line}: {more}" if more else line


def _bounded(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= MAX_BYTES else raw[: MAX_BYTES - 4].decode(errors="ignore") + " ..."


def from_fault(stop: Stop, fault: Fault) -> ReliableLLMError:
    """Return the error of a failure that an earlier call met: its kind, status and code are remembered."""
    verdict = replace(default_verdict(fault.kind, rule="remembered"), status=fault.status, code=fault.code)
    return ERROR_CLASSES[fault.kind](verdict=verdict, provider=stop.provider, model=stop.model)
