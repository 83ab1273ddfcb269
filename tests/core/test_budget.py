"""The retry budget: a bucket that calls fill and attempts after the first one empty."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reliable_llm.core.budget import RetryBudget
from reliable_llm.policy import BudgetPolicy


def test_it_begins_full() -> None:
    budget = RetryBudget(BudgetPolicy(burst=2))

    assert [budget.withdraw(), budget.withdraw(), budget.withdraw()] == [True, True, False]


def test_an_attempt_that_answers_costs_nothing() -> None:
    budget = RetryBudget(BudgetPolicy(burst=1))
    budget.withdraw()

    budget.refund()

    assert budget.withdraw()


def test_it_never_holds_more_than_its_burst() -> None:
    budget = RetryBudget(BudgetPolicy(burst=1, share=1))

    for _ in range(5):
        budget.deposit()
        budget.refund()

    assert budget.balance == 1.0


@settings(deadline=None)
@given(calls=st.integers(1, 500), retries=st.integers(0, 5), share=st.floats(0, 1), burst=st.floats(1, 50))
def test_in_a_total_outage_no_more_than_the_share_and_the_burst_are_added(
    calls: int, retries: int, share: float, burst: float
) -> None:
    budget = RetryBudget(BudgetPolicy(share=share, burst=burst))
    extra = 0

    for _ in range(calls):
        budget.deposit()
        extra += sum(budget.withdraw() for _ in range(retries))

    assert extra <= burst + calls * share + 1e-6
