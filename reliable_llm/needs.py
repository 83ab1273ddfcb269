"""What a request needs of each candidate, worked out when first asked: most candidates lack nothing."""

from __future__ import annotations

from reliable_llm.adapters.overrides import extra_fields, with_overrides
from reliable_llm.core.features import parameter
from reliable_llm.core.route import Stop, needs_of
from reliable_llm.types import Candidate, ChatRequest, HostedTool


class RequestNeeds:
    """The needs of one request. Where the caller changes it for some candidates, each has needs of its own."""

    __slots__ = ("_at", "_request", "_stream", "_usual", "hosted")

    def __init__(self, request: ChatRequest, stream: bool) -> None:
        self._request = request
        self._stream = stream
        self._usual: frozenset[str] | None = None
        self._at: dict[Candidate, frozenset[str]] = {}
        self.hosted = bool(request.tools) and any(isinstance(tool, HostedTool) for tool in request.tools)

    def at(self, stop: Stop) -> frozenset[str]:
        """Return the features that the request needs of this candidate."""
        if self._request.overrides or self._request.extra:
            found = self._at.get(stop.candidate)
            if found is None:
                found = self._at[stop.candidate] = _changed(self._request, stop, self._stream)
            return found
        if self._usual is None:
            self._usual = needs_of(self._request, stream=self._stream)
        return self._usual


def _changed(request: ChatRequest, stop: Stop, stream: bool) -> frozenset[str]:
    """What a candidate's overrides take away is not needed, what they add is; a vendor's own fields, too."""
    changed, body = with_overrides(request, stop.candidate)
    own = extra_fields(request, (stop.vendor, stop.provider)) | body
    return needs_of(changed, stream=stream) | {parameter(name) for name, value in own.items() if value is not None}
