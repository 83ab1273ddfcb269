"""Providers on clients that the user built: who is asked how, what failures mean, and what is never shown."""

from __future__ import annotations

import base64
import binascii
import json
import pickle
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from reliable_llm import ConfigurationError, FailoverChat, Kind, Provider, ReliableLLMError, RetryPolicy
from reliable_llm.adapters.base import Prepared, Target
from reliable_llm.clients import bedrock, vertex
from reliable_llm.clock import SystemClock
from reliable_llm.errors import AuthenticationError, MalformedResponseError
from reliable_llm.policy import Timeouts
from reliable_llm.types import (
    AdapterReply,
    Candidate,
    ChatRequest,
    Finished,
    Message,
    Part,
    StreamEvent,
    Text,
    TextDelta,
)

AWS_KEY, AWS_SECRET, TOKEN = "AKIAFAKEFAKEFAKE", "aws-very-secret-0123456789", "ya29.very-secret-0123456789"
MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
CANDIDATE = Candidate("cloud", "claude")
ONCE = RetryPolicy(max_retries=0)

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Rhine"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**ANSWER, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Rhine"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


class Wire:
    """A transport that keeps the requests and gives one answer to all of them."""

    def __init__(self, answer: httpx2.Response | Exception | None = None) -> None:
        self.requests: list[httpx2.Request] = []
        self._answer = answer or httpx2.Response(200, json=ANSWER)
        self.http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._take))

    def _take(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    @property
    def url(self) -> str:
        return str(self.requests[-1].url)

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.requests[-1].content))


def on_bedrock(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropicBedrock:
    return anthropic.AsyncAnthropicBedrock(
        aws_region="us-east-1", aws_access_key=AWS_KEY, aws_secret_key=AWS_SECRET, http_client=http
    )


def on_vertex(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropicVertex:
    return anthropic.AsyncAnthropicVertex(region="us-east5", project_id="acme", access_token=TOKEN, http_client=http)


def on_mantle(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropicBedrockMantle:
    return anthropic.AsyncAnthropicBedrockMantle(
        aws_region="us-east-1", aws_access_key=AWS_KEY, aws_secret_key=AWS_SECRET, http_client=http
    )


def on_foundry(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropicFoundry:
    return anthropic.AsyncAnthropicFoundry(resource="acme", api_key=TOKEN, http_client=http)


CLOUDS: list[tuple[Callable[[httpx2.AsyncClient], Any], str, str, str]] = [
    (
        on_bedrock,
        "bedrock",
        f"https://bedrock-runtime.us-east-1.amazonaws.com/model/{MODEL}/invoke",
        f"https://bedrock-runtime.us-east-1.amazonaws.com/model/{MODEL}/invoke-with-response-stream",
    ),
    (
        on_vertex,
        "vertex",
        f"https://us-east5-aiplatform.googleapis.com/v1/projects/acme/locations/us-east5/publishers/anthropic/models/{MODEL}:rawPredict",
        f"https://us-east5-aiplatform.googleapis.com/v1/projects/acme/locations/us-east5/publishers/anthropic/models/{MODEL}:streamRawPredict",
    ),
    (on_mantle, "bedrock", *["https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages"] * 2),
    (on_foundry, "azure", *["https://acme.services.ai.azure.com/anthropic/v1/messages"] * 2),
]


def provider_of(*clients: Any, **more: Any) -> Provider:
    return Provider.anthropic(name="cloud", models={"claude": MODEL}, clients=clients, **more)


def prepared(provider: Provider, *, stream: bool = False, **extra: Any) -> tuple[Any, Prepared]:
    adapter = provider.adapter(SystemClock())
    request = ChatRequest(messages=(Message("user", "Name a river."),), **extra)
    target = Target(candidate=CANDIDATE, model_id=provider.models["claude"])
    return adapter, adapter.prepare(request, target, stream=stream)


async def answer_of(provider: Provider, **extra: Any) -> AdapterReply:
    adapter, request = prepared(provider, **extra)
    reply: AdapterReply = await adapter.complete(request, provider.keys[0], Timeouts())
    return reply


async def events_of(provider: Provider) -> list[StreamEvent]:
    adapter, request = prepared(provider, stream=True)
    async with adapter.stream(request, provider.keys[0], Timeouts()) as stream:
        return [event async for event in stream]


async def failure_of(provider: Provider) -> ReliableLLMError:
    with pytest.raises(ReliableLLMError) as caught:
        await answer_of(provider)
    return caught.value


def text_of(pieces: Iterable[StreamEvent | Part]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextDelta | Text))


# ---------------------------------------------------------------- frames of Amazon's event streams


def frame(headers: dict[str, str], payload: object) -> bytes:
    """Return one message of an event stream: lengths, checksum, headers, payload, checksum."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + head + body
    return message + struct.pack(">I", binascii.crc32(message))


def framed(event: dict[str, Any]) -> bytes:
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, {"bytes": base64.b64encode(json.dumps(event).encode()).decode()})


def exception(name: str, message: str) -> bytes:
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, {"message": message})


def event_stream(*pieces: bytes) -> httpx2.Response:
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    return httpx2.Response(200, headers=headers, content=b"".join(pieces))


def sse(events: Iterable[dict[str, Any]]) -> httpx2.Response:
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)


# ---------------------------------------------------------------- the request


@pytest.mark.parametrize(("build", "vendor", "url", "_"), CLOUDS)
async def test_the_client_makes_the_address(build: Any, vendor: str, url: str, _: str) -> None:
    wire = Wire()
    provider = provider_of(build(wire.http))

    reply = await answer_of(provider)

    assert (text_of(reply.parts), provider.vendor, wire.url) == ("Rhine", vendor, url)


@pytest.mark.parametrize(("build", "vendor", "_", "url"), CLOUDS)
async def test_a_stream_goes_to_the_address_for_streams(build: Any, vendor: str, _: str, url: str) -> None:
    wire = Wire(event_stream(*map(framed, EVENTS)) if build is on_bedrock else sse(EVENTS))

    events = await events_of(provider_of(build(wire.http)))

    assert (text_of(events), wire.url) == ("Rhine", url)
    assert isinstance(events[-1], Finished)


async def test_bedrock_gets_the_model_in_the_address_alone_and_a_signature() -> None:
    wire = Wire()

    await answer_of(provider_of(on_bedrock(wire.http)))

    assert "model" not in wire.body
    assert wire.body["messages"] == [{"role": "user", "content": "Name a river."}]
    assert wire.requests[0].headers["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={AWS_KEY}/")


async def test_the_versions_are_in_the_body_where_the_cloud_reads_them_there() -> None:
    wire = Wire()
    extra = {"anthropic": {"anthropic_version": "2023-06-01", "anthropic_beta": ["context-1m"]}}

    await answer_of(provider_of(on_bedrock(wire.http)), temperature=0.5, extra=extra)

    assert (wire.body["anthropic_version"], wire.body["anthropic_beta"]) == ("2023-06-01", ["context-1m"])
    assert wire.body["temperature"] == 0.5


async def test_a_request_prepared_once_can_be_sent_again() -> None:
    wire = Wire()
    provider = provider_of(on_bedrock(wire.http))
    adapter, request = prepared(provider)

    for _ in range(2):
        await adapter.complete(request, provider.keys[0], Timeouts())

    assert wire.requests[0].content == wire.requests[1].content
    assert wire.requests[0].url == wire.requests[1].url


async def test_the_client_does_not_retry_by_itself() -> None:
    wire = Wire(httpx2.Response(503, json={"message": "no"}))

    await failure_of(provider_of(on_bedrock(wire.http)))

    assert len(wire.requests) == 1


async def test_azures_own_client_puts_the_deployment_into_the_address() -> None:
    body = {"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Rhine"}}]}
    wire = Wire(httpx2.Response(200, json=body))
    client = openai.AsyncAzureOpenAI(
        azure_endpoint="https://acme.openai.azure.com", api_version="2025-04-01", api_key=TOKEN, http_client=wire.http
    )
    provider = Provider.openai(name="cloud", models={"claude": "my-deployment"}, clients=[client])

    reply = await answer_of(provider)

    assert (text_of(reply.parts), provider.vendor) == ("Rhine", "azure")
    assert wire.url == (
        "https://acme.openai.azure.com/openai/deployments/my-deployment/chat/completions?api-version=2025-04-01"
    )
    assert wire.requests[0].headers["api-key"] == TOKEN


async def test_azures_own_client_streams() -> None:
    chunk = {"id": "c", "choices": [{"index": 0, "finish_reason": None, "delta": {"content": "Rhine"}}]}
    last = {"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]}
    text = "".join(f"data: {json.dumps(each)}\n\n" for each in (chunk, last)) + "data: [DONE]\n\n"
    wire = Wire(httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text))
    client = openai.AsyncAzureOpenAI(
        azure_endpoint="https://acme.openai.azure.com", api_version="2025-04-01", api_key=TOKEN, http_client=wire.http
    )

    events = await events_of(Provider.openai(name="cloud", models={"claude": "d"}, clients=[client]))

    assert text_of(events) == "Rhine"


async def test_each_key_is_one_client() -> None:
    east, west = Wire(), Wire()
    provider = provider_of(on_bedrock(east.http), on_vertex(west.http), vendor="bedrock")
    adapter, request = prepared(provider)

    await adapter.complete(request, provider.keys[1], Timeouts())

    assert [key.label for key in provider.keys] == ["cloud#1", "cloud#2"]
    assert (len(east.requests), len(west.requests)) == (0, 1)


# ---------------------------------------------------------------- what failures mean


@pytest.mark.parametrize(
    ("build", "status", "error_type", "body", "kind"),
    [
        (on_bedrock, 429, "ThrottlingException", {"message": "Too many tokens, please wait."}, Kind.RATE_LIMITED),
        (on_bedrock, 429, "ThrottlingException", {"message": "Too many tokens per day."}, Kind.QUOTA_EXHAUSTED),
        (
            on_bedrock,
            403,
            "AccessDeniedException:http://internal.amazon.com/coral/com.amazon.coral.service/",
            {"message": "You don't have access to the model with the specified model ID."},
            Kind.PERMISSION,
        ),
        (
            on_bedrock,
            403,
            "UnrecognizedClientException",
            {"message": "The security token included in the request is invalid."},
            Kind.AUTHENTICATION,
        ),
        (on_bedrock, 503, "ServiceUnavailableException", {"message": "Bedrock is unable."}, Kind.OVERLOADED),
        (
            on_vertex,
            429,
            None,
            {
                "error": {
                    "code": 429,
                    "status": "RESOURCE_EXHAUSTED",
                    "message": "Resource exhausted. Please try again later.",
                }
            },
            Kind.OVERLOADED,
        ),
        (
            on_vertex,
            403,
            None,
            {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Permission 'x' denied on resource."}},
            Kind.PERMISSION,
        ),
    ],
)
async def test_a_clouds_refusal_is_read_as_what_it_is(
    build: Any, status: int, error_type: str | None, body: object, kind: Kind
) -> None:
    headers = {"x-amzn-errortype": error_type} if error_type else {}
    wire = Wire(httpx2.Response(status, headers=headers, json=body))

    assert (await failure_of(provider_of(build(wire.http)))).kind is kind


async def test_an_exception_frame_before_the_first_output_is_the_attempts_failure() -> None:
    wire = Wire(event_stream(framed(EVENTS[0]), exception("throttlingException", "Too many requests")))

    with pytest.raises(ReliableLLMError) as caught:
        await events_of(provider_of(on_bedrock(wire.http)))

    assert caught.value.kind is Kind.RATE_LIMITED


async def test_a_stream_of_frames_that_ends_early_is_interrupted() -> None:
    wire = Wire(event_stream(*map(framed, EVENTS[:3])))

    with pytest.raises(ReliableLLMError) as caught:
        await events_of(provider_of(on_bedrock(wire.http)))

    assert caught.value.kind is Kind.STREAM_INTERRUPTED
    assert caught.value.partial_text == "Rhine"  # type: ignore[attr-defined]


def in_pieces(raw: bytes, size: int) -> httpx2.Response:
    async def body() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), size):
            yield raw[start : start + size]

    return httpx2.Response(200, headers={"content-type": "application/vnd.amazon.eventstream"}, content=body())


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_frames_may_be_cut_anywhere_on_the_way(size: int) -> None:
    wire = Wire(in_pieces(b"".join(map(framed, EVENTS)), size))

    assert text_of(await events_of(provider_of(on_bedrock(wire.http)))) == "Rhine"


async def test_leaving_a_stream_of_frames_early_closes_its_response() -> None:
    response = in_pieces(b"".join(map(framed, EVENTS)), 7)
    provider = provider_of(on_bedrock(Wire(response).http))
    adapter, request = prepared(provider, stream=True)

    async with adapter.stream(request, provider.keys[0], Timeouts()) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break

    assert response.is_closed


async def test_a_document_where_a_stream_of_frames_should_be_is_read_as_what_it_is() -> None:
    wire = Wire(httpx2.Response(200, json={"message": "Too many requests", "__type": "ThrottlingException"}))

    with pytest.raises(ReliableLLMError):
        await events_of(provider_of(on_bedrock(wire.http)))


async def test_a_broken_frame_is_a_malformed_response() -> None:
    with pytest.raises(MalformedResponseError):
        await events_of(provider_of(on_bedrock(Wire(event_stream(b"x" * 200)).http)))


async def test_a_frame_that_is_no_event_is_a_malformed_response() -> None:
    wire = Wire(event_stream(framed({**EVENTS[2], "delta": "no object"})))

    with pytest.raises(ReliableLLMError):
        await events_of(provider_of(on_bedrock(wire.http)))


async def test_a_connection_that_fails_is_a_connection_that_fails() -> None:
    wire = Wire(httpx2.ConnectError("refused"))

    assert (await failure_of(provider_of(on_vertex(wire.http)))).kind is Kind.CONNECTION


async def test_nobody_signed_in_is_an_authentication_failure_of_that_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    wire = Wire()

    failure = await failure_of(provider_of(bedrock("eu-west-3"), http_client=wire.http))

    assert isinstance(failure, AuthenticationError)
    assert wire.requests == []


async def test_a_missing_project_is_told_as_a_missing_sign_in() -> None:
    wire = Wire()
    client = anthropic.AsyncAnthropicVertex(region="global", access_token=TOKEN, http_client=wire.http)
    client.project_id = None

    assert isinstance(await failure_of(provider_of(client)), AuthenticationError)


# ---------------------------------------------------------------- failover, and what is never shown


async def test_a_call_moves_on_from_bedrock_to_openai_and_shows_no_secret() -> None:
    wire = Wire(httpx2.Response(429, headers={"x-amzn-errortype": "ThrottlingException"}, json={"message": AWS_SECRET}))
    body = {"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Elbe"}}]}
    other = Wire(httpx2.Response(200, json=body))
    cloud = provider_of(on_bedrock(wire.http))
    fallback = Provider.openai(models=["gpt"], keys=["sk-a"], http_client=other.http)

    async with FailoverChat([cloud, fallback], route=["cloud/claude", "openai/gpt"], retry=ONCE) as chat:
        reply = await chat("Name a river.")

    assert (reply.text, str(reply.served_by)) == ("Elbe", "openai/gpt")
    assert [attempt.kind for attempt in reply.attempts][:1] == [Kind.RATE_LIMITED]
    shown = f"{cloud!r} {cloud.keys!r} {reply.attempts!r} {chat!r}"
    assert [secret for secret in (AWS_SECRET, AWS_KEY) if secret in shown] == []


async def test_a_throttled_client_gives_way_to_the_next_one() -> None:
    busy = Wire(httpx2.Response(429, headers={"x-amzn-errortype": "ThrottlingException"}, json={"message": "no"}))
    ready = Wire()

    async with FailoverChat([provider_of(on_bedrock(busy.http), on_bedrock(ready.http))], retry=ONCE) as chat:
        replies = [await chat("Name a river.") for _ in range(3)]

    assert {reply.served_by.key_label for reply in replies} == {"cloud#2"}
    assert len(busy.requests) == 1


async def test_a_stream_moves_on_from_bedrock_to_openai() -> None:
    wire = Wire(event_stream(exception("internalServerException", "no")))
    chunk = {"id": "c", "choices": [{"index": 0, "finish_reason": None, "delta": {"content": "Elbe"}}]}
    last = {"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]}
    text = "".join(f"data: {json.dumps(each)}\n\n" for each in (chunk, last)) + "data: [DONE]\n\n"
    other = Wire(httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text))
    fallback = Provider.openai(models=["gpt"], keys=["sk-a"], http_client=other.http)
    providers = [provider_of(on_bedrock(wire.http)), fallback]

    async with (
        FailoverChat(providers, route=["cloud/claude", "openai/gpt"], retry=ONCE) as chat,
        chat.stream("Name a river.") as stream,
    ):
        events = [event async for event in stream]

    assert text_of(events) == "Elbe"


async def test_the_error_shows_no_secret_and_can_be_pickled() -> None:
    wire = Wire(httpx2.Response(403, json={"message": f"bad {AWS_SECRET}"}))

    failure = await failure_of(provider_of(on_bedrock(wire.http)))

    shown = f"{failure} {failure!r} {pickle.dumps(failure)!r}"
    assert [secret for secret in (AWS_SECRET, AWS_KEY) if secret in shown] == []


# ---------------------------------------------------------------- functions that build clients


async def test_a_function_builds_its_client_over_the_providers_connections() -> None:
    wire = Wire()
    given: list[httpx2.AsyncClient] = []

    def build(http: httpx2.AsyncClient) -> Any:
        given.append(http)
        return on_bedrock(http)

    provider = provider_of(build, vendor="bedrock", http_client=wire.http)
    await answer_of(provider)

    assert given == [wire.http]
    assert len(wire.requests) == 1


async def test_a_bedrock_key_is_sent_as_a_bearer_token() -> None:
    wire = Wire()

    await answer_of(provider_of(bedrock("eu-west-3", key=TOKEN), vendor="bedrock", http_client=wire.http))

    assert wire.url.startswith("https://bedrock-runtime.eu-west-3.amazonaws.com/model/")
    assert wire.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_vertex_is_addressed_by_region_and_project() -> None:
    wire = Wire()
    make = vertex("global", "acme")

    def build(http: httpx2.AsyncClient) -> Any:
        client = make(http)
        client.access_token = TOKEN
        return client

    await answer_of(provider_of(build, vendor="vertex", http_client=wire.http))

    assert wire.url.startswith("https://aiplatform.googleapis.com/v1/projects/acme/locations/global/")


async def test_a_region_that_is_nowhere_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    with pytest.raises(ConfigurationError, match="could not be built"):
        await answer_of(provider_of(bedrock(), vendor="bedrock"))


async def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    def build(http: httpx2.AsyncClient) -> Any:
        raise ModuleNotFoundError("No module named 'botocore'", name="botocore.auth")

    with pytest.raises(ConfigurationError, match=r"needs botocore: pip install 'reliable-llm\[bedrock\]'"):
        await answer_of(provider_of(build, vendor="bedrock"))


async def test_a_function_that_returns_something_else_is_refused() -> None:
    def build(http: httpx2.AsyncClient) -> Any:
        return object()

    with pytest.raises(ConfigurationError, match="must be clients of the anthropic package, got object"):
        await answer_of(provider_of(build, vendor="bedrock"))


# ---------------------------------------------------------------- set-up that cannot work


def refused(**given: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Provider.anthropic(name="cloud", models=["m"], **given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("client", "vendor"),
    [
        (bedrock("eu-west-3"), "bedrock"),
        (vertex("global", "acme"), "vertex"),
        (on_foundry, "anthropic"),
        (anthropic.AsyncAnthropic(api_key="k"), "anthropic"),
        (anthropic.AsyncAnthropic(api_key="k", base_url="https://gateway.example"), "anthropic"),
        (anthropic.AsyncAnthropicBedrock(aws_region="us-east-1", base_url="https://proxy.example"), "bedrock"),
        (anthropic.AsyncAnthropicAWS(aws_region="us-east-1", workspace_id="w", api_key="k"), "anthropic"),
    ],
)
def test_the_vendor_follows_from_the_client(client: Any, vendor: str) -> None:
    assert provider_of(client).vendor == vendor


def test_a_stated_vendor_beats_the_clients() -> None:
    assert provider_of(on_foundry, vendor="azure").vendor == "azure"


def test_what_builds_a_client_shows_no_key_and_is_not_pickled() -> None:
    build = bedrock("eu-west-3", key=TOKEN)

    assert TOKEN not in repr(build)
    with pytest.raises(TypeError, match="is not pickled"):
        pickle.dumps(build)


def test_a_client_of_another_package_is_refused() -> None:
    assert "must be clients of the anthropic package" in refused(clients=[openai.AsyncOpenAI(api_key="k")])


def test_a_blocking_client_is_refused_with_the_name_of_the_other() -> None:
    client = anthropic.AnthropicBedrock(aws_region="us-east-1", aws_access_key="a", aws_secret_key="b")

    assert "build AsyncAnthropicBedrock instead" in refused(clients=[client])


@pytest.mark.parametrize("clients", [[], 5])
def test_no_clients_are_refused(clients: object) -> None:
    assert "clients of provider 'cloud'" in refused(clients=clients)


def test_one_client_twice_is_refused() -> None:
    client = on_vertex(Wire().http)

    assert "twice" in refused(clients=[client, client])


@pytest.mark.parametrize("more", [{"keys": ["k"]}, {"base_url": "https://x"}, {"http_client": Wire().http}])
def test_what_a_client_has_inside_is_refused_beside_it(more: dict[str, Any]) -> None:
    assert f"both clients and {next(iter(more))}" in refused(clients=[on_vertex(Wire().http)], **more)


@pytest.mark.parametrize("vendor", ["bedrock", "vertex"])
def test_a_vendor_that_needs_a_client_of_its_own_says_which(vendor: str) -> None:
    assert f"clients=[AsyncAnthropic{vendor.title()}(...)]" in refused(vendor=vendor, keys=["k"])


def test_a_gateway_in_front_of_bedrock_is_an_address_like_any_other() -> None:
    provider = Provider.anthropic(models=["m"], vendor="bedrock", keys=["k"], base_url="https://gateway.example")

    assert provider.clients == ()


@pytest.mark.parametrize("classify", [[{"kind": "timeout"}], "timeout", 5])
def test_rules_that_are_none_are_refused(classify: Any) -> None:
    assert "must be a list of Rule(...)" in refused(keys=["k"], classify=classify)
