"""Which candidates a call goes to, and in which order: the usual chain, a model's, a route's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from reliable_llm import events
from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.route import Stop, chain_from, checked_route, computed_order
from reliable_llm.errors import ConfigurationError
from reliable_llm.types import Candidate, Capabilities

if TYPE_CHECKING:
    from reliable_llm.events import Event
    from reliable_llm.provider import Provider

RouteLike: TypeAlias = Iterable[Candidate | Sequence[str] | str]


class Candidates:
    """All candidates of one coordinator. `order` is that of a call which names neither a model nor a route."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        health: Mapping[str, ProviderHealth],
        *,
        route: RouteLike | None,
        fallbacks: Mapping[str, Sequence[str]] | None,
        tell: Callable[[Event], None],
    ) -> None:
        self._tell = tell
        self.fallbacks: Mapping[str, Sequence[str]] = dict(fallbacks or {})
        self.models = {name: tuple(provider.models) for name, provider in providers.items()}
        everyone = computed_order(self.models)
        self.stops = {each: _stop(each, providers[each.provider], health[each.provider]) for each in everyone}
        self.order = everyone if route is None else self.checked(route)
        self._usual = tuple(self.stops[candidate] for candidate in self.order)
        self._have_policies = any(stop.retry is not None for stop in self.stops.values())

    def chosen(
        self, *, model: str | None, route: RouteLike | None, failover: bool, own_policy: bool = False
    ) -> tuple[Stop, ...]:
        """Return the candidates of one call, in order. Raises `ConfigurationError` for what nobody serves.

        *own_policy*: the call brings a policy of retries, which goes before those of providers.
        """
        chosen = self._usual if model is None and route is None else self._in_order(model, route)
        if own_policy and self._have_policies:
            chosen = tuple(stop.without_policy() for stop in chosen)
        return chosen if failover else chosen[:1]

    def _in_order(self, model: str | None, route: RouteLike | None) -> tuple[Stop, ...]:
        chain = chain_from(self.order, model or "", self.fallbacks) if route is None else self.checked(route)
        return tuple(self.stops[candidate] for candidate in chain)

    def checked(self, route: RouteLike) -> tuple[Candidate, ...]:
        """Return *route* as candidates; tell of what is in it twice."""
        if isinstance(route, str):
            raise ConfigurationError(f"route is a list of candidates: write route=[{route!r}]")
        order, repeated = checked_route(route, self.models)
        for candidate in repeated:
            self._tell(events.ConfigWarning(candidate.provider, f"duplicate candidate {candidate}"))
        return order


def _stop(candidate: Candidate, provider: Provider, health: ProviderHealth) -> Stop:
    return Stop(
        candidate=candidate,
        health=health,
        model_id=provider.models[candidate.model],
        vendor=provider.vendor,
        capabilities=provider.capabilities.get(candidate.model) or Capabilities(),
        retry=provider.retry,
    )
