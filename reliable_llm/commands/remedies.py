"""What to change, for the failures that only a change can mend."""

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


def remedy_for(error: ReliableLLMError) -> str | None:
    """Return what a person must change, "" where the message says it itself, None where time may heal it."""
    remedy = _REMEDIES.get(error.kind)
    return remedy and remedy.format(key=f"{str(error.provider).upper()}_API_KEY or the file")
