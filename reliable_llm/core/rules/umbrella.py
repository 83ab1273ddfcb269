"""Umbrella types, which vendors put on several things (a spent budget is a `rate_limit_error` at Anthropic).

They are asked after the phrases, and only under a status that they fit.
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule, words
from reliable_llm.errors import Kind

WEAK: Final = (
    Rule(
        kind=Kind.AUTHENTICATION,
        name="type.authentication",
        codes=words(
            """
            authentication_error unauthenticated unauthorized authenticationerror invalid_grant
            """
        ),
        statuses=(400, 401, 403, NO_STATUS),
        reason="the type of a refused key",
    ),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="type.authentication_by_code",
        codes=("401",),
        statuses=(401, NO_STATUS),
        reason="the status is inside the body",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="type.permission",
        codes=words(
            """
            permission_error permission_denied permissiondenied permission_denied_error accessdeniedexception
            access_denied accessdenied forbidden authorizationerror not_authorized
            """
        ),
        statuses=(400, 401, 403, 404, NO_STATUS),
        reason="the type of a right that the key has not got",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="type.rate_limit",
        codes=words(
            """
            rate_limit_error rate_limit_exceeded rate_limit_reached rate_limit_reached_error ratelimiterror
            ratelimitreached ratelimitexceeded too_many_requests toomanyrequests too_many_requests_error throttling
            throttling_error throttlingexception toomanyrequestsexception resource_exhausted request_limit_exceeded
            model_rate_limit requests tokens
            """
        ),
        statuses=(429, 503, NO_STATUS),
        reason="the type of an allowance per minute",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="type.rate_limit_as_400",
        codes=("throttlingexception", "servicequotaexceededexception", "rate_limit_exceeded", "rate_limit_error"),
        statuses=(400, 403),
        reason="Bedrock and relays: a limit under a status that says something else",
    ),
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="type.not_found",
        codes=("not_found_error", "notfounderror", "not_found", "resourcenotfoundexception"),
        statuses=(NO_STATUS,),
        reason="the type of a model that is not there",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="type.unavailable",
        codes=("unavailable", "service_unavailable", "serviceunavailable", "temporarily_unavailable"),
        statuses=(NO_STATUS, 503, 529, 500, 429),
        reason="the type of a vendor out of capacity",
    ),
    Rule(
        kind=Kind.SERVER_ERROR,
        name="type.server_error",
        codes=words(
            """
            server_error api_error internal_error internal_server_error internalservererror internalserverexception
            internalserviceerror internalfailure internal upstream_error bad_gateway provider_unavailable server
            modelerrorexception model_error unknown_error unknown
            """
        ),
        statuses=(NO_STATUS, 500, 502, 503),
        reason="the vendor failed",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="type.invalid_request",
        codes=words(
            """
            invalid_request_error invalid_argument validationexception bad_request badrequesterror invalid_request
            """
        ),
        statuses=(NO_STATUS, 400, 422),
        reason="the type of a request that no candidate takes",
    ),
)
