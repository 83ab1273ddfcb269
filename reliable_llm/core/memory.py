"""What a failure leaves behind, where, and for how long.

| kind | rests | how long |
|---|---|---|
| rate_limited | the key for this model | the server's hint, else the backoff |
| quota_exhausted | the key; for this model only, if so limited | the reset time, at most 24 h, else 300 s; one probe |
| authentication | the key | until `reset()` |
| permission | the key for this model | `memory`; one probe |
| model_not_found | the candidate | `memory`; one probe |
| unsupported, or invalid_request for want of a feature | nothing: the feature is remembered | `memory` |
| transient kinds | the candidate, if the breaker is on | its seconds, once retries are spent; one probe |

A limit or a refusal that no other key would escape (the verdict says so) rests the candidate instead of the key.

A probe that fails for a reason which says nothing about the rest (a timeout, a 503) hands its permit back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from reliable_llm import events
from reliable_llm.core.features import OF_THE_REQUEST, refused_feature
from reliable_llm.core.keyring import KeyPermit
from reliable_llm.core.recovery import FOREVER, Fault, Gate, GatePermit
from reliable_llm.core.route import Stop
from reliable_llm.errors import Kind, ReliableLLMError, Scope
from reliable_llm.policy import DAY, RecoveryPolicy

TRANSIENT: Final = frozenset(
    {
        Kind.OVERLOADED,
        Kind.SERVER_ERROR,
        Kind.TIMEOUT,
        Kind.CONNECTION,
        Kind.MALFORMED_RESPONSE,
        Kind.EMPTY_RESPONSE,
        Kind.STREAM_INTERRUPTED,
    }
)

# Failures of the way, or of this process: they say nothing about key or candidate.
_PROVES_NOTHING: Final = TRANSIENT | {Kind.DEADLINE, Kind.CONFIGURATION, Kind.QUEUE_FULL, Kind.CLOSED}

# After these, and only these, a key or a candidate that was probed has not shown itself fit.
_NOT_THE_KEY: Final = _PROVES_NOTHING | {Kind.QUOTA_EXHAUSTED, Kind.AUTHENTICATION, Kind.PERMISSION}
_NOT_THE_CANDIDATE: Final = _NOT_THE_KEY | {Kind.RATE_LIMITED, Kind.MODEL_NOT_FOUND}

# What listeners are told is missing: a structured answer is still served, in another form than the native one.
_MISSING: Final = {"structured_output": "json_schema"}


class Permit(NamedTuple):
    """The right to one attempt: with a key, and on a candidate. `probe`: one of the two is tried, not trusted."""

    key: KeyPermit
    candidate: GatePermit | None
    probe: bool


def remember_success(stop: Stop, permit: Permit) -> Iterator[events.Event]:
    """Open what this success proves to be well."""
    ring = stop.health.ring
    if ring.succeed(permit.key, stop.model):
        yield events.QuotaRecovered(stop.provider, ring.labels[permit.key.place])
    gate = stop.health.candidate(stop.model)
    if gate is not None and permit.candidate is not None and gate.succeed(permit.candidate):
        yield events.CandidateRecovered(stop.provider, stop.model)


def still_holds(stop: Stop, permit: Permit) -> bool:
    """Tell whether nothing has happened to key and candidate since the permit was given."""
    ring, key = stop.health.ring, permit.key
    model_gate = ring.known_model_gate(key.place, stop.model)
    gate = stop.health.candidate(stop.model)
    return (
        ring.gate(key.place).generation == key.key.generation
        and (model_gate is None or model_gate.generation == key.model.generation)
        and (gate is None or gate.generation == (permit.candidate.generation if permit.candidate else 0))
    )


def release(stop: Stop, permit: Permit) -> None:
    """Hand back a permit whose attempt proved nothing (cancelled, abandoned)."""
    stop.health.ring.release(permit.key, stop.model)
    gate = stop.health.candidate(stop.model)
    if gate is not None and permit.candidate is not None:
        gate.release(permit.candidate)


def cede(stop: Stop, permit: Permit, until: float) -> None:
    """Leave a probe to another process; *until* is when to ask for it again."""
    ring = stop.health.ring
    ring.cede(permit.key, stop.model, until=until)
    gate = stop.health.candidate(stop.model)
    if gate is not None and permit.candidate is not None:
        gate.cede(permit.candidate, until=until)


def remember_failure(
    stop: Stop, permit: Permit, error: ReliableLLMError, now: float, policy: RecoveryPolicy, cooldown: float
) -> Iterator[events.Event]:
    """Block what this failure proves to be unfit; *cooldown* is how long a rate limit rests."""
    if error.scope is Scope.LOCAL:  # this process failed, or a coordinator inside, which remembers for itself
        release(stop, permit)
        return
    fault = Fault(kind=error.kind, at=now, status=error.status, code=error.code)
    match error.kind:
        case Kind.RATE_LIMITED:
            yield from _cool_down(stop, permit, fault, cooldown, policy, rotate=error.verdict.rotate_key)
        case Kind.QUOTA_EXHAUSTED:
            yield from _park(stop, permit, error, fault, now, policy)
        case Kind.AUTHENTICATION:
            yield from _disable(stop, permit, fault)
        case Kind.PERMISSION:
            yield from _deny(stop, permit, error, fault, now, policy)
        case Kind.MODEL_NOT_FOUND:
            yield from rest_candidate(stop, permit, fault, policy.memory)
        case Kind.UNSUPPORTED | Kind.INVALID_REQUEST:
            yield from _learn(stop, refused_feature(error), now + policy.memory)
        case _:
            pass
    _settle_probes(stop, permit, error.kind)


def _learn(stop: Stop, feature: str | None, until: float) -> Iterator[events.Event]:
    if feature is not None and feature not in OF_THE_REQUEST:
        stop.health.learn(stop.model, feature, until)
        yield events.CapabilityLearned(stop.provider, stop.model, _MISSING.get(feature, feature))


def rest_candidate(stop: Stop, permit: Permit, fault: Fault, seconds: float) -> Iterator[events.Event]:
    """Close the gate in front of a candidate for *seconds*; then one probe."""
    gate = stop.health.candidate_gate(stop.model)
    held = permit.candidate or GatePermit(0, probe=False)
    if seconds > 0 and gate.block(held, until=fault.at + seconds, fault=fault, probe=True):
        yield events.CandidateParked(stop.provider, stop.model, fault.kind, seconds)


def rest_spent(
    stop: Stop, permit: Permit, now: float, seconds: float, policy: RecoveryPolicy
) -> Iterator[events.Event]:
    """Let a key rest whose answer says that nothing is left for *seconds*: the next request would be refused."""
    fault = Fault(kind=Kind.RATE_LIMITED, at=now)
    return _cool_down(stop, permit, fault, min(seconds, DAY), policy, rotate=True)


def repark_probe(stop: Stop, permit: Permit, now: float, policy: RecoveryPolicy) -> None:
    """Park a key again whose probe ended undecided and whose call has moved on: the next call must not pay for it."""
    if permit.key.probe:
        gate = stop.health.ring.gate(permit.key.place)
        if permit.key.key.probe and gate.generation == permit.key.key.generation and gate.fault is not None:
            gate.force(until=now + policy.quota, fault=gate.fault, probe=True)


def _settle_probes(stop: Stop, permit: Permit, kind: Kind) -> None:
    """Let a probe's failure speak about the rests it was sent to end.

    What was blocked just before has begun a new generation: this permit does not touch it any more.
    """
    ring = stop.health.ring
    if kind in _NOT_THE_KEY:
        ring.release(permit.key, stop.model)
    else:
        ring.succeed(permit.key, stop.model)
    gate = stop.health.candidate(stop.model)
    if gate is not None and permit.candidate is not None:
        if kind in _NOT_THE_CANDIDATE:
            gate.release(permit.candidate)
        else:
            gate.succeed(permit.candidate)


def _cool_down(
    stop: Stop, permit: Permit, fault: Fault, seconds: float, policy: RecoveryPolicy, *, rotate: bool
) -> Iterator[events.Event]:
    if not policy.cooldowns:
        return
    until = fault.at + seconds
    key: str | None = None
    if rotate:
        gate, held, key = _model_gate(stop, permit)
    else:
        gate, held = stop.health.candidate_gate(stop.model), permit.candidate or GatePermit(0, probe=False)
    if gate.block(held, until=until, fault=fault, probe=False):
        yield events.CooldownStarted(stop.provider, stop.model, key, fault.kind, seconds)


def _model_gate(stop: Stop, permit: Permit) -> tuple[Gate, GatePermit, str]:
    ring, place = stop.health.ring, permit.key.place
    return ring.model_gate(place, stop.model), permit.key.model, ring.labels[place]


def _park(
    stop: Stop, permit: Permit, error: ReliableLLMError, fault: Fault, now: float, policy: RecoveryPolicy
) -> Iterator[events.Event]:
    if error.scope is Scope.REQUEST:
        return  # this request asks for more than the credit covers; a smaller one may pass
    seconds = policy.quota if error.retry_after is None else min(error.retry_after, policy.max_reset)
    gate, held, model = _key_gate(stop, permit, of_model=error.scope is Scope.MODEL)
    if gate.block(held, until=now + seconds, fault=fault, probe=True):
        label = stop.health.ring.labels[permit.key.place]
        yield events.KeyParked(stop.provider, label, model, fault.kind, seconds)
        if _all_parked(stop, now):
            yield events.QuotaModeEntered(stop.provider, label, seconds, _words(error))


def _disable(stop: Stop, permit: Permit, fault: Fault) -> Iterator[events.Event]:
    if stop.health.ring.gate(permit.key.place).block(permit.key.key, until=FOREVER, fault=fault, probe=True):
        yield events.KeyDisabled(stop.provider, stop.health.ring.labels[permit.key.place], fault.kind, fault.status)


def _deny(
    stop: Stop, permit: Permit, error: ReliableLLMError, fault: Fault, now: float, policy: RecoveryPolicy
) -> Iterator[events.Event]:
    if error.scope is Scope.REQUEST:
        return
    if not error.verdict.rotate_key:
        yield from rest_candidate(stop, permit, fault, policy.quota)
        return
    gate, held, model = _key_gate(stop, permit, of_model=True)
    if gate.block(held, until=now + policy.memory, fault=fault, probe=True):
        yield events.KeyParked(
            stop.provider, stop.health.ring.labels[permit.key.place], model, fault.kind, policy.memory
        )


def _key_gate(stop: Stop, permit: Permit, *, of_model: bool) -> tuple[Gate, GatePermit, str | None]:
    ring = stop.health.ring
    if of_model:
        return ring.model_gate(permit.key.place, stop.model), permit.key.model, stop.model
    return ring.gate(permit.key.place), permit.key.key, None


def _all_parked(stop: Stop, now: float) -> bool:
    ring = stop.health.ring
    return all(not ring.gate(index).admits(now) for index in range(len(ring)))


def _words(error: ReliableLLMError) -> str:
    return " ".join(str(word) for word in (error.kind, error.status, error.code) if word is not None)
