"""Conversations in OpenAI's chat format, there and back.

`from_openai` and `to_openai` are each other's inverse as far as OpenAI can tell: unknown fields are kept in
`extra["openai"]`, unknown parts as `Opaque`. Put right on the way out, because OpenAI refuses or lacks it: ids of tool
calls, empty text parts, pictures in tool results (moved into a user message after them) and failed tools (the text
says so). Reasoning is not sent back: chat completions take none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from reliable_llm.adapters.openai_parts import (
    OPENAI,
    Wire,
    content_part,
    is_own,
    own_extra,
    read_part,
    read_tool_call,
    result_text,
    tool_call,
)
from reliable_llm.adapters.tool_ids import wire_id
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import NOTHING, Document, Image, Json, Message, Opaque, Part, Text, ToolCall, ToolResult

# ---------------------------------------------------------------- out


def to_openai(messages: Iterable[Message], *, vendor: str = OPENAI) -> list[Wire]:
    """Return *messages* in OpenAI's chat format; what was kept for *vendor* goes back to it.

    Raises `InvalidRequestError` for a tool call without its result or a result without its call, and
    `UnsupportedFeatureError` for a document by URL.
    """
    messages = tuple(messages)
    check_pairs(messages)
    out: list[Wire] = []
    moved: list[Wire] = []
    for message in messages:
        if isinstance(message.content, tuple):
            for part in message.content:
                if isinstance(part, ToolResult):
                    out.append(_tool_message(part, vendor))
                    moved += _moved(part, vendor)
        if moved and not _only_results(message):
            out.append({"role": "user", "content": moved})
            moved = []
        if _is_plain(message):
            out.append({"role": message.role, "content": message.content})
        else:
            _RENDER[message.role](message, vendor, out)
    if moved:
        out.append({"role": "user", "content": moved})
    return out


def check_pairs(messages: Sequence[Message]) -> None:
    """Raise `InvalidRequestError` for a tool call not answered before anything else follows, or an answer to none."""
    open_calls: dict[str, int] = {}
    foreign: set[object] = set()
    for number, message in enumerate(messages):
        parts = message.content
        if isinstance(parts, str):
            if open_calls:
                _refuse(open_calls)
            continue
        for part in parts:
            if (
                isinstance(part, ToolResult)
                and open_calls.pop(part.call_id, None) is None
                and part.call_id not in foreign
            ):
                raise InvalidRequestError(f"messages[{number}] holds a tool result without its call")
        if open_calls and not _only_results(message):
            _refuse(open_calls)
        open_calls |= _calls(parts, number)
        # A call of a vendor's own kind may be answered, and need not be.
        foreign |= {part.data.get(key) for part in parts if isinstance(part, Opaque) for key in ("id", "call_id")}
    if open_calls:
        _refuse(open_calls)


def _calls(parts: Iterable[Part], number: int) -> dict[str, int]:
    calls = [part.id for part in parts if isinstance(part, ToolCall)]
    if len(set(calls)) < len(calls):
        raise InvalidRequestError(f"messages[{number}] holds two tool calls with the same id")
    return dict.fromkeys(calls, number)


def _refuse(open_calls: Mapping[str, int]) -> NoReturn:
    number = next(iter(open_calls.values()))
    raise InvalidRequestError(f"messages[{number}] holds a tool call without its result right after it")


def _tool_message(result: ToolResult, vendor: str) -> Wire:
    listed = isinstance(result.content, tuple) and any(part.extra for part in result.content)
    parts = [content_part(part, vendor) for part in result.content if isinstance(part, Text)] if listed else []
    text = result_text(result)
    content: object = [part for part in parts if part] if listed and not result.is_error else text
    if not content and _attached(result):
        content = "The result is in the next user message."
    return {
        "role": "tool",
        "tool_call_id": wire_id(result.call_id),
        "content": content,
        **own_extra(result.extra, vendor),
    }


def _attached(result: ToolResult) -> list[Part]:
    return [] if isinstance(result.content, str) else [part for part in result.content if not isinstance(part, Text)]


def _moved(result: ToolResult, vendor: str) -> list[Wire]:
    parts = [content_part(part, vendor) for part in _attached(result)]
    if not parts:
        return []
    label: Wire = {"type": "text", "text": f"Attached to the tool result {wire_id(result.call_id)}:"}
    return [label, *(part for part in parts if part)]


def _system_message(message: Message, vendor: str, out: list[Wire]) -> None:
    if content := _content(message, vendor):
        out.append(_message("system", content, message, vendor))


def _is_plain(message: Message) -> bool:
    """Tell whether *message* is mere text: most are, and need no more thought."""
    is_text = isinstance(message.content, str) and bool(message.content)
    return is_text and message.role != "tool" and not message.extra and message.name is None


def _only_results(message: Message) -> bool:
    return isinstance(message.content, tuple) and all(isinstance(part, ToolResult) for part in message.content)


def _user_message(message: Message, vendor: str, out: list[Wire]) -> None:
    if not _only_results(message):
        out.append(_message("user", _content(message, vendor), message, vendor))


def _content(message: Message, vendor: str) -> str | list[Wire]:
    if isinstance(message.content, str):
        return message.content
    parts = [wire for part in message.content if (wire := content_part(part, vendor))]
    one_text = len(parts) == 1 and parts[0]["type"] == "text" and not _is_listed(message, vendor)
    return str(parts[0]["text"]) if one_text else parts or ""


def _assistant_message(message: Message, vendor: str, out: list[Wire]) -> None:
    if isinstance(message.content, str):
        if message.content or own_extra(message.extra, vendor):
            out.append(_message("assistant", message.content, message, vendor))
        return
    calls = [wire for part in message.parts if (wire := _call(part, vendor))]
    content = _assistant_content(message, vendor)
    wire = _message("assistant", content or None, message, vendor)
    if calls:
        wire["tool_calls"] = calls
    if content or calls or own_extra(message.extra, vendor):
        out.append(wire)


def _assistant_content(message: Message, vendor: str) -> str | list[Wire]:
    parts = [wire for part in message.parts if (wire := content_part(part, vendor))]
    plain = all(wire.keys() == {"type", "text"} and wire["type"] == "text" for wire in parts)
    return message.text if plain and not _is_listed(message, vendor) else parts


def _is_listed(message: Message, vendor: str) -> bool:
    return any(isinstance(part, Text) and own_extra(part.extra, vendor) for part in message.parts)


def _call(part: Part, vendor: str) -> Wire | None:
    if isinstance(part, ToolCall):
        return tool_call(part, vendor)
    is_call = isinstance(part, Opaque) and is_own(part, vendor) and part.data.get("type") == "custom"
    return dict(part.data) if is_call and isinstance(part, Opaque) else None


def _message(role: str, content: object, message: Message, vendor: str) -> Wire:
    wire: Wire = {"role": role, "content": content}
    if message.name is not None:
        wire["name"] = message.name
    if message.extra:
        wire.update(own_extra(message.extra, vendor))
    return wire


_RENDER: Final[Mapping[str, Callable[[Message, str, list[Wire]], None]]] = {
    "system": _system_message,
    "user": _user_message,
    "assistant": _assistant_message,
    "tool": _user_message,
}


# ---------------------------------------------------------------- in


def from_openai(messages: Iterable[object]) -> tuple[Message, ...]:
    """Return a conversation in OpenAI's chat format as neutral messages.

    Messages may be dicts or the SDK's own objects. Raises `InvalidRequestError` naming what is no message.
    """
    return tuple(read_message(raw, number) for number, raw in enumerate(messages))


def read_message(raw: object, number: int) -> Message:
    """Return one message of a conversation in OpenAI's chat format; *number* is its place, for errors."""
    if isinstance(raw, dict) and raw.keys() == _PLAIN:  # nearly all messages; the rest costs a tenth of a call
        role, content = raw["role"], raw["content"]
        if isinstance(content, str) and (role == "user" or role == "assistant" or role == "system"):
            return Message(role, content)
    where = f"messages[{number}]"
    raw = raw.model_dump(exclude_unset=True) if hasattr(raw, "model_dump") else raw
    if not isinstance(raw, Mapping):
        raise InvalidRequestError(f"{where} must be an object with role and content, not {type(raw).__name__}")
    role = raw.get("role")
    reader = _READ.get(role) if isinstance(role, str) else None
    if reader is None:
        raise InvalidRequestError(f"{where}.role must be system, developer, user, assistant or tool")
    return reader(raw, where)


def _read_system(raw: Json, where: str) -> Message:
    extra = _extra(raw, "role", "content", "name")
    if raw["role"] == "developer":
        extra = {OPENAI: {"role": "developer", **extra.get(OPENAI, NOTHING)}}
    return Message("system", _read_content(raw, where), name=_name(raw), extra=extra)


def _read_user(raw: Json, where: str) -> Message:
    return Message("user", _read_content(raw, where), name=_name(raw), extra=_extra(raw, "role", "content", "name"))


def _read_assistant(raw: Json, where: str) -> Message:
    content = _read_content(raw, where, needed=False)
    calls = raw.get("tool_calls") or ()
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise InvalidRequestError(f"{where}.tool_calls must be a list")
    read = tuple(read_tool_call(call, f"{where}.tool_calls[{number}]") for number, call in enumerate(calls))
    if read:
        before = ((Text(content),) if content else ()) if isinstance(content, str) else content
        content = (*before, *read)
    return Message("assistant", content, name=_name(raw), extra=_extra(raw, "role", "content", "name", "tool_calls"))


def _read_tool(raw: Json, where: str) -> Message:
    if not isinstance(raw.get("tool_call_id"), str):
        raise InvalidRequestError(f"{where}.tool_call_id is missing")
    content = _read_content(raw, where)
    parts = content if isinstance(content, str) else tuple(p for p in content if isinstance(p, Text | Image | Document))
    extra = _extra(raw, "role", "content", "tool_call_id")
    return Message("tool", (ToolResult(call_id=str(raw["tool_call_id"]), content=parts, extra=extra),))


def _read_content(raw: Json, where: str, *, needed: bool = True) -> str | tuple[Part, ...]:
    content = raw.get("content")
    if isinstance(content, str):
        return content
    if content is None and not needed:
        return ""
    if not isinstance(content, Iterable) or isinstance(content, Mapping | bytes):
        raise InvalidRequestError(f"{where}.content must be a string or a list of parts")
    return tuple(read_part(part, f"{where}.content[{number}]") for number, part in enumerate(content))


def _name(raw: Json) -> str | None:
    name = raw.get("name")
    return name if isinstance(name, str) else None


def _extra(raw: Json, *known: str) -> Mapping[str, Json]:
    rest = {key: value for key, value in raw.items() if key not in known and value is not None}
    return {OPENAI: rest} if rest else NOTHING


_PLAIN: Final = {"role", "content"}

_READ: Final[Mapping[str, Callable[[Json, str], Message]]] = {
    "system": _read_system,
    "developer": _read_system,
    "user": _read_user,
    "assistant": _read_assistant,
    "tool": _read_tool,
}
