"""Tell a failure for what it is. Pure: the same failure gives the same verdict, in bounded time, and nothing raises.

The order of the decision: the transport's cause > the user's own rules > the vendor's own codes > codes that are stable
everywhere > anchored phrases that split one status > umbrella types > the status or the exception's class alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reliable_llm.core.facts import Facts, facts_of
from reliable_llm.core.failure import Failure
from reliable_llm.core.rules import answers, chinese, parameters, predecessors, vendors, vendors_china
from reliable_llm.core.rules import phrases_account as account
from reliable_llm.core.rules import phrases_health as health
from reliable_llm.core.rules import phrases_request as request
from reliable_llm.core.rules.account import ACCOUNT_CODES
from reliable_llm.core.rules.request import NOT_WHAT_IT_SAYS, REQUEST_CODES
from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.core.rules.statuses import BY_CLASS, BY_STATUS_CLASS, BY_TRANSPORT, kind_of_status
from reliable_llm.core.rules.table import Table
from reliable_llm.core.rules.umbrella import WEAK
from reliable_llm.core.unwrap import error_of_choice
from reliable_llm.core.verdict import judge, with_tokens
from reliable_llm.errors import Kind, Verdict, default_verdict

__all__ = ["Rule", "classify", "reason_of"]

CODES: Final = Table(
    (
        *answers.FINISHED,
        *NOT_WHAT_IT_SAYS,
        *vendors.TABLE,
        *vendors_china.TABLE,
        *ACCOUNT_CODES,
        *REQUEST_CODES,
    )
)
PHRASES: Final = Table(
    (
        *request.FIRST,
        *health.TOO_LARGE,
        *health.PER_MINUTE,
        *request.POLICY,
        *request.LENGTH,
        *predecessors.PHRASES,
        *account.MONEY,
        *account.KEYS,
        *request.MODELS_AT_404,
        *account.RIGHTS,
        *request.FEATURES,
        *parameters.TABLE,
        *request.WRONG_URL,
        *request.MODELS,
        *health.LOAD,
        *health.BROKEN_STREAM,
        *chinese.TABLE,
        *vendors_china.WEAK,
        *WEAK,
    )
)
LAYERS: Final = ((CODES, "certain"), (PHRASES, "likely"), (Table(answers.UNTYPED), "guess"))


def classify(failure: Failure, *, rules: Sequence[Rule] = (), wall: float = 0.0) -> Verdict:
    """Return what *failure* means.

    *rules* are the user's own, tried first. *wall* is the time now in Unix seconds, for waits that are stated as a time
    of day; 0 where it is not known.
    """
    facts = facts_of(failure, wall)
    rule, confidence = _decide(failure, facts, rules)
    verdict = judge(rule, facts, status=failure.status, confidence=confidence)
    if verdict.kind is Kind.CONTEXT_WINDOW:
        verdict = with_tokens(verdict, facts)
    # A refusal stays a refusal; whatever else breaks after output cannot be retried silently.
    if failure.output_started and verdict.kind is not Kind.CONTENT_POLICY:
        return _interrupted(verdict)
    return verdict


def reason_of(name: str) -> str:
    """Return the source or the reason that stands beside the built-in rule *name*; empty where there is none."""
    return _REASONS.get(name.removeprefix("after_output:"), "")


def _interrupted(verdict: Verdict) -> Verdict:
    usual = default_verdict(Kind.STREAM_INTERRUPTED, rule=f"after_output:{verdict.rule}")
    return replace(usual, status=verdict.status, code=verdict.code, confidence=verdict.confidence)


def _decide(failure: Failure, facts: Facts, rules: Sequence[Rule]) -> tuple[Rule, str]:
    own = _first(rules, facts)
    if own is not None:
        return own, "certain"
    if failure.transport is not None:
        return BY_TRANSPORT.get(failure.transport, BY_TRANSPORT["unknown"]), "certain"
    named = _named(failure, BY_CLASS)
    if named is not None:
        return named, "certain"
    if _no_error_inside(failure, facts):
        return _no_answer(facts), "certain"
    for layer, confidence in LAYERS:
        found = layer.first(vendors=facts.vendors, status=facts.status, codes=facts.codes, texts=facts.texts)
        if found is not None:
            return found, confidence
    return _default(failure, facts), "guess"


def _first(rules: Iterable[Rule], facts: Facts) -> Rule | None:
    for rule in rules:
        if rule.fits(vendors=facts.vendors, status=facts.status, codes=facts.codes, texts=facts.texts):
            return rule
    return None


def _no_error_inside(failure: Failure, facts: Facts) -> bool:
    """Tell whether a 2xx holds no error: then its texts are an answer's, and no phrase may be read into them."""
    if "trait:success" not in facts.codes:
        return False
    outer = facts.details.envelopes[0] if facts.details.envelopes else {}
    said = outer.get("error") or outer.get("base_resp") or outer.get("type") == "error" or error_of_choice(outer)
    return not (said or _coded(outer))


def _coded(outer: object) -> bool:
    return (
        isinstance(outer, dict)
        and bool(outer.get("code") or outer.get("error_code"))
        and ("message" in outer or "msg" in outer)
    )


def _no_answer(facts: Facts) -> Rule:
    if facts.details.html:
        return answers.PAGE
    return _first(answers.FINISHED, facts) or answers.NO_ANSWER


def _default(failure: Failure, facts: Facts) -> Rule:
    if facts.status != NO_STATUS:
        # A redirect is a wrong endpoint, as a page under 200 or 404 is: this provider's trouble, not the request's.
        elsewhere = True if facts.status < 400 else None
        return Rule(kind=kind_of_status(facts.status), name=f"status.{facts.status}", failover=elsewhere)
    if failure.status is not None:
        return answers.NO_ANSWER
    if failure.body is not None:
        return answers.BROKEN_FRAME
    return _named(failure, BY_STATUS_CLASS) or answers.UNKNOWN


def _named(failure: Failure, table: Mapping[str, Kind]) -> Rule | None:
    """Return what the exception's class stands for; the vendors' root classes only where nothing nearer is listed."""
    if failure.status is not None or failure.body is not None:
        return None
    known = next((name for name in failure.exceptions if name in BY_CLASS or name in BY_STATUS_CLASS), "")
    return Rule(kind=table[known], name=f"exception.{known}") if known in table else None


_REASONS: Final[Mapping[str, str]] = {
    rule.name or str(rule.kind): rule.reason
    for rule in (
        *(rule for layer, _ in LAYERS for rule in layer),
        answers.PAGE,
        answers.NO_ANSWER,
        answers.BROKEN_FRAME,
        answers.UNKNOWN,
        *BY_TRANSPORT.values(),
    )
}
