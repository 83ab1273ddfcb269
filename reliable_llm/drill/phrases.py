"""The small languages inside a scenario: messages, schemas, images, histories, time limits.

Each function raises `ValueError` naming the phrase where it is in no known form; the scenario is then unsupported.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, create_model

from reliable_llm.types import HostedTool, Image, Message, OutputSchema, Reasoning, Text, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reliable_llm.drill.scenario import Call

_TYPES: Final[dict[str, object]] = {
    "str": str, "string": str, "int": int, "integer": int, "float": float, "number": float, "bool": bool,
    "boolean": bool, "list": list, "dict": dict,
}  # fmt: skip
_SIZES: Final = {"": 1, "b": 1, "kb": 1_000, "kib": 1_024, "mb": 1_000_000, "mib": 1_048_576}
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def message(said: object) -> Message | dict[str, object]:
    """Read `user: go`, `tool id1: 1`, `assistant: text '' + calls id1 f, id2 f`; a dict is taken as it is."""
    if isinstance(said, dict):
        return said
    found = re.fullmatch(r"(system|user|assistant|tool)\s*([\w.-]*)\s*:\s?(.*)", str(said), re.DOTALL)
    if not found:
        raise ValueError(f"message {said!r}: write 'role: text'")
    role, name, text = found.groups()
    if role == "tool":
        return Message("tool", (ToolResult(call_id=name, content=text),))
    if role == "assistant" and (calls := re.fullmatch(r"(?:text '(.*?)'\s*\+\s*)?calls? (.+)", text, re.DOTALL)):
        return Message("assistant", (Text(calls[1] or ""), *_calls(calls[2])))
    if role == "assistant" and re.search(r"\+|^text '", text):
        raise ValueError(f"message {said!r}: write \"assistant: text '...' + calls id name\"")
    return Message(role, text)  # type: ignore[arg-type]


def _calls(listed: str) -> list[ToolCall]:
    found = [re.fullmatch(r"(\S+) (\w+)\s*(\{.*\})?", each.strip(), re.DOTALL) for each in listed.split(",")]
    if not all(found):
        raise ValueError(f"calls {listed!r}: write 'id name, id name'")
    return [ToolCall(id=each[1], name=each[2], arguments=each[3] or "{}") for each in found if each]


def shared(given: object) -> bool:
    """Tell whether a field names an object that several calls hand over: `shared list`, `same list`."""
    return isinstance(given, str) and re.fullmatch(r"(?:the )?(?:shared|same) (?:list|dict|object)", given) is not None


def messages(given: Sequence[object] | str) -> list[Message | dict[str, object]]:
    """Return the messages of a call."""
    return [message(each) for each in ([given] if isinstance(given, str) else given)]


def tool(given: object) -> Tool | HostedTool:
    """Read a tool: its name, or `{"hosted": name, "vendor": vendor}`."""
    if isinstance(given, str):
        return Tool(name=given)
    if isinstance(given, dict) and "hosted" in given:
        return HostedTool(vendor=str(given.get("vendor", "openai")), spec={"type": given["hosted"]})
    if isinstance(given, dict) and isinstance(given.get("name"), str):
        parameters = given.get("parameters", given.get("schema"))
        bare = Tool(name=given["name"])
        return replace(bare, parameters=parameters) if isinstance(parameters, dict) else bare
    raise ValueError(f"tool {given!r}: write a name, or an object with a name")


def schema(text: str) -> OutputSchema:
    """Read `Person{name:str, age:int}`; a trailing `?` makes a field optional, `[str]` a list."""
    found = re.fullmatch(r"\s*(\w+)\s*[{(](.*)[})]\s*", text, re.DOTALL)
    if not found:
        raise ValueError(f"schema {text!r}: write Name{{field:type, field:type}}")
    fields = dict(_field(each) for each in re.split(r",(?![^\[]*\])", found[2]) if each.strip())
    model: type[BaseModel] = create_model(found[1], **fields)  # type: ignore[call-overload]
    return OutputSchema(name=found[1], schema=model.model_json_schema(), type=model)


def _field(text: str) -> tuple[str, object]:
    name, _, kind = (part.strip() for part in text.partition(":"))
    found = re.fullmatch(r"(?:list)?\[(\w+)\]|(\w+)", kind.rstrip("?") or "str")
    made = _TYPES.get((found[1] or found[2]) if found else "")
    if made is None or found is None:
        raise ValueError(f"type {kind!r} in a schema: write one of {', '.join(_TYPES)}")
    listed = list[made] if found[1] else made  # type: ignore[valid-type]
    return name.rstrip("?"), (listed, None) if kind.endswith("?") or name.endswith("?") else (listed, ...)


def image(text: str) -> Image:
    """Read `https URL`, a real URL, or a size such as `6.2 MB inline`, with a media type anywhere in it."""
    if url := re.search(r"https?://\S+", text):
        return Image(url=url[0])
    if "url" in text.lower() and "data" not in text.lower():
        return Image(url="https://images.example/cat.png")
    kind = re.search(r"image/\w+", text)
    size = re.search(r"([\d.]+)\s*(kb|kib|mb|mib|b)\b", text.lower())
    if not (kind or size or re.search(r"inline|base64|data|bytes|png|jpe?g|gif|webp", text.lower())):
        raise ValueError(f"image {text!r}: write a URL, or a size and 'inline'")
    length = int(float(size[1]) * _SIZES[size[2]]) if size else 64
    data = _PNG + bytes(max(0, length - len(_PNG)))
    return Image(data=data, media_type=kind[0] if kind else "image/png")


@dataclass(frozen=True, slots=True)
class History:
    """What a call starts from: earlier calls or a made-up turn; are tool calls answered, does the user speak then?"""

    calls: tuple[str, ...] = ()
    answered: bool = False
    invented: tuple[Message, ...] = ()
    asked: bool = False


_EARLIER: Final = (
    r"(\w+\d+(?:\s*(?:,|\+|and|then)\s*[a-z]\w*\d+)*)\s*"
    r"(\+\s*(?:the |an? |its |\d+ |two )?tool results?)?\s*(\+\s*(?:an? |the )?(?:new |next )?user.*)?"
)


def history(text: str) -> History:
    """Read `c1`, `c1's reply`, `c1 + tool result`, `c1, c2 + tool results + user`, or a described assistant turn."""
    plain = re.sub(r"(\d)(?:'s)? (?:reply|answer|turn|with (?:its|the) (?:thinking|reasoning))\b", r"\1", text.strip())
    if found := re.fullmatch(_EARLIER, plain):
        return History(tuple(re.findall(r"\w*\d+", found[1])), bool(found[2]), asked=bool(found[3]))
    if re.match(r"(?:an? )?assistant turn", text):
        return History(invented=_invented_turn(text))
    raise ValueError(f"history {text!r}: write 'c1', 'c1 + tool result' or 'assistant turn with ...'")


def _invented_turn(text: str) -> tuple[Message, ...]:
    parts: list[Text | Reasoning | ToolCall] = []
    if "thinking" in text or "reasoning" in text:
        parts.append(Reasoning(text="an earlier thought", signature="signature-of-unknown-origin"))
    if "text" in text:
        parts.append(Text("an earlier answer"))
    calls = "tool call" in text or "tool_use" in text
    parts += [ToolCall(id="call_0", name="lookup", arguments="{}")] if calls else []
    turn = (Message("user", "an earlier question"), Message("assistant", tuple(parts) or "an earlier answer"))
    return turn + ((Message("tool", (ToolResult(call_id="call_0", content="42"),)),) if calls else ())


def time_limit(text: str) -> AbstractAsyncContextManager[None]:
    """Read `asyncio.timeout(3)`, `asyncio.wait_for(3)`, `anyio.fail_after(3)`: the caller's own limit."""
    found = re.search(r"(timeout|wait_for|fail_after|move_on_after).*?([\d.]+)\s*\)?\s*$", text)
    if not found:
        raise ValueError(f"wrapped_in {text!r}: write asyncio.timeout(SECONDS)")
    return _limited(float(found[2]))


@asynccontextmanager
async def _limited(seconds: float) -> AsyncIterator[None]:
    async with asyncio.timeout(seconds):
        yield


@dataclass(frozen=True, slots=True)
class Consumer:
    """How the application reads a stream: it may stop early, be slow, or fail."""

    stop_after: int | None = None
    pause: float = 0.0
    fails: str | None = None


_NUMBERS: Final = {"first": 1, "one": 1, "second": 2, "two": 2, "three": 3}


def chunk_count(text: str) -> int | None:
    """Return the number in `after 2 chunks` or `after the first chunk`; None where there is none."""
    found = re.search(r"(\d+|first|one|second|two|three)(?:st|nd|rd|th)? (?:chunk|event|delta|piece|token)", text)
    return (_NUMBERS.get(found[1]) or int(found[1])) if found else None


def consumer(given: str | dict[str, object] | None) -> Consumer:
    """Read `{"stop_after": 2}`, `breaks after 2 chunks`, `5 s per chunk`, `raises RuntimeError('x') after 1 chunk`."""
    if given is None:
        return Consumer()
    if isinstance(given, dict):
        return Consumer(**given)  # type: ignore[arg-type]
    if re.search(r"never (?:reads|iterates|starts)|without reading|not read", given):
        return Consumer(stop_after=0)
    raised = re.search(r"raises? (\w+(?:\([^)]*\))?)", given)
    count = chunk_count(given)
    stops = re.search(r"break|stop|leav|clos|abandon|return|exit", given)
    slow = re.search(
        r"([\d.]+) ?s(?:econds?)?\b.*(?:per|each|every|between)|(?:sleeps?|pauses?|waits?) ([\d.]+)", given
    )
    if not (raised or stops or slow):
        raise ValueError(f"consumer {given!r}: write 'breaks after N chunks' or 'N s per chunk'")
    after = (count or 1) if raised or stops else None
    return Consumer(after, float(slow[1] or slow[2]) if slow else 0.0, raised[1] if raised else None)


def check(call: Call) -> None:
    """Raise `ValueError` for the first phrase of *call* that nobody understands."""
    if call.messages is not None and not shared(call.messages):
        messages(call.messages)
    for each in call.tools or () if not isinstance(call.tools, str) else ():
        tool(each)
    if isinstance(call.tools, str) and not shared(call.tools):
        raise ValueError(f"tools {call.tools!r}: write a list of names")
    if isinstance(call.extra, str) and not shared(call.extra):
        raise ValueError(f"extra {call.extra!r}: write an object")
    for given, read in ((call.schema_, schema), (call.image, image), (call.history, history)):
        if given is not None:
            read(given)
    if call.wrapped_in is not None:
        time_limit(call.wrapped_in)
    consumer(call.consumer)
    if isinstance(call.cancel_at, str) and chunk_count(call.cancel_at) is None:
        raise ValueError(f"cancel_at {call.cancel_at!r}: write a second, or 'after N chunks'")
