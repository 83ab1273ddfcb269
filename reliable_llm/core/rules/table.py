"""Rules in their order, found by what a failure has: a storm of failures must not eat the processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from reliable_llm.core.rules.rule import Rule

_Placed = tuple[int, Rule]


class Table:
    """The built-in rules of one layer, in order. What it finds is what asking each in turn would find."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        placed = list(enumerate(self._rules))
        self._by_code: dict[str, list[_Placed]] = {}
        for place, rule in placed:
            for code in rule.lowered:
                self._by_code.setdefault(code, []).append((place, rule))
        codeless = [(place, rule) for place, rule in placed if not rule.lowered]
        self._anywhere = _Texts([(place, rule) for place, rule in codeless if not rule.statuses])
        self._by_status = {
            status: _Texts([(place, rule) for place, rule in codeless if not rule.statuses or status in rule.statuses])
            for status in {status for rule in self._rules for status in rule.statuses}
        }

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def first(self, *, vendors: Sequence[str], status: int, codes: Sequence[str], texts: Sequence[str]) -> Rule | None:
        """Return the first rule that fits, as `Rule.fits` tells."""
        told = self._by_status.get(status, self._anywhere).could_match("\n".join(texts).casefold())
        named = [placed for code in codes if code in self._by_code for placed in self._by_code[code]]
        for _, rule in sorted([*told, *named], key=itemgetter(0)):
            if rule.fits(vendors=vendors, status=status, codes=codes, texts=texts):
                return rule
        return None


class _Texts:
    """Rules that look at the texts, by the needles of their patterns."""

    def __init__(self, placed: Iterable[_Placed]) -> None:
        self._always = [(place, rule) for place, rule in placed if not rule.expression.needles]
        by_needle: dict[str, list[_Placed]] = {}
        for place, rule in placed:
            for needle in rule.expression.needles:
                by_needle.setdefault(needle, []).append((place, rule))
        self._by_needle = tuple(by_needle.items())

    def could_match(self, folded: str) -> list[_Placed]:
        return [*self._always, *(placed for needle, found in self._by_needle if needle in folded for placed in found)]
