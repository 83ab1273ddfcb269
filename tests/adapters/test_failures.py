"""The edge: what each failure of the real SDKs becomes, and what passes through as it was raised."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Literal

import anthropic
import httpx2
import openai
import pytest

from reliable_llm.adapters.failures import error_from_body, error_from_exception, failure_from_exception
from reliable_llm.core.classify import Rule
from reliable_llm.errors import (
    ConfigurationError,
    ConnectionFailedError,
    Kind,
    MalformedResponseError,
    RateLimitedError,
    ReliableLLMError,
    Scope,
    ServerError,
    StreamInterruptedError,
)

Sdk = Literal["openai", "anthropic"]
BOTH: tuple[Sdk, ...] = ("openai", "anthropic")
Handler = Callable[[httpx2.Request], httpx2.Response]


async def call(sdk: Sdk, handler: Handler, *, base_url: str = "http://vendor.test", stream: bool = False) -> object:
    """Make one real call of the vendor's SDK against *handler*."""
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler)) as http:
        body: dict[str, object] = {"model": "m", "messages": [], "stream": stream}
        if sdk == "openai":
            client = openai.AsyncOpenAI(api_key="k", base_url=base_url, http_client=http, max_retries=0)
            if not stream:
                return await client.post("/chat/completions", body=body, cast_to=object)
            events = await client.post(
                "/chat/completions", body=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
            )
            return [event async for event in events]
        claude = anthropic.AsyncAnthropic(api_key="k", base_url=base_url, http_client=http, max_retries=0)
        if not stream:
            return await claude.post("/v1/messages", body=body, cast_to=object)
        frames = await claude.post(
            "/v1/messages", body=body, cast_to=object, stream=True, stream_cls=anthropic.AsyncStream[object]
        )
        return [event async for event in frames]


async def raised(
    sdk: Sdk, handler: Handler, *, stream: bool = False, base_url: str = "http://vendor.test"
) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the vendor's class is what the test is about
        await call(sdk, handler, stream=stream, base_url=base_url)
    assert isinstance(caught.value, Exception)
    return caught.value


def answering(status: int, body: object, headers: dict[str, str] | None = None) -> Handler:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, str) else "application/json"
    return lambda _request: httpx2.Response(status, headers={"content-type": kind, **(headers or {})}, content=content)


def raising(exc: BaseException) -> Handler:
    def handle(_request: httpx2.Request) -> httpx2.Response:
        raise exc

    return handle


def translate(exc: Exception, sdk: Sdk = "openai", *, output_started: bool = False) -> ReliableLLMError:
    return error_from_exception(exc, vendor=sdk, sdk=sdk, wall=0.0, output_started=output_started)


# ---------------------------------------------------------------- answers with a status


@pytest.mark.parametrize("sdk", BOTH)
async def test_an_error_status_becomes_our_error_with_the_vendors_as_its_cause(sdk: Sdk) -> None:
    exc = await raised(sdk, answering(429, {"error": {"message": "slow"}}, {"retry-after": "3"}))
    error = translate(exc, sdk)
    assert isinstance(error, RateLimitedError)
    assert (error.__cause__, error.status, error.retry_after) == (exc, 429, 3)


@pytest.mark.parametrize("sdk", BOTH)
async def test_the_whole_body_is_read_though_openai_keeps_only_a_part(sdk: Sdk) -> None:
    body = {"error": None, "code": "INSUFFICIENT_BALANCE", "message": "no money"}
    error = translate(await raised(sdk, answering(403, body)), sdk)
    assert error.kind is Kind.QUOTA_EXHAUSTED


@pytest.mark.parametrize("sdk", BOTH)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ([{"error": {"code": 503, "message": "The model is overloaded."}}], Kind.OVERLOADED),
        ({"error": "server busy, please try again"}, Kind.OVERLOADED),
        ("<html>502</html>", Kind.OVERLOADED),
        ("", Kind.OVERLOADED),
        ("null", Kind.OVERLOADED),
    ],
)
async def test_every_shape_of_error_body_is_read(sdk: Sdk, body: object, kind: Kind) -> None:
    assert translate(await raised(sdk, answering(503, body)), sdk).kind is kind


@pytest.mark.parametrize("sdk", BOTH)
async def test_the_message_is_ours_and_quotes_neither_the_vendor_nor_the_prompt(sdk: Sdk) -> None:
    exc = await raised(sdk, answering(400, {"error": {"message": "rejected: my secret", "code": "content_filter"}}))
    assert str(translate(exc, sdk)) == "content policy (status 400, content_filter)"


async def test_what_a_model_lacks_is_in_the_message() -> None:
    exc = await raised("openai", answering(400, {"error": {"message": "model does not support image input"}}))
    assert str(translate(exc)) == "unsupported (status 400, lacks vision)"


@pytest.mark.parametrize(("sdk", "header"), [("openai", "x-request-id"), ("anthropic", "request-id")])
async def test_the_request_id_is_kept(sdk: Sdk, header: str) -> None:
    exc = await raised(sdk, answering(500, {}, {header: "req-1"}))
    assert translate(exc, sdk).request_id == "req-1"


@pytest.mark.parametrize("sdk", BOTH)
async def test_our_error_pickles_and_copies_though_the_vendors_does_not(sdk: Sdk) -> None:
    error = translate(await raised(sdk, answering(429, {}, {"retry-after": "3"})), sdk)
    for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (twin.kind, twin.verdict, twin.request_id) == (error.kind, error.verdict, error.request_id)


async def test_a_users_rule_is_tried_first() -> None:
    exc = await raised("openai", answering(429, {"error": {"message": "team budget"}}))
    rule = Rule(kind=Kind.QUOTA_EXHAUSTED, pattern="^team budget")
    error = error_from_exception(exc, vendor="acme", sdk="openai", rules=[rule], wall=0.0)
    assert error.kind is Kind.QUOTA_EXHAUSTED


# ---------------------------------------------------------------- answers that are none


@pytest.mark.parametrize("sdk", BOTH)
async def test_broken_json_is_malformed(sdk: Sdk) -> None:
    exc = await raised(sdk, answering(200, "{", {"content-type": "application/json"}))
    assert isinstance(translate(exc, sdk), MalformedResponseError)


async def test_broken_utf8_is_malformed() -> None:
    exc = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    assert isinstance(translate(exc), MalformedResponseError)


def test_an_error_inside_a_200_is_told_by_its_own_code() -> None:
    body = {"error": {"message": "upstream overloaded", "code": 502}}
    error = error_from_body(body, status=200, headers={}, vendor="openrouter", sdk="openai", wall=0.0)
    assert isinstance(error, ServerError)


def test_a_bodys_request_id_and_headers_are_read_whatever_their_case() -> None:
    error = error_from_body(
        {"request_id": "req-9", "type": "error", "error": {"type": "rate_limit_error"}},
        status=429,
        headers={"Retry-After": "4"},
        vendor="anthropic",
        sdk="anthropic",
        wall=0.0,
    )
    assert (error.request_id, error.retry_after, error.__cause__) == ("req-9", 4, None)


# ---------------------------------------------------------------- streams


class Cut(httpx2.AsyncByteStream):
    """A stream that sends one chunk and then breaks."""

    def __init__(self, first: bytes, exc: Exception) -> None:
        self.first, self.exc = first, exc

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.first
        raise self.exc


def streaming(content: bytes | Cut) -> Handler:
    headers = {"content-type": "text/event-stream"}
    if isinstance(content, bytes):
        return lambda _request: httpx2.Response(200, headers=headers, content=content)
    return lambda _request: httpx2.Response(200, headers=headers, stream=content)


CHUNK = b'event: x\ndata: {"choices": []}\n\n'


@pytest.mark.parametrize("sdk", BOTH)
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (httpx2.RemoteProtocolError("peer closed connection"), Kind.CONNECTION),
        (httpx2.ReadError("reset"), Kind.CONNECTION),
        (httpx2.ReadTimeout("slow"), Kind.TIMEOUT),
    ],
)
async def test_a_stream_cut_before_output_is_told_by_its_cause(sdk: Sdk, cause: Exception, kind: Kind) -> None:
    exc = await raised(sdk, streaming(Cut(CHUNK, cause)), stream=True)
    assert translate(exc, sdk).kind is kind


@pytest.mark.parametrize("sdk", BOTH)
async def test_a_stream_cut_after_output_is_an_interruption_that_knows_its_cause(sdk: Sdk) -> None:
    exc = await raised(sdk, streaming(Cut(CHUNK, httpx2.ReadTimeout("slow"))), stream=True)
    error = translate(exc, sdk, output_started=True)
    assert isinstance(error, StreamInterruptedError)
    assert error.cause_kind is Kind.TIMEOUT


@pytest.mark.parametrize(
    ("sdk", "frame"),
    [
        ("openai", b'data: {"error": {"type": "server_error", "code": "server_is_overloaded"}}\n\n'),
        ("anthropic", b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'),
    ],
)
async def test_an_error_frame_is_told_by_its_type_and_has_no_status(sdk: Sdk, frame: bytes) -> None:
    error = translate(await raised(sdk, streaming(frame), stream=True), sdk)
    assert (error.kind, error.status) == (Kind.OVERLOADED, None)


@pytest.mark.parametrize("sdk", BOTH)
async def test_an_undecodable_frame_is_malformed(sdk: Sdk) -> None:
    exc = await raised(sdk, streaming(b"event: message_start\ndata: {broken\n\n"), stream=True)
    assert translate(exc, sdk).kind is Kind.MALFORMED_RESPONSE


# ---------------------------------------------------------------- the transport


def caused(exc: Exception, by: BaseException) -> Exception:
    exc.__cause__ = by
    return exc


@pytest.mark.parametrize("sdk", BOTH)
@pytest.mark.parametrize(
    ("cause", "rule"),
    [
        (httpx2.ConnectError("[Errno -3] Temporary failure in name resolution"), "transport.dns"),
        (caused(httpx2.ConnectError(""), socket.gaierror(-2, "unknown")), "transport.dns"),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), "transport.certificate"),
        (caused(httpx2.ConnectError(""), ssl.SSLCertVerificationError("bad")), "transport.certificate"),
        (httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER]"), "transport.tls"),
        (
            caused(httpx2.ConnectError("All connection attempts failed"), ConnectionRefusedError(111)),
            "transport.refused",
        ),
        (httpx2.ConnectError("[Errno 111] Connection refused"), "transport.refused"),
        (httpx2.ConnectError("All connection attempts failed"), "transport.connect"),
        (httpx2.ConnectTimeout(""), "transport.connect_timeout"),
        (httpx2.ReadTimeout(""), "transport.read_timeout"),
        (httpx2.WriteTimeout(""), "transport.write_timeout"),
        (httpx2.PoolTimeout(""), "transport.pool"),
        (httpx2.ReadError(""), "transport.reset"),
        (httpx2.RemoteProtocolError("Server disconnected without sending a response."), "transport.disconnected"),
        (httpx2.DecodingError("bad gzip"), "transport.decoding"),
        (httpx2.TooManyRedirects("loop"), "transport.redirects"),
        (httpx2.LocalProtocolError("Illegal header value"), "transport.local_protocol"),
        (httpx2.ProxyError("502"), "transport.proxy"),
    ],
)
async def test_a_transport_failure_is_told_by_the_chain_of_its_causes(sdk: Sdk, cause: Exception, rule: str) -> None:
    error = translate(await raised(sdk, raising(cause)), sdk)
    assert (error.verdict.rule, error.status) == (rule, None)


@pytest.mark.parametrize("sdk", BOTH)
async def test_a_wrong_scheme_is_a_matter_of_configuration(sdk: Sdk) -> None:
    async with httpx2.AsyncClient() as http:
        client = openai.AsyncOpenAI(api_key="k", base_url="ftp://x", http_client=http, max_retries=0)
        claude = anthropic.AsyncAnthropic(api_key="k", base_url="ftp://x", http_client=http, max_retries=0)
        with pytest.raises((openai.APIConnectionError, anthropic.APIConnectionError)) as caught:
            await (client if sdk == "openai" else claude).post("/x", body={}, cast_to=object)
    assert isinstance(translate(caught.value, sdk), ConfigurationError)


@pytest.mark.parametrize("sdk", BOTH)
async def test_a_closed_http_client_is_a_matter_of_configuration(sdk: Sdk) -> None:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answering(200, {})))
    await http.aclose()
    client = openai.AsyncOpenAI(api_key="k", base_url="http://x", http_client=http, max_retries=0)
    claude = anthropic.AsyncAnthropic(api_key="k", base_url="http://x", http_client=http, max_retries=0)
    with pytest.raises((RuntimeError, anthropic.APIConnectionError)) as caught:
        await (client if sdk == "openai" else claude).post("/x", body={}, cast_to=object)
    assert isinstance(translate(caught.value, sdk), ConfigurationError)


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (ConnectionResetError(104, "reset"), Kind.CONNECTION),
        (ConnectionRefusedError(111, "refused"), Kind.CONNECTION),
        (socket.gaierror(-2, "unknown"), Kind.CONNECTION),
        (ssl.SSLError("handshake"), Kind.CONNECTION),
        (TimeoutError("slow"), Kind.TIMEOUT),
        (asyncio.IncompleteReadError(b"", 5), Kind.CONNECTION),
        (httpx2.InvalidURL("bad"), Kind.CONFIGURATION),
        (httpx2.ReadError("raw"), Kind.CONNECTION),
    ],
)
def test_what_leaks_past_the_sdk_is_translated_too(exc: Exception, kind: Kind) -> None:
    assert translate(exc).kind is kind


def test_a_full_pool_blames_nobody() -> None:
    assert translate(httpx2.PoolTimeout("full")).scope is Scope.LOCAL


async def test_aiohttps_errors_are_translated_by_name() -> None:
    aiohttp = pytest.importorskip("aiohttp")
    error = translate(aiohttp.ServerDisconnectedError())
    assert isinstance(error, ConnectionFailedError)


def test_an_endless_chain_of_causes_ends() -> None:
    exc = httpx2.ConnectError("loop")
    exc.__context__ = httpx2.ConnectError("loop")
    exc.__context__.__context__ = exc
    assert translate(exc).kind is Kind.CONNECTION


# ---------------------------------------------------------------- what passes through


@pytest.mark.parametrize(
    "exc", [TypeError("missing"), ValueError("NaN"), KeyError("x"), RuntimeError("bug"), OSError(2)]
)
def test_the_callers_own_error_passes_through_as_raised(exc: Exception) -> None:
    with pytest.raises(type(exc)) as caught:
        translate(exc)
    assert caught.value is exc


@pytest.mark.parametrize("sdk", BOTH)
async def test_a_bug_in_a_transport_or_hook_passes_through_though_anthropic_wraps_it(sdk: Sdk) -> None:
    bug = LookupError("in a hook")
    exc = await raised(sdk, raising(bug))
    with pytest.raises(LookupError) as caught:
        translate(exc, sdk)
    assert caught.value is bug


def test_an_error_of_ours_comes_back_as_it_is() -> None:
    own = ServerError("x")
    assert translate(own) is own


def test_an_error_about_a_body_that_was_not_read_is_the_callers() -> None:
    with pytest.raises(httpx2.ResponseNotRead):
        translate(httpx2.ResponseNotRead())


# ---------------------------------------------------------------- other libraries


class _ForeignError(Exception):
    __module__ = "google.genai.errors"


def test_a_google_error_is_read_by_its_attributes() -> None:
    exc = _ForeignError("429 RESOURCE_EXHAUSTED")
    exc.code, exc.status = 429, "RESOURCE_EXHAUSTED"  # type: ignore[attr-defined]
    exc.details = {"error": {"code": 429, "details": [{"retryDelay": "7s"}]}}  # type: ignore[attr-defined]
    error = error_from_exception(exc, vendor="gemini", sdk="gemini", wall=0.0)
    assert (error.kind, error.status, error.retry_after) == (Kind.RATE_LIMITED, 429, 7)


class _BotoError(Exception):
    __module__ = "botocore.exceptions"


def test_a_botocore_error_is_read_by_its_response() -> None:
    exc = _BotoError("An error occurred (ThrottlingException)")
    exc.response = {  # type: ignore[attr-defined]
        "Error": {"Code": "ThrottlingException"},
        "ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"Retry-After": "2"}},
    }
    error = error_from_exception(exc, vendor="bedrock", sdk="anthropic", wall=0.0)
    assert (error.kind, error.status, error.retry_after) == (Kind.RATE_LIMITED, 429, 2)


class _Unread:
    status_code = 503

    @property
    def content(self) -> bytes:
        raise RuntimeError("not read")


def test_an_answer_whose_body_was_never_read_is_told_by_its_status() -> None:
    exc = _ForeignError("x")
    exc.response = _Unread()  # type: ignore[attr-defined]
    failure = failure_from_exception(exc, vendor="x", sdk="openai")
    assert (failure.status, failure.body) == (503, None)


def test_the_edge_imports_no_vendor() -> None:
    code = "import sys, reliable_llm.adapters.failures; print({'openai', 'anthropic', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "set()"
