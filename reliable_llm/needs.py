"""What a request needs at candidates for which the caller changes it: by `overrides`, or by a vendor's own fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reliable_llm.adapters.overrides import extra_fields, with_overrides
from reliable_llm.core.features import parameter
from reliable_llm.core.route import Stop, needs_of
from reliable_llm.types import Candidate, ChatRequest


def changed_needs(
    request: ChatRequest, stops: Sequence[Stop], *, stream: bool = False
) -> Mapping[Candidate, frozenset[str]]:
    """Return the needs of each candidate: what its overrides take away is not needed, what they add is."""
    return {stop.candidate: _needs_at(request, stop, stream) for stop in stops}


def _needs_at(request: ChatRequest, stop: Stop, stream: bool) -> frozenset[str]:
    changed, body = with_overrides(request, stop.candidate)
    own = extra_fields(request, (stop.vendor, stop.provider)) | body
    return needs_of(changed, stream=stream) | {parameter(name) for name, value in own.items() if value is not None}
