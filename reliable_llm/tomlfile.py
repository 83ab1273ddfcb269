"""A TOML file read with care: every error names the file, the place in it and the remedy, and none shows a value."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from reliable_llm.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)


def read(file: str) -> Node:
    """Return the whole of *file*."""
    try:
        return Node(file, "", tomllib.loads(Path(file).read_text(encoding="utf-8-sig")))
    except OSError as error:
        refuse(file, f"cannot be read: {error.strerror or type(error).__name__}; check the path")
    except UnicodeDecodeError:
        refuse(file, "is not UTF-8 text: save it as UTF-8")
    except tomllib.TOMLDecodeError as error:
        refuse(file, f"is not TOML: {error}")
    except (ValueError, RecursionError):
        refuse(file, "is not TOML that can be read: it is nested too deeply, or holds a number without end")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place in the file. The value may be a key, so the errors say what it is, never what it holds."""

    file: str
    path: str
    value: object = field(repr=False)

    def refuse(self, problem: str) -> NoReturn:
        """Raise `ConfigurationError` naming this place."""
        refuse(f"{self.file}: {self.path}" if self.path else self.file, problem)

    def table(self, known: Collection[str] | None = None) -> dict[str, Node]:
        """Return the values of a table by name; only *known* names are allowed, where they are given."""
        if not isinstance(self.value, dict):
            self.refuse(f"must be a table, got {_word(self.value)}")
        for name in self.value:
            if known is not None and name not in known:
                self.refuse(f"unknown key {name!r}{nearest(name, known)}")
        prefix = f"{self.path}." if self.path else ""
        return {name: Node(self.file, prefix + name, value) for name, value in self.value.items()}

    def items(self) -> list[Node]:
        """Return the values of a list that is not empty."""
        if not isinstance(self.value, list):
            written = f": write [[{self.path}]] instead of [{self.path}]" if isinstance(self.value, dict) else ""
            self.refuse(f"must be a list, got {_word(self.value)}{written}")
        if not self.value:
            self.refuse("is empty: give at least one")
        return [Node(self.file, f"{self.path}[{n}]", value) for n, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.refuse(f"must be a string, got {_word(self.value)}")
        return self.value

    def texts(self) -> dict[str, str]:
        """Return a table of strings."""
        return {name: node.text() for name, node in self.table().items()}

    def onto(self, base: _T) -> _T:
        """Return *base*, a dataclass of settings, with the fields that this table gives."""
        hints = get_type_hints(type(base))
        nodes = self.table([each.name for each in fields(base)])
        for name, node in nodes.items():
            node.check_type(hints[name])
        try:
            return replace(base, **{name: node.value for name, node in nodes.items()})
        except ConfigurationError as error:
            self.refuse(str(error))
        except TypeError:
            self.refuse("holds a list or a table where a single value belongs")

    def check_type(self, hint: object) -> None:
        """Refuse a wrong table, truth value or count; other numbers are the settings' own business."""
        if get_origin(hint) is Mapping:
            self.table()
        kinds = set(get_args(hint) or (hint,))
        if bool in kinds and not isinstance(self.value, bool):
            self.refuse(f"must be true or false, got {_word(self.value)}")
        if kinds == {int, NoneType} and (not isinstance(self.value, int) or isinstance(self.value, bool)):
            self.refuse(f"must be a whole number, got {_word(self.value)}")


def refuse(place: str, problem: str) -> NoReturn:
    """Raise `ConfigurationError`; *problem* says what to change."""
    raise ConfigurationError(f"{place}: {problem}") from None


def nearest(name: str, known: Collection[str]) -> str:
    """Return the end of a sentence that suggests what *name* was meant to be."""
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else f": known are {', '.join(sorted(known))}"


def _word(value: object) -> str:
    words = {
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return words.get(type(value), "a date")
