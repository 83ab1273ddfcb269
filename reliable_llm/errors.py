"""The error taxonomy: one class per kind of failure, one right action per kind.

Every failure of a call is a `ReliableLLMError`; the tree says who must change before the same call can succeed:

    ReliableLLMError
    ├── RequestError                    the request
    │   ├── InvalidRequestError         refused by every candidate alike
    │   ├── ContextWindowError          longer than the model's window
    │   ├── RequestTooLargeError        larger than a size or token ceiling
    │   ├── ContentPolicyError          refused by the vendor's policy
    │   ├── UnsupportedFeatureError     this candidate lacks a feature that the request needs
    │   ├── InvalidOutputError          the answer does not fit the schema asked for
    │   └── OutputTruncatedError        the answer was cut by the output limit
    ├── CredentialError                 the key
    │   ├── RateLimitedError            over its allowance for the moment
    │   ├── QuotaExhaustedError         out of money or plan
    │   ├── AuthenticationError         refused
    │   └── PermissionDeniedError       valid, but not for this
    ├── ModelNotFoundError              the model name
    ├── TransientError                  nobody: the next try may do
    │   ├── OverloadedError, ServerError, AttemptTimeoutError, ConnectionFailedError
    │   ├── MalformedResponseError, EmptyResponseError
    │   └── StreamInterruptedError      broke after output had reached the caller
    ├── DeadlineExceededError           the caller's own time limit
    ├── QueueFullError                  this process: too many calls waiting
    ├── ConfigurationError              the set-up (also a ValueError)
    └── ClosedError                     the coordinator was closed

Errors hold plain data and pickle; never a request, a key or a vendor's text. The vendor's own exception is `__cause__`.
All durations are seconds.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from reliable_llm.types import Attempt, ToolCall, Usage


class Kind(enum.StrEnum):
    """What a failure is. The value is stable: it is logged, exported and compared."""

    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    MALFORMED_RESPONSE = "malformed_response"
    EMPTY_RESPONSE = "empty_response"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    MODEL_NOT_FOUND = "model_not_found"
    CONTEXT_WINDOW = "context_window"
    REQUEST_TOO_LARGE = "request_too_large"
    CONTENT_POLICY = "content_policy"
    UNSUPPORTED = "unsupported"
    INVALID_REQUEST = "invalid_request"
    STREAM_INTERRUPTED = "stream_interrupted"
    INVALID_OUTPUT = "invalid_output"
    OUTPUT_TRUNCATED = "output_truncated"
    DEADLINE = "deadline"
    QUEUE_FULL = "queue_full"
    CANCELLED = "cancelled"
    CONFIGURATION = "configuration"
    CLOSED = "closed"


class Scope(enum.StrEnum):
    """Who must change before the same call can succeed."""

    REQUEST = "request"
    KEY = "key"
    MODEL = "model"
    PROVIDER = "provider"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one failure means and what may be done about it; the classifier's answer and the coordinator's input.

    `rotate_key`: another key of the same provider can work now. `retry_same`: the same request on the same key can work
    within about a minute. `failover`: another provider or model is a valid remedy. `rule` names what decided;
    `confidence` is how sure that makes us. `feature` is what an `unsupported` candidate lacks.
    """

    kind: Kind
    scope: Scope
    rotate_key: bool
    retry_same: bool
    failover: bool
    retry_after: float | None = None
    status: int | None = None
    code: str | None = None
    feature: str | None = None
    limit_tokens: int | None = None
    used_tokens: int | None = None
    rule: str = ""
    confidence: str = "certain"


def _row(
    scope: Scope, *, rotate: bool = False, retry: bool = False, failover: bool = False
) -> tuple[Scope, bool, bool, bool]:
    return scope, rotate, retry, failover


# What to do by kind, where nothing more is known. The classifier narrows single failures.
_DEFAULTS: Final[Mapping[Kind, tuple[Scope, bool, bool, bool]]] = MappingProxyType(
    {
        Kind.RATE_LIMITED: _row(Scope.KEY, rotate=True, retry=True, failover=True),
        Kind.QUOTA_EXHAUSTED: _row(Scope.KEY, rotate=True, failover=True),
        Kind.OVERLOADED: _row(Scope.PROVIDER, retry=True, failover=True),
        Kind.SERVER_ERROR: _row(Scope.PROVIDER, retry=True, failover=True),
        Kind.TIMEOUT: _row(Scope.PROVIDER, retry=True, failover=True),
        Kind.CONNECTION: _row(Scope.PROVIDER, retry=True, failover=True),
        Kind.MALFORMED_RESPONSE: _row(Scope.PROVIDER, retry=True, failover=True),
        Kind.EMPTY_RESPONSE: _row(Scope.MODEL, retry=True, failover=True),
        Kind.AUTHENTICATION: _row(Scope.KEY, rotate=True, failover=True),
        Kind.PERMISSION: _row(Scope.KEY, rotate=True, failover=True),
        Kind.MODEL_NOT_FOUND: _row(Scope.MODEL, failover=True),
        Kind.CONTEXT_WINDOW: _row(Scope.REQUEST),
        Kind.REQUEST_TOO_LARGE: _row(Scope.REQUEST, failover=True),
        Kind.CONTENT_POLICY: _row(Scope.REQUEST),
        Kind.UNSUPPORTED: _row(Scope.MODEL, failover=True),
        Kind.INVALID_REQUEST: _row(Scope.REQUEST),
        Kind.STREAM_INTERRUPTED: _row(Scope.PROVIDER, retry=True, failover=True),
        Kind.INVALID_OUTPUT: _row(Scope.REQUEST),
        Kind.OUTPUT_TRUNCATED: _row(Scope.REQUEST),
        Kind.DEADLINE: _row(Scope.LOCAL),
        Kind.QUEUE_FULL: _row(Scope.LOCAL, failover=True),
        Kind.CANCELLED: _row(Scope.LOCAL),
        Kind.CONFIGURATION: _row(Scope.LOCAL),
        Kind.CLOSED: _row(Scope.LOCAL),
    }
)


def default_verdict(kind: Kind, *, rule: str = "kind") -> Verdict:
    """Return the usual scope and actions of *kind*."""
    scope, rotate, retry, failover = _DEFAULTS[kind]
    return Verdict(kind=kind, scope=scope, rotate_key=rotate, retry_same=retry, failover=failover, rule=rule)


class ReliableLLMError(Exception):
    """Root of all failures of a call. `attempts` is the ledger of what was tried, in order.

    `provider`, `model`, `key_label`: where it failed. `status`, `code`, `request_id`: the vendor's answer, if there was
    one. `retry_after`: seconds until it is worth trying again, or None where nobody said.
    """

    kind: ClassVar[Kind]

    def __init__(
        self,
        message: str = "",
        *,
        verdict: Verdict | None = None,
        provider: str | None = None,
        model: str | None = None,
        key_label: str | None = None,
        request_id: str | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.verdict = verdict or default_verdict(self.kind)
        self.provider = provider
        self.model = model
        self.key_label = key_label
        self.request_id = request_id
        self.usage = usage
        self.attempts: tuple[Attempt, ...] = ()
        self.inner: tuple[Attempt, ...] = ()  # what a coordinator behind the adapter tried; part of `attempts`

    @property
    def scope(self) -> Scope:
        return self.verdict.scope

    @property
    def status(self) -> int | None:
        return self.verdict.status

    @property
    def code(self) -> str | None:
        return self.verdict.code

    @property
    def retry_after(self) -> float | None:
        return self.verdict.retry_after

    @retry_after.setter
    def retry_after(self, seconds: float | None) -> None:
        self.verdict = replace(self.verdict, retry_after=seconds)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args and self.args[0] else str(self.kind)


class RequestError(ReliableLLMError):
    """The request must change."""


class InvalidRequestError(RequestError):
    """The request would fail everywhere: raised at once."""

    kind = Kind.INVALID_REQUEST


class ContextWindowError(RequestError):
    """The prompt, or the prompt and the output asked for, exceeds the model's window."""

    kind = Kind.CONTEXT_WINDOW

    @property
    def limit_tokens(self) -> int | None:
        return self.verdict.limit_tokens

    @property
    def used_tokens(self) -> int | None:
        return self.verdict.used_tokens


class RequestTooLargeError(RequestError):
    """The request exceeds a byte size or a per-minute token ceiling; waiting does not help."""

    kind = Kind.REQUEST_TOO_LARGE


class ContentPolicyError(RequestError):
    """The vendor's policy refused the content. Failing over is opt-in."""

    kind = Kind.CONTENT_POLICY


class UnsupportedFeatureError(RequestError):
    """The candidate lacks a feature that the request needs; `feature` names it."""

    kind = Kind.UNSUPPORTED

    @property
    def feature(self) -> str | None:
        return self.verdict.feature


class InvalidOutputError(RequestError):
    """The answer does not fit the schema asked for; `text` is what the model wrote, `problems` what is wrong in it."""

    kind = Kind.INVALID_OUTPUT
    text: str = ""
    problems: tuple[str, ...] = ()


class ToolArgumentsError(InvalidOutputError, ValueError):
    """The arguments of a tool call are no JSON object, or not what the tool takes; `text` is what the model wrote."""


class OutputTruncatedError(RequestError):
    """The answer was cut by the output limit where whole output was asked for; `text` is what came."""

    kind = Kind.OUTPUT_TRUNCATED
    text: str = ""


class CredentialError(ReliableLLMError):
    """The key must change, or rest."""


class RateLimitedError(CredentialError):
    """The key is over its allowance for the moment."""

    kind = Kind.RATE_LIMITED


class QuotaExhaustedError(CredentialError):
    """The account is out of money or plan."""

    kind = Kind.QUOTA_EXHAUSTED


class AuthenticationError(CredentialError):
    """The key was refused."""

    kind = Kind.AUTHENTICATION


class PermissionDeniedError(CredentialError):
    """The key is valid but may not do this."""

    kind = Kind.PERMISSION


class ModelNotFoundError(ReliableLLMError):
    """The provider does not serve this model."""

    kind = Kind.MODEL_NOT_FOUND


class TransientError(ReliableLLMError):
    """Nobody must change: the next try, here or elsewhere, may succeed."""


class OverloadedError(TransientError):
    """The vendor is out of capacity."""

    kind = Kind.OVERLOADED


class ServerError(TransientError):
    """The vendor failed."""

    kind = Kind.SERVER_ERROR


class AttemptTimeoutError(TransientError):
    """One attempt took too long. The whole call's limit is `DeadlineExceededError`."""

    kind = Kind.TIMEOUT


class ConnectionFailedError(TransientError):
    """The vendor could not be reached, or the connection broke before an answer."""

    kind = Kind.CONNECTION


class MalformedResponseError(TransientError):
    """A success status with something that is not an answer: HTML, broken JSON, a missing field."""

    kind = Kind.MALFORMED_RESPONSE


class EmptyResponseError(TransientError):
    """An answer without text and without a tool call."""

    kind = Kind.EMPTY_RESPONSE


class StreamInterruptedError(TransientError):
    """A stream broke after output had reached the caller.

    `partial_text` and `partial_tool_calls` hold what came; a tool call in there is never complete.
    `cause_kind` is what broke it.
    """

    kind = Kind.STREAM_INTERRUPTED
    partial_text: str = ""
    partial_tool_calls: tuple[ToolCall, ...] = ()
    cause_kind: Kind | None = None


class DeadlineExceededError(ReliableLLMError, TimeoutError):
    """The caller's deadline for the whole call has passed. `where` names what was going on."""

    kind = Kind.DEADLINE
    where: str = ""
    partial_text: str = ""


class QueueFullError(ReliableLLMError):
    """Too many calls of this process wait for a key's capacity."""

    kind = Kind.QUEUE_FULL


class ConfigurationError(ReliableLLMError, ValueError):
    """The set-up is wrong; the message says what to change."""

    kind = Kind.CONFIGURATION


class ClosedError(ReliableLLMError, RuntimeError):
    """The coordinator was closed: before the call, or while it was under way and had to try again."""

    kind = Kind.CLOSED


ERROR_CLASSES: Final[Mapping[Kind, type[ReliableLLMError]]] = MappingProxyType(
    {
        cls.kind: cls
        for cls in (
            InvalidRequestError,
            ContextWindowError,
            RequestTooLargeError,
            ContentPolicyError,
            UnsupportedFeatureError,
            InvalidOutputError,
            OutputTruncatedError,
            RateLimitedError,
            QuotaExhaustedError,
            AuthenticationError,
            PermissionDeniedError,
            ModelNotFoundError,
            OverloadedError,
            ServerError,
            AttemptTimeoutError,
            ConnectionFailedError,
            MalformedResponseError,
            EmptyResponseError,
            StreamInterruptedError,
            DeadlineExceededError,
            QueueFullError,
            ConfigurationError,
            ClosedError,
        )
    }
)


def error_from_verdict(verdict: Verdict, message: str, *, request_id: str | None = None) -> ReliableLLMError:
    """Return the taxonomy's error for *verdict*. *message* must not hold a vendor's text, a prompt or a key."""
    return ERROR_CLASSES[verdict.kind](message, verdict=verdict, request_id=request_id)
