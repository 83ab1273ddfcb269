"""Which callers want another start of the chain: a bounded map from paths to chains. See `reliable_llm.callers`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, TypeAlias

from reliable_llm.types import Candidate

Path: TypeAlias = tuple[str, ...]
Chain: TypeAlias = tuple[Candidate, ...]

MAX_WISHES: Final = 10_000


class Wishes:
    """Chains by caller: a bounded map. Only callers with a wish take up room."""

    def __init__(self, limit: int = MAX_WISHES) -> None:
        self._limit = limit
        self._chains: OrderedDict[Path, Chain] = OrderedDict()

    def of(self, path: Path) -> Chain | None:
        """Return the most specific chain for *path*."""
        for level in _levels(path):
            chain = self._chains.get(level)
            if chain is not None:
                self._chains.move_to_end(level)
                return chain
        return None

    def set(self, path: Path, chain: Chain) -> None:
        self._chains[path] = chain
        self._chains.move_to_end(path)
        if len(self._chains) > self._limit:
            self._chains.popitem(last=False)

    def forget(self, path: Path) -> None:
        self._chains.pop(path, None)

    def __len__(self) -> int:
        return len(self._chains)


def _levels(path: Path) -> Iterator[Path]:
    for length in range(len(path), 0, -1):
        yield path[:length]
