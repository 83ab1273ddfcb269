"""Drive the machine of a call through a script, in time that only its sleeps move: no event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from reliable_llm.core.actions import Raise, Sleep, StartAttempt
from reliable_llm.core.failover import FailoverCall
from reliable_llm.core.health import ProviderHealth
from reliable_llm.core.route import Stop
from reliable_llm.errors import Kind, ReliableLLMError, default_verdict, error_from_verdict
from reliable_llm.events import Event
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.types import Candidate, Capabilities

STEADY = RetryPolicy(jitter=0)
MAX_STEPS = 500

Script = Mapping[str, Iterable[str | ReliableLLMError]]


def fail(kind: Kind, **verdict: Any) -> ReliableLLMError:
    return error_from_verdict(replace(default_verdict(kind), **verdict), "")


def limited(retry_after: float | None = None, **verdict: Any) -> ReliableLLMError:
    return fail(Kind.RATE_LIMITED, retry_after=retry_after, **verdict)


def quota(retry_after: float | None = None, **verdict: Any) -> ReliableLLMError:
    return fail(Kind.QUOTA_EXHAUSTED, retry_after=retry_after, **verdict)


def down(retry_after: float | None = None) -> ReliableLLMError:
    return fail(Kind.SERVER_ERROR, status=500, retry_after=retry_after)


class Needed:
    """The same needs everywhere."""

    def __init__(self, features: Iterable[str]) -> None:
        self.features = frozenset(features)
        self.hosted = any(feature.startswith("hosted_tool:") for feature in self.features)

    def at(self, _stop: Stop) -> frozenset[str]:
        return self.features


class World:
    """Providers with their health, and a time. `health` is shared by all calls, as in a coordinator."""

    def __init__(self, **keys: int) -> None:
        self.now = 1_000.0
        self.health = {
            name: ProviderHealth(name, [f"{name}#{n + 1}" for n in range(count)]) for name, count in keys.items()
        }
        self.events: list[Event] = []

    def stop(self, candidate: str, **capabilities: Any) -> Stop:
        name, model = candidate.split("/")
        return Stop(
            candidate=Candidate(name, model),
            health=self.health[name],
            model_id=model,
            vendor=name,
            capabilities=Capabilities(**capabilities),
        )

    def call(
        self,
        *route: str | Stop,
        retry: RetryPolicy = STEADY,
        recovery: RecoveryPolicy | None = None,
        deadline: float | None = None,
        needs: Iterable[str] = (),
        **settings: Any,
    ) -> FailoverCall:
        """Return a call along *route*; *deadline* is in seconds from now."""
        return FailoverCall(
            [self.stop(each) if isinstance(each, str) else each for each in route],
            now=self.now,
            retry=retry,
            recovery=recovery or RecoveryPolicy(),
            needs=Needed(needs),
            deadline=None if deadline is None else self.now + deadline,
            **settings,
        )

    def trip(self, script: Script, call: FailoverCall, *, chance: float = 0.0, took: float = 0.0) -> list[str]:
        """Play *script* (by candidate or key label; nothing left means an answer) and return what the call did.

        An error in the script is used up; `"down"` and `"ok"` are words for often used ones. A step is `openai#1/m1`
        for an attempt, `wait 0.5`, `ok`, or `raise kind`.
        """
        queues = {name: list(items) for name, items in script.items()}
        steps: list[str] = []
        while len(steps) < MAX_STEPS:
            action = call.next(self.now, chance)
            self._drain(call)
            if isinstance(action, Sleep):
                steps.append(f"wait {action.seconds:g}")
                self.now += action.seconds
            elif isinstance(action, Raise):
                return [*steps, f"raise {action.error.kind}"]
            else:
                label = action.stop.health.ring.labels[action.key_place]
                steps.append(f"{label}/{action.stop.model}")
                started, self.now = self.now, self.now + took
                queue = queues.get(label) or queues.get(str(action.stop.candidate)) or queues.get(action.stop.provider)
                item = queue.pop(0) if queue else "ok"
                if item == "ok":
                    call.succeeded(action, self.now, started, usage=None, request_id=None)
                    self._drain(call)
                    return [*steps, "ok"]
                call.failed(action, self.now, started, down() if isinstance(item, str) else item, chance)
                self._drain(call)
        raise AssertionError(f"no end after {MAX_STEPS} steps: {steps[:20]}")

    def _drain(self, call: FailoverCall) -> None:
        self.events += call.events
        call.events.clear()

    def told(self, kind: Callable[..., Event]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


def trip(script: Script, *route: str, chance: float = 0.0, keys: int = 1, **settings: Any) -> list[str]:
    """Return what one call along *route* does in a fresh world."""
    world = World(**dict.fromkeys((candidate.split("/")[0] for candidate in route), keys))
    return world.trip(script, world.call(*route, **settings), chance=chance)


def raised(call: FailoverCall, now: float) -> ReliableLLMError:
    """Return the error that the call ends with."""
    action = call.next(now)
    assert isinstance(action, Raise)
    return action.error


def started(call: FailoverCall, now: float) -> StartAttempt:
    """Return the attempt that the call wants now."""
    action = call.next(now)
    assert isinstance(action, StartAttempt), action
    return action
