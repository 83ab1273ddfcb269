"""What a caller asks for beyond the neutral words: fields per vendor, and changes per candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import Any, Final

from reliable_llm.types import Candidate, ChatRequest

Body = dict[str, object]

_OWN: Final = frozenset({"extra", "overrides", "tags"})
_FIELDS: Final[Mapping[str, Field[Any]]] = {each.name: each for each in fields(ChatRequest) if each.name not in _OWN}


def with_overrides(request: ChatRequest, candidate: Candidate) -> tuple[ChatRequest, Body]:
    """Return *request* as it shall go to *candidate*, and what else shall be in the body (None: shall not be).

    Overrides by provider come first, those by candidate (`openai/gpt-5.1`) win.
    """
    changes = merged(request.overrides.get(candidate.provider, {}), request.overrides.get(str(candidate), {}))
    if not changes:
        return request, {}
    neutral = {name: _value(name, value) for name, value in changes.items() if name in _FIELDS}
    other = {name: value for name, value in changes.items() if name not in _FIELDS}
    return replace(request, **neutral), other


def _value(name: str, value: object) -> Any:
    if value is None:
        default = _FIELDS[name].default
        return value if default is MISSING else default
    return tuple(value) if isinstance(value, list) else value


def extra_fields(request: ChatRequest, names: Iterable[str]) -> Body:
    """Return the fields of `request.extra` kept under any of *names*; later names win."""
    found: Body = {}
    for name in dict.fromkeys(names):
        found = merged(found, request.extra.get(name, {}))
    return found


def merged(base: Mapping[str, object], changes: Mapping[str, object]) -> Body:
    """Return *base* with *changes*, mappings merged level by level."""
    out = dict(base)
    for name, value in changes.items():
        before = out.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            out[name] = merged(before, value)
        else:
            out[name] = value
    return out


def applied(body: Mapping[str, object], changes: Mapping[str, object]) -> Body:
    """Return *body* with *changes* merged in; a change to None takes the field out."""
    out = dict(body)
    for name, value in changes.items():
        before = out.get(name)
        if value is None:
            out.pop(name, None)
        elif isinstance(value, Mapping):
            out[name] = applied(before if isinstance(before, Mapping) else {}, value)
        else:
            out[name] = value
    return out


def removed(body: Mapping[str, object], path: str) -> Body:
    """Return *body* without the field at *path* (`output_config.effort`), and without what is empty then."""
    name, _, rest = path.partition(".")
    out = dict(body)
    inner = out.pop(name, None)
    if rest and isinstance(inner, Mapping):
        kept = removed(inner, rest)
        if kept:
            out[name] = kept
    return out
