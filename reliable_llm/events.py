"""What happens inside a call, as plain facts: for logs, traces, drills and your own listeners.

Each event has a stable `event` name and a `level` (the numbers of `logging`). Keys appear as labels, prompts never.
All durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from reliable_llm.errors import Kind

if TYPE_CHECKING:
    from reliable_llm.types import Attempt, ServedBy, Usage

DEBUG: Final = 10
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    event: ClassVar[str]
    level: ClassVar[int]


class Listener(Protocol):
    """Receives every event of a call with the caller's tags. Must not block; what it raises is logged, not raised."""

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(Event):
    """A call begins; `provider` and `model` are its first choice, `vendors` who is behind each provider of its route.

    This event and `CallEnded` go only to listeners with `hears_calls = True`.
    """

    event = "call_started"
    level = DEBUG
    provider: str
    model: str
    vendors: Mapping[str, str]
    stream: bool
    max_tokens: int | None
    temperature: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded(Event):
    """A call ends; `kind` is None where it was answered, `cancelled` also where the reader of a stream has left.

    `first_output` is the time to a stream's first output, `usage` the answer's own (`attempts` have all).
    """

    event = "call_ended"
    level = DEBUG
    kind: Kind | None
    elapsed: float
    first_output: float | None
    attempts: tuple[Attempt, ...]
    usage: Usage | None = None
    served_by: ServedBy | None = None
    response_model: str | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptStarted(Event):
    event = "attempt_started"
    level = DEBUG
    provider: str
    model: str
    key: str
    number: int
    probe: bool


@dataclass(frozen=True, slots=True)
class AttemptSucceeded(Event):
    """`requested` is the first choice of the call; another provider or model here means that a fallback answered."""

    event = "attempt_succeeded"
    level = DEBUG
    provider: str
    model: str
    key: str
    number: int
    elapsed: float
    requested: str


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """`retries_left` counts further attempts that this candidate may still get."""

    event = "attempt_failed"
    level = INFO
    provider: str
    model: str
    key: str
    number: int
    retries_left: int
    kind: Kind
    status: int | None
    code: str | None
    request_id: str | None
    retry_after: float | None
    elapsed: float


@dataclass(frozen=True, slots=True)
class KeyRotated(Event):
    event = "key_rotated"
    level = INFO
    provider: str
    from_key: str
    key: str
    reason: Kind


@dataclass(frozen=True, slots=True)
class RetryScheduled(Event):
    event = "retry_scheduled"
    level = INFO
    provider: str
    model: str
    delay: float
    reason: Kind


@dataclass(frozen=True, slots=True)
class Failover(Event):
    """Another candidate is tried, because one was tried and failed in this call."""

    event = "failover"
    level = WARNING
    from_: str
    to: str
    reason: Kind


@dataclass(frozen=True, slots=True)
class KeyParked(Event):
    event = "key_parked"
    level = INFO
    provider: str
    key: str
    model: str | None
    reason: Kind
    seconds: float


@dataclass(frozen=True, slots=True)
class KeyDisabled(Event):
    event = "key_disabled"
    level = WARNING
    provider: str
    key: str
    reason: Kind
    status: int | None


@dataclass(frozen=True, slots=True)
class CooldownStarted(Event):
    """A key is rate limited for a model, or with `key` None the model for every key."""

    event = "cooldown_started"
    level = DEBUG
    provider: str
    model: str
    key: str | None
    reason: Kind
    seconds: float


@dataclass(frozen=True, slots=True)
class QuotaModeEntered(Event):
    """Every key of the provider is out of quota: it is left alone until the recovery time."""

    event = "quota_mode_entered"
    level = WARNING
    provider: str
    key: str
    seconds: float
    original_error: str


@dataclass(frozen=True, slots=True)
class QuotaModeActive(Event):
    event = "quota_mode_active"
    level = DEBUG
    provider: str
    remaining: float


@dataclass(frozen=True, slots=True)
class QuotaProbe(Event):
    """The recovery time is up: this one call tries the key again."""

    event = "quota_probe"
    level = INFO
    provider: str
    key: str
    time_since_error: float


@dataclass(frozen=True, slots=True)
class QuotaRecovered(Event):
    event = "quota_recovered"
    level = WARNING
    provider: str
    key: str


@dataclass(frozen=True, slots=True)
class CandidateResting(Event):
    """A candidate was passed over without a request because of what is known about its keys or itself.

    `remaining` seconds until a key is back, None where that is not known. `probing`: another call is trying one now.
    """

    event = "candidate_resting"
    level = DEBUG
    provider: str
    model: str
    reason: Kind
    remaining: float | None
    probing: bool = False


@dataclass(frozen=True, slots=True)
class CandidateSkipped(Event):
    """A candidate was passed over without a request because it cannot serve this one."""

    event = "candidate_skipped"
    level = INFO
    provider: str
    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolSkipped(CandidateSkipped):
    """A candidate was passed over because it does not run a tool that another vendor hosts."""

    level = WARNING


@dataclass(frozen=True, slots=True)
class ContextTruncated(Event):
    """The history was too long for everybody: its oldest turns, `messages` in number, are left out."""

    event = "context_truncated"
    level = WARNING
    provider: str
    model: str
    messages: int


@dataclass(frozen=True, slots=True)
class CapabilityLearned(Event):
    event = "capability_learned"
    level = INFO
    provider: str
    model: str
    missing: str


@dataclass(frozen=True, slots=True)
class CandidateParked(Event):
    """A candidate rests: its model is missing, or its breaker has opened."""

    event = "candidate_parked"
    level = WARNING
    provider: str
    model: str
    reason: Kind
    seconds: float


@dataclass(frozen=True, slots=True)
class CandidateRecovered(Event):
    event = "candidate_recovered"
    level = INFO
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class StoreUnavailable(Event):
    """What is known about keys is not shared at the moment; every process decides by itself."""

    event = "store_unavailable"
    level = WARNING
    reason: str


@dataclass(frozen=True, slots=True)
class StoreBack(Event):
    event = "store_back"
    level = WARNING
    seconds: float


@dataclass(frozen=True, slots=True)
class ConfigWarning(Event):
    event = "config_warning"
    level = WARNING
    provider: str
    reason: str


@dataclass(frozen=True, slots=True)
class CallFailed(Event):
    """Nothing answered. `primary_kind` is what the caller gets, from `provider` and `model` where it is theirs."""

    event = "all_failed"
    level = ERROR
    primary_kind: Kind
    attempts: int
    retry_after: float | None
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class LastResortUsed(Event):
    """Nothing answered, and the caller's own last resort spoke instead: the reply is degraded."""

    event = "last_resort_used"
    level = ERROR
    primary_kind: Kind
    attempts: int
