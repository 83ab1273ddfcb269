"""Conversations as items of OpenAI's Responses API, there and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from reliable_llm.adapters.openai_messages import check_pairs
from reliable_llm.adapters.openai_parts import OPENAI, Wire, data_url, is_own, own_extra, result_text
from reliable_llm.adapters.openai_reply import is_complete_json, text_or_none
from reliable_llm.adapters.tool_ids import wire_id
from reliable_llm.types import (
    Candidate,
    Document,
    Image,
    Json,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

# Chat's own parts, as the Responses API writes them; what is not here has no form there.
_FROM_CHAT: Final = {"file": "input_file"}
_CHAT_ONLY: Final = frozenset({"text", "image_url", "input_audio", "refusal", "custom"})


def split_instructions(messages: Iterable[Message]) -> tuple[str | None, tuple[Message, ...]]:
    """Return the leading system messages as one text, and the rest."""
    rest = list(messages)
    leading: list[str] = []
    while rest and rest[0].role == "system":
        leading.append(rest.pop(0).text)
    return "\n\n".join(text for text in leading if text) or None, tuple(rest)


def to_items(messages: tuple[Message, ...], vendor: str, own: Callable[[Reasoning], bool]) -> list[Wire]:
    """Return *messages* as input items; of reasoning, what is the candidate's *own* and sealed."""
    check_pairs(messages)
    items: list[Wire] = []
    for message in messages:
        if message.role == "assistant":
            items += _assistant_items(message, vendor, own)
        else:
            items += _user_items(message, vendor)
    return items


def _user_items(message: Message, vendor: str) -> list[Wire]:
    role = "system" if message.role == "system" else "user"
    if isinstance(message.content, str):
        return [{"role": role, "content": message.content}]
    items: list[Wire] = [_result_item(part, vendor) for part in message.content if isinstance(part, ToolResult)]
    items += [dict(part.data) for part in message.content if isinstance(part, Opaque) and _is_item(part, vendor)]
    if content := [wire for part in message.content if (wire := _input_part(part, vendor))]:
        items.append({"role": role, "content": content})
    return items


def _is_item(part: Opaque, vendor: str) -> bool:
    """Tell whether *part* is an item of its own: a hosted tool's call, and not a piece of a message's content."""
    if not is_own(part, vendor):
        return False
    kind = str(part.data.get("type"))
    return kind not in _CHAT_ONLY and kind not in _FROM_CHAT and not kind.startswith("input_")


def _input_part(part: Part, vendor: str) -> Wire | None:
    match part:
        case Text():
            return {"type": "input_text", "text": part.text, **_extra(part, vendor)} if part.text else None
        case Image():
            url = part.url if part.data is None else data_url(part.data, part.media_type or "image/png")
            return {"type": "input_image", "image_url": url, "detail": part.detail or "auto", **_extra(part, vendor)}
        case Document():
            return {"type": "input_file", **_file(part), **_extra(part, vendor)}
        case Opaque() if is_own(part, vendor) and part.data.get("type") in _FROM_CHAT:
            file = part.data.get("file")
            return {"type": "input_file", **file} if isinstance(file, Mapping) else None
        case Opaque() if is_own(part, vendor) and str(part.data.get("type")).startswith("input_"):
            return dict(part.data) if part.data.get("type") != "input_audio" else None
        case _:
            return None


def _extra(part: Text | Image | Document, vendor: str) -> Wire:
    # The type that chat's format keeps there is chat's.
    return {key: value for key, value in own_extra(part.extra, vendor).items() if key != "type"}


def _file(document: Document) -> Wire:
    if document.data is None:
        return {"file_url": document.url}
    name = document.name or f"document.{document.media_type.rpartition('/')[2]}"
    return {"filename": name, "file_data": data_url(document.data, document.media_type)}


def _result_item(result: ToolResult, vendor: str) -> Wire:
    output: object = result_text(result)
    if isinstance(result.content, tuple) and any(not isinstance(part, Text) for part in result.content):
        mark = (Text("Error:"),) if result.is_error else ()
        output = [wire for part in (*mark, *result.content) if (wire := _input_part(part, vendor))]
    return {"type": "function_call_output", "call_id": wire_id(result.call_id), "output": output}


def _assistant_items(message: Message, vendor: str, own: Callable[[Reasoning], bool]) -> list[Wire]:
    return [item for part in message.parts if (item := _assistant_item(part, vendor, own))]


def _assistant_item(part: Part, vendor: str, own: Callable[[Reasoning], bool]) -> Wire | None:
    match part:
        case Text():
            return {"role": "assistant", "content": part.text} if part.text else None
        case ToolCall():
            arguments = part.arguments or "{}"
            return {"type": "function_call", "call_id": wire_id(part.id), "name": part.name, "arguments": arguments}
        case Reasoning():
            return _reasoning_item(part) if part.opaque is not None and own(part) else None
        case Opaque():
            return dict(part.data) if _is_item(part, vendor) else None
        case _:
            return None


def _reasoning_item(part: Reasoning) -> Wire:
    # Without its encrypted content an item is only a reference, which another key's account would not find.
    kept = part.extra.get(OPENAI, {})
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "summary": summary, **kept, "encrypted_content": part.opaque}


# ---------------------------------------------------------------- in


def read_item(item: Json, candidate: Candidate, answer_tool: str | None) -> tuple[Part, ...]:
    """Return the parts of one output item; none for a function call that was cut."""
    reader = _READ.get(str(item.get("type")))
    return (Opaque(vendor=OPENAI, data=item),) if reader is None else reader(item, candidate, answer_tool)


def _read_message(item: Json, candidate: Candidate, answer_tool: str | None) -> tuple[Part, ...]:
    content = item.get("content")
    pieces = [piece for piece in content if isinstance(piece, Mapping)] if isinstance(content, list) else []
    texts = [text_or_none(piece.get("refusal" if piece.get("type") == "refusal" else "text")) for piece in pieces]
    return tuple(Text(text) for text in texts if text)


def _read_call(item: Json, candidate: Candidate, answer_tool: str | None) -> tuple[Part, ...]:
    raw = item.get("arguments")
    arguments = raw if isinstance(raw, str) else json.dumps(raw or {})
    if str(item.get("name")) == answer_tool:
        return (Text(arguments),)
    if item.get("status") == "incomplete" and not is_complete_json(arguments):
        return ()
    call_id = text_or_none(item.get("call_id")) or str(item.get("id"))
    return (ToolCall(id=call_id, name=str(item.get("name")), arguments=arguments),)


def _read_reasoning(item: Json, candidate: Candidate, answer_tool: str | None) -> tuple[Part, ...]:
    text = "\n\n".join(_texts(item.get("summary"))) or "".join(_texts(item.get("content")))
    kept = {key: item[key] for key in ("id", "summary", "content", "status") if item.get(key) is not None}
    opaque = text_or_none(item.get("encrypted_content"))
    return (Reasoning(text=text, opaque=opaque, issuer=candidate, extra={OPENAI: kept}),)


def _texts(pieces: object) -> list[str]:
    listed = pieces if isinstance(pieces, list) else []
    return [text for piece in listed if isinstance(piece, Mapping) and (text := text_or_none(piece.get("text")))]


def holds_refusal(output: object) -> bool:
    """Tell whether the model refused in one of the items of *output*."""
    items = output if isinstance(output, list) else []
    contents = [item.get("content") for item in items if isinstance(item, Mapping)]
    pieces = [piece for content in contents if isinstance(content, list) for piece in content]
    return any(isinstance(piece, Mapping) and piece.get("type") == "refusal" for piece in pieces)


_READ: Final[Mapping[str, Callable[[Json, Candidate, str | None], tuple[Part, ...]]]] = {
    "message": _read_message,
    "function_call": _read_call,
    "reasoning": _read_reasoning,
}
