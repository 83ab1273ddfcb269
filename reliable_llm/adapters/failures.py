"""The edge where vendors' failures become ours: exceptions and bodies in, `ReliableLLMError` out.

What is translated: exceptions of the vendors' SDKs, of `httpx2` and `aiohttp`, broken JSON and broken UTF-8, and the
operating system's network errors. What passes through as raised: `BaseException` and cancellation, and every other
error (`TypeError`, `ValueError`, a bug in a hook), because it is the caller's own; also where an SDK has wrapped it as
a connection error. No SDK is imported here: classes are known by their names and modules along the MRO.

The messages of our errors hold kind, status and code, never the vendor's text, which may quote a prompt.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reliable_llm.core.classify import Rule, classify
from reliable_llm.core.failure import Failure
from reliable_llm.core.unwrap import LONGEST_JSON, decode, mapping
from reliable_llm.errors import ReliableLLMError, StreamInterruptedError, Verdict, error_from_verdict

_VENDORS: Final = frozenset({"openai", "anthropic", "google", "botocore", "azure"})
_TRANSPORTS: Final = frozenset({"httpx2", "httpx", "httpcore2", "httpcore", "aiohttp", "anyio", "requests", "urllib3"})
_NOT_TRANSPORT: Final = frozenset({"StreamError", "CookieConflict", "RequestNotRead", "ResponseNotRead"})
_BUILT_IN: Final = (
    json.JSONDecodeError,
    UnicodeDecodeError,
    ConnectionError,
    TimeoutError,
    socket.gaierror,
    ssl.SSLError,
    asyncio.IncompleteReadError,
)
_DEEPEST: Final = 8

# The transport's cause by class name, for the names that say it all. `ConnectError` and the like are looked into.
_CAUSES: Final[Mapping[str, str]] = {
    "gaierror": "dns",
    "ClientConnectorDNSError": "dns",
    "SSLCertVerificationError": "certificate",
    "ClientConnectorCertificateError": "certificate",
    "SSLError": "tls",
    "ClientSSLError": "tls",
    "ConnectionRefusedError": "refused",
    "ConnectTimeout": "connect_timeout",
    "ConnectionTimeoutError": "connect_timeout",
    "PoolTimeout": "pool",
    "ConnectTimeoutError": "connect_timeout",
    "ReadTimeoutError": "read_timeout",
    "ReadTimeout": "read_timeout",
    "SocketTimeoutError": "read_timeout",
    "ServerTimeoutError": "read_timeout",
    "WriteTimeout": "write_timeout",
    "LocalProtocolError": "local_protocol",
    "UnsupportedProtocol": "unsupported_protocol",
    "InvalidURL": "invalid_url",
    "TooManyRedirects": "redirects",
    "DecodingError": "decoding",
    "ContentDecodingError": "decoding",
    "ContentTypeError": "decoding",
    "ParserError": "decoding",  # botocore: a frame of a stream is broken
    "ProxyError": "proxy",
    "RemoteProtocolError": "disconnected",
    "ServerDisconnectedError": "disconnected",
    "ProtocolError": "disconnected",
    "ReadError": "reset",
    "WriteError": "reset",
    "CloseError": "reset",
    "ClientPayloadError": "reset",
    "ConnectionResetError": "reset",
    "ConnectionAbortedError": "reset",
    "BrokenPipeError": "reset",
    "IncompleteReadError": "reset",
    "EndOfStream": "reset",
    "BrokenResourceError": "reset",
    "ClosedResourceError": "closed",
    "EndpointConnectionError": "connect",
    "ConnectError": "connect",
    "ClientConnectorError": "connect",
    "NetworkError": "reset",
    "ClientOSError": "reset",
    "TimeoutException": "timeout",
    "APITimeoutError": "timeout",
    "TimeoutError": "timeout",
    "Timeout": "timeout",
    "APIConnectionError": "unknown",
    "TransportError": "unknown",
    "RequestError": "unknown",
    "ConnectionError": "unknown",
    "ClientError": "unknown",
}
_VAGUE: Final = frozenset({"connect", "reset", "timeout", "unknown"})
_WORDS: Final = (
    ("certificate", ("certificate verify failed", "certificate_verify_failed", "certificate is not valid")),
    (
        "dns",
        ("name resolution", "getaddrinfo", "name or service not known", "nodename nor servname", "no address assoc"),
    ),
    ("tls", ("[ssl", "tlsv1", "ssl:")),
    ("refused", ("connection refused", "actively refused", "econnrefused", "errno 111]", "errno 61]")),
)
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-goog-request-id")


def error_from_exception(
    exc: Exception, *, vendor: str, sdk: str, rules: Sequence[Rule] = (), wall: float, output_started: bool = False
) -> ReliableLLMError:
    """Return the taxonomy's error for *exc*, with *exc* as its cause. An error of ours comes back as it is.

    *wall* is the time now in Unix seconds. Raises the caller's own error, as it was raised, where *exc* is none of the
    vendor's or the transport's.
    """
    if isinstance(exc, ReliableLLMError):
        return exc
    own = callers_own(exc)
    if own is not None:
        raise own
    failure = failure_from_exception(exc, vendor=vendor, sdk=sdk, output_started=output_started)
    error = _error(failure, rules, wall, _request_id(failure, getattr(exc, "request_id", None)))
    error.__cause__ = exc
    return error


def error_from_body(
    body: object,
    *,
    status: int | None,
    headers: Mapping[str, str],
    vendor: str,
    sdk: str,
    rules: Sequence[Rule] = (),
    wall: float,
    output_started: bool = False,
) -> ReliableLLMError:
    """Return the taxonomy's error for a *body* that came where an answer was due.

    A 200 with an error or a page inside, an error frame of a stream (*status* None), an answer that a filter ended.
    """
    failure = Failure(
        vendor=vendor, sdk=sdk, status=status, headers=_lower_case(headers), body=body, output_started=output_started
    )
    return _error(failure, rules, wall, _request_id(failure, mapping(body).get("request_id")))


def callers_own(exc: Exception) -> Exception | None:
    """Return the error that is the caller's and passes through: *exc*, or what an SDK wrapped as a connection error."""
    if not _is_foreign(exc):
        return exc
    wrapped = exc.__cause__
    if _names(exc)[0] == "APIConnectionError" and isinstance(wrapped, Exception) and not _is_foreign(wrapped):
        return wrapped
    return None


def failure_from_exception(exc: Exception, *, vendor: str, sdk: str, output_started: bool = False) -> Failure:
    """Return the facts that *exc* holds: status, headers, the whole body where the SDK kept a part, the cause."""
    status = _status(exc)
    return Failure(
        vendor=vendor,
        sdk=sdk,
        status=status,
        headers=_headers(exc),
        body=_body(exc, status),
        message=_message(exc),
        exceptions=_names(exc),
        transport=None if status is not None else _transport(exc),
        output_started=output_started,
    )


def _error(failure: Failure, rules: Sequence[Rule], wall: float, request_id: str | None) -> ReliableLLMError:
    verdict = classify(failure, rules=rules, wall=wall)
    error = error_from_verdict(verdict, _describe(verdict), request_id=request_id)
    if isinstance(error, StreamInterruptedError) and failure.output_started:
        error.cause_kind = classify(replace(failure, output_started=False), rules=rules, wall=wall).kind
    return error


def _describe(verdict: Verdict) -> str:
    details = [f"status {verdict.status}"] if verdict.status is not None else []
    details += [verdict.code] if verdict.code and verdict.code != str(verdict.status) else []
    details += [f"lacks {verdict.feature}"] if verdict.feature else []
    words = str(verdict.kind).replace("_", " ")
    return f"{words} ({', '.join(details)})" if details else words


def _is_foreign(exc: BaseException) -> bool:
    """Tell whether *exc* is a vendor's, the transport's or the network's."""
    if isinstance(exc, _BUILT_IN):
        return True
    if isinstance(exc, RuntimeError) and "client has been closed" in str(exc)[:200]:
        return True
    packages = {cls.__module__.partition(".")[0] for cls in type(exc).__mro__}
    if packages & _VENDORS:
        return True
    return bool(packages & _TRANSPORTS) and _NOT_TRANSPORT.isdisjoint(_names(exc))


def _names(exc: BaseException) -> tuple[str, ...]:
    return tuple(cls.__name__ for cls in type(exc).__mro__ if cls not in (BaseException, Exception, object))


def _status(exc: Exception) -> int | None:
    """Return the HTTP status. A frame inside a stream carries the stream's own 200 at Anthropic's: that is none."""
    response = getattr(exc, "response", None)
    botocore = mapping(mapping(response).get("ResponseMetadata")).get("HTTPStatusCode")
    places = (getattr(exc, name, None) for name in ("status_code", "code", "status", "http_status"))
    stated = (*places, getattr(response, "status_code", None), botocore)
    found = next((value for value in map(_as_status, stated) if value is not None), None)
    if found is not None and found < 300 and "APIResponseValidationError" not in _names(exc):
        return None
    return found


def _as_status(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599 else None


def _headers(exc: Exception) -> Mapping[str, str]:
    response = getattr(exc, "response", None)
    headers = getattr(response, "headers", None) or getattr(exc, "headers", None)
    if headers is None:
        headers = mapping(mapping(response).get("ResponseMetadata")).get("HTTPHeaders")
    return {str(name).lower(): str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {}


def _body(exc: Exception, status: int | None) -> object:
    """Return the whole body: openai keeps only `error` of it. A stream's response is never read here."""
    response = getattr(exc, "response", None)
    if status is not None and status >= 300:
        whole = _content(response)
        if whole is not None:
            return decode(whole)
    if isinstance(response, dict):
        return {"error": {"code": mapping(response.get("Error")).get("Code"), "message": str(exc)[:LONGEST_JSON]}}
    body = getattr(exc, "body", None)
    if body is not None:
        return body
    details = getattr(exc, "details", None)
    return details if isinstance(details, dict | list) else None


def _content(response: object) -> bytes | None:
    try:
        content = getattr(response, "content", None)
    except RuntimeError:  # ResponseNotRead: its body broke, or it is a stream
        return None
    return content[:LONGEST_JSON] if isinstance(content, bytes) and content else None


def _message(exc: Exception) -> str:
    message = getattr(exc, "message", None)
    return str(message if isinstance(message, str) else exc)[:LONGEST_JSON]


def _request_id(failure: Failure, stated: object) -> str | None:
    places = (stated, *(failure.headers.get(name) for name in _REQUEST_IDS))
    return next((value[:128] for value in places if isinstance(value, str) and value), None)


def _transport(exc: Exception) -> str | None:
    """Return the cause of a transport failure: the first telling class along the chain of causes, then its words."""
    chain = list(_chain(exc))
    causes = [cause for link in chain for cause in _cause(link)]
    if not causes:
        return None
    told = next((cause for cause in causes if cause not in _VAGUE), None)
    return told or _spoken(chain) or next((cause for cause in causes if cause != "unknown"), "unknown")


def _chain(exc: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = exc
    for _ in range(_DEEPEST):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _cause(link: BaseException) -> Iterator[str]:
    """Yield the cause that the most specific known class of *link* stands for."""
    if isinstance(link, RuntimeError) and "client has been closed" in str(link)[:200]:
        yield "closed"
        return
    # Broken JSON has its own kind, whatever it was caused by.
    found = next((_CAUSES[name] for name in _names(link) if name in _CAUSES), None)
    if found is not None:
        yield found


def _spoken(chain: Sequence[BaseException]) -> str | None:
    said = " ".join(str(link)[:500] for link in chain).lower()
    return next((cause for cause, words in _WORDS if any(word in said for word in words)), None)


def _lower_case(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}
