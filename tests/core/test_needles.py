"""The guard in front of the patterns: it saves searches and changes no answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reliable_llm.core.classify import CODES, PHRASES
from reliable_llm.core.rules.needles import Guarded, needles
from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.core.rules.table import Table
from reliable_llm.core.unwrap import unwrap
from reliable_llm.errors import Kind

LINES = (Path(__file__).parent / "vendor_messages.jsonl").read_text().splitlines()
TEXTS = tuple(dict.fromkeys(text for line in LINES for text in unwrap(json.loads(line)["body"]).texts))
PATTERNS = tuple(dict.fromkeys(rule.pattern for rule in (*CODES, *PHRASES) if rule.pattern))


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_the_guard_finds_what_the_bare_pattern_finds_in_every_vendors_message(pattern: str) -> None:
    bare, guarded = re.compile(pattern, re.IGNORECASE), Guarded(pattern)
    assert [text for text in TEXTS if bool(bare.search(text)) != bool(guarded.search(text))] == []


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
@given(data=st.data())
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_guard_lets_through_whatever_a_pattern_can_match(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(pattern, re.IGNORECASE | re.ASCII), fullmatch=False))
    assert re.compile(pattern, re.IGNORECASE).search(text) is None or Guarded(pattern).search(text)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\bquota exhausted", [("quota exhausted",)]),
        (r"credits? (?:depleted|exhausted)", [("credit",), ("depleted", "exhausted")]),
        (r"(?:over)?loaded", [("loaded",)]),
        (r"a{2,3}bc+d", [("bc",)]),
        (r"(?:slow|(?:too )?busy)\.", [("slow", "busy")]),
        (r"(?!pay)\bfree[ -]tier", [("free",), ("tier",)]),
        (r"Limit\: \d+ [RT]PD", [("limit: ",), ("pd",)]),
        (r"(?:spend|\d+) cap", [(" cap",)]),
        (r"(?i:quota)", []),
        (r"(?P<word>quota)", []),
        (r"(quota) \1", []),
        (r".", []),
    ],
)
def test_needles_are_what_a_text_cannot_do_without(pattern: str, words: list[tuple[str, ...]]) -> None:
    assert needles(pattern) == words


def test_a_pattern_that_is_not_read_is_searched_all_the_same() -> None:
    assert Guarded(r"(?P<word>quota) (?P=word)|x").search("Quota quota")


def test_every_match_of_every_alternative_is_found() -> None:
    assert [found.group() for found in Guarded("in (?:5|9)s|after 7s").all("after 7s, in 5s, in 9s")] == [
        "in 5s",
        "in 9s",
        "after 7s",
    ]


def test_a_table_asks_rules_by_code_and_by_text_in_their_order() -> None:
    by_text = Rule(kind=Kind.TIMEOUT, pattern="slow")
    by_code = Rule(kind=Kind.OVERLOADED, codes=("BUSY",))
    found = [
        Table(rules).first(vendors=("x",), status=503, codes=("busy",), texts=("Slow",))
        for rules in ([by_text, by_code], [by_code, by_text])
    ]
    assert found == [by_text, by_code]


def test_a_table_knows_rules_for_a_status_and_rules_for_any() -> None:
    anywhere, at_400 = Rule(kind=Kind.TIMEOUT, name="any"), Rule(kind=Kind.PERMISSION, statuses=(400,))
    table = Table([at_400, anywhere])
    found = [table.first(vendors=(), status=status, codes=(), texts=()) for status in (400, 418, NO_STATUS)]
    assert found == [at_400, anywhere, anywhere]


def test_a_table_without_a_rule_that_fits_finds_none() -> None:
    table = Table([Rule(kind=Kind.TIMEOUT, pattern="slow")])
    assert table.first(vendors=(), status=400, codes=(), texts=("fast",)) is None
