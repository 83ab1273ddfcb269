"""Tells listeners that ask for it when a call begins and ends, and what came of it.

A listener asks by having `hears_calls = True`. Each call then carries a mapping of tags of its own: the same object
with every event of the call, by which such a listener can tell calls apart. With no such listener, nothing is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from reliable_llm import events
from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.types import Attempt, ChatReply, ChatRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from reliable_llm.core.route import Stop
    from reliable_llm.events import Event, Listener


class CallTeller:
    """Shared by all calls of one coordinator; *failed* is told of a listener that raises."""

    __slots__ = ("_failed", "_listeners")

    def __init__(self, listeners: Sequence[Listener], failed: Callable[[object, Exception], None]) -> None:
        self._listeners = listeners
        self._failed = failed

    @classmethod
    def of(cls, listeners: Iterable[Listener], failed: Callable[[object, Exception], None]) -> Self | None:
        """Return the teller for those of *listeners* that want to hear of calls; None where none does."""
        wanting = tuple(each for each in listeners if getattr(each, "hears_calls", False))
        return cls(wanting, failed) if wanting else None

    def own(self, request: ChatRequest) -> ChatRequest:
        """Return *request* with a mapping of tags that is this call's alone."""
        return replace(request, tags=dict(request.tags))

    def begin(self, request: ChatRequest, stops: Sequence[Stop], *, stream: bool) -> None:
        first = stops[0]
        started = events.CallStarted(
            provider=first.provider,
            model=first.model,
            vendors={stop.provider: stop.vendor for stop in stops},
            stream=stream,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
        )
        self._tell(started, request.tags)

    def answered(self, request: ChatRequest, reply: ChatReply, elapsed: float, first_output: float | None) -> None:
        ended = events.CallEnded(
            kind=None,
            elapsed=elapsed,
            first_output=first_output,
            attempts=reply.attempts,
            usage=reply.usage,
            served_by=reply.served_by,
            response_model=reply.model,
            finish_reason=str(reply.finish_reason),
        )
        self._tell(ended, request.tags)

    def failed(
        self,
        request: ChatRequest,
        error: BaseException | None,
        attempts: Sequence[Attempt],
        elapsed: float,
        first_output: float | None,
    ) -> None:
        """Tell of a call that ended without a whole answer; *error* None means that the reader has left."""
        if isinstance(error, ReliableLLMError):
            kind, made = error.kind, error.attempts
        else:
            kind, made = Kind.CANCELLED, tuple(attempts)
        ended = events.CallEnded(kind=kind, elapsed=elapsed, first_output=first_output, attempts=made)
        self._tell(ended, request.tags)

    def _tell(self, event: Event, tags: Mapping[str, str]) -> None:
        for listener in self._listeners:
            try:
                listener(event, tags)
            except Exception as error:  # noqa: BLE001 - whoever listens in must not fail the call
                self._failed(listener, error)
