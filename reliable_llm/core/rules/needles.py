"""Words that a text must hold for a pattern to match: asked first, for `in` is many times cheaper than a search."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

_PIECE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:[:=!]|<[=!])|(?:[?*+]|\{\d*,?\d*\})\??|.", re.DOTALL)
_SHORTEST: Final = 2


class Alternative:
    """One alternative of a pattern, searched without regard to case and only in texts that hold its needles."""

    __slots__ = ("_expression", "_parts", "needles")

    def __init__(self, pattern: str) -> None:
        self._expression = re.compile(pattern, re.IGNORECASE)
        self._parts = needles(pattern)
        self.needles = max(self._parts, key=_telling, default=())

    def search(self, text: str, folded: str) -> re.Match[str] | None:
        """Return the first match in *text*, which is *folded* without its case."""
        return self._expression.search(text) if _holds(folded, self._parts) else None

    def all(self, text: str, folded: str) -> Iterable[re.Match[str]]:
        return self._expression.finditer(text) if _holds(folded, self._parts) else ()


class Guarded:
    """A pattern as its alternatives, each of which is searched only where it can be found."""

    def __init__(self, pattern: str) -> None:
        self.alternatives = tuple(map(Alternative, _split(pattern)))

    def search(self, text: str) -> re.Match[str] | None:
        """Return a match, not always the leftmost one."""
        folded = text.casefold()
        return next(filter(None, (one.search(text, folded) for one in self.alternatives)), None)

    def all(self, text: str) -> list[re.Match[str]]:
        """Return the matches of each alternative in turn."""
        folded = text.casefold()
        return [found for one in self.alternatives for found in one.all(text, folded)]


def _holds(folded: str, parts: list[tuple[str, ...]]) -> bool:
    """Tell whether one word of each set is in a text. Written out, for this is where the time goes."""
    for words in parts:
        for word in words:
            if word in folded:
                break
        else:
            return False
    return True


def needles(pattern: str) -> list[tuple[str, ...]]:
    """Return sets of words, case-folded: a text that *pattern*, one alternative, matches holds one word of each set.

    Empty where there is no telling, as for named groups and inline flags: then the pattern must be searched.
    """
    pieces = deque(_PIECE.findall(pattern))
    parts = [] if _is_unread(pieces) else _parts(pieces)
    return [_fewest(words) for words in parts if _telling(words) >= _SHORTEST]


def _split(pattern: str) -> list[str]:
    """Return the alternatives of *pattern*; itself where it holds what is not read here, such as inline flags."""
    pieces = deque(_PIECE.findall(pattern))
    if _is_unread(pieces):
        return [pattern]
    branches, depth = [""], 0
    for piece in pieces:
        depth += piece.startswith("(") - (piece == ")")
        if piece == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += piece
    return branches


def _is_unread(pieces: Sequence[str]) -> bool:
    backward = any(piece[0] == "\\" and piece[1].isdigit() for piece in pieces)
    return backward or any(piece == "(" and following[0] == "?" for piece, following in pairwise(pieces))


def _alternation(pieces: deque[str]) -> tuple[str, ...]:
    """Read up to the end of a group; nothing is certain where one branch has nothing certain."""
    branches = [_most_telling(pieces)]
    while pieces and pieces.popleft() == "|":
        branches.append(_most_telling(pieces))
    return () if () in branches else tuple(word for branch in branches for word in branch)


def _most_telling(pieces: deque[str]) -> tuple[str, ...]:
    return max(_parts(pieces), key=_telling, default=())


def _parts(pieces: deque[str]) -> list[tuple[str, ...]]:
    """Return what a branch cannot do without: runs of letters, and what its groups hold."""
    parts: list[tuple[str, ...]] = []
    run = ""
    while pieces and pieces[0] not in ("|", ")"):
        piece = pieces.popleft()
        inner = _alternation(pieces) if piece.startswith("(") else ()
        quantifier = pieces.popleft() if pieces and pieces[0][0] in "?*+{" else ""
        certain = quantifier[:1] in ("", "+")
        if certain and _is_letter(piece):
            run += piece[-1].casefold()
            if not quantifier:
                continue
        parts += [(run,), inner if certain and piece in ("(", "(?:") else ()]
        run = ""
    return [words for words in (*parts, (run,)) if _telling(words)]


def _is_letter(piece: str) -> bool:
    return not piece[-1].isalnum() if piece[0] == "\\" else len(piece) == 1 and piece not in ".^$("


def _telling(words: tuple[str, ...]) -> int:
    return min(map(len, words), default=0)


def _fewest(words: Sequence[str]) -> tuple[str, ...]:
    """Drop what another word covers: where a text must hold "quota", "quota exceeded" adds nothing."""
    return tuple(word for word in dict.fromkeys(words) if not any(other in word for other in words if other != word))
