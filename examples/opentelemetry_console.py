"""Traces on the console and metrics as Prometheus text: an outage as OpenTelemetry shows it. No key, no network.

    pip install "reliable-llm[otel]" opentelemetry-sdk opentelemetry-exporter-prometheus
    python examples/opentelemetry_console.py

OpenAI has run out of quota, Anthropic answers. In an application, take your own exporters instead (OTLP, for example)
and drop the simulated vendors.
"""

from __future__ import annotations

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from prometheus_client import REGISTRY, generate_latest

from reliable_llm import FailoverChat
from reliable_llm.telemetry.otel import OpenTelemetry
from reliable_llm.testing import Drill, ok, out_of_quota


def line(span: ReadableSpan) -> str:
    told = dict(span.attributes or {})
    depth = "  " if span.parent else ""
    shown = {name: told[name] for name in ("error.type", "reliable_llm.key", "reliable_llm.served_by") if name in told}
    events = "".join(f"\n    event {event.name} {dict(event.attributes or {})}" for event in span.events)
    return f"{depth}{span.name} {shown}{events}\n"


def main() -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=line)))
    meters = MeterProvider(metric_readers=[PrometheusMetricReader()])
    telemetry = OpenTelemetry(tracer_provider=tracers, meter_provider=meters)

    drill = Drill()
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", ok("The Rhine, the Danube, the Elbe.", usage=(12, 9)))
    chat = FailoverChat(
        [drill.openai(models=["gpt-5.1"], keys=["k1", "k2"]), drill.anthropic(models=["claude-sonnet-4-5"])],
        clock=drill.clock,
        listeners=[telemetry],
    )
    telemetry.observe(chat)

    print("spans, in the order in which they end:")
    reply = drill.run(chat("Name three rivers."))
    print(f"\nanswer from {reply.served_by}: {reply.text}")

    print("\nmetrics, as Prometheus reads them:")
    text = generate_latest(REGISTRY).decode()
    print(
        "\n".join(
            row for row in text.splitlines() if row.startswith(("gen_ai", "reliable_llm")) and "_bucket" not in row
        )
    )


if __name__ == "__main__":
    main()
