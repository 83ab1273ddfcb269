"""Scenario files: read, and refused with the line, the field and the remedy."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from reliable_llm.drill.scenario import Act, Call, Expect, Policy, Provider, Scenario, Setup, Upstream
from reliable_llm.errors import ConfigurationError

_PARTS = (Scenario, Setup, Provider, Policy, Upstream, Act, Call, Expect)
_KNOWN = sorted({name for part in _PARTS for name in part.model_fields})


class ScenarioError(ConfigurationError):
    """A scenario cannot be read; the message names file, line, field and remedy, `scenario` its id."""

    scenario: str | None = None


def load(path: Path) -> list[Scenario | ScenarioError]:
    """Return the scenarios of *path*: JSON lines, one JSON object, or a JSON list of objects.

    A scenario that cannot be read stands there as its `ScenarioError`. Raises one where the file itself cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ScenarioError(f"{path}: cannot be read ({exc.strerror}); check the path") from exc
    except UnicodeDecodeError as exc:
        raise ScenarioError(f"{path}: is not UTF-8 text; save it as UTF-8") from exc
    return parse(text, str(path))


def parse(text: str, name: str = "<scenario>") -> list[Scenario | ScenarioError]:
    """Return the scenarios of *text*, as `load` does; *name* stands in error messages."""
    found: list[Scenario | ScenarioError] = []
    seen: set[str] = set()
    for start, value in _documents(text, name):
        try:
            found.append(_checked(_scenario(text, start, value, name), seen, text, start, name))
        except ScenarioError as error:
            error.scenario = str(value.get("id")) if isinstance(value, dict) else None
            found.append(error)
    if not found:
        raise ScenarioError(f"{name}: holds no scenario; write one JSON object a line")
    return found


def _documents(text: str, name: str) -> Iterator[tuple[int, object]]:
    decoder, at = json.JSONDecoder(), _skip(text, 0)
    in_list = text[at : at + 1] == "["
    at = _skip(text, at + 1, "") if in_list else at
    while at < len(text) and not (in_list and text[at] == "]"):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as exc:
            where = f"{name}, line {exc.lineno}"
            raise ScenarioError(f"{where}: not JSON ({exc.msg}, column {exc.colno}); check commas and quotes") from exc
        except (ValueError, RecursionError):
            problem = "nested too deeply, or a number without end"
            raise ScenarioError(f"{name}, line {_line(text, at)}: not JSON that can be read: {problem}") from None
        yield at, value
        at = _skip(text, end, "," if in_list else "")


def _skip(text: str, at: int, also: str = "") -> int:
    while at < len(text) and text[at] in " \t\r\n\ufeff" + also:
        at += 1
    return at


def _scenario(text: str, start: int, value: object, name: str) -> Scenario:
    if not isinstance(value, dict):
        found = type(value).__name__
        raise ScenarioError(f"{name}, line {_line(text, start)}: a scenario is a JSON object {{...}}, found {found}")
    try:
        return Scenario.model_validate(value)
    except ValidationError as exc:
        raise ScenarioError(_explained(text, start, value, name, exc)) from exc


def _explained(text: str, start: int, value: dict[str, object], name: str, exc: ValidationError) -> str:
    first = exc.errors(include_url=False, include_input=False)[0]
    path = [part for part in first["loc"] if not _is_branch(part)]
    field = ".".join(str(part) for part in path)
    line = _line(text, _offset(text, start, path))
    who = f" scenario {value['id']}," if isinstance(value.get("id"), str) else ""
    more = f" ({exc.error_count() - 1} more)" if exc.error_count() > 1 else ""
    return f"{name}, line {line}:{who} field {field}: {_remedy(first['type'], first['msg'], value, path)}{more}"


def _is_branch(part: int | str) -> bool:
    # pydantic names the member of a union that it tried; that is no place in the file.
    return isinstance(part, str) and ("[" in part or part in {"str", "int", "bool", "float"})


def _remedy(kind: str, message: str, value: dict[str, object], path: Sequence[int | str]) -> str:
    if kind == "string_pattern_mismatch":
        return "write provider/key/model, with * for any"
    if kind != "missing":
        message = message.removeprefix("Value error, ")
        return message[0].lower() + message[1:]
    holder: object = value
    for part in path[:-1]:
        holder = holder[part] if isinstance(holder, dict | list) else None  # type: ignore[index]
    wrong = list(holder) if isinstance(holder, dict) else []
    close = difflib.get_close_matches(str(path[-1]), wrong, n=1)
    return f"is missing; found {close[0]!r}, did you mean {path[-1]!r}?" if close else "is missing; add it"


def suggestion(field: str) -> str:
    """Return ` (did you mean ...?)` for a misspelt field, or nothing."""
    close = difflib.get_close_matches(field, _KNOWN, n=1, cutoff=0.75)
    return f" (did you mean {close[0]!r}?)" if close and close[0] != field else ""


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _offset(text: str, start: int, path: Sequence[int | str]) -> int:
    """Return where *path* starts in the JSON value at *start*, as far as it can be followed."""
    at = start
    for part in path:
        inner = _child(text, at, part)
        if inner is None:
            return at
        at = inner
    return at


def _child(text: str, at: int, wanted: int | str) -> int | None:
    decoder, closing = json.JSONDecoder(), {"{": "}", "[": "]"}.get(text[at])
    at, number = _skip(text, at + 1), 0
    while closing and text[at] != closing:
        key: int | str = number
        if closing == "}":
            key, at = decoder.raw_decode(text, at)
            at = _skip(text, at, ":")
        if key == wanted:
            return at
        at, number = _skip(text, decoder.raw_decode(text, at)[1], ","), number + 1
    return None


def _checked(scenario: Scenario, seen: set[str], text: str, start: int, name: str) -> Scenario:
    if scenario.id in seen:
        line = _line(text, _offset(text, start, ["id"]))
        raise ScenarioError(
            f"{name}, line {line}: field id: an earlier scenario has the id {scenario.id!r}; give each its own"
        )
    seen.add(scenario.id)
    _check_calls(scenario, text, start, name)
    if not any(call.op == "construct" for call in scenario.calls):
        _check_route(scenario, text, start, name)
    return scenario


def _check_calls(scenario: Scenario, text: str, start: int, name: str) -> None:
    ids = [call.id for call in scenario.calls]
    for number, each in enumerate(ids):
        if each in ids[:number]:
            line = _line(text, _offset(text, start, ["calls", number, "id"]))
            raise ScenarioError(
                f"{name}, line {line}: scenario {scenario.id}, field calls.{number}.id: an earlier call has the id "
                f"{each!r}; give each its own, or write c1..c9 for several"
            )


def _check_route(scenario: Scenario, text: str, start: int, name: str) -> None:
    models = {p.name: p.models for p in scenario.setup.providers}
    for number, (provider, model) in enumerate(scenario.setup.route):
        if model not in models.get(provider, ()):
            known = ", ".join(f"{p}/{m}" for p, listed in models.items() for m in listed)
            line = _line(text, _offset(text, start, ["setup", "route", number]))
            raise ScenarioError(
                f"{name}, line {line}: scenario {scenario.id}, field setup.route.{number}: {provider}/{model} is none "
                f"of {known}; "
                "list the provider and its model under setup.providers"
            )
