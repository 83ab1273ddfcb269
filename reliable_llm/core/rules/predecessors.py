"""What ZeroClaw and CleverAgents went by, where no vendor's table says it already."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.errors import Kind, Scope

PHRASES: Final = (
    Rule(
        kind=Kind.MALFORMED_RESPONSE,
        name="predecessors.tool_call",
        statuses=(400, 422, NO_STATUS),
        pattern=r"^tool call validation failed\b|\btool\b.{1,80}\b(?:was not in request|not found in tool list)\b|"
        r"^invalid_tool_call$",
        scope=Scope.MODEL,
        reason="the model wrote a call of a tool that there is not, or with wrong arguments; the next try may do",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="predecessors.comes_back",
        statuses=(402,),
        pattern=r"^(?!.*\b(?:credits?|balance|billing|pay|payment|plan|top[- ]?up|purchase|upgrade|recharge)\b)"
        r".*\b(?:try again (?:in|after|later)|retry (?:in|after|later))\b",
        reason="a temporary limit under the status for payment: no word of money, but of coming back",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="predecessors.code_as_text",
        statuses=(403, 429),
        pattern=r"^insufficient_(?:quota|balance)$",
        reason="a relay that puts the code where the message should be",
    ),
)
