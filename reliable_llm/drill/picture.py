"""A drill as lanes, bars, bands and calls: what a report draws. Pure: moments in, plain data out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reliable_llm.drill.timeline import Moment

FOREVER: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One request on the wire. `kind` is the failure that it was read as, empty for an answer."""

    lane: str
    start: float
    end: float
    call: str
    number: int
    model: str
    status: int | None
    outcome: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A time in which a key was left alone."""

    lane: str
    start: float
    end: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    """One call, from asked to answered."""

    name: str
    start: float
    end: float
    ok: bool
    by: str
    kind: str
    text: str
    requests: int
    waited: float
    tokens: tuple[int | None, int | None] | None


@dataclass(slots=True)
class Picture:
    """Everything, in the order it happened. Lanes are `provider/key`."""

    lanes: list[str] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    calls: list[CallLine] = field(default_factory=list)
    end: float = 0.0


def draw(
    moments: Iterable[Moment], keys: Mapping[str, str], lanes: Iterable[str], waited: Mapping[str, float]
) -> Picture:
    """Return the picture of *moments*.

    *keys* names key labels as the wire does; *lanes* come first, used or not; *waited* are seconds by call.
    """
    told = list(moments)
    order = [moment.call for moment in told if moment.what == "asked"]
    picture = Picture(lanes=list(dict.fromkeys(lanes)))
    picture.end = max((moment.at for moment in told), default=0.0)
    asked: dict[str, float] = {}
    for moment in told:
        if moment.what == "asked":
            asked[moment.call or ""] = moment.at
        elif moment.what == "back":
            _add_bar(picture, moment)
        elif moment.what == "event":
            _read_event(picture, moment, keys)
        elif moment.what in {"answered", "failed"} and moment.call in asked:
            picture.calls.append(_call(moment, asked[moment.call], told, waited))
    picture.calls.sort(key=lambda call: order.index(call.name))
    return picture


def _add_bar(picture: Picture, moment: Moment) -> None:
    facts = moment.fields
    provider, key, model = str(facts["where"]).split("/", 2)
    lane = f"{provider}/{key}"
    if lane not in picture.lanes:
        picture.lanes.append(lane)
    status = facts["status"]
    picture.bars.append(
        Bar(
            lane=lane,
            start=_number(facts["sent_at"]),
            end=moment.at,
            call=moment.call or "",
            number=int(_number(facts["number"])),
            model=model,
            status=status if isinstance(status, int) else None,
            outcome=str(facts["outcome"]),
        )
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _read_event(picture: Picture, moment: Moment, keys: Mapping[str, str]) -> None:
    facts = moment.fields
    name, provider = facts.get("event"), facts.get("provider")
    label = str(facts.get("key", ""))
    if name == "attempt_failed":
        _name_failure(picture, moment)
        if facts.get("kind") != "rate_limited":
            return
    seconds = FOREVER if name == "key_disabled" else _number(facts.get("seconds", facts.get("retry_after")))
    lanes: list[str] = []
    if name in {"attempt_failed", "key_parked", "key_disabled", "quota_mode_entered"}:
        lanes = [f"{provider}/{keys.get(label, label)}"]
    elif name == "candidate_parked":
        lanes = [lane for lane in picture.lanes if lane.startswith(f"{provider}/")]
    reason = str(facts.get("reason") or facts.get("kind") or "quota_exhausted")
    picture.bands += [Band(lane=lane, start=moment.at, end=moment.at + seconds, reason=reason) for lane in lanes]


def _name_failure(picture: Picture, moment: Moment) -> None:
    """Give the call's last bar the kind of failure that its coordinator read in it."""
    for index in range(len(picture.bars) - 1, -1, -1):
        if picture.bars[index].call == moment.call:
            picture.bars[index] = replace(picture.bars[index], kind=str(moment.fields.get("kind")))
            return


def _call(moment: Moment, asked: float, told: Sequence[Moment], waited: Mapping[str, float]) -> CallLine:
    facts, mine = moment.fields, [each for each in told if each.call == moment.call]
    usage = facts.get("usage_total")
    return CallLine(
        name=moment.call or "",
        start=asked,
        end=moment.at,
        ok=moment.what == "answered",
        by=str(facts.get("served_by", "")),
        kind=str(facts.get("kind", "")),
        text=str(facts.get("text", facts.get("partial_text", ""))),
        requests=sum(each.what == "sent" for each in mine),
        waited=waited.get(moment.call or "", 0.0),
        tokens=(usage.get("input"), usage.get("output")) if isinstance(usage, dict) else None,
    )


def merged(bands: Sequence[Band], end: float) -> list[Band]:
    """Return *bands* cut at *end*; of those that say the same for one lane, overlapping ones become one."""
    found: list[Band] = []
    for band in sorted(bands, key=lambda each: (each.lane, each.reason, each.start)):
        cut = replace(band, end=min(band.end, end))
        last = found[-1] if found else None
        if last and (last.lane, last.reason) == (cut.lane, cut.reason) and cut.start <= last.end:
            found[-1] = replace(last, end=max(last.end, cut.end))
        elif cut.end > cut.start:
            found.append(cut)
    return found


class Axis:
    """Seconds to pixels. Long silences are squeezed, so that a burst and the recovery an hour later fit one picture."""

    def __init__(self, times: Iterable[float], width: float) -> None:
        self._times = sorted({0.0, *(round(t, 6) for t in times if math.isfinite(t))})
        gaps = [_squeezed(b - a) for a, b in zip(self._times, self._times[1:], strict=False)]
        scale = width / sum(gaps) if gaps else 0.0
        self._places = [0.0]
        for gap in gaps:
            self._places.append(self._places[-1] + gap * scale)

    def x(self, at: float) -> float:
        """Return where second *at* stands."""
        if at >= self._times[-1]:
            return self._places[-1]
        right = next(index for index, time in enumerate(self._times) if time > at)
        left = max(0, right - 1)
        span = self._times[right] - self._times[left]
        share = (at - self._times[left]) / span if span else 0.0
        return self._places[left] + share * (self._places[right] - self._places[left])

    def ticks(self, apart: float) -> list[tuple[float, float]]:
        """Return (second, pixel) of labels that stand at least *apart* pixels from each other."""
        chosen: list[tuple[float, float]] = []
        for time, place in zip(self._times, self._places, strict=True):
            if not chosen or place - chosen[-1][1] >= apart:
                chosen.append((time, place))
        return chosen


def _squeezed(seconds: float) -> float:
    return 0.35 + math.log10(1 + 8 * seconds)


def packed(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return a row for each (start, end), so that no two in a row overlap; first come, lowest row."""
    ends: list[float] = []
    rows = []
    for start, end in spans:
        row = next((index for index, busy in enumerate(ends) if busy <= start), len(ends))
        if row == len(ends):
            ends.append(end)
        ends[row] = max(end, start)
        rows.append(row)
    return rows
