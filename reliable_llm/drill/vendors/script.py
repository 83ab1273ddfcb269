"""Which act answers the next request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reliable_llm.drill.scenario import Act, Upstream

# What a vendor says to a request that nobody wrote a line for.
UNSCRIPTED: Final = Act(
    act="error", status=500, error={"type": "server_error", "message": "the script has no more to say"}
)


class Scripts:
    """The scripts of all vendors: the most specific match wins, each is consumed in order of arrival."""

    def __init__(self) -> None:
        self._entries: list[_Script] = []

    def add(self, entry: Upstream) -> None:
        """Put *entry* before what is there already, for the same match."""
        self._entries.insert(0, _Script(entry))

    def next(self, provider: str, key: str, model: str) -> Act | None:
        """Return the act for a request, or None where nothing is left to say."""
        fitting = self._fitting(provider, key, model)
        return max(fitting, key=lambda entry: entry.weight).next() if fitting else None

    def why_none(self, provider: str, key: str, model: str) -> str:
        """Return what to write for a request that `next` has no act for."""
        if self._fitting(provider, key, model):
            return 'the script has no more to say: add an act, or "repeat": true to its last'
        return f"no match of upstream is for {provider}/{key}/{model}: add a script with that, or with *"

    def _fitting(self, *where: str) -> list[_Script]:
        return [entry for entry in self._entries if entry.fits(where)]


class _Script:
    def __init__(self, entry: Upstream) -> None:
        self._match = tuple(entry.match.split("/", 2))
        self.weight = sum(part != "*" for part in self._match)
        self._acts = _expanded(entry.script)

    def fits(self, where: tuple[str, ...]) -> bool:
        return all(want in ("*", have) for want, have in zip(self._match, where, strict=True))

    def next(self) -> Act | None:
        return next(self._acts, None)


def _expanded(acts: list[Act]) -> Iterator[Act]:
    for act in acts:
        yield from [act] * (1 if act.for_first is None else act.for_first)
    while acts[-1].repeat:
        yield acts[-1]
