"""OpenTelemetry: one span per call with one child per attempt, and metrics, by the GenAI semantic conventions.

    from reliable_llm.telemetry.otel import OpenTelemetry

    telemetry = OpenTelemetry()                        # or with a tracer and a meter provider of your own
    chat = FailoverChat(providers, listeners=[telemetry])
    telemetry.observe(chat)                            # the state of each key, as a gauge

Needs the API package only (`pip install "reliable-llm[otel]"`); without an OpenTelemetry SDK in the application nothing
is recorded. The attempt's span is current while its request is sent, so that an instrumented HTTP client's spans hang
below it. Prompts, answers and keys are never recorded; keys appear as labels.

What carries a name of its own (`reliable_llm.*`) has none in the conventions:

| metric | what |
|---|---|
| `gen_ai.client.operation.duration` | seconds a call took |
| `gen_ai.client.operation.time_to_first_chunk` | seconds to a stream's first output |
| `gen_ai.client.token.usage` | tokens of the answer; what rejected attempts cost is on their spans |
| `reliable_llm.attempts` | attempts per call |
| `reliable_llm.attempt.duration` | seconds an attempt took, by outcome |
| `reliable_llm.parks` | keys and candidates put to rest, by reason |
| `reliable_llm.key.state` | 1 for the state that a key is in, 0 for the others |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeAlias

from reliable_llm import events
from reliable_llm.errors import ConfigurationError, Kind
from reliable_llm.types import Usage

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as missing:
    raise ConfigurationError("OpenTelemetry needs its API: pip install 'reliable-llm[otel]'") from missing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, TracerProvider

    from reliable_llm.chat import FailoverChat

NAME: Final = "reliable_llm"
OPERATION: Final = "chat"

# How the conventions call vendors that we call otherwise (`gen_ai.provider.name`).
_VENDORS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
_STATES: Final = ("ready", "resting", "probing", "out")
# Bounds that the conventions advise for seconds.
_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = tuple(4.0**power for power in range(14))

_Value: TypeAlias = str | bool | int | float
_Attributes: TypeAlias = dict[str, _Value]


class _Call:
    """The spans of one call. `tags` is held so that its identity stays this call's."""

    __slots__ = ("attempts", "before", "labels", "span", "tags", "vendors")

    def __init__(self, tags: Mapping[str, str], span: Span, labels: _Attributes, vendors: Mapping[str, str]) -> None:
        self.tags = tags
        self.span = span
        self.labels = labels
        self.vendors = vendors
        self.before = context.get_current()
        self.attempts: list[tuple[tuple[str, str, str], Span, Context]] = []


class OpenTelemetry:
    """A listener for `FailoverChat(listeners=[...])`. Safe to share by several coordinators."""

    hears_calls = True

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer(NAME, version("reliable-llm"), tracer_provider)
        meter = metrics.get_meter(NAME, version("reliable-llm"), meter_provider)
        self._meter = meter
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._first_chunk = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            unit="s",
            description="Time to the first output of a stream.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._per_call = meter.create_histogram(
            "reliable_llm.attempts", unit="{attempt}", description="Attempts per call."
        )
        self._per_attempt = meter.create_histogram(
            "reliable_llm.attempt.duration",
            unit="s",
            description="How long an attempt took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._parks = meter.create_counter(
            "reliable_llm.parks", unit="{park}", description="Keys and candidates put to rest."
        )
        self._calls: dict[int, _Call] = {}

    def __call__(self, event: events.Event, tags: Mapping[str, str], /) -> None:
        if isinstance(event, events.CallStarted):
            self._call_started(event, tags)
            return
        self._count(event)
        call = self._calls.get(id(tags))
        if call is None:
            return
        if isinstance(event, events.CallEnded):
            self._call_ended(event, call)
        elif isinstance(event, events.AttemptStarted):
            self._attempt_started(event, call)
        elif isinstance(event, events.AttemptFailed | events.AttemptSucceeded):
            self._attempt_ended(event, call)
        else:
            call.span.add_event(f"{NAME}.{event.event}", dict(_fields(event)))

    # ---------------------------------------------------------------- the call

    def _call_started(self, event: events.CallStarted, tags: Mapping[str, str]) -> None:
        labels: _Attributes = {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.provider.name": _vendor(event.vendors.get(event.provider, event.provider)),
            "gen_ai.request.model": event.model,
        }
        more: dict[str, _Value | None] = {
            "gen_ai.request.stream": event.stream or None,
            "gen_ai.request.max_tokens": event.max_tokens,
            "gen_ai.request.temperature": event.temperature,
        }
        span = self._tracer.start_span(
            f"{OPERATION} {event.model}",
            kind=SpanKind.CLIENT,
            attributes=labels | _known(more) | {f"{NAME}.tag.{name}": value for name, value in tags.items()},
        )
        self._calls[id(tags)] = call = _Call(tags, span, labels, dict(event.vendors))
        context.attach(trace.set_span_in_context(span, call.before))

    def _call_ended(self, event: events.CallEnded, call: _Call) -> None:
        del self._calls[id(call.tags)]
        while call.attempts:
            self._close(call, call.attempts[-1][0], str(Kind.CANCELLED))
        context.attach(call.before)
        labels = (
            call.labels | _known(_response(event)) | ({} if event.kind is None else {"error.type": str(event.kind)})
        )
        span = call.span
        span.set_attributes(labels | _known(_usage(event.usage)) | _known(_finish(event)))
        span.set_attribute(f"{NAME}.attempts", len(event.attempts))
        span.set_attributes(_known(_total(event)))
        if event.finish_reason is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [event.finish_reason])
        if event.kind is not None and event.kind is not Kind.CANCELLED:
            span.set_status(Status(StatusCode.ERROR, str(event.kind)))
        span.end()
        self._duration.record(event.elapsed, labels)
        self._per_call.record(len(event.attempts), labels)
        if event.first_output is not None:
            self._first_chunk.record(event.first_output, labels)
        if event.usage is not None:
            for kind, count in (("input", event.usage.input_tokens), ("output", event.usage.output_tokens)):
                if count is not None:
                    self._tokens.record(count, labels | {"gen_ai.token.type": kind})

    # ---------------------------------------------------------------- attempts

    def _attempt_started(self, event: events.AttemptStarted, call: _Call) -> None:
        attributes: _Attributes = {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.provider.name": _vendor(call.vendors.get(event.provider, event.provider)),
            "gen_ai.request.model": event.model,
            f"{NAME}.provider": event.provider,
            f"{NAME}.key": event.key,
            f"{NAME}.attempt.number": event.number,
            f"{NAME}.attempt.probe": event.probe,
        }
        parent = trace.set_span_in_context(call.span, call.before)
        span = self._tracer.start_span(
            f"attempt {event.provider}/{event.model}", context=parent, kind=SpanKind.CLIENT, attributes=attributes
        )
        call.attempts.append(((event.provider, event.model, event.key), span, parent))
        context.attach(trace.set_span_in_context(span, parent))

    def _attempt_ended(self, event: events.AttemptFailed | events.AttemptSucceeded, call: _Call) -> None:
        place = (event.provider, event.model, event.key)
        failed = isinstance(event, events.AttemptFailed)
        outcome = str(event.kind) if isinstance(event, events.AttemptFailed) else "answered"
        labels: _Attributes = {f"{NAME}.provider": event.provider, "gen_ai.request.model": event.model}
        labels[f"{NAME}.outcome"] = outcome
        self._per_attempt.record(event.elapsed, labels)
        details = dict(_fields(event)) if failed else {}
        self._close(call, place, outcome, details)

    def _close(
        self, call: _Call, place: tuple[str, str, str], outcome: str, details: Mapping[str, _Value] | None = None
    ) -> None:
        found = next((each for each in call.attempts if each[0] == place), None)
        if found is None:
            return
        call.attempts.remove(found)
        _, span, parent = found
        span.set_attribute(f"{NAME}.outcome", outcome)
        span.set_attributes(dict(details or {}))
        if outcome not in ("answered", Kind.CANCELLED):
            span.set_attribute("error.type", outcome)
            span.set_status(Status(StatusCode.ERROR, outcome))
            if (status := (details or {}).get(f"{NAME}.status")) is not None:
                span.set_attribute("http.response.status_code", status)
        span.end()
        context.attach(parent)

    # ---------------------------------------------------------------- keys

    def _count(self, event: events.Event) -> None:
        if isinstance(event, events.KeyParked | events.KeyDisabled):
            where: _Attributes = {f"{NAME}.provider": event.provider, f"{NAME}.key": event.key}
            self._parks.add(1, where | {f"{NAME}.reason": str(event.reason)})
        elif isinstance(event, events.CandidateParked):
            where = {f"{NAME}.provider": event.provider, "gen_ai.request.model": event.model}
            self._parks.add(1, where | {f"{NAME}.reason": str(event.reason)})

    def observe(self, chat: FailoverChat) -> None:
        """Report the state of every key of *chat* whenever metrics are collected. Call it once per coordinator."""

        def states(_: CallbackOptions) -> Iterable[Observation]:
            for provider in chat.status().providers:
                for key in provider.keys:
                    where: _Attributes = {f"{NAME}.provider": provider.name, f"{NAME}.key": key.label}
                    for state in _STATES:
                        value = int(key.health.state == state)
                        yield metrics.Observation(value, where | {f"{NAME}.key.state": state})

        self._meter.create_observable_gauge(
            "reliable_llm.key.state", [states], description="1 for the state that a key is in."
        )


def _vendor(name: str) -> str:
    return _VENDORS.get(name, name)


def _known(attributes: Mapping[str, _Value | None]) -> _Attributes:
    return {name: value for name, value in attributes.items() if value is not None}


def _response(event: events.CallEnded) -> dict[str, _Value | None]:
    served = event.served_by
    return {
        "gen_ai.response.model": event.response_model,
        f"{NAME}.served_by": None if served is None else str(served),
    }


def _finish(event: events.CallEnded) -> dict[str, _Value | None]:
    return {
        "gen_ai.response.time_to_first_chunk": event.first_output,
        f"{NAME}.key": None if event.served_by is None else event.served_by.key_label,
    }


def _usage(usage: Usage | None) -> dict[str, _Value | None]:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _total(event: events.CallEnded) -> dict[str, _Value | None]:
    """What all attempts together have cost: not the same figure as the answer's own usage."""
    usages = [attempt.usage for attempt in event.attempts if attempt.usage is not None]
    if not usages:
        return {}
    total = usages[0]
    for usage in usages[1:]:
        total = total + usage
    return {
        f"{NAME}.usage.total.input_tokens": total.input_tokens,
        f"{NAME}.usage.total.output_tokens": total.output_tokens,
    }


def _fields(event: events.Event) -> Iterator[tuple[str, _Value]]:
    for each in dataclasses.fields(event):
        value = getattr(event, each.name)
        if isinstance(value, str):
            yield f"{NAME}.{each.name.rstrip('_')}", str(value)
        elif isinstance(value, bool | int | float):
            yield f"{NAME}.{each.name.rstrip('_')}", value
