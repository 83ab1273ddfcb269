"""Parameters that one model refuses and the next may take, and what to call them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule, words
from reliable_llm.errors import Kind

PARAMETER: Final = "parameter"
"""Stands in `Rule.feature` for "parameter:<name>", the name being read from the failure."""

_AT: Final = (400, 422, 501, NO_STATUS)

TABLE: Final = (
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="code.unsupported_parameter",
        statuses=_AT,
        codes=words(
            "unsupported_parameter unsupported_value invalidparameter.unsupportedparameter unsupportedparamserror"
        ),
        feature=PARAMETER,
        reason="OpenAI: this model does not take this parameter, or this value of it",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="phrase.unsupported_parameter",
        statuses=_AT,
        pattern=r"^unsupported (?:parameter|value)\b|^unrecognized request arguments? supplied|"
        r"^[`'\"]?[\w.\[\]]{1,60}[`'\"]? (?:parameter )?(?:is|are) (?:not supported|deprecated|unsupported|"
        r"not available) "
        r"(?:with|by|for|on|in) (?:this|the) (?:model|endpoint|provider)|\bdoes not support (?:the )?parameters?\b|"
        r"\bdo(?:es)? not support parameters?:",
        feature=PARAMETER,
        reason="this model does not take this parameter",
    ),
)

_NAME = re.compile(
    r"(?:unsupported (?:parameter|value)s?:?|arguments? supplied:?|support (?:the )?parameters?:?)"
    r"\s*\[?[`'\"]?([A-Za-z_][\w.]{0,59})|^[`'\"]?([A-Za-z_][\w.]{0,59})[`'\"]? (?:parameter |is |are )",
    re.IGNORECASE,
)
_FEATURES: Final = {
    "response_format": "structured_output",
    "text.format": "structured_output",
    "json_schema": "structured_output",
    "output_format": "structured_output",
    "output_config": "structured_output",
    "tools": "tools",
    "tool_choice": "tools",
    "functions": "tools",
    "function_call": "tools",
    "stream": "streaming",
}


def feature_of(feature: str | None, param: str | None, texts: Sequence[str]) -> str | None:
    """Return the feature's name: *feature*, or for a parameter the one that *param* or the message names."""
    if feature != PARAMETER:
        return feature
    name = param if param and re.fullmatch(r"[\w.\[\]-]{1,60}", param) else _named(texts)
    if name is None:
        return PARAMETER
    return _FEATURES.get(name.lower(), f"{PARAMETER}:{name}")


def _named(texts: Sequence[str]) -> str | None:
    found = next(filter(None, (_NAME.search(message) for message in texts)), None)
    return found.group(1) or found.group(2) if found else None
