"""What a coordinator asks of a store that many processes share.

Without one, health lives in this process and nothing here runs. With one, decisions stay local: the store is told what
this process learns, tells what others have learned, and settles who of them sends a probe. It never fails or delays a
call: where it is silent, the local decision stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from reliable_llm.clock import Clock
from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.memory import Permit
from reliable_llm.core.route import Stop
from reliable_llm.credentials import Credential
from reliable_llm.events import Event

Tell: TypeAlias = Callable[[Event], None]
Release: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """One provider as the store sees it. `endpoint` is its address without secrets."""

    endpoint: str
    keys: tuple[Credential, ...]
    models: tuple[str, ...]
    health: ProviderHealth


class Member(Protocol):
    """One coordinator's part in a store. Everything but `claim`, `ready` and `aclose` returns at once."""

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        """Take note of an event; the coordinator hands on each one."""

    def wake(self) -> None:
        """Make sure that the exchange with the store runs on this event loop."""

    async def ready(self, seconds: float) -> None:
        """Wait at most *seconds* for what the store knows."""

    async def claim(self, stop: Stop, permit: Permit, seconds: float) -> Release | None:
        """Ask for the right to this probe, for at most *seconds*; None where another process has it.

        Bounded to a few hundredths of a second. Call what is returned when the attempt is over.
        """

    def forget(self, provider: str) -> None:
        """Let everybody forget what is known to fail at *provider*; this process just has."""

    async def aclose(self) -> None:
        """Tell what is still untold, and leave. Bounded to about a second."""


class HealthStore(Protocol):
    """Where many processes tell each other what they have learned."""

    def join(self, providers: Mapping[str, Shared], clock: Clock, tell: Tell) -> Member:
        """Return a coordinator's part. *tell* takes events about the store itself. Opens nothing yet."""
