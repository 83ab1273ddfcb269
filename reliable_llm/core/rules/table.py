"""Rules in their order, found by what a failure has: a storm of failures must not eat the processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from reliable_llm.core.rules.needles import Alternative
from reliable_llm.core.rules.rule import Rule

_Way = tuple[int, Rule, Alternative | None]
"""One way for a rule to fit: its place, and the alternative of its pattern; None where it has no pattern."""


class Table:
    """The built-in rules of one layer, in order. What it finds is what asking each in turn would find."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        ways = [way for place, rule in enumerate(self._rules) for way in _ways(place, rule)]
        self._by_code: dict[str, list[_Way]] = {}
        for way in ways:
            for code in way[1].lowered:
                self._by_code.setdefault(code, []).append(way)
        codeless = [way for way in ways if not way[1].lowered]
        self._anywhere = _Texts(way for way in codeless if not way[1].statuses)
        self._by_status = {
            status: _Texts(way for way in codeless if not way[1].statuses or status in way[1].statuses)
            for status in {status for rule in self._rules for status in rule.statuses}
        }

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def first(self, *, vendors: Sequence[str], status: int, codes: Sequence[str], texts: Sequence[str]) -> Rule | None:
        """Return the first rule that fits, as `Rule.fits` tells."""
        both = [(text, text.casefold()) for text in texts]
        told = self._by_status.get(status, self._anywhere).worth_asking("\n".join(folded for _, folded in both))
        told += [way for code in codes if code in self._by_code for way in self._by_code[code]]
        for _, rule, alternative in sorted(told, key=itemgetter(0)):
            if not rule.applies(vendors=vendors, status=status, codes=codes):
                continue
            if alternative is None or any(alternative.search(text, folded) for text, folded in both):
                return rule
        return None


def _ways(place: int, rule: Rule) -> Iterator[_Way]:
    for alternative in rule.expression.alternatives if rule.pattern else (None,):
        yield place, rule, alternative


class _Texts:
    """Ways by the needles of their alternatives."""

    def __init__(self, ways: Iterable[_Way]) -> None:
        by_needle: dict[str, list[_Way]] = {"": []}
        for way in ways:
            for needle in (way[2].needles if way[2] else ()) or ("",):
                by_needle.setdefault(needle, []).append(way)
        self._in_ascii = tuple((needle, found) for needle, found in by_needle.items() if needle.isascii())
        self._beyond_ascii = tuple((needle, found) for needle, found in by_needle.items() if not needle.isascii())

    def worth_asking(self, folded: str) -> list[_Way]:
        """Return the ways that texts, *folded* without their case, do not rule out."""
        told = [way for needle, found in self._in_ascii if needle in folded for way in found]
        if not folded.isascii():
            told += [way for needle, found in self._beyond_ascii if needle in folded for way in found]
        return told
