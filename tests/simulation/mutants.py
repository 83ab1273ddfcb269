"""Rules of the product broken on purpose, one at a time: the simulation has to notice each.

A mutant changes the loaded modules of a process of its own (`python -m tests.simulation --mutant NAME`); nothing on
disk is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from reliable_llm import driver, stream
from reliable_llm.core import failover, ledger, memory, recovery, visit
from reliable_llm.core.actions import StartAttempt


def _second_probe() -> None:
    """A gate lets everybody in when its time is up, not one probe."""
    recovery.Gate.admits = lambda self, now: self.until is None or now >= self.until  # type: ignore[method-assign]


def _short_rest() -> None:
    """A rest lasts half as long as it should."""
    block = recovery.Gate._set

    def shorter(self: recovery.Gate, until: float, fault: recovery.Fault, *, needs_probe: bool) -> None:
        block(self, fault.at + (until - fault.at) / 2, fault, needs_probe=needs_probe)

    recovery.Gate._set = shorter  # type: ignore[method-assign]


def _stale_success() -> None:
    """Any success opens a gate, also one that began before the bad news."""

    def succeed(self: recovery.Gate, permit: recovery.GatePermit) -> bool:
        was_blocked = self.until is not None
        self.open()
        return was_blocked

    recovery.Gate.succeed = succeed  # type: ignore[method-assign]
    driver_success = failover.FailoverCall.succeeded

    def succeeded(self: failover.FailoverCall, action: StartAttempt, *args: Any, **fields: Any) -> None:
        action.stop.health.ring.succeed(action.permit.key, action.stop.model)
        driver_success(self, action, *args, **fields)

    failover.FailoverCall.succeeded = succeeded  # type: ignore[method-assign]


def _lost_permit() -> None:
    """A cancelled probe does not hand its permit back."""
    recovery.Gate.release = lambda self, permit: None  # type: ignore[method-assign]


def _under_the_hint() -> None:
    """Jitter takes away from a server's hint instead of adding to it."""
    failover.spread = lambda policy, hint, chance: -0.5 * hint  # type: ignore[attr-defined]
    visit.Visit.permit = _hasty(visit.Visit.permit)  # type: ignore[method-assign]


def _hasty(permit: Callable[..., Any]) -> Callable[..., Any]:
    def hasty(self: visit.Visit, now: float, prefer: int | None = None) -> Any:
        self.resting = {place: until - 1.0 for place, until in self.resting.items()}
        return permit(self, now, prefer)

    return hasty


def _no_deadline() -> None:
    """The deadline is looked at nowhere."""
    make = failover.FailoverCall.__init__

    def without(self: failover.FailoverCall, *args: Any, **fields: Any) -> None:
        make(self, *args, **{**fields, "deadline": None})

    failover.FailoverCall.__init__ = without  # type: ignore[method-assign]


def _limits_forgotten() -> None:
    """A rate limit is not remembered for other calls."""
    memory._cool_down = lambda *args, **fields: iter(())  # type: ignore[assignment]


def _refused_key() -> None:
    """A key that was refused is tried again by the next call."""
    memory._disable = lambda *args: iter(())  # type: ignore[assignment]


def _ledger_gap() -> None:
    """Failed attempts before the last one are forgotten."""
    failed = ledger.Ledger.failed

    def forgetful(self: ledger.Ledger, *args: Any) -> None:
        failed(self, *args)
        del self.attempts[:-1]

    ledger.Ledger.failed = forgetful  # type: ignore[method-assign]


def _place_kept() -> None:
    """Who leaves a provider keeps the place in its queue."""
    driver.Driver._place = _keeping(driver.Driver._place)  # type: ignore[method-assign]


def _keeping(place: Callable[..., Any]) -> Callable[..., Any]:
    async def keep(self: driver.Driver, provider: str) -> Callable[[], None]:
        leave: Callable[[], None] = await place(self, provider)
        return driver.nothing if leave is not driver.nothing else leave

    return keep


def _vendors_words() -> None:
    """The message of an error quotes the vendor, who quotes the prompt."""
    describe = failover.describe

    def chatty(error: Any, *args: Any) -> str:
        return f"{describe(error, *args)}: {error.__cause__}"

    failover.describe = chatty  # type: ignore[attr-defined]


def _gives_up() -> None:
    """The first candidate's failure is everybody's."""
    leave = failover.FailoverCall._leave

    def give_up(self: failover.FailoverCall, at: visit.Visit, error: Any, now: float) -> None:
        leave(self, at, error, now)
        self._final = error

    failover.FailoverCall._leave = give_up  # type: ignore[method-assign]


def _too_many_retries() -> None:
    """One retry more than allowed."""
    make = failover.FailoverCall.__init__

    def eager(self: failover.FailoverCall, *args: Any, **fields: Any) -> None:
        policy = fields["retry"]
        make(self, *args, **{**fields, "retry": replace(policy, max_retries=policy.max_retries + 1)})

    failover.FailoverCall.__init__ = eager  # type: ignore[method-assign]


def _cancel_swallowed() -> None:
    """A caller who cancels gets an error of ours instead."""
    abandoned = failover.FailoverCall.abandoned

    def swallow(self: failover.FailoverCall, *args: Any, **fields: Any) -> None:
        abandoned(self, *args, **fields)
        raise failover.DeadlineExceededError

    failover.FailoverCall.abandoned = swallow  # type: ignore[method-assign]


def _stream_left_open() -> None:
    """Leaving a stream early does not close it."""

    async def stay(self: stream.ChatStream) -> None:
        self._open = None

    stream.ChatStream._abandon = stay  # type: ignore[method-assign]


def _stale_queue() -> None:
    """Who has waited for a place does not look again whether the key still may be used."""
    driver.still_holds = lambda stop, permit: True  # type: ignore[attr-defined]


MUTANTS: Final[Mapping[str, Callable[[], None]]] = {
    name.lstrip("_").replace("_", "-"): mutant
    for name, mutant in list(globals().items())
    if name.startswith("_") and callable(mutant) and (mutant.__doc__ or "") and mutant.__module__ == __name__
}


def described() -> Iterator[tuple[str, str]]:
    """Yield each mutant's name and what it breaks."""
    for name, mutant in MUTANTS.items():
        yield name, (mutant.__doc__ or "").strip()
