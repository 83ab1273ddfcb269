"""The fields of a policy with their defaults and what their docstring says: for files and pages made from them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_LEADING_NAME: Final = re.compile(r"^`(\w+)`")
_SENTENCE_END: Final = re.compile(r"(?<=\.) (?=[A-Z`])")


@dataclass(frozen=True, slots=True)
class Setting:
    """One field. `says` is empty where the docstring has no word about it."""

    name: str
    type: str
    default: object
    says: str

    @property
    def toml(self) -> str:
        """The default as TOML writes it; empty where TOML has no word for it (None)."""
        return _toml(self.default)


def settings_of(policy: type[DataclassInstance]) -> tuple[Setting, ...]:
    """Return the fields of *policy* in order."""
    sentences = _sentences(policy)
    return tuple(
        Setting(each.name, str(each.type), _default(each), _says(each.name, sentences)) for each in fields(policy)
    )


def summary_of(policy: type[DataclassInstance]) -> str:
    """Return the first sentence of *policy*'s docstring."""
    return _sentences(policy)[0]


def _sentences(policy: type[DataclassInstance]) -> list[str]:
    return _SENTENCE_END.split(" ".join((inspect.getdoc(policy) or "").split()))


def _says(name: str, sentences: list[str]) -> str:
    """Return the sentence that begins with the field's name, else the first one that has it."""
    found = next((each for each in sentences if each.startswith(f"`{name}`")), None)
    found = found or next((each for each in sentences if f"`{name}`" in each), "")
    return _LEADING_NAME.sub(r"\1", found)


def _default(each: Field[object]) -> object:
    return each.default_factory() if each.default_factory is not MISSING else each.default


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) and value != int(value) else str(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, frozenset | tuple | list):
        return "[" + ", ".join(f'"{item}"' for item in sorted(map(str, value))) + "]"
    return f'"{value}"' if isinstance(value, str) else ""
