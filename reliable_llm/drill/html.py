"""The report that a browser shows: one page, no network, light and dark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Final

from reliable_llm.drill.picture import Axis, Band, Bar, CallLine, Picture, draw, merged, packed
from reliable_llm.drill.runner import Report, held

_WIDTH: Final = 980.0
_LABELS: Final = 190.0
_ROW: Final = 16.0
_CALL_ROW: Final = 12.0
_MOST_ROWS: Final = 24
_TICK: Final = 62.0
_CLASSES: Final = {
    "": "answered", "rate_limited": "limited", "quota_exhausted": "quota", "authentication": "denied",
    "permission": "denied", "timeout": "silent", "deadline": "silent", "cancelled": "left",
    "connection": "broken", "stream_interrupted": "broken",
    "overloaded": "server", "server_error": "server", "malformed_response": "server", "empty_response": "server",
}  # fmt: skip
LEGEND: Final = (
    ("answered", "answered"), ("limited", "rate limited"), ("quota", "out of quota"), ("denied", "key refused"),
    ("server", "vendor failed"), ("broken", "connection broke"), ("silent", "timed out"),
    ("refused", "request refused"), ("left", "given up by the caller"),
)  # fmt: skip


def page(reports: Sequence[Report], title: str = "Drill report") -> str:
    """Return the whole page."""
    template = resources.files("reliable_llm.drill").joinpath("report.html").read_text(encoding="utf-8")
    passed = sum(report.passed for report in reports)
    unsupported = sum(bool(report.unsupported) for report in reports)
    summary = f"{passed} of {len(reports)} {held(reports)}" + (f", {unsupported} unsupported" if unsupported else "")
    body = "\n".join(_section(report) for report in reports)
    return (
        template.replace("{{title}}", _text(title))
        .replace("{{summary}}", _text(summary))
        .replace("{{legend}}", "".join(f'<span><i class="{name}"></i>{said}</span>' for name, said in LEGEND))
        .replace("{{drills}}", body)
    )


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _section(report: Report) -> str:
    scenario = report.scenario
    state = report.verdict
    style = "holds" if report.passed else state
    notes = [*report.unsupported, *report.mismatches, *report.unchecked]
    listed = "".join(f"<li>{_text(note)}</li>" for note in notes)
    head = f'<h2>{_text(scenario.title or scenario.id)} <b class="{style}">{state}</b></h2>'
    why = f"<p>{_text(scenario.note)}</p>" if scenario.note else ""
    picture = "" if report.unsupported else _figure(report)
    return f'<section id="{_text(scenario.id)}">{head}{why}<ul class="notes">{listed}</ul>{picture}</section>'


def picture_of(report: Report) -> Picture:
    """Return the picture of a report, with a lane for every key of its set-up."""
    seen = report.observed.get("waited_s")
    waited = seen if isinstance(seen, dict) else {}
    return draw(
        report.moments, report.keys, (f"{label.rpartition('#')[0]}/{key}" for label, key in report.keys.items()), waited
    )


def _figure(report: Report) -> str:
    picture = picture_of(report)
    width, height, marks = timeline(picture)
    svg = f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="timeline">{marks}</svg>'
    return f'<div class="scroll">{svg}</div>{_table(picture.calls)}'


def timeline(picture: Picture) -> tuple[float, float, str]:
    """Return the width, the height and the marks of *picture*; their colours are in `report.html`."""
    bands = merged(picture.bands, picture.end)
    times = [t for bar in picture.bars for t in (bar.start, bar.end)]
    times += [t for call in picture.calls for t in (call.start, call.end)] + [
        t for b in bands for t in (b.start, b.end)
    ]
    axis = Axis(times, _WIDTH)
    drawn = list(_calls(picture.calls, axis))
    top = _CALL_ROW * (_rows(packed([_call_span(call, axis) for call in picture.calls])) + 1) + 8
    for lane in picture.lanes:
        mine = [bar for bar in picture.bars if bar.lane == lane]
        height = _ROW * max(1, _rows(packed([_span(bar, axis) for bar in mine]))) + 8
        drawn += _lane(lane, mine, [band for band in bands if band.lane == lane], axis, top, height)
        top += height + 4
    drawn[:0] = _ticks(axis, top)
    return _LABELS + _WIDTH + 40, top + 26, "".join(drawn)


def _rows(rows: Sequence[int]) -> int:
    return min(_MOST_ROWS, max(rows, default=0) + 1)


def _span(bar: Bar, axis: Axis) -> tuple[float, float]:
    start = axis.x(bar.start)
    return start, max(axis.x(bar.end), start + 9) + 1


def _calls(calls: Sequence[CallLine], axis: Axis) -> Iterator[str]:
    yield f'<text class="lane" x="{_LABELS - 12}" y="14" text-anchor="end">calls</text>'
    rows = packed([_call_span(call, axis) for call in calls])
    for call, row in zip(calls, rows, strict=True):
        y = 10 + _CALL_ROW * min(row, _MOST_ROWS - 1)
        start, end = _LABELS + axis.x(call.start), _LABELS + axis.x(call.end)
        tip = _tip(_call_words(call))
        kind = "ok" if call.ok else "bad"
        yield f'<g class="call {kind}" {tip}><line x1="{start:.1f}" x2="{end:.1f}" y1="{y}" y2="{y}"/>'
        yield f'<circle class="from" cx="{start:.1f}" cy="{y}" r="2.5"/><circle cx="{end:.1f}" cy="{y}" r="4"/>'
        name = _text(call.name) if row < _MOST_ROWS else ""
        yield f'<text x="{end + 7:.1f}" y="{y + 3.5:.1f}">{name}</text></g>'


def _call_span(call: CallLine, axis: Axis) -> tuple[float, float]:
    return axis.x(call.start), axis.x(call.end) + 16 + 6.5 * len(call.name)


def _call_words(call: CallLine) -> list[str]:
    outcome = f"answered by {call.by}" if call.ok else f"raised {call.kind}"
    took = f"asked at {_time(call.start)}, {outcome} after {_time(call.end - call.start)}"
    return [call.name, took, f"{call.requests} requests, {_time(call.waited)} waited", call.text[:80]]


def _time(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"


def _tip(lines: Iterable[str]) -> str:
    return f'tabindex="0" data-tip="{_text(chr(10).join(line for line in lines if line))}"'


def _lane(
    lane: str, bars: Sequence[Bar], bands: Sequence[Band], axis: Axis, top: float, height: float
) -> Iterator[str]:
    provider, _, key = lane.partition("/")
    middle = top + height / 2 + 4
    name = _text(f"{provider} · {key}")
    yield f'<text class="lane" x="{_LABELS - 12}" y="{middle:.1f}" text-anchor="end">{name}</text>'
    yield f'<rect class="track" x="{_LABELS}" y="{top:.1f}" width="{_WIDTH}" height="{height:.1f}" rx="4"/>'
    for band in bands:
        x, end = axis.x(band.start), axis.x(band.end)
        tip = _tip([f"left alone: {band.reason}", f"from {_time(band.start)} to {_time(band.end)}"])
        box = f'x="{_LABELS + x:.1f}" y="{top:.1f}" width="{max(2.0, end - x):.1f}" height="{height:.1f}"'
        yield f'<rect class="band {class_of(band.reason)}" {box} rx="4" {tip}/>'
    for bar, row in zip(bars, packed([_span(bar, axis) for bar in bars]), strict=True):
        start, end = _span(bar, axis)
        y = top + 4 + _ROW * min(row, _MOST_ROWS - 1)
        box = f'x="{_LABELS + start:.1f}" y="{y + 1:.1f}" width="{end - start - 1:.1f}" height="{_ROW - 3}"'
        yield f'<rect class="bar {_barclass_of(bar)}" {box} rx="3" {_tip(_bar_words(bar))}/>'


def class_of(kind: str) -> str:
    return _CLASSES.get(kind, "refused")


def _barclass_of(bar: Bar) -> str:
    return "left" if not bar.kind and bar.outcome in {"gave up", "closed"} else class_of(bar.kind)


def _bar_words(bar: Bar) -> list[str]:
    said = bar.kind or ("answered" if bar.outcome == "answered" else bar.outcome)
    status = f", status {bar.status}" if bar.status else ""
    where = f"request {bar.number} of {bar.call} to {bar.model}"
    return [f"{said}{status}", where, f"{_time(bar.start)} to {_time(bar.end)} on {bar.lane}"]


def _ticks(axis: Axis, bottom: float) -> Iterator[str]:
    for second, place in axis.ticks(_TICK):
        x = _LABELS + place
        yield f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom:.1f}"/>'
        yield f'<text class="time" x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{_time(second)}</text>'


def _table(calls: Sequence[CallLine]) -> str:
    rows = "".join(_row(call) for call in calls)
    heads = ("call", "asked", "took", "outcome", "requests", "waited", "tokens in / out", "text")
    return f"<table><thead><tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr></thead><tbody>{rows}</tbody></table>"


def _row(call: CallLine) -> str:
    outcome = call.by if call.ok else f"raised {call.kind}"
    spent = " / ".join("?" if n is None else str(n) for n in call.tokens) if call.tokens else "-"
    text = call.text if len(call.text) < 70 else call.text[:67] + "..."
    cells = (
        call.name,
        _time(call.start),
        _time(call.end - call.start),
        outcome,
        call.requests,
        _time(call.waited),
        spent,
        text,
    )
    return f'<tr class="{"ok" if call.ok else "bad"}">{"".join(f"<td>{_text(cell)}</td>" for cell in cells)}</tr>'
