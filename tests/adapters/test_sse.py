"""Server-sent events out of bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.adapters.sse import OversizedEventError, ServerEvent, SSEDecoder

SAMPLE = (
    b': comment\r\n\r\nevent: a\ndata: {"x":1}\n\ndata:first\ndata: second\n\n'
    b"id: 7\nretry: 5\ndata: \xe2\x82\xac\r\n\r\ndata\n\nevent: b\r\rdata: last\r\rdata: [DONE]\n\n"
)
EVENTS = [
    ServerEvent("a", b'{"x":1}'),
    ServerEvent("", b"first\nsecond"),
    ServerEvent("", "€".encode()),
    ServerEvent("", b""),
    ServerEvent("", b"last"),
    ServerEvent("", b"[DONE]"),
]


def decoded(*chunks: bytes) -> list[ServerEvent]:
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in fed(decoder, chunk)]
    decoder.end()
    return [*events, *pending(decoder)]


def fed(decoder: SSEDecoder, chunk: bytes) -> Iterator[ServerEvent]:
    decoder.feed(chunk)
    return pending(decoder)


def pending(decoder: SSEDecoder) -> Iterator[ServerEvent]:
    return iter(decoder.next_event, None)


def test_a_stream_with_every_kind_of_line_end_gives_its_events() -> None:
    assert decoded(SAMPLE) == EVENTS


@given(st.lists(st.integers(0, len(SAMPLE)), max_size=20))
def test_where_the_network_splits_the_bytes_changes_nothing(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SAMPLE)]
    chunks = [SAMPLE[start:end] for start, end in itertools.pairwise(places)]
    assert decoded(*chunks) == EVENTS


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_at_all_break_the_decoder(data: bytes, cut: int) -> None:
    assert decoded(data[:cut], data[cut:]) == decoded(data)


def test_the_last_word_counts_without_its_newline() -> None:
    assert decoded(b"data: 1\n\n", b"data: [DONE]") == [ServerEvent("", b"1"), ServerEvent("", b"[DONE]")]


def test_an_event_whose_line_ended_counts_without_its_empty_line() -> None:
    assert decoded(b"data: 1\n") == [ServerEvent("", b"1")]


def test_a_line_cut_in_the_middle_is_no_event() -> None:
    assert decoded(b'data: 1\n\ndata: {"a":') == [ServerEvent("", b"1")]


def test_the_name_of_one_event_does_not_stick_to_the_next() -> None:
    assert decoded(b"event: x\n\ndata: 1\n\n") == [ServerEvent("", b"1")]


@pytest.mark.parametrize("chunk", [b"x" * 8, b"data: 1\n"])
def test_what_never_ends_is_refused_at_the_limit(chunk: bytes) -> None:
    decoder = SSEDecoder(limit=64)
    with pytest.raises(OversizedEventError):
        [event for _ in range(100) for event in fed(decoder, chunk)]


def test_many_small_events_are_not_counted_together() -> None:
    decoder = SSEDecoder(limit=64)
    assert sum(len(list(fed(decoder, b"data: 1234567890\n\n"))) for _ in range(50)) == 50


def test_events_that_were_not_asked_for_yet_are_kept() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: 1\n\ndata: 2\n\nda")
    decoder.feed(b"ta: 3\n\n")
    assert [event.data for event in pending(decoder)] == [b"1", b"2", b"3"]


def test_lines_are_split_a_piece_at_a_time() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: 1\n\n" + b"\n" * 1_000_000)
    assert decoder.next_event() == ServerEvent("", b"1")
    assert len(decoder._lines) < 100_000


def test_an_event_may_be_longer_than_a_piece() -> None:
    data = b"x" * 200_000
    assert decoded(b"data: " + data + b"\n\ndata: 2\n\n") == [ServerEvent("", data), ServerEvent("", b"2")]
