"""Read a vendor's body, whatever its shape: lists, JSON inside `message`, relays' wrappers, bare text, HTML.

Pure and bounded: a body of any size, depth or type gives an answer, never an exception.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

LONGEST_TEXT: Final = 4_000
"""Characters of a message that rules look at; vendors put what matters first."""

LONGEST_JSON: Final = 262_144
"""Characters of JSON text that are worth decoding: an error is small, a padded one is hostile."""

_DEEPEST: Final = 4
_HTML = re.compile(r"\s*(?:<!doctype html|<html|<head|<body|<\?xml)", re.IGNORECASE)
_PREFIX = re.compile(
    r"(?:\s*(?:<\d{3}>|error code: \d{3} -|"
    r"[\w.]{0,80}?(\w{0,60}(?:Error|Exception|Failed)|Invalid\w{1,60})(?: code)?\s*[:-])\s)+",
    re.IGNORECASE,
)
_SET_OFF = re.compile(r"[:>-]\s")
_ODD_ESCAPE = re.compile(r"\\[^\\'\"nrtxuU0]")
_DOT_IN_NAME = re.compile(r"\.[A-Z]")
_DOTTED = re.compile(r"\b(?:[A-Za-z]\w{0,40}\.){1,4}([A-Z]\w{2,60})(?=[:\s])")
_TEXTS: Final = (
    "message",
    "Message",  # AWS
    "error",
    "status_msg",  # MiniMax
    "detail",  # FastAPI, NVIDIA
    "msg",
    "error_message",
    "error_msg",
    "errorMessage",
)
_CODES: Final = ("error_code", "code", "status_code", "status", "type", "http_code", "reason", "limit_source")
_EMPTY: Final[Mapping[str, object]] = {}


@dataclass(frozen=True, slots=True)
class Details:
    """What a body says. `codes` are lower-case, most specific first; `texts` are the messages, the outermost first.

    `status` is an HTTP status that the body itself names. `error` is the innermost object that describes the error.
    `envelopes` are all objects passed on the way, the outermost first.
    """

    codes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    status: int | None = None
    param: str | None = None
    error: Mapping[str, object] | None = None
    envelopes: tuple[Mapping[str, object], ...] = ()
    html: bool = False


def unwrap(body: object, headers: Mapping[str, str] = _EMPTY) -> Details:  # type: ignore[assignment]
    """Return what *body* says. Bedrock names the error in a header only, hence *headers*."""
    value = decode(body)
    if isinstance(value, str):
        return _from_text(value, headers)
    envelopes = tuple(_envelopes(value, 0))
    codes = [*_header_codes(headers), *_codes(envelopes)]
    messages = _messages(envelopes)
    return Details(
        codes=tuple(dict.fromkeys([*codes, *_prefix_codes(messages)])),
        texts=tuple(dict.fromkeys(filter(None, map(clean, messages)))),
        status=next(filter(None, (_status(code) for code in codes)), None),
        param=next((text(level["param"]) for level in envelopes if isinstance(level.get("param"), str)), None) or None,
        error=envelopes[-1] if envelopes else None,
        envelopes=envelopes,
    )


def decode(body: object) -> object:
    """Return *body* with bytes and JSON text decoded; text that is not JSON comes back as str, cut."""
    if isinstance(body, bytes | bytearray):
        body = bytes(body[:LONGEST_JSON]).decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    stripped = body.lstrip("\ufeff \t\r\n").removeprefix("data:").lstrip()
    if stripped[:1] in ("{", "[") and len(stripped) <= LONGEST_JSON:
        return _loads(stripped)
    return body[:LONGEST_TEXT]


def mapping(value: object) -> Mapping[str, object]:
    """Return *value* if it is an object, else an empty one."""
    return value if isinstance(value, dict) else _EMPTY


def text(value: object) -> str:
    """Return *value* as text: str as it is, numbers written out, everything else empty."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 else ""


def clean(message: str) -> str:
    """Return *message* cut, with plain quotes and spaces, and without the class names that relays put in front."""
    plain = " ".join(message[:LONGEST_TEXT].replace("\u2019", "'").replace("\u00a0", " ").split())
    found = _PREFIX.match(plain) if _SET_OFF.search(plain, 0, 200) else None
    rest = plain[found.end() :] if found else ""
    return plain if not rest or rest.isdigit() else rest


def _loads(source: str) -> object:
    try:
        found: object = json.loads(source)
    except (ValueError, RecursionError):
        return source[:LONGEST_TEXT]
    return found


def _from_text(value: str, headers: Mapping[str, str]) -> Details:
    html = bool(_HTML.match(value)) or "text/html" in headers.get("content-type", "")
    inner = _embedded(value)
    if inner and not html:
        return unwrap(inner, headers)
    return Details(
        codes=tuple(dict.fromkeys([*_header_codes(headers), *_prefix_codes([value])])),
        texts=() if html or not value.strip() else (clean(value),),
        html=html,
    )


def _envelopes(value: object, depth: int) -> Iterator[Mapping[str, object]]:
    """Yield the objects that describe the error, from the outermost to the innermost."""
    if isinstance(value, list):
        value = next((item for item in value[:8] if isinstance(item, dict)), None)
    if isinstance(value, str):
        value = _embedded(value)
    level = mapping(value)
    if not level or depth > _DEEPEST:
        return
    yield level
    for key in ("response", "error", "errors", "base_resp", "detail", "message", "upstream_error"):
        if isinstance(level.get(key), dict | list) or (key == "message" and isinstance(level.get(key), str)):
            yield from _envelopes(level[key], depth + 1)
    yield from _envelopes(mapping(level.get("metadata")).get("raw"), depth + 1)
    yield from _envelopes(error_of_choice(level), depth + 1)


def error_of_choice(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return the error that stands where the first choice of an answer should be; empty where there is none."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return mapping(mapping(first).get("error"))


def _embedded(message: str) -> Mapping[str, object]:
    """Return the JSON object that *message* is, or holds, where it looks like an error."""
    start = message.find("{")
    if start < 0 or start > LONGEST_TEXT or len(message) - start > LONGEST_JSON:
        return _EMPTY
    level = mapping(_python_repr(message, start) if message[start + 1 : start + 2] == "'" else _json_in(message, start))
    return level if any(key in level for key in ("error", "message", "code", "type")) else _EMPTY


def _json_in(message: str, start: int) -> object:
    try:
        found: object = json.JSONDecoder().raw_decode(message, start)[0]
    except (ValueError, RecursionError):
        return None
    return found


def _python_repr(message: str, start: int) -> object:
    """Decode `{'error': {...}}`: what Python relays, and exceptions' texts, make of a body."""
    literal = message[start : min(message.rfind("}") + 1, start + LONGEST_TEXT)]
    if _ODD_ESCAPE.search(literal):  # no repr writes such a thing, and Python would warn of it
        return None
    try:
        found: object = ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return found


def _codes(envelopes: tuple[Mapping[str, object], ...]) -> Iterator[str]:
    """Yield the codes: those of the innermost object first, and in each from the most to the least specific."""
    for level in reversed(envelopes):
        metadata = mapping(level.get("metadata"))
        stated = (
            mapping(level.get("details")).get("error_code"),
            *_reasons(level.get("details")),
            *_reasons(level.get("errors")),
            metadata.get("error_type"),
            mapping(level.get("innererror")).get("code"),
            *(level[key] for key in _CODES if key in level),
            metadata.get("limit_source"),
        )
        for value in stated:
            if value is not None:
                yield from _lower(value)


def _reasons(details: object) -> list[object]:
    return [mapping(item).get("reason") for item in details[:16]] if isinstance(details, list) else []


def _lower(value: object) -> Iterator[str]:
    """Yield *value* as a code. Null may arrive as the string "None", and `type` says "error" of any body."""
    code = text(value).strip().lower()[:100]
    if code and code not in ("none", "null", "error", "undefined", "nan"):
        yield code


def _header_codes(headers: Mapping[str, str]) -> Iterator[str]:
    name = headers.get("x-amzn-errortype", "")
    yield from _lower(name.split(":")[0].split("#")[-1])


def _prefix_codes(messages: object) -> Iterator[str]:
    """Yield the last part of dotted names in front of a message: `<400> InternalError.Algo.InspectionFailed: ...`."""
    for message in messages if isinstance(messages, list | tuple) else ():
        start = str(message)[:200]
        found = _DOTTED.search(start) if _DOT_IN_NAME.search(start) else None
        if found:
            yield from _lower(found.group(1))


def _messages(envelopes: tuple[Mapping[str, object], ...]) -> list[str]:
    """Return the messages, the innermost object's first. Echoed fields (`input`, `flagged_input`) are not read."""
    found: list[str] = []
    for level in reversed(envelopes):
        for key in filter(level.__contains__, _TEXTS):
            value = level[key]
            if isinstance(value, str) and not _embedded(value):
                found.append(value)
        raw = mapping(level.get("metadata")).get("raw")
        if isinstance(raw, str) and not _embedded(raw):
            found.append(raw)
    return found[:8]


def _status(code: str) -> int | None:
    return int(code) if len(code) == 3 and code.isascii() and code.isdigit() and "400" <= code <= "599" else None
