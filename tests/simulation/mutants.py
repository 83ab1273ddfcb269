"""Rules of the product broken on purpose, one at a time: the simulation has to notice each.

A mutant changes the loaded modules of a process of its own (`python -m tests.simulation --mutant NAME`); nothing on
disk is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from reliable_llm import entrance, stream_call
from reliable_llm.core import decision, ending, failover, ledger, memory, recovery, visit, waiting
from reliable_llm.core.actions import StartAttempt


def put(owner: Any, name: str, broken: object) -> None:
    """Replace what is there: a mutant of what has moved elsewhere breaks nothing, and must say so."""
    if not hasattr(owner, name):
        raise LookupError(f"{owner} has no {name}: this mutant has to follow the code")
    setattr(owner, name, broken)


def _second_probe() -> None:
    """A gate lets everybody in when its time is up, not one probe."""
    put(recovery.Gate, "admits", lambda self, now: self.until is None or now >= self.until)


def _short_rest() -> None:
    """A rest lasts half as long as it should."""
    block = recovery.Gate._set

    def shorter(self: recovery.Gate, until: float, fault: recovery.Fault, *, needs_probe: bool) -> None:
        block(self, fault.at + (until - fault.at) / 2, fault, needs_probe=needs_probe)

    put(recovery.Gate, "_set", shorter)


def _stale_success() -> None:
    """Any success opens a gate, also one that began before the bad news."""

    def succeed(self: recovery.Gate, permit: recovery.GatePermit) -> bool:
        was_blocked = self.until is not None
        self.open()
        return was_blocked

    put(recovery.Gate, "succeed", succeed)
    driver_success = failover.FailoverCall.succeeded

    def succeeded(self: failover.FailoverCall, action: StartAttempt, *args: Any, **fields: Any) -> None:
        action.stop.health.ring.succeed(action.permit.key, action.stop.model)
        driver_success(self, action, *args, **fields)

    put(failover.FailoverCall, "succeeded", succeeded)


def _lost_permit() -> None:
    """A cancelled probe does not hand its permit back."""
    put(recovery.Gate, "release", lambda self, permit: None)


def _under_the_hint() -> None:
    """Jitter takes away from a server's hint instead of adding to it."""
    for module in (waiting, decision):
        put(module, "spread", lambda policy, hint, chance: -0.5 * hint)
    put(visit.Visit, "permit", _hasty(visit.Visit.permit))


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

    put(failover.FailoverCall, "__init__", without)


def _limits_forgotten() -> None:
    """A rate limit is not remembered for other calls."""
    put(memory, "_cool_down", lambda *args, **fields: iter(()))


def _refused_key() -> None:
    """A key that was refused is tried again by the next call."""
    put(memory, "_disable", lambda *args: iter(()))


def _ledger_gap() -> None:
    """Failed attempts before the last one are forgotten."""
    failed = ledger.Ledger.failed

    def forgetful(self: ledger.Ledger, *args: Any) -> None:
        failed(self, *args)
        del self.attempts[:-1]

    put(ledger.Ledger, "failed", forgetful)


def _place_kept() -> None:
    """Who leaves a provider keeps the place in its queue."""
    put(entrance.Entrance, "_place", _keeping(entrance.Entrance._place))


def _keeping(place: Callable[..., Any]) -> Callable[..., Any]:
    async def keep(self: entrance.Entrance, provider: str) -> Callable[[], None]:
        leave: Callable[[], None] = await place(self, provider)
        return entrance.nothing if leave is not entrance.nothing else leave

    return keep


def _vendors_words() -> None:
    """The message of an error quotes the vendor, who quotes the prompt."""
    describe = ending.describe

    def chatty(error: Any, *args: Any) -> str:
        return f"{describe(error, *args)}: {error.__cause__}"

    put(ending, "describe", chatty)


def _gives_up() -> None:
    """The first candidate's failure is everybody's."""
    leave = decision.Setback._leave
    decide = decision.Setback.decide
    left: list[decision.Setback] = []

    def give_up(self: decision.Setback) -> None:
        leave(self)
        left.append(self)

    def all_up(self: decision.Setback) -> bool:
        return decide(self) or bool(left and left.pop() is self)

    put(decision.Setback, "_leave", give_up)
    put(decision.Setback, "decide", all_up)


def _too_many_retries() -> None:
    """One retry more than allowed."""
    make = failover.FailoverCall.__init__

    def eager(self: failover.FailoverCall, *args: Any, **fields: Any) -> None:
        policy = fields["retry"]
        make(self, *args, **{**fields, "retry": replace(policy, max_retries=policy.max_retries + 1)})

    put(failover.FailoverCall, "__init__", eager)


def _cancel_swallowed() -> None:
    """A caller who cancels gets an error of ours instead."""
    abandoned = failover.FailoverCall.abandoned

    def swallow(self: failover.FailoverCall, *args: Any, **fields: Any) -> None:
        abandoned(self, *args, **fields)
        raise failover.DeadlineExceededError

    put(failover.FailoverCall, "abandoned", swallow)


def _stream_left_open() -> None:
    """Leaving a stream early does not close it."""

    async def stay(self: stream_call.StreamCall) -> None:
        self.opened = None

    put(stream_call.StreamCall, "abandon", stay)


def _stale_queue() -> None:
    """Who has waited for a place does not look again whether the key still may be used."""
    put(entrance, "still_holds", lambda stop, permit: True)


MUTANTS: Final[Mapping[str, Callable[[], None]]] = {
    name.lstrip("_").replace("_", "-"): mutant
    for name, mutant in list(globals().items())
    if name.startswith("_") and callable(mutant) and (mutant.__doc__ or "") and mutant.__module__ == __name__
}


def described() -> Iterator[tuple[str, str]]:
    """Yield each mutant's name and what it breaks."""
    for name, mutant in MUTANTS.items():
        yield name, (mutant.__doc__ or "").strip()
