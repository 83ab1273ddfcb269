"""A request in a candidate's terms: made once for each, shortened if need be, refused where something would be lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from reliable_llm import events
from reliable_llm.adapters.base import Prepared, Target
from reliable_llm.core.route import Stop
from reliable_llm.core.truncation import cut
from reliable_llm.errors import Kind, UnsupportedFeatureError, default_verdict

if TYPE_CHECKING:
    from reliable_llm.core.actions import StartAttempt
    from reliable_llm.core.failover import FailoverCall
    from reliable_llm.entrance import Entrance
    from reliable_llm.types import ChatRequest

PreparedRequests: TypeAlias = dict[tuple[Stop, frozenset[str], int], Prepared]


def prepare_once(
    entrance: Entrance,
    call: FailoverCall,
    action: StartAttempt,
    request: ChatRequest,
    cache: PreparedRequests,
    *,
    stream: bool = False,
) -> Prepared | None:
    """Return the request in the candidate's terms, made once per candidate by its adapter; None where it cannot be."""
    stop = action.stop
    place = stop, action.without, action.cuts
    found = cache.get(place)
    if found is None:
        target = Target(stop.candidate, stop.model_id)
        try:
            adapter = entrance.access(stop.provider).adapter
            wanted = request if action.cuts == 0 else _shortened(request, call, action)
            found = adapter.prepare(wanted, target, stream=stream, without=action.without)
            if request.strict:
                refuse_losses(found)
        except UnsupportedFeatureError as error:
            call.refused(action, error)
            return None
        except BaseException:
            call.withdrawn(action)
            raise
        cache[place] = found
    return found


def _shortened(request: ChatRequest, call: FailoverCall, action: StartAttempt) -> ChatRequest:
    """Return *request* with its history cut, and tell so."""
    messages = cut(request.messages, action.cuts)
    dropped = len(request.messages) - len(messages)
    call.events.append(events.ContextTruncated(action.stop.provider, action.stop.model, dropped))
    return replace(request, messages=messages)


def refuse_losses(prepared: Prepared) -> None:
    """Raise `UnsupportedFeatureError` where something would be lost in translation."""
    if prepared.dropped:
        lost = f"no word for {', '.join(prepared.dropped)}"
        verdict = replace(default_verdict(Kind.UNSUPPORTED, rule="strict"), feature=lost)
        raise UnsupportedFeatureError("strict: something would be lost in translation", verdict=verdict)
