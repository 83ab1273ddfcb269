"""What a person should do about a failure: what must be changed, where only that mends it, and advice for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reliable_llm.errors import Kind, ReliableLLMError

_REMEDIES: Final[Mapping[Kind, str]] = {
    Kind.AUTHENTICATION: "the key was refused: copy it again from the vendor's page into {key}",
    Kind.PERMISSION: "the key may not use this model: choose another model, or allow it on the vendor's page",
    Kind.MODEL_NOT_FOUND: "no such model there: correct its name in --model, RELIABLE_LLM_MODELS or the file",
    Kind.INVALID_REQUEST: "the request was refused: correct the prompt or the options",
    Kind.CONFIGURATION: "",
}

# What `explain` says of every kind.
ADVICE: Final[Mapping[Kind, str]] = {
    Kind.RATE_LIMITED: "nothing now; if it is frequent, ask for a higher limit or add a key of another account",
    Kind.QUOTA_EXHAUSTED: "add credit, raise the spending limit or the plan, or wait for the period to end",
    Kind.OVERLOADED: "nothing; see the vendor's status page if it lasts",
    Kind.SERVER_ERROR: "nothing; see the vendor's status page if it lasts",
    Kind.TIMEOUT: "nothing; if it is frequent, raise the attempt timeout or choose a faster model",
    Kind.CONNECTION: "check the network, the base URL and the certificates of this machine",
    Kind.MALFORMED_RESPONSE: "check that the base URL is an API and that no proxy answers in its place",
    Kind.EMPTY_RESPONSE: "nothing; if it is frequent, look at the prompt and the model's settings",
    Kind.AUTHENTICATION: "replace the key, or have the account opened again",
    Kind.PERMISSION: "give the key the right it lacks, or take the model out of its reach",
    Kind.MODEL_NOT_FOUND: "correct the model's name, or take the model out of the chain",
    Kind.CONTEXT_WINDOW: "shorten the prompt, ask for less output, or add a model with a larger window",
    Kind.REQUEST_TOO_LARGE: "make the request smaller, or use a tier with a higher ceiling",
    Kind.CONTENT_POLICY: "change the content; failing over on a refusal is your choice (failover_on)",
    Kind.UNSUPPORTED: "leave the feature out for this model, or choose another one",
    Kind.INVALID_REQUEST: "correct the request",
    Kind.STREAM_INTERRUPTED: "decide whether what came can be used; restarting is opt-in",
    Kind.INVALID_OUTPUT: "look at the schema and the prompt, raise schema_retries, or move on (failover_on)",
    Kind.OUTPUT_TRUNCATED: "raise max_tokens, ask for less, or move on (failover_on)",
    Kind.DEADLINE: "raise the deadline, or shorten the timeouts and retries so that more candidates fit into it",
    Kind.QUEUE_FULL: "raise limits.queue, send less, or add a key or a provider",
    Kind.CANCELLED: "nothing: the caller went away",
    Kind.CLOSED: "keep the coordinator open as long as it is used: one for the whole application",
    Kind.CONFIGURATION: "correct the set-up of this provider",
}


def remedy_for(error: ReliableLLMError) -> str | None:
    """Return what a person must change, "" where the message says it itself, None where time may heal it."""
    if error.kind is Kind.CONFIGURATION and error.status is not None:
        return "the base URL leads elsewhere: correct base_url, or the variable that it comes from"
    remedy = _REMEDIES.get(error.kind)
    return remedy and remedy.format(key=f"{str(error.provider).upper()}_API_KEY or the file")


def advice_for(error: ReliableLLMError) -> str:
    """Return what to do about *error*: its remedy, or what may help; "" where there is nothing but to wait."""
    remedy = remedy_for(error)
    advice = ADVICE[error.kind] if remedy is None else remedy
    return "" if advice.startswith("nothing") else advice
