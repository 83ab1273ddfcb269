"""The `explain` command: what a failure means, how sure that is, and what to do about it.

It reads one failure a line: a row of a corpus (`{"id", "vendor", "sdk", "status", "headers", "body"}`), the bare body
of a vendor's answer (with `--status` and `--vendor`), or an exception's text as a log has it. What it prints has gone
through the real SDK's exception; what this package itself has logged or raised names its kind already.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TextIO

from reliable_llm.clock import SystemClock
from reliable_llm.commands.remedies import ADVICE
from reliable_llm.core.classify import reason_of
from reliable_llm.core.rules.statuses import BY_CLASS, BY_STATUS_CLASS
from reliable_llm.core.unwrap import mapping, unwrap
from reliable_llm.diagnosis import body_in_text, diagnose
from reliable_llm.errors import ERROR_CLASSES, ConfigurationError, Kind, Verdict, default_verdict
from reliable_llm.replay import Recorded, Replay
from reliable_llm.tomlfile import nearest
from reliable_llm.vendors import VENDORS

_ANTHROPIC: Final = ("anthropic", "bedrock", "vertex", "vertex-anthropic")

_RAISED: Final = re.compile(r"(?:[a-z_]\w*\.){1,8}([A-Z]\w{1,80}):?\s*(.*)", re.DOTALL)

# How this package's own errors, attempts (`openai/m [openai#1] quota_exhausted 429`) and log events name a kind.
_OWN: Final = re.compile(
    r"reliable_llm\.errors\.(\w+)|\[[^\]\s]+#\d+\] (\w+)|\b(?:kind|primary_kind|reason|original_error)=['\"]?(\w+)"
)
_OWN_NAMES: Final[Mapping[str, Kind]] = {
    **{str(kind): kind for kind in Kind},
    **{cls.__name__: kind for kind, cls in ERROR_CLASSES.items()},
}

# What the replay gives back to the SDK to raise.
_BROKEN: Final = ("APIConnectionError", "APITimeoutError", "JSONDecodeError", "UnicodeDecodeError", "ProxyError")

_SURE: Final = {"certain": "certain", "likely": "likely", "guess": "a guess by what little is known"}


def run(
    path: str,
    *,
    as_json: bool = False,
    status: int | None = None,
    vendor: str | None = None,
    out: TextIO | None = None,
) -> int:
    """Explain every failure in the file *path* ("-" is standard input); return the exit status.

    *status* and *vendor* complete a bare body. Prints to *out*, by default standard output; input that cannot be read
    is told on standard error, with exit status 2.
    """
    try:
        recorded = list(read(_text(path), status=status, vendor=vendor))
    except ConfigurationError as exc:
        sys.stderr.write(f"reliable-llm: {exc}\n")
        return 2
    target = out or sys.stdout
    for line in asyncio.run(_explain(recorded, as_json=as_json)):
        target.write(f"{line}\n")
    return 0


async def _explain(recorded: Sequence[Recorded], *, as_json: bool) -> list[str]:
    show = json_line if as_json else human
    async with Replay() as replay:
        return [show(item.id, await _verdict(replay, item)) for item in recorded]


async def _verdict(replay: Replay, item: Recorded) -> Verdict | None:
    own = _own_kind(str(item.body)) if item.id.startswith("text-") else None
    if own is not None:
        return default_verdict(own, rule="reliable_llm: its own word for it")
    if item.status == "transport" and (item.id.startswith("text-") or _tells_an_answer(str(item.body))):
        return diagnose(_as_raised(str(item.body)), vendor=item.vendor)
    return await replay.verdict(item)


def _own_kind(text: str) -> Kind | None:
    """Return the kind that this package has named in *text*: the last one, which is the outermost in a traceback."""
    named = (_OWN_NAMES.get(first or second or third) for first, second, third in _OWN.findall(text))
    return next((kind for kind in reversed([*named]) if kind is not None), None)


def _as_raised(text: str) -> Exception:
    """Return an exception with the name and the message that *text* has from a log: `botocore.exceptions.X: ...`."""
    found = _RAISED.match(text)
    return type(found.group(1), (RuntimeError,), {})(found.group(2)) if found else RuntimeError(text)


def _tells_an_answer(text: str) -> bool:
    """Tell whether *text* is an exception that stands for an answer, or for a missing sign-in: no broken transport."""
    found = _RAISED.match(text)
    if not found or found.group(1) in _BROKEN:
        return False
    body, status = body_in_text(found.group(2))
    return body is not None or status is not None or found.group(1) in BY_CLASS or found.group(1) in BY_STATUS_CLASS


# ---------------------------------------------------------------- reading


def read(text: str, *, status: int | None = None, vendor: str | None = None) -> Iterator[Recorded]:
    """Yield the failures that *text* records. Raises `ConfigurationError` with a clear message for what is none."""
    if status is not None and not 100 <= status <= 599:
        raise ConfigurationError(f"--status {status} is no HTTP status")
    if vendor is not None and vendor not in {*VENDORS, *_ANTHROPIC, "unknown"}:
        raise ConfigurationError(f"--vendor: unknown vendor {vendor!r}{nearest(vendor, list(VENDORS))}")
    if not text.strip():
        raise ConfigurationError("the input is empty: expected one failure a line, as JSON, or an exception's text")
    if text.lstrip()[0] not in "{[":
        yield _from_text(text.strip(), status, vendor)
        return
    for number, item in _items(text):
        yield _recorded(number, item, status, vendor)


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"cannot read {path}: {getattr(exc, 'strerror', None) or 'not UTF-8 text'}") from exc


def _items(text: str) -> Iterator[tuple[int, object]]:
    """Yield (line number, JSON value): one value for the whole text, or one a line."""
    try:
        whole: object = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(text)
        return
    if isinstance(whole, list) and whole and all(_is_row(item) for item in whole):
        yield from enumerate(whole, 1)
    else:
        yield 1, whole


def _lines(text: str) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise ConfigurationError(f"line {number} is not JSON: {getattr(exc, 'msg', 'nested too deep')}") from exc


def _is_row(item: object) -> bool:
    return "status" in mapping(item) and "body" in mapping(item)


def _recorded(number: int, item: object, status: int | None, vendor: str | None) -> Recorded:
    row = mapping(item)
    if not _is_row(item):
        name = vendor or "openai"
        return Recorded(
            id=f"line-{number}",
            status=status or _inner(item),
            body=item,
            vendor=name,
            sdk=_sdk(name),
            wall=SystemClock().time(),
        )
    name = str(row.get("vendor") or vendor or "openai")
    return Recorded(
        id=str(row.get("id") or f"line-{number}"),
        status=_status(number, row["status"]),
        body=row["body"],
        headers=_headers(number, row.get("headers")),
        vendor=name,
        sdk=str(row.get("sdk") or _sdk(name)),
    )


def _inner(body: object) -> int | Literal["stream"]:
    """Return the status that a bare body names itself; without one, it is taken for a frame of a stream."""
    return unwrap(body).status or "stream"


def _status(number: int, value: object) -> int | Literal["stream", "transport"]:
    if value == "stream" or value == "transport":
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599:
        return value
    raise ConfigurationError(f'line {number}: "status" must be an HTTP status, "stream" or "transport"')


def _headers(number: int, value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(f'line {number}: "headers" must be an object')
    return {str(name): str(text) for name, text in value.items()}


def _from_text(text: str, status: int | None, vendor: str | None) -> Recorded:
    """Read an exception's text, as a log has it: the body it quotes where it quotes one."""
    if _own_kind(text) is not None:
        return Recorded(id="text-1", status="transport", body=text)
    body, named = body_in_text(text)
    name = vendor or "openai"
    found = status or named
    if found is None and body is None:
        return Recorded(id="text-1", status="transport", body=text.splitlines()[-1], vendor=name, sdk=_sdk(name))
    return Recorded(
        id="text-1",
        status=found or _inner(body),
        body=body if body is not None else text,
        vendor=name,
        sdk=_sdk(name),
        wall=SystemClock().time(),
    )


def _sdk(vendor: str) -> str:
    preset = VENDORS.get(vendor)
    return preset.sdk if preset is not None else "anthropic" if vendor in _ANTHROPIC else "openai"


# ---------------------------------------------------------------- printing


def json_line(name: str, verdict: Verdict | None) -> str:
    """Return the one-line object of `explain --json`; `kind` is null for a good answer."""
    answer: dict[str, object] = {"id": name, "kind": None, "scope": None, "retry_after_s": None}
    if verdict is None:
        answer |= {"should_rotate_key": False, "should_retry_same": False, "should_failover": False}
        return json.dumps({**answer, "why": "a good answer: no failure, whatever words are in it"})
    answer |= {
        "kind": str(verdict.kind),
        "scope": str(verdict.scope),
        "retry_after_s": verdict.retry_after,
        "should_rotate_key": verdict.rotate_key,
        "should_retry_same": verdict.retry_same,
        "should_failover": verdict.failover,
        "why": why(verdict),
    }
    return json.dumps(answer)


def why(verdict: Verdict) -> str:
    """Return what decided, and how sure that is."""
    return f"{verdict.confidence}, by {_rule(verdict)}"


def _rule(verdict: Verdict) -> str:
    reason = reason_of(verdict.rule)
    return verdict.rule + (f": {reason}" if reason else "")


def human(name: str, verdict: Verdict | None) -> str:
    """Return a paragraph on one failure, for people."""
    if verdict is None:
        return f"{name}: a good answer; no failure, whatever words are in it\n"
    lines = (
        f"{name}: {str(verdict.kind).replace('_', ' ')}{_known(verdict)}",
        f"  sure:   {_SURE[verdict.confidence]}; decided by {_rule(verdict)}",
        f"  scope:  the {verdict.scope} must change",
        f"  next:   {next_step(verdict)}",
        f"  person: {ADVICE[verdict.kind]}",
    )
    return "\n".join(lines) + "\n"


def _known(verdict: Verdict) -> str:
    facts = [f"status {verdict.status}"] if verdict.status is not None else []
    facts += [f"code {verdict.code}"] if verdict.code else []
    facts += [f"feature {verdict.feature}"] if verdict.feature else []
    facts += [f"window {verdict.limit_tokens} tokens"] if verdict.limit_tokens else []
    facts += [f"request {verdict.used_tokens} tokens"] if verdict.used_tokens else []
    facts += [f"back in {verdict.retry_after:g} s"] if verdict.retry_after is not None else []
    return f" ({', '.join(facts)})" if facts else ""


def next_step(verdict: Verdict) -> str:
    """Return what the coordinator would do next, in its order: other keys, the same again, other candidates."""
    wait = f"after {verdict.retry_after:g} s" if verdict.retry_after is not None else "after a backoff"
    steps = ["the next ready key of this provider, at once"] if verdict.rotate_key else []
    steps += [f"the same request again {wait}"] if verdict.retry_same else []
    steps += ["the next candidate"] if verdict.failover else []
    if verdict.kind is Kind.CONTEXT_WINDOW:
        steps += ["only candidates known to have a larger window"]
    return "; else ".join(steps) if steps else "raise it: no retry and no other candidate would help"
