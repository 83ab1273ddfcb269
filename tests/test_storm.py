"""A total outage costs at most a tenth more requests than there are calls, with the retry budget."""

from __future__ import annotations

from reliable_llm.policy import BudgetPolicy
from tests.bench.storm import storm

CALLERS, MINUTES = 100, 3


def test_with_the_budget_an_outage_adds_a_tenth_at_most() -> None:
    sent = storm(BudgetPolicy(), breaker=False, callers=CALLERS, minutes=MINUTES).total()

    assert sent <= CALLERS * MINUTES * 1.1 + BudgetPolicy().burst


def test_without_it_the_same_outage_multiplies_the_requests() -> None:
    sent = storm(None, breaker=False, callers=CALLERS, minutes=1).total()

    assert sent >= 3 * CALLERS
