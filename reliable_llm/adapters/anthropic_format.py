"""Conversations in Anthropic's format, there and back.

`from_anthropic` and `to_anthropic` are each other's inverse as far as Anthropic can tell: what has no neutral word is
kept as it is, a block as `Opaque`, a field in `extra["anthropic"]`. Three things are put right on the way out, because
Anthropic refuses them: blank text blocks are left out, consecutive messages of one role become one with tool results
first, and tool-call ids with foreign characters are replaced, the same id always by the same one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from reliable_llm.adapters.anthropic_blocks import VENDOR, Block, part_from_block, plain
from reliable_llm.adapters.tool_ids import WireIds
from reliable_llm.errors import InvalidRequestError, Kind, UnsupportedFeatureError, default_verdict
from reliable_llm.types import (
    NOTHING,
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

System: TypeAlias = str | list[Block] | None
KeepReasoning: TypeAlias = Callable[[Reasoning], bool]

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DATA_URL: Final = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)


# ---------------------------------------------------------------- in


def from_anthropic(
    messages: Iterable[object], system: object = None, *, issuer: Candidate | None = None
) -> tuple[Message, ...]:
    """Return a conversation in Anthropic's format as neutral messages; *system* is its top-level system prompt.

    Messages and blocks may be dicts or the SDK's own objects. *issuer* is who wrote the thinking blocks, where the
    caller knows. Raises `InvalidRequestError` for what is no conversation.
    """
    read = [part for raw in messages for part in _read_message(_mapping(raw), issuer)]
    return (*_read_system(system), *read)


def _mapping(raw: object) -> Json:
    mapping = plain(raw)
    if not isinstance(mapping, Mapping) or "role" not in mapping or "content" not in mapping:
        raise InvalidRequestError("every message needs a role and a content")
    return mapping


def _read_system(system: object) -> tuple[Message, ...]:
    if system is None:
        return ()
    if isinstance(system, str):
        return (Message("system", system),)
    return (Message("system", _read_parts(system, None)),)


def _read_parts(content: object, issuer: Candidate | None) -> tuple[Part, ...]:
    if not isinstance(content, Iterable):
        raise InvalidRequestError("a message's content is text or a list of blocks")
    return tuple(part_from_block(block, issuer) for block in content)


def _read_message(raw: Json, issuer: Candidate | None) -> list[Message]:
    role, content, extra = raw["role"], raw["content"], _message_extra(raw)
    if role not in ("user", "assistant", "system"):
        raise InvalidRequestError(f"Anthropic knows no messages of role {role!r}")
    if isinstance(content, str):
        return [Message(role, content, extra=extra)]
    return _results_apart(Message(role, _read_parts(content, issuer), extra=extra))


def _message_extra(raw: Json) -> Mapping[str, Json]:
    if raw["role"] == "system":
        return {VENDOR: {"role": "system"}}
    # A whole answer, as the API returns it: only role and content are part of the conversation.
    if raw.get("type") == "message":
        return NOTHING
    rest = {name: value for name, value in raw.items() if name not in ("role", "content")}
    return {VENDOR: rest} if rest else NOTHING


def _results_apart(message: Message) -> list[Message]:
    """Split a user message into its tool results, which are of role `tool`, and what the user said besides."""
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    if message.role != "user" or not results:
        return [message]
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if not rest:
        return [replace(message, role="tool")]
    return [Message("tool", results), replace(message, content=rest)]


# ---------------------------------------------------------------- out


@dataclass(slots=True)
class Rendered:
    """A conversation in Anthropic's terms. `dropped` names what was left out because it means nothing there."""

    messages: list[Block] = field(default_factory=list)
    system: System = None
    dropped: set[str] = field(default_factory=set)


def to_anthropic(messages: Iterable[Message]) -> tuple[list[Block], System]:
    """Return neutral messages as Anthropic's `messages` and `system` (None where there is none).

    Reasoning goes along where it has Anthropic's form. Raises `InvalidRequestError` for tool arguments that are no JSON
    object and for parts where they cannot stand, `UnsupportedFeatureError` for media that Anthropic does not take.
    """
    rendered = render(messages, is_anthropic_reasoning)
    return rendered.messages, rendered.system


def render(messages: Iterable[Message], keep: KeepReasoning) -> Rendered:
    """Return *messages* in Anthropic's terms, with the reasoning that *keep* allows."""
    out = Rendered()
    writer = _Writer(keep, out.dropped)
    system: list[Message] = []
    for message in messages:
        own = message.extra.get(VENDOR, NOTHING) if message.extra else NOTHING
        if message.role == "system" and own.get("role") != "system":
            system.append(message)
        elif content := writer.content(message):
            role = "user" if message.role == "tool" else message.role
            _append(out.messages, {"role": role, "content": content, **own})
    out.system = _system(writer, system)
    for wire in out.messages:
        _results_first(wire)
    return out


def is_anthropic_reasoning(part: Reasoning) -> bool:
    """Say whether *part* has Anthropic's form: signed or redacted, and no other vendor's extras."""
    foreign = bool(part.extra) and VENDOR not in part.extra
    return not foreign and (part.signature is not None or part.opaque is not None)


def unsupported(feature: str, message: str) -> UnsupportedFeatureError:
    """Return the error that says that this vendor has no *feature*."""
    verdict = replace(default_verdict(Kind.UNSUPPORTED, rule="adapter"), feature=feature)
    return UnsupportedFeatureError(message, verdict=verdict)


def as_blocks(content: object) -> list[Block]:
    """Return a message's content, text or blocks, as a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, list) else []


def _append(messages: list[Block], message: Block) -> None:
    last = messages[-1] if messages else None
    if last is None or last["role"] != message["role"]:
        messages.append(message)
        return
    content = as_blocks(last["content"]) + as_blocks(message["content"])
    messages[-1] = {**last, **message, "content": content}


def _results_first(message: Block) -> None:
    content = message["content"]
    if message["role"] == "user" and isinstance(content, list):
        content.sort(key=lambda block: block.get("type") != "tool_result")


def _system(writer: _Writer, messages: list[Message]) -> System:
    texts = [message.content for message in messages if isinstance(message.content, str)]
    if len(texts) == len(messages):
        return "\n\n".join(text for text in texts if text.strip()) or None
    contents = [content for message in messages if (content := writer.content(message))]
    blocks = [block for content in contents for block in as_blocks(content)]
    if any(block.get("type") != "text" for block in blocks):
        raise InvalidRequestError("a system message holds text only")
    return blocks or None


class _Writer:
    """Parts in, blocks out, within one conversation."""

    def __init__(self, keep: KeepReasoning, dropped: set[str]) -> None:
        self._keep = keep
        self._dropped = dropped
        self._ids = WireIds()

    def content(self, message: Message) -> str | list[Block]:
        """Return the wire's content, empty where nothing is left to say."""
        if message.name is not None:
            self._dropped.add("name")
        if isinstance(message.content, str):
            return message.content if message.content.strip() else ""
        blocks = (self._block(part, message.role) for part in message.content)
        return [block for block in blocks if block is not None]

    def _block(self, part: Part, role: str) -> Block | None:
        match part:
            case Text():
                return _text(part)
            case ToolCall():
                return self._call(part, role)
            case ToolResult():
                return self._result(part, role)
            case Reasoning():
                return self._reasoning(part)
            case Image():
                return self._image(part)
            case Document():
                return _document(part)
            case Opaque():
                return self._opaque(part)

    def _call(self, part: ToolCall, role: str) -> Block:
        if role != "assistant":
            raise InvalidRequestError(f"a tool call stands in an assistant message, not in one of role {role!r}")
        try:
            arguments = part.parsed()
        except ValueError as malformed:
            raise InvalidRequestError(str(malformed)) from None
        wire = {"type": "tool_use", "id": self._ids.call(part.id), "name": part.name, "input": arguments}
        return wire | own(part.extra)

    def _result(self, part: ToolResult, role: str) -> Block:
        if role not in ("tool", "user"):
            raise InvalidRequestError(f"a tool result stands in a tool message, not in one of role {role!r}")
        wire: Block = {"type": "tool_result", "tool_use_id": self._ids.result(part.call_id)}
        if isinstance(part.content, str):
            content: object = part.content
        else:
            content = [block for each in part.content if (block := self._block(each, role)) is not None]
        if content:
            wire["content"] = content
        if part.is_error:
            wire["is_error"] = True
        return wire | own(part.extra)

    def _reasoning(self, part: Reasoning) -> Block | None:
        if not self._keep(part):
            self._dropped.add("reasoning_history")
            return None
        if part.opaque is not None:
            return {"type": "redacted_thinking", "data": part.opaque} | own(part.extra)
        signature = {} if part.signature is None else {"signature": part.signature}
        return {"type": "thinking", "thinking": part.text} | signature | own(part.extra)

    def _image(self, part: Image) -> Block:
        if part.detail is not None:
            self._dropped.add("image_detail")
        return {"type": "image", "source": _image_source(part)} | own(part.extra)

    def _opaque(self, part: Opaque) -> Block | None:
        if part.vendor != VENDOR:
            self._dropped.add("opaque")
            return None
        return dict(part.data)


def own(extra: Mapping[str, Json]) -> Block:
    """Return Anthropic's share of *extra*."""
    return dict(extra.get(VENDOR, NOTHING)) if extra else {}


def _text(part: Text) -> Block | None:
    return {"type": "text", "text": part.text} | own(part.extra) if part.text.strip() else None


def _image_source(part: Image) -> Block:
    if part.data is not None:
        return _base64(_image_type(part.media_type), base64.b64encode(part.data).decode())
    url = part.url or ""
    # Anthropic fetches URLs; the bytes in a data URL have to be sent as bytes.
    if inline := _DATA_URL.fullmatch(url):
        return _base64(_image_type(inline[1]), inline[2])
    return {"type": "url", "url": url}


def _image_type(media_type: str | None) -> str:
    known = "image/jpeg" if media_type == "image/jpg" else media_type
    if known not in IMAGE_TYPES:
        raise unsupported("image_type", f"Anthropic takes no pictures of type {media_type}")
    return str(known)


def _base64(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}


def _document(part: Document) -> Block:
    title = {} if part.name is None else {"title": part.name}
    return {"type": "document", "source": _document_source(part)} | title | own(part.extra)


def _document_source(part: Document) -> Block:
    if part.data is None:
        return {"type": "url", "url": part.url}
    if part.media_type == "application/pdf":
        return _base64(part.media_type, base64.b64encode(part.data).decode())
    if part.media_type.startswith("text/"):
        # The only text type that Anthropic names; what kind of text it is, the model can see.
        return {"type": "text", "media_type": "text/plain", "data": part.data.decode("utf-8", "replace")}
    raise unsupported("document_type", f"Anthropic takes no documents of type {part.media_type}")
