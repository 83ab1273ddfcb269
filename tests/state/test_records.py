"""A record of a store may have been written by anybody."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from reliable_llm.errors import Kind
from reliable_llm.policy import DAY
from reliable_llm.state.records import MAX_BYTES, SHARED_KINDS, Record, decode, encode

NOW = 1_800_000_000.0

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.builds(
        Record,
        at=st.floats(1.0, NOW),
        until=st.just(0.0) | st.floats(1.0, 1e12),
        kind=st.sampled_from(sorted(SHARED_KINDS)),
        status=st.none() | st.integers(100, 599),
        code=st.none() | st.from_regex(r"[a-z_]{1,40}", fullmatch=True),
        probe=st.booleans(),
    )
)
def test_what_is_written_is_read_back_and_short(record: Record) -> None:
    line = encode(record)

    again = decode(line, NOW)

    assert again is not None
    assert len(line) <= MAX_BYTES
    assert again.is_open == record.is_open
    if not record.is_open:
        assert (again.kind, again.status, again.code, again.probe) == (
            record.kind,
            record.status,
            record.code,
            record.probe,
        )


@given(st.binary(max_size=400))
def test_reading_bytes_never_raises(raw: bytes) -> None:
    decode(raw, NOW)


@given(st.dictionaries(st.sampled_from(["at", "until", "kind", "status", "code", "probe"]), json_values))
def test_no_value_means_more_than_a_day(fields: dict[str, object]) -> None:
    record = decode(json.dumps(fields).encode(), NOW)

    assert record is None or record.until <= min(record.at, NOW + 60.0) + DAY


def test_a_record_from_the_future_is_none() -> None:
    assert decode(encode(Record(at=NOW + 61.0)), NOW) is None


def test_a_code_that_may_hold_a_key_is_left_out() -> None:
    record = Record(at=NOW, until=NOW + 1, kind=Kind.AUTHENTICATION, code="sk-live-1234")

    assert b"sk-" not in encode(record)
