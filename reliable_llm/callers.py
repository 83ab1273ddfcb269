"""Callers with a wish of their own: who asks decides where the chain starts, and nothing else changes.

    chat.for_caller("team-a").prefer("claude-opus")         # a whole group
    chat.for_caller("team-a/ada").prefer("gpt-5.1")         # one of them
    reply = await chat.for_caller("team-a/ada")("Hello")    # gpt-5.1 first, then the usual chain

A key is a path: `team-a/ada` looks for a wish of its own, then for one of `team-a`, then takes the chain as it is. A
fallback never changes a wish, callers share nothing but what is known about keys, and the number of wishes is bounded:
the one that was used least recently goes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from reliable_llm.chat import FailoverChat
from reliable_llm.errors import ConfigurationError
from reliable_llm.types import Candidate
from reliable_llm.wishes import Chain, Path

if TYPE_CHECKING:
    from reliable_llm.candidates import RouteLike
    from reliable_llm.coordination import Coordination
    from reliable_llm.core.route import Stop

CallerKey: TypeAlias = str | Sequence[str]


class CallerChat(FailoverChat):
    """The coordinator as one caller uses it. Cheap to make; shares everything with the one it came from.

    A `model` or `route` given with a call goes before the caller's wish. `aclose()` leaves the shared one open.
    """

    def __init__(self, chat: FailoverChat, coordination: Coordination, key: CallerKey) -> None:
        # Builds nothing of its own: all of it is the shared coordinator's.
        self._coordination = coordination
        self.shared: FailoverChat = chat.shared if isinstance(chat, CallerChat) else chat
        self._path = _path(key)

    @property
    def preference(self) -> Chain | None:
        """The chain in force for this caller: its own or its group's; None where it is the usual one."""
        return self._coordination.wishes.of(self._path)

    def prefer(self, start: str | Candidate) -> None:
        """Start this caller's chain with *start*: a model, or one provider's (`openai/gpt-5.1`), whatever the case.

        After it come the model's own `fallbacks`, or else the usual chain. What the caller would get anyway clears the
        wish. Raises `ConfigurationError` for what nobody serves.
        """
        self.forget()
        head = _matching(start, tuple(self._coordination.candidates.stops))
        chain = tuple(dict.fromkeys((*head, *self._after(head[0].model))))
        if chain != (self.preference or self.route):
            self._coordination.wishes.set(self._path, chain)

    def forget(self) -> None:
        """Clear this caller's own wish."""
        self._coordination.wishes.forget(self._path)

    def _after(self, model: str) -> Iterator[Candidate]:
        candidates = self._coordination.candidates
        if model not in candidates.fallbacks:
            yield from candidates.order
        for fallback in candidates.fallbacks.get(model, ()):
            yield from (candidate for candidate in candidates.stops if candidate.model == fallback)

    def _chosen(
        self, *, model: str | None, route: RouteLike | None, failover: bool, own_policy: bool
    ) -> tuple[Stop, ...]:
        if model is None and route is None:
            route = self.preference
        return super()._chosen(model=model, route=route, failover=failover, own_policy=own_policy)

    async def aclose(self) -> None:
        """Do nothing: the connections belong to all callers."""


def _path(key: CallerKey) -> Path:
    path = tuple(key.split("/")) if isinstance(key, str) else tuple(key)
    if not path or not all(path):
        raise ConfigurationError("a caller's key is a non-empty string, or a path of them such as 'team-a/ada'")
    return path


def _matching(start: str | Candidate, known: Chain) -> Chain:
    """Return the candidates that *start* names: those of a model, or a single one."""
    exact = _named(str(start), {candidate: (candidate.model, str(candidate)) for candidate in known})
    folded = {candidate: (candidate.model.casefold(), str(candidate).casefold()) for candidate in known}
    found = exact or _named(str(start).casefold(), folded)
    if not found:
        raise ConfigurationError(f"nobody serves {str(start)!r}; known are {', '.join(map(str, known))}")
    return found


def _named(start: str, names: Mapping[Candidate, tuple[str, str]]) -> Chain:
    by_model = tuple(candidate for candidate, (model, _) in names.items() if model == start)
    return by_model or tuple(candidate for candidate, (_, both) in names.items() if both == start)
