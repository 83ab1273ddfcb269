"""What is left when nothing more specific is known: the HTTP status, the transport's cause, the exception's class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from reliable_llm.core.rules.rule import Rule
from reliable_llm.errors import Kind, Scope

BY_STATUS: Final[Mapping[int, Kind]] = MappingProxyType(
    {
        401: Kind.AUTHENTICATION,
        402: Kind.QUOTA_EXHAUSTED,
        403: Kind.PERMISSION,
        404: Kind.MODEL_NOT_FOUND,
        407: Kind.CONFIGURATION,  # the proxy of this machine wants a password
        408: Kind.TIMEOUT,
        409: Kind.SERVER_ERROR,  # both SDKs retry it: a lock at the vendor's side
        410: Kind.MODEL_NOT_FOUND,  # retired
        413: Kind.REQUEST_TOO_LARGE,
        424: Kind.SERVER_ERROR,  # Bedrock ModelErrorException, Azure: a part behind the vendor failed
        425: Kind.SERVER_ERROR,  # too early: try again
        429: Kind.RATE_LIMITED,
        451: Kind.CONTENT_POLICY,  # unavailable for legal reasons
        498: Kind.OVERLOADED,  # Groq: flex capacity
        499: Kind.TIMEOUT,  # the client hung up
        501: Kind.INVALID_REQUEST,  # never retry what is not implemented
        503: Kind.OVERLOADED,
        504: Kind.TIMEOUT,
        522: Kind.CONNECTION,  # Cloudflare could not connect to the origin
        523: Kind.CONNECTION,  # Cloudflare: origin unreachable
        524: Kind.TIMEOUT,  # Cloudflare: the origin took too long
        529: Kind.OVERLOADED,
    }
)


def kind_of_status(status: int) -> Kind:
    """Return the kind by status alone: an unknown 5xx may pass, an unknown 4xx is never tried again."""
    found = BY_STATUS.get(status)
    if found is not None:
        return found
    if status < 400:  # a redirect that is not followed: the base URL is wrong
        return Kind.CONFIGURATION
    return Kind.SERVER_ERROR if status >= 500 else Kind.INVALID_REQUEST


_LOCAL_FAULT: Final = "the set-up of this machine or of this provider: trying again changes nothing"

_TRANSPORT: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "dns": Rule(kind=Kind.CONNECTION, reason="the name did not resolve; nothing was sent"),
        "refused": Rule(kind=Kind.CONNECTION, reason="nobody listens there, or not yet; nothing was sent"),
        "reset": Rule(kind=Kind.CONNECTION, reason="the connection broke; the request may have been executed"),
        "connect": Rule(kind=Kind.CONNECTION, reason="no connection; nothing was sent"),
        "disconnected": Rule(
            kind=Kind.CONNECTION, reason="closed without an answer: often a stale kept-alive connection"
        ),
        "proxy": Rule(kind=Kind.CONNECTION, reason="the proxy in between failed"),
        "unknown": Rule(kind=Kind.CONNECTION, reason="the transport failed"),
        "tls": Rule(kind=Kind.CONNECTION, scope=Scope.LOCAL, retry_same=False, reason="TLS failed"),
        "certificate": Rule(kind=Kind.CONNECTION, scope=Scope.LOCAL, retry_same=False, reason=_LOCAL_FAULT),
        "connect_timeout": Rule(kind=Kind.TIMEOUT, reason="no connection in time; nothing was sent"),
        "read_timeout": Rule(kind=Kind.TIMEOUT, reason="no answer in time; the request may have been executed"),
        "write_timeout": Rule(kind=Kind.TIMEOUT, reason="the request could not be sent in time"),
        "timeout": Rule(kind=Kind.TIMEOUT, reason="too slow"),
        "pool": Rule(kind=Kind.TIMEOUT, scope=Scope.LOCAL, reason="our own pool was full: no strike for the provider"),
        "decoding": Rule(kind=Kind.MALFORMED_RESPONSE, reason="the answer could not be decoded"),
        "redirects": Rule(kind=Kind.CONFIGURATION, failover=True, reason="a wrong endpoint: the base URL leads round"),
        "local_protocol": Rule(kind=Kind.CONFIGURATION, reason=_LOCAL_FAULT),
        "unsupported_protocol": Rule(kind=Kind.CONFIGURATION, reason=_LOCAL_FAULT),
        "invalid_url": Rule(kind=Kind.CONFIGURATION, reason=_LOCAL_FAULT),
        "closed": Rule(kind=Kind.CONFIGURATION, reason="the HTTP client was closed"),
    }
)

BY_TRANSPORT: Final[Mapping[str, Rule]] = MappingProxyType(
    {cause: replace(rule, name=f"transport.{cause}") for cause, rule in _TRANSPORT.items()}
)

# Every exception class that the two SDKs export is in one of the next two tables. A class of Anthropic's that stands
# for one `error_code` is found by that code instead.

# Answers with a status: asked last, where neither the status nor the body is left to be read.
BY_STATUS_CLASS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "BadRequestError": Kind.INVALID_REQUEST,
        "AuthenticationError": Kind.AUTHENTICATION,
        "OAuthError": Kind.AUTHENTICATION,
        "WorkloadIdentityError": Kind.AUTHENTICATION,
        "PaymentRequiredError": Kind.QUOTA_EXHAUSTED,
        "PermissionDeniedError": Kind.PERMISSION,
        "NotFoundError": Kind.MODEL_NOT_FOUND,
        "RequestTimeoutError": Kind.TIMEOUT,
        "ConflictError": Kind.SERVER_ERROR,
        "PreconditionFailedError": Kind.INVALID_REQUEST,
        "ContentTooLargeError": Kind.REQUEST_TOO_LARGE,
        "RequestTooLargeError": Kind.REQUEST_TOO_LARGE,
        "RequestHeaderFieldsTooLargeError": Kind.INVALID_REQUEST,
        "UnprocessableEntityError": Kind.INVALID_REQUEST,
        "RateLimitError": Kind.RATE_LIMITED,
        "ClientClosedRequestError": Kind.TIMEOUT,
        "HTTPNotImplementedError": Kind.INVALID_REQUEST,
        "ServiceUnavailableError": Kind.OVERLOADED,
        "GatewayTimeoutError": Kind.TIMEOUT,
        "DeadlineExceededError": Kind.TIMEOUT,
        "OverloadedError": Kind.OVERLOADED,
        "InternalServerError": Kind.SERVER_ERROR,
        "RetryableError": Kind.SERVER_ERROR,
        "APIStatusError": Kind.SERVER_ERROR,
        "APIError": Kind.SERVER_ERROR,
    }
)

# Classes that say it all: asked first, where there is no answer to read.
BY_CLASS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        # no answer
        "APITimeoutError": Kind.TIMEOUT,
        "APIConnectionError": Kind.CONNECTION,
        "WebSocketConnectionClosedError": Kind.CONNECTION,
        "WebSocketQueueFullError": Kind.CONNECTION,
        # an answer that is none
        "APIResponseValidationError": Kind.MALFORMED_RESPONSE,
        "JSONDecodeError": Kind.MALFORMED_RESPONSE,
        "UnicodeDecodeError": Kind.MALFORMED_RESPONSE,
        "LengthFinishReasonError": Kind.OUTPUT_TRUNCATED,
        "ContentFilterFinishReasonError": Kind.CONTENT_POLICY,
        # credentials that cannot be had, or were not given
        "CredentialsError": Kind.CONFIGURATION,
        "IdentityTokenFileError": Kind.CONFIGURATION,
        "SubjectTokenProviderError": Kind.CONFIGURATION,
        # the clouds' own packages (botocore, google-auth, azure-identity): nobody is signed in here
        "NoCredentialsError": Kind.AUTHENTICATION,
        "PartialCredentialsError": Kind.AUTHENTICATION,
        "CredentialRetrievalError": Kind.AUTHENTICATION,
        "TokenRetrievalError": Kind.AUTHENTICATION,
        "NoAuthTokenError": Kind.AUTHENTICATION,
        "SSOError": Kind.AUTHENTICATION,
        "LoginError": Kind.AUTHENTICATION,
        "DefaultCredentialsError": Kind.AUTHENTICATION,
        "RefreshError": Kind.AUTHENTICATION,
        "ClientAuthenticationError": Kind.AUTHENTICATION,
        "ProfileNotFound": Kind.CONFIGURATION,
        "NoRegionError": Kind.CONFIGURATION,
        # not about a model call
        "InvalidWebhookSignatureError": Kind.INVALID_REQUEST,
        "APIWebhookValidationError": Kind.INVALID_REQUEST,
        "_AmbiguousModuleClientUsageError": Kind.CONFIGURATION,
        # roots: the client's own complaint at construction
        "OpenAIError": Kind.CONFIGURATION,
        "AnthropicError": Kind.CONFIGURATION,
    }
)
