"""From a rule to a verdict: what a kind, a scope and a wait allow the coordinator to do. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from reliable_llm.core.facts import Facts
from reliable_llm.core.rules.parameters import feature_of
from reliable_llm.core.rules.rule import Rule
from reliable_llm.core.tokens import token_counts
from reliable_llm.errors import Kind, Verdict, default_verdict

SOON: Final = 60.0
"""Seconds: "the same request on the same key can work within about a minute"."""

_WAITING: Final = frozenset(
    {Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED, Kind.OVERLOADED, Kind.SERVER_ERROR, Kind.TIMEOUT, Kind.PERMISSION}
)
# A code is a word of the vendor's.
_NAME = re.compile(r"[\w.:/-]{1,64}")

# The beginnings of vendors' keys, and what is letters and digits at random.
_LIKE_A_KEY = re.compile(
    r"(?<![a-z0-9])(?:(?:sk|pk|rk|gsk|xai|nvapi|pplx|ghp|hf)[-_]|aiza|absk)"
    r"|(?<![a-z0-9])(?=[a-z0-9]*[0-9][a-z0-9]*[a-z][a-z0-9]*[0-9])[a-z0-9]{20,}",
    re.IGNORECASE,
)


def _is_word(text: str) -> bool:
    """Tell whether *text* is a vendor's word, fit to be shown: what looks like a key is not repeated."""
    return _NAME.fullmatch(text) is not None and _LIKE_A_KEY.search(text) is None


def judge(rule: Rule, facts: Facts, *, status: int | None, confidence: str) -> Verdict:
    """Return the verdict of *rule* on *facts*: the rule's own words, else what follows from the kind and the wait."""
    usual = default_verdict(rule.kind)
    wait = _wait(rule, facts)
    soon = wait is None or wait <= SOON
    return Verdict(
        kind=rule.kind,
        scope=rule.scope or usual.scope,
        rotate_key=usual.rotate_key if rule.rotate_key is None else rule.rotate_key,
        retry_same=(usual.retry_same if rule.retry_same is None else rule.retry_same) and soon,
        failover=usual.failover if rule.failover is None else rule.failover,
        retry_after=wait,
        status=status,
        code=next((code for code in facts.details.codes if _is_word(code)), None),
        feature=feature_of(rule.feature, facts.details.param, facts.texts),
        rule=rule.name or str(rule.kind),
        confidence=confidence,
    )


def with_tokens(verdict: Verdict, facts: Facts) -> Verdict:
    """Add the window and the size of the request, where the vendor states them."""
    limit, used = token_counts(facts.details)
    return replace(verdict, limit_tokens=limit, used_tokens=used)


def _wait(rule: Rule, facts: Facts) -> float | None:
    """Return the wait that counts: none where waiting cannot help, and no short one where money is spent."""
    if rule.kind not in _WAITING:
        return None
    if rule.kind is Kind.QUOTA_EXHAUSTED and facts.wait is not None and facts.wait <= SOON:
        return rule.retry_after
    return facts.wait if facts.wait is not None else rule.retry_after
