"""What a report draws: lanes, bars, bands and calls."""

from __future__ import annotations

import pytest

from reliable_llm.drill.html import page, picture_of
from reliable_llm.drill.picture import Axis, Band, merged, packed
from reliable_llm.drill.runner import run_scenario
from reliable_llm.drill.story import story


@pytest.fixture(scope="module")
def picture():
    return picture_of(run_scenario(story("two-keys")))


def test_every_key_has_a_lane(picture) -> None:
    assert picture.lanes == ["openai/key-1", "openai/key-2", "anthropic/key-1"]


def test_every_request_is_a_bar_with_what_it_was_read_as(picture) -> None:
    first = [bar for bar in picture.bars if bar.call == "c1"]
    assert [(bar.lane, bar.kind) for bar in first] == [
        ("openai/key-1", "rate_limited"),
        ("openai/key-2", "quota_exhausted"),
        ("anthropic/key-1", ""),
    ]


def test_a_parked_key_has_a_band_until_its_time(picture) -> None:
    (band,) = [band for band in merged(picture.bands, picture.end) if band.lane == "openai/key-2"]
    assert (band.reason, band.start, band.end) == ("quota_exhausted", pytest.approx(0.4), pytest.approx(300.4))


def test_every_call_stands_in_the_order_asked_with_its_cost(picture) -> None:
    assert [call.name for call in picture.calls] == [f"c{n}" for n in range(1, 9)]
    assert (picture.calls[0].requests, picture.calls[0].tokens) == (3, (24, 31))


def test_bands_that_overlap_become_one_and_end_with_the_picture() -> None:
    bands = [Band(lane="a", start=s, end=e, reason="r") for s, e in ((0.0, 5.0), (3.0, 9.0), (20.0, 99.0))]
    assert [(band.start, band.end) for band in merged(bands, 30.0)] == [(0.0, 9.0), (20.0, 30.0)]


def test_the_axis_keeps_order_and_squeezes_silence() -> None:
    axis = Axis([0.0, 1.0, 3601.0], 100.0)
    assert axis.x(0.0) == 0.0
    assert axis.x(3601.0) == pytest.approx(100.0)
    assert axis.x(1.0) > 10.0
    assert axis.x(1.0) < axis.x(2.0) < axis.x(3000.0)


def test_what_overlaps_is_packed_into_rows() -> None:
    assert packed([(0, 5), (1, 2), (2, 3), (6, 7)]) == [0, 1, 1, 0]


def test_what_a_model_says_cannot_become_markup() -> None:
    told = story("region-block")
    act = told.upstream[1].script[0].model_copy(update={"text": "<script>alert(1)</script>"})
    upstream = [told.upstream[0], told.upstream[1].model_copy(update={"script": [act]})]
    text = page([run_scenario(told.model_copy(update={"upstream": upstream}))])
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
