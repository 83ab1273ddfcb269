"""Spans and metrics, as an application's OpenTelemetry SDK receives them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, http_attributes
from opentelemetry.trace import SpanKind, StatusCode

from reliable_llm import FailoverChat
from reliable_llm.errors import QuotaExhaustedError, ReliableLLMError
from reliable_llm.telemetry.otel import OpenTelemetry
from reliable_llm.testing import Drill, act, error, hang, ok, out_of_quota, rate_limited, stream

PROMPT = "a prompt that nobody may read"
SEMANTIC = {
    value
    for module in (gen_ai_attributes, gen_ai_metrics, error_attributes, http_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


class Recorded:
    """One coordinator on simulated vendors, with an SDK that records in memory."""

    def __init__(self) -> None:
        self.drill = Drill()
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider(metric_readers=[self._reader])
        self.telemetry = OpenTelemetry(tracer_provider=self.tracers, meter_provider=meters)
        self.chat = FailoverChat(
            [self.drill.openai(models=["m1"], keys=["k1", "k2"]), self.drill.anthropic(models=["m2"])],
            clock=self.drill.clock,
            listeners=[self.telemetry],
        )
        self.telemetry.observe(self.chat)

    def ask(self, **settings: Any) -> Any:
        return self.drill.run(self.chat(PROMPT, **settings))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return tuple(self._spans.get_finished_spans())

    @property
    def operation(self) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.parent is None]
        return found

    @property
    def attempts(self) -> list[ReadableSpan]:
        """The attempts below the operation, in order."""
        below = [span for span in self.spans if span.parent is not None]
        return sorted(below, key=lambda span: attributes(span)["reliable_llm.attempt.number"])

    def metrics(self) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        yield metric.name, dict(point.attributes or {}), point

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        return [(labels, point) for found, labels, point in self.metrics() if found == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def failed_over(recorded: Recorded) -> None:
    recorded.drill.answers("openai", out_of_quota())
    recorded.drill.answers("anthropic", ok("hello", usage=(7, 3)))
    recorded.ask(tags={"team": "blue"}, max_tokens=50)


def test_a_call_is_one_span_with_a_child_per_attempt(recorded: Recorded) -> None:
    failed_over(recorded)
    assert recorded.operation.name == "chat m1"
    assert [span.name for span in recorded.attempts] == [
        "attempt openai/m1",
        "attempt openai/m1",
        "attempt anthropic/m2",
    ]
    assert {span.parent.span_id for span in recorded.attempts if span.parent} == {recorded.operation.context.span_id}
    assert {span.kind for span in recorded.spans} == {SpanKind.CLIENT}


def test_the_operation_tells_what_the_conventions_ask_for(recorded: Recorded) -> None:
    failed_over(recorded)
    told = attributes(recorded.operation)
    expected = {
        gen_ai_attributes.GEN_AI_OPERATION_NAME: "chat",
        gen_ai_attributes.GEN_AI_PROVIDER_NAME: "openai",
        gen_ai_attributes.GEN_AI_REQUEST_MODEL: "m1",
        gen_ai_attributes.GEN_AI_REQUEST_MAX_TOKENS: 50,
        gen_ai_attributes.GEN_AI_RESPONSE_MODEL: "m2",
        gen_ai_attributes.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",),
        gen_ai_attributes.GEN_AI_USAGE_INPUT_TOKENS: 7,
        gen_ai_attributes.GEN_AI_USAGE_OUTPUT_TOKENS: 3,
        "reliable_llm.served_by": "anthropic/m2",
        "reliable_llm.attempts": 3,
        "reliable_llm.tag.team": "blue",
    }
    assert {name: told.get(name) for name in expected} == expected
    assert recorded.operation.status.status_code is StatusCode.UNSET


def test_an_attempt_tells_its_outcome_key_and_status(recorded: Recorded) -> None:
    failed_over(recorded)
    first, _, last = recorded.attempts
    told = attributes(first)
    assert told["reliable_llm.outcome"] == told[error_attributes.ERROR_TYPE] == "quota_exhausted"
    assert told["reliable_llm.key"] == "openai#1"
    assert told[http_attributes.HTTP_RESPONSE_STATUS_CODE] == 429
    assert first.status.status_code is StatusCode.ERROR
    assert attributes(last)["reliable_llm.outcome"] == "answered"
    assert attributes(last)[gen_ai_attributes.GEN_AI_PROVIDER_NAME] == "anthropic"


def test_waits_rotations_and_failovers_are_events_of_the_operation(recorded: Recorded) -> None:
    recorded.drill.answers("openai", error(500))
    recorded.drill.answers("anthropic", ok("hello"))
    recorded.ask()
    names = [event.name for event in recorded.operation.events]
    assert "reliable_llm.retry_scheduled" in names
    assert "reliable_llm.failover" in names
    (moved,) = [event for event in recorded.operation.events if event.name == "reliable_llm.failover"]
    assert dict(moved.attributes or {}) == {
        "reliable_llm.from": "openai/m1",
        "reliable_llm.to": "anthropic/m2",
        "reliable_llm.reason": "server_error",
    }


def test_a_call_that_nobody_answers_is_an_error_of_its_kind(recorded: Recorded) -> None:
    recorded.drill.answers("openai", out_of_quota())
    recorded.drill.answers("anthropic", error(401, error_type="authentication_error"))
    with pytest.raises(QuotaExhaustedError):
        recorded.ask()
    assert attributes(recorded.operation)[error_attributes.ERROR_TYPE] == "quota_exhausted"
    assert recorded.operation.status.status_code is StatusCode.ERROR


def test_a_cancelled_call_closes_its_spans_and_blames_nobody(recorded: Recorded) -> None:
    recorded.drill.answers("openai", hang())

    async def cancelled() -> None:
        task = asyncio.ensure_future(recorded.chat(PROMPT))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    recorded.drill.run(cancelled())
    assert [attributes(span)["reliable_llm.outcome"] for span in recorded.attempts] == ["cancelled"]
    assert attributes(recorded.operation)[error_attributes.ERROR_TYPE] == "cancelled"
    assert recorded.operation.status.status_code is StatusCode.UNSET


def test_a_stream_tells_the_time_to_its_first_output(recorded: Recorded) -> None:
    recorded.drill.answers("openai", act({"act": "stream", "chunks": ["a", "b"], "delay_s": 2.0, "gap_s": 1.0}))

    async def read() -> str:
        async with recorded.chat.stream(PROMPT) as answer:
            return (await answer.reply()).text

    assert recorded.drill.run(read()) == "ab"
    first = attributes(recorded.operation)["gen_ai.response.time_to_first_chunk"]
    assert first == pytest.approx(2.0)
    ((_, point),) = recorded.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK)
    assert point.sum == pytest.approx(2.0)


def test_a_stream_that_is_left_is_closed_as_cancelled(recorded: Recorded) -> None:
    recorded.drill.answers("openai", stream("a", "b", "c", gap=1.0))

    async def leave() -> None:
        async with recorded.chat.stream(PROMPT) as answer:
            await anext(answer)

    recorded.drill.run(leave())
    assert attributes(recorded.operation)[error_attributes.ERROR_TYPE] == "cancelled"
    assert len(recorded.attempts) == 1


def test_calls_at_the_same_time_do_not_mix(recorded: Recorded) -> None:
    recorded.drill.answers("openai", ok("hello", after=1.0))

    async def several() -> None:
        shared = {"team": "blue"}
        await asyncio.gather(*(recorded.chat(f"{PROMPT} {n}", tags=shared) for n in range(5)))

    recorded.drill.run(several())
    operations = [span for span in recorded.spans if span.parent is None]
    parents = [span.parent.span_id for span in recorded.spans if span.parent is not None]
    assert len(operations) == 5
    assert sorted(parents) == sorted(span.context.span_id for span in operations)


def test_the_callers_span_is_the_parent_and_current_again_afterwards(recorded: Recorded) -> None:
    recorded.drill.answers("openai", ok("hello"))
    tracer = recorded.tracers.get_tracer("application")

    async def inside() -> bool:
        with tracer.start_as_current_span("request") as mine:
            await recorded.chat(PROMPT)
            return trace.get_current_span() is mine

    assert recorded.drill.run(inside())
    (operation,) = [span for span in recorded.spans if span.name == "chat m1"]
    (request,) = [span for span in recorded.spans if span.name == "request"]
    assert operation.parent is not None
    assert operation.parent.span_id == request.context.span_id


def test_the_attempts_span_is_current_while_its_request_is_sent(recorded: Recorded) -> None:
    recorded.drill.answers("openai", ok("hello"))
    seen: list[int] = []

    class Spy(OpenTelemetry):
        def __call__(self, event: Any, tags: Mapping[str, str], /) -> None:
            super().__call__(event, tags)
            if event.event == "attempt_started":
                seen.append(trace.get_current_span().get_span_context().span_id)

    spy = Spy(tracer_provider=recorded.tracers)
    chat = FailoverChat([recorded.drill.openai(models=["m1"])], clock=recorded.drill.clock, listeners=[spy])
    recorded.drill.run(chat(PROMPT))
    (attempt,) = recorded.attempts
    assert seen == [attempt.context.span_id]


def test_metrics_tell_duration_tokens_and_attempts_per_call(recorded: Recorded) -> None:
    failed_over(recorded)
    ((labels, duration),) = recorded.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION)
    assert duration.count == 1
    assert labels[gen_ai_attributes.GEN_AI_REQUEST_MODEL] == "m1"
    tokens = {labels["gen_ai.token.type"]: point.sum for labels, point in recorded.points("gen_ai.client.token.usage")}
    assert tokens == {"input": 7, "output": 3}
    ((_, attempts),) = recorded.points("reliable_llm.attempts")
    assert attempts.sum == 3


def test_metrics_tell_parks_and_the_state_of_each_key(recorded: Recorded) -> None:
    failed_over(recorded)
    parks = {labels["reliable_llm.key"]: point.value for labels, point in recorded.points("reliable_llm.parks")}
    assert parks == {"openai#1": 1, "openai#2": 1}
    states = {
        labels["reliable_llm.key"]: labels["reliable_llm.key.state"]
        for labels, point in recorded.points("reliable_llm.key.state")
        if point.value
    }
    assert states == {"openai#1": "resting", "openai#2": "resting", "anthropic#1": "ready"}


def test_every_name_is_the_conventions_or_our_own(recorded: Recorded) -> None:
    failed_over(recorded)
    names = {name for span in recorded.spans for name in attributes(span)}
    for name, labels, _ in recorded.metrics():
        names |= {name, *labels}
    assert {name for name in names if not name.startswith("reliable_llm.")} <= SEMANTIC


def test_neither_prompt_nor_answer_nor_key_is_recorded(recorded: Recorded) -> None:
    recorded.drill.answers("openai", rate_limited(retry_after=900), out_of_quota())
    recorded.drill.answers("anthropic", ok("an answer that nobody may read"))
    recorded.ask()
    told = " ".join(span.to_json() for span in recorded.spans) + " ".join(str(each) for each in recorded.metrics())
    for secret in ("that nobody may read", '"k1"', "'k1'", '"k2"'):
        assert secret not in told


def test_without_a_listener_that_hears_calls_nothing_is_announced() -> None:
    drill = Drill()
    drill.answers("openai", ok("hello"))
    heard: list[str] = []
    chat = FailoverChat(
        [drill.openai(models=["m1"])], clock=drill.clock, listeners=[lambda event, _: heard.append(event.event)]
    )
    drill.run(chat(PROMPT))
    assert "call_started" not in heard
    assert heard


def test_state_does_not_pile_up(recorded: Recorded) -> None:
    recorded.drill.answers("openai", ok("hello"), error(400, error_type="invalid_request_error"))
    recorded.ask()
    with pytest.raises(ReliableLLMError):
        recorded.ask()
    assert not recorded.telemetry._calls
