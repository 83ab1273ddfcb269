"""Read the limit and the size of a request out of a vendor's sentence about its context window. Pure, bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from reliable_llm.core.rules.needles import Guarded
from reliable_llm.core.unwrap import Details

_N = r"(\d[\d,_]{0,14})"

# (pattern, what its groups are): L = the limit, U = what the request uses; two U groups are added up.
_SENTENCES: Final = tuple(
    (Guarded(pattern), groups)
    for pattern, groups in (
        # Anthropic: "prompt is too long: 210000 tokens > 200000 maximum"
        (rf"{_N} tokens? > {_N}", "UL"),
        # Anthropic: "... exceed context limit: 189136 + 20000 > 204648"
        (rf"{_N} \+ {_N} > {_N}", "UUL"),
        # vLLM: "(32000 > 32768 - 5121)"
        (rf"\({_N} > {_N} - {_N}\)", "ULU"),
        # OpenAI, vLLM: "maximum context length is 16384 tokens. However, you requested 122946 tokens"
        (
            (
                rf"maximum context length (?:is|of) {_N}(?: tokens)?.{{0,60}}?"
                rf"(?:requested|resulted in|has|have|contains?) (?:about )?{_N}"
            ),
            "LU",
        ),
        # vLLM, SGLang: "The input (516368 tokens) is longer than the model's context length (262144 tokens)"
        (rf"input \({_N} tokens\) .{{0,60}}?\({_N} tokens\)", "UL"),
        (rf"input length \(?{_N}\)? .{{0,60}}?(?:length|limit)[^\d]{{0,12}}{_N}", "UL"),
        # Gemini: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)"
        (rf"token count \(?{_N}\)? exceeds .{{0,60}}?\(?{_N}", "UL"),
        # xAI: "maximum prompt length is 131072 but the request contains 537812 tokens"
        (rf"maximum prompt length is {_N}.{{0,40}}?contains? {_N}", "LU"),
        # Mistral: "Prompt contains 40000 tokens ... too large for model with 32768 maximum context length"
        (rf"contains {_N} tokens.{{0,80}}?with {_N} maximum", "UL"),
        # Bedrock: "expected maxLength: 42000, actual: 46735" (characters, but the same use)
        (rf"maxLength: {_N}, actual: {_N}", "LU"),
        # OpenRouter, Cohere and others: "maximum of 8192 tokens ... 9000 tokens"
        (rf"(?:limit|maximum|max) (?:is|of) {_N} tokens.{{0,80}}?{_N} tokens", "LU"),
        # LM Studio, Dashscope: the limit alone
        (rf"context (?:length|window|size) (?:of|is)(?: only)? {_N}", "L"),
        (r"input length should be \[\d+, (\d{1,12})\]", "L"),
        (rf"maximum context length (?:is|of) {_N}", "L"),
    )
)

_LIMIT_REQUESTED: Final = Guarded(rf"\blimit:? {_N}\b.{{0,60}}?\brequested:? ~?{_N}")


def token_counts(details: Details) -> tuple[int | None, int | None]:
    """Return (limit, used), each None where the vendor does not say."""
    for level in details.envelopes:
        limit, used = _count(level, "n_ctx"), _count(level, "n_prompt_tokens")
        if limit or used:
            return limit, used
    return next(filter(None, (_read(message) for message in details.texts)), (None, None))


def _count(level: Mapping[str, object], name: str) -> int | None:
    value = level.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else None


def _read(message: str) -> tuple[int | None, int | None] | None:
    for pattern, groups in _SENTENCES:
        found = pattern.search(message)
        if found:
            pairs = list(zip(groups, map(_integer, found.groups()), strict=True))
            return _sum(n for g, n in pairs if g == "L"), _sum(n for g, n in pairs if g == "U")
    return None


def _integer(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", ""))


def _sum(numbers: Iterable[int]) -> int | None:
    return sum(numbers) or None


def larger_than_limit(message: str) -> bool:
    """Tell whether "Limit 7000, ... Requested ~12903" asks for more than will ever be allowed."""
    found = _LIMIT_REQUESTED.search(message)
    return found is not None and _integer(found.group(2)) > _integer(found.group(1))
