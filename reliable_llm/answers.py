"""What becomes of an answer: a reply with the story of the call, a lesson about the key's limits, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from reliable_llm.core.ledger import open_up
from reliable_llm.errors import ContentPolicyError
from reliable_llm.types import ChatReply, FinishReason, ServedBy

if TYPE_CHECKING:
    from reliable_llm.adapters.base import Prepared
    from reliable_llm.clock import Clock
    from reliable_llm.core.actions import StartAttempt
    from reliable_llm.core.failover import FailoverCall
    from reliable_llm.types import AdapterReply

_REFUSALS: Final = (FinishReason.REFUSAL, FinishReason.CONTENT_FILTER)


def reply_of(call: FailoverCall, action: StartAttempt, answer: AdapterReply, prepared: Prepared) -> ChatReply:
    """Return the reply of the attempt that answered."""
    stop = action.stop
    dropped = prepared.dropped + answer.dropped
    if answer.attempts:
        open_up(call.attempts, answer.attempts)
    return ChatReply(
        parts=answer.parts,
        served_by=ServedBy(stop.provider, stop.model, stop.health.ring.labels[action.key_place]),
        requested=call.requested,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        attempts=tuple(call.attempts),
        model=answer.model,
        request_id=answer.request_id,
        dropped=tuple(dict.fromkeys(dropped)) if dropped else (),
        context_truncated=action.cuts > 0,
        finish_detail=answer.finish_detail,
        raw_reply=answer.raw,
    )


def hear(
    call: FailoverCall, clock: Clock, action: StartAttempt, answer: AdapterReply, headers: Mapping[str, str]
) -> None:
    """Learn the limits of a key from an answer, and what the attempt has used of them."""
    from reliable_llm.core.rate_headers import reported

    pace = action.stop.health.pace
    if pace is None or action.ticket is None:
        return
    if headers:
        now = clock.monotonic()
        spent = pace.hear(action.key_place, action.stop.model, reported(headers, clock.time()), now)
        if spent:
            call.spent(action, now, spent)
    used = answer.usage
    if used is not None and used.input_tokens is not None and used.output_tokens is not None:
        pace.settle(action.ticket, used.input_tokens + used.output_tokens)


def is_refusal(answer: AdapterReply) -> bool:
    """Tell whether the model, or its vendor's filter, would not answer."""
    return answer.finish_reason in _REFUSALS


def refused(answer: AdapterReply) -> ContentPolicyError:
    """Return a refusal as a failure: for callers who want to fail over on one; by default it is an answer."""
    error = ContentPolicyError(usage=answer.usage)
    error.request_id = answer.request_id
    return error
