"""JSON schemas in the dialect that Anthropic's structured output takes.

The rules are those of the SDK's public `anthropic.transform_schema`: what is not supported moves into the description,
where the model can still read it. It is not called here because importing the SDK takes seconds and a request is
prepared on the event loop; and because it refuses some legal schemas (lists of types, boolean schemas, no type at all).
A test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from reliable_llm.types import Json

Schema = dict[str, object]

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs, and the SDK's own list.
_STRING_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_LITERALS: Final = (str, int, float, bool, type(None))


def to_dialect(schema: Json) -> Schema:
    """Return *schema* with only what Anthropic supports; *schema* itself stays as it is."""
    left = dict(schema)
    out: Schema = {}
    _definitions(left, out)
    if "$ref" in left:
        return out | {"$ref": left["$ref"]}
    kind = _shape(left, out)
    for name in ("description", "title"):
        if left.get(name) is not None:
            out[name] = left[name]
        left.pop(name, None)
    if isinstance(kind, str) and kind in _BY_TYPE:
        _BY_TYPE[kind](left, out)
    if left:
        _tell(left, out)
    return out


def object_root(schema: Json) -> Schema | None:
    """Return *schema* as a tool's input, whose root must be a plain object; None where it is something else."""
    root = dict(schema)
    definitions, target = root.get("$defs"), root.get("$ref")
    if isinstance(definitions, Mapping) and isinstance(target, str):
        resolved = definitions.get(target.rpartition("/")[2])
        root = {**resolved, "$defs": definitions} if isinstance(resolved, Mapping) else root
    if root.get("type") != "object" or root.keys() & {"oneOf", "anyOf", "allOf"}:
        return None
    return root


def _definitions(left: Schema, out: Schema) -> None:
    definitions = left.pop("$defs", None)
    if isinstance(definitions, Mapping):
        out["$defs"] = {name: _each(definition) for name, definition in definitions.items()}


def _each(schema: object) -> object:
    return to_dialect(schema) if isinstance(schema, Mapping) else {}


def _shape(left: Schema, out: Schema) -> object:
    """Move what says which values are meant: literals, alternatives, or a type; return the type."""
    kind = left.pop("type", None)
    alternatives = {name: left.pop(name, None) for name in ("anyOf", "oneOf", "allOf")}
    if _move_literals(left, out):
        kind = None
    for name, variants in alternatives.items():
        if isinstance(variants, list):
            out["allOf" if name == "allOf" else "anyOf"] = [_each(variant) for variant in variants]
            return kind
    if isinstance(kind, list):
        _several_types(kind, left, out)
        return None
    if kind is not None:
        out["type"] = kind
    return kind


def _move_literals(left: Schema, out: Schema) -> bool:
    values = left.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, _LITERALS) for value in values):
        out["enum"] = list(values)
        del left["enum"]
    if "const" in left and isinstance(left["const"], _LITERALS):
        out["const"] = left.pop("const")
    return "enum" in out or "const" in out


def _several_types(kinds: Sequence[object], left: Schema, out: Schema) -> None:
    shared = {name: left.pop(name) for name in tuple(left) if name not in ("description", "title")}
    out["anyOf"] = [{"type": "null"} if kind == "null" else to_dialect({**shared, "type": kind}) for kind in kinds]


def _object(left: Schema, out: Schema) -> None:
    properties = left.pop("properties", None)
    known = properties if isinstance(properties, Mapping) else {}
    out["properties"] = {name: _each(schema) for name, schema in known.items()}
    left.pop("additionalProperties", None)
    out["additionalProperties"] = False
    if left.get("required") is not None:
        out["required"] = left["required"]
    left.pop("required", None)


def _string(left: Schema, out: Schema) -> None:
    form = left.pop("format", None)
    if form in _STRING_FORMATS:
        out["format"] = form
    elif form:
        left["format"] = form


def _array(left: Schema, out: Schema) -> None:
    items, least = left.pop("items", None), left.pop("minItems", None)
    if items is not None:
        out["items"] = _each(items)
    if least in (0, 1):
        out["minItems"] = least
    elif least is not None:
        left["minItems"] = least


_BY_TYPE: Final[Mapping[str, Callable[[Schema, Schema], None]]] = {
    "object": _object,
    "string": _string,
    "array": _array,
}


def _tell(left: Schema, out: Schema) -> None:
    told = "{" + ", ".join(f"{name}: {value}" for name, value in left.items()) + "}"
    described = out.get("description")
    out["description"] = told if described is None else f"{described}\n\n{told}"
