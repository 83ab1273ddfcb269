"""`reject_if`: what a simulated vendor refuses, said in a few fixed forms.

    temperature or parallel_tool_calls present, or max tokens above 4096 (400)
    any thinking block in the history (400 invalid signature)
    thinking block with a signature not issued by P1
    thinking block missing or altered before the tool_use it belongs to
    assistant prefill | empty text block | two consecutive messages of the same role
    tool id longer than 64 | tool result without its call
    header x-team missing | header x-team present | header x-team is not blue

A form that is not known is an error: the scenario is then reported as unsupported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reliable_llm.drill.vendors.shapes import Incoming, Json

Test = Callable[[Incoming], bool]
_MAX_TOKENS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_THINKING: Final = {"thinking", "redacted_thinking"}


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds where any of its tests does; answered with `status`."""

    tests: tuple[Test, ...]
    status: int = 400
    message: str = "the request was refused"

    def holds(self, request: Incoming) -> bool:
        return any(test(request) for test in self.tests)


def condition(text: str) -> Condition:
    """Return the condition that *text* describes. Raises `ValueError` where it is in no known form."""
    said, status, message = _split_status(text)
    tests = tuple(test for clause in re.split(r",\s*or\s+|;\s*", said) for test in _tests(clause.strip()))
    return Condition(tests, status, message or "the request was refused")


def _split_status(text: str) -> tuple[str, int, str]:
    found = re.search(r"\((\d{3})\s*([^)]*)\)\s*$", text)
    if found is None:
        return text, 400, ""
    return text[: found.start()].strip(), int(found[1]), found[2]


def _tests(clause: str) -> Iterator[Test]:
    for pattern, make in _FORMS.items():
        if found := re.search(pattern, clause, re.IGNORECASE):
            yield from make(found)
            return
    raise ValueError(f"reject_if {clause!r}: no known form")


def _present(found: re.Match[str]) -> Iterator[Test]:
    for name in re.split(r"\s*(?:,|\bor\b)\s*", found[1]):
        yield _has(_field(name))


def _has(names: tuple[str, ...]) -> Test:
    return lambda request: any(_somewhere(request.body, name) for name in names)


def _somewhere(value: object, name: str) -> bool:
    """Is there a field of that name, or a part whose type says it (`image` in `image_url`)?"""
    if isinstance(value, dict):
        said = name in value or name in str(value.get("type", ""))
        return said or any(_somewhere(each, name) for each in value.values())
    return isinstance(value, list) and any(_somewhere(each, name) for each in value)


def _missing(found: re.Match[str]) -> Iterator[Test]:
    names = _field(found[1] or found[2])
    yield lambda request: not any(name in request.body for name in names)


def _header(found: re.Match[str]) -> Iterator[Test]:
    """Read what is said of a header: that it is missing, there, or (not) of a value."""
    name, said, value = found[1] or found[2], found[3].lower(), (found[4] or "").strip("'\"")
    if said in ("missing", "absent"):
        yield lambda request: name not in request.headers
    elif not value:
        yield lambda request: name in request.headers
    else:
        yield lambda request: (request.headers.get(name) == value) != (said in _OTHER)


def _field(words: str) -> tuple[str, ...]:
    name = re.sub(r"[\s-]+", "_", words.strip().strip("'`\"").lower())
    return _MAX_TOKENS if name in _MAX_TOKENS else (name,)


def _above(found: re.Match[str]) -> Iterator[Test]:
    names, limit = _field(found[1]), float(found[2])
    yield lambda request: any(_number(request.body.get(name)) > limit for name in names)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else -1.0


def blocks(body: Json, role: str | None = None) -> Iterator[Mapping[str, object]]:
    """Yield every content block of the request's messages."""
    for message in messages(body, role):
        content = message.get("content")
        yield from (b for b in content if isinstance(b, dict)) if isinstance(content, list) else ()


def messages(body: Json, role: str | None = None) -> Iterator[Mapping[str, object]]:
    given = body.get("messages")
    for message in given if isinstance(given, list) else ():
        if isinstance(message, dict) and role in (None, message.get("role")):
            yield message


def _thoughts(request: Incoming) -> list[Mapping[str, object]]:
    return [block for block in blocks(request.body) if block.get("type") in _THINKING]


def _foreign_thinking(request: Incoming) -> bool:
    own = {block.get("signature") for block in request.issued}
    return any(block.get("signature") not in own for block in _thoughts(request))


def _thinking_not_returned(request: Incoming) -> bool:
    return bool(request.issued) and not all(_returned(issued, request) for issued in request.issued)


def _returned(issued: Json, request: Incoming) -> bool:
    """Is the block there as it was issued, before the first tool call of its turn?"""
    for message in messages(request.body, "assistant"):
        content = message.get("content")
        listed = content if isinstance(content, list) else []
        first_call = next((n for n, b in enumerate(listed) if b.get("type") == "tool_use"), len(listed))
        if any(dict(block) == dict(issued) for block in listed[:first_call]):
            return True
    return False


def _prefill(request: Incoming) -> bool:
    turns = list(messages(request.body))
    return bool(turns) and turns[-1].get("role") == "assistant"


def _empty_text(request: Incoming) -> bool:
    if any(block.get("type") == "text" and not str(block.get("text", "")).strip() for block in blocks(request.body)):
        return True
    return any(message.get("content") == "" for message in messages(request.body))


def _count(request: Incoming, role: str) -> int:
    return sum(1 for _ in messages(request.body, role))


def _same_role_twice(request: Incoming) -> bool:
    roles = [message.get("role") for message in messages(request.body)]
    return any(a == b != "tool" for a, b in itertools.pairwise(roles))


def call_ids(body: Json) -> list[str]:
    """Return the ids of the tool calls in the history, in order."""
    found = [str(block.get("id")) for block in blocks(body) if block.get("type") == "tool_use"]
    for message in messages(body, "assistant"):
        calls = message.get("tool_calls")
        found += [str(call.get("id")) for call in calls] if isinstance(calls, list) else []
    return found


def result_ids(body: Json) -> list[str]:
    """Return the ids that the tool results in the history answer, in order."""
    found = [str(block.get("tool_use_id")) for block in blocks(body) if block.get("type") == "tool_result"]
    return found + [str(message.get("tool_call_id")) for message in messages(body, "tool")]


def _bad_ids(request: Incoming) -> bool:
    ids = call_ids(request.body) + result_ids(request.body)
    return any(not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for each in ids)


def _unpaired(request: Incoming) -> bool:
    return set(call_ids(request.body)) != set(result_ids(request.body))


def _just(test: Test) -> Callable[[re.Match[str]], Iterator[Test]]:
    return lambda _found: iter([test])


_NAME: Final = r"([\w-]+)"
_SAID: Final = "(missing|absent|present|set|sent|not|other than|!=|==?)"
_OTHER: Final = ("not", "other than", "!=")
_FORMS: Final[dict[str, Callable[[re.Match[str]], Iterator[Test]]]] = {
    rf"^(?:header {_NAME}|{_NAME} header) (?:is )?{_SAID}(?: (\S+))?$": _header,
    r"(?:missing|altered).*before the tool_?use": _just(_thinking_not_returned),
    r"signature not issued|foreign (?:signature|thinking)|another issuer": _just(_foreign_thinking),
    r"(?:any|^an?|^) ?(?:thinking|reasoning)(?: blocks?)?(?: in the (?:history|request|messages))?$": _just(
        lambda request: bool(_thoughts(request))
    ),
    r"(?:assistant )?prefill|(?:last|final) message .*assistant|ends? with an? assistant": _just(_prefill),
    r"\b(?:empty|blank) (?:[\w ]* )?(?:text|content|block)": _just(_empty_text),
    r"(?:more than one|two|several) system messages?": _just(lambda request: _count(request, "system") > 1),
    r"\bsystem (?:role|message) in the messages": _just(lambda request: any(messages(request.body, "system"))),
    r"same role|consecutive (?:user|assistant) (?:messages|turns)": _just(_same_role_twice),
    r"\bid\b.*(?:longer|outside|over)": _just(_bad_ids),
    r"unpaired|orphan|without (?:(?:its|a|matching) )?(?:call|result|tool_?(?:use|result|call))|no matching": _just(
        _unpaired
    ),
    r"^(?:no|without) ([\w -]+)$|^([\w -]+?) (?:missing|absent)$": _missing,
    r"^([\w -]+?) (?:above|over|more than|greater than|>) ?(\d+)": _above,
    r"^(?:any )?(.+?) (?:is |are )?(?:present|set|given|sent|anywhere|in the (?:request|body))$": _present,
    r"^any ([\w ]+)$": _present,
    r"^(?:request |body |it )?(?:contains|includes|has|carries) (?:an? |any |the )?([\w ]+)$": _present,
}
