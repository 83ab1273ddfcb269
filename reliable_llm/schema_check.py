"""Whether a JSON value fits a JSON schema, and if not, why.

For answers to a schema without a Python type; with one, pydantic does it. Covers the assertions of draft 2020-12 that
vendors accept in a schema for an answer; formats, and keywords that are not known here, are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final

from reliable_llm.types import Json

Problems = Iterator[str]
Check = Callable[[object, object, "_Place"], Problems]

# A schema that refers to itself is legal; an answer nested deeper than this is taken as it is.
_DEEPEST: Final = 100


class _Place:
    """Where in the value we are, and the whole schema that references point into."""

    __slots__ = ("depth", "path", "root", "schema")

    def __init__(self, root: Json, schema: Json, path: str = "", depth: int = 0) -> None:
        self.root, self.schema, self.path, self.depth = root, schema, path, depth

    def into(self, schema: object, path: str | None = None) -> _Place:
        inner = schema if isinstance(schema, Mapping) else {} if schema is not False else {"not": {}}
        return _Place(self.root, inner, self.path if path is None else f"{self.path}{path}", self.depth + 1)

    def says(self, problem: str) -> str:
        return f"{self.path.lstrip('.') or 'the answer'}: {problem}"


def problems(value: object, schema: Json) -> list[str]:
    """Return what keeps *value* from fitting *schema*, as short sentences that do not quote the value."""
    return list(_problems(value, _Place(schema, schema)))


def _problems(value: object, place: _Place) -> Problems:
    if place.depth > _DEEPEST:
        return
    for keyword, check in _CHECKS.items():
        if keyword in place.schema:
            yield from check(value, place.schema[keyword], place)


def _fits(value: object, place: _Place) -> bool:
    return next(_problems(value, place), None) is None


# ---------------------------------------------------------------- any value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_whole,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _type(value: object, wanted: object, place: _Place) -> Problems:
    names = [str(name) for name in wanted] if isinstance(wanted, list) else [str(wanted)]
    if not any(name not in _TYPES or _TYPES[name](value) for name in names):
        yield place.says(f"must be of type {' or '.join(names)}")


def _same(left: object, right: object) -> bool:
    """JSON's equality: 1 is 1.0, and true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    return left == right


def _enum(value: object, allowed: object, place: _Place) -> Problems:
    if isinstance(allowed, list | tuple) and not any(_same(value, each) for each in allowed):
        yield place.says(f"must be one of {', '.join(map(str, allowed[:20]))}")


def _const(value: object, wanted: object, place: _Place) -> Problems:
    if not _same(value, wanted):
        yield place.says(f"must be {wanted}")


def _ref(value: object, target: object, place: _Place) -> Problems:
    found: object = place.root
    for step in str(target).removeprefix("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) and name else found
    yield from _problems(value, place.into(found))


def _all_of(value: object, schemas: object, place: _Place) -> Problems:
    yield from chain.from_iterable(_problems(value, place.into(schema)) for schema in _listed(schemas))


def _any_of(value: object, schemas: object, place: _Place) -> Problems:
    if not any(_fits(value, place.into(schema)) for schema in _listed(schemas)):
        yield place.says("fits none of the forms allowed")


def _one_of(value: object, schemas: object, place: _Place) -> Problems:
    fitting = sum(_fits(value, place.into(schema)) for schema in _listed(schemas))
    if fitting != 1:
        yield place.says(f"must fit exactly one of the forms allowed, and fits {fitting}")


def _not(value: object, schema: object, place: _Place) -> Problems:
    if _fits(value, place.into(schema)):
        yield place.says("is not allowed")


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


# ---------------------------------------------------------------- numbers and strings


def _bound(holds: Callable[[float, float], bool], words: str) -> Check:
    def check(value: object, limit: object, place: _Place) -> Problems:
        if _is_number(value) and _is_number(limit) and not holds(value, limit):  # type: ignore[arg-type]
            yield place.says(f"must be {words} {limit}")

    return check


def _multiple_of(value: object, step: object, place: _Place) -> Problems:
    if isinstance(value, int | float) and _is_number(value) and isinstance(step, int | float) and step > 0:
        times = value / step
        if abs(times - round(times)) > 1e-9 * max(1.0, abs(times)):
            yield place.says(f"must be a multiple of {step}")


def _size(kind: type | tuple[type, ...], holds: Callable[[int, int], bool], words: str) -> Check:
    def check(value: object, limit: object, place: _Place) -> Problems:
        if isinstance(value, kind) and isinstance(limit, int) and not holds(len(value), limit):  # type: ignore[arg-type]
            yield place.says(f"must have {words} {limit} {_UNITS[type(value)]}")

    return check


_UNITS: Final[Mapping[type, str]] = {str: "characters", list: "items", dict: "members"}


def _pattern(value: object, pattern: object, place: _Place) -> Problems:
    if isinstance(value, str) and not _matches(pattern, value):
        yield place.says(f"must match the pattern {pattern}")


def _matches(pattern: object, text: str) -> bool:
    try:
        return re.search(str(pattern), text) is not None
    except re.error:  # a pattern of another dialect is not for us to judge
        return True


# ---------------------------------------------------------------- arrays and objects


def _items(value: object, schema: object, place: _Place) -> Problems:
    if isinstance(value, list):
        first = len(_listed(place.schema.get("prefixItems")))
        for number, item in enumerate(value[first:], first):
            yield from _problems(item, place.into(schema, f"[{number}]"))


def _prefix_items(value: object, schemas: object, place: _Place) -> Problems:
    if isinstance(value, list):
        for number, (item, schema) in enumerate(zip(value, _listed(schemas), strict=False)):
            yield from _problems(item, place.into(schema, f"[{number}]"))


def _unique_items(value: object, wanted: object, place: _Place) -> Problems:
    items = value if wanted is True and isinstance(value, list) else []
    if any(_same(left, right) for number, left in enumerate(items) for right in items[:number]):
        yield place.says("must not hold the same item twice")


def _required(value: object, names: object, place: _Place) -> Problems:
    if isinstance(value, dict):
        missing = [str(name) for name in _listed(names) if name not in value]
        if missing:
            yield place.says(f"lacks {', '.join(missing)}")


def _properties(value: object, schemas: object, place: _Place) -> Problems:
    if isinstance(value, dict) and isinstance(schemas, Mapping):
        for name, schema in schemas.items():
            if name in value:
                yield from _problems(value[name], place.into(schema, f".{name}"))


def _pattern_properties(value: object, schemas: object, place: _Place) -> Problems:
    if isinstance(value, dict) and isinstance(schemas, Mapping):
        for pattern, schema in schemas.items():
            for name in (name for name in value if _matches(pattern, name)):
                yield from _problems(value[name], place.into(schema, f".{name}"))


def _additional(value: object, schema: object, place: _Place) -> Problems:
    if not isinstance(value, dict):
        return
    known = place.schema.get("properties")
    patterns = place.schema.get("patternProperties")
    for name in value:
        is_known = isinstance(known, Mapping) and name in known
        if is_known or any(_matches(each, name) for each in (patterns if isinstance(patterns, Mapping) else ())):
            continue
        if schema is False:
            yield place.says("holds a member that the schema does not know")
            return
        yield from _problems(value[name], place.into(schema, f".{name}"))


def _property_names(value: object, schema: object, place: _Place) -> Problems:
    if isinstance(value, dict):
        for name in value:
            yield from _problems(name, place.into(schema, f".{name}"))


_CHECKS: Final[Mapping[str, Check]] = {
    "$ref": _ref,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "minimum": _bound(lambda value, limit: value >= limit, "at least"),
    "maximum": _bound(lambda value, limit: value <= limit, "at most"),
    "exclusiveMinimum": _bound(lambda value, limit: value > limit, "more than"),
    "exclusiveMaximum": _bound(lambda value, limit: value < limit, "less than"),
    "multipleOf": _multiple_of,
    "minLength": _size(str, lambda size, limit: size >= limit, "at least"),
    "maxLength": _size(str, lambda size, limit: size <= limit, "at most"),
    "pattern": _pattern,
    "minItems": _size(list, lambda size, limit: size >= limit, "at least"),
    "maxItems": _size(list, lambda size, limit: size <= limit, "at most"),
    "uniqueItems": _unique_items,
    "prefixItems": _prefix_items,
    "items": _items,
    "minProperties": _size(dict, lambda size, limit: size >= limit, "at least"),
    "maxProperties": _size(dict, lambda size, limit: size <= limit, "at most"),
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
}
