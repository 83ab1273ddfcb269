"""What an operator sees of a coordinator's health, and may change about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.pacing import Pace
from reliable_llm.core.recovery import Fault
from reliable_llm.errors import ConfigurationError, Kind
from reliable_llm.status import Status, provider_status

if TYPE_CHECKING:
    from reliable_llm.clock import Clock
    from reliable_llm.provider import Provider
    from reliable_llm.state.base import Member, Shared


class Upkeep:
    """The health of every provider, by name. `member` stands for this process in a shared store, where there is one."""

    def __init__(self, providers: Mapping[str, Provider], clock: Clock) -> None:
        self._providers = providers
        self._clock = clock
        self.health = {name: _health_of(provider, clock.monotonic()) for name, provider in providers.items()}
        self.member: Member | None = None

    def shared(self) -> dict[str, Shared]:
        """Return what a store has to know of each provider."""
        from reliable_llm.state.base import Shared

        return {
            name: Shared(
                endpoint=provider.endpoint,
                keys=provider.keys,
                models=tuple(provider.models),
                health=self.health[name],
            )
            for name, provider in self._providers.items()
        }

    def status(self) -> Status:
        """Return what is known about every provider, model and key, as an immutable snapshot."""
        now = self._clock.monotonic()
        return Status(
            providers=tuple(
                provider_status(self.health[name], provider.endpoint, tuple(provider.models), now)
                for name, provider in self._providers.items()
            )
        )

    def reset(self, provider: str | None) -> None:
        """Forget what is known to fail: at one provider, or everywhere."""
        for name in self._named(provider):
            self.health[name].reset()
            if self.member is not None:
                self.member.forget(name)

    def isolate(self, provider: str, model: str | None, seconds: float) -> None:
        """Take a provider, or one model of it, out of use for *seconds*."""
        now = self._clock.monotonic()
        fault = Fault(kind=Kind.CONFIGURATION, at=now, code="isolated")
        for name in self._named(provider):
            models = tuple(self._providers[name].models)
            if model is not None and model not in models:
                known = ", ".join(models)
                raise ConfigurationError(f"no model {model!r} at provider {name!r}; its models are {known}")
            for each in models if model is None else (model,):
                self.health[name].candidate_gate(each).force(until=now + seconds, fault=fault, probe=False)

    def _named(self, provider: str | None) -> tuple[str, ...]:
        if provider is not None and provider not in self._providers:
            raise ConfigurationError(f"no provider {provider!r}; configured are {', '.join(self._providers)}")
        return tuple(self._providers) if provider is None else (provider,)


def _health_of(provider: Provider, now: float) -> ProviderHealth:
    pace = None if provider.limits is None else Pace(provider.limits, len(provider.keys), now)
    return ProviderHealth(provider.name, [key.label for key in provider.keys], pace)
