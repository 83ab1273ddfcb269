"""Anthropic's content blocks as neutral parts. What has no neutral word stays whole, as `Opaque`."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, cast

from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import (
    NOTHING,
    Candidate,
    Document,
    Image,
    Json,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

VENDOR: Final = "anthropic"

Block: TypeAlias = dict[str, object]
Reader: TypeAlias = Callable[[Json, Candidate | None], Part | None]


def part_from_block(raw: object, issuer: Candidate | None) -> Part:
    """Return one block, a dict or the SDK's own object, as a part. *issuer* is who wrote it."""
    block = plain(raw)
    if not isinstance(block, Mapping):
        raise InvalidRequestError("a content block is a dict with a type")
    read = _READERS.get(str(block.get("type")))
    part = None if read is None else read(block, issuer)
    return Opaque(vendor=VENDOR, data=dict(block)) if part is None else part


def plain(value: object) -> object:
    """Return a pydantic object of the SDK as plain data, with the fields that were set; anything else as it is."""
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


def _rest(block: Json, *known: str) -> Mapping[str, Json]:
    rest = {name: value for name, value in block.items() if name not in known}
    return {VENDOR: rest} if rest else NOTHING


def _text(block: Json, _: Candidate | None) -> Part | None:
    text = block.get("text")
    return Text(text, _rest(block, "type", "text")) if isinstance(text, str) else None


def _thinking(block: Json, issuer: Candidate | None) -> Part | None:
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str | None):
        return None
    known = ("type", "thinking") if signature is None else ("type", "thinking", "signature")
    return Reasoning(text=text, signature=signature, issuer=issuer, extra=_rest(block, *known))


def _redacted(block: Json, issuer: Candidate | None) -> Part | None:
    data = block.get("data")
    return Reasoning(opaque=data, issuer=issuer, extra=_rest(block, "type", "data")) if isinstance(data, str) else None


def _call(block: Json, _: Candidate | None) -> Part | None:
    identifier, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(identifier, str) or not isinstance(name, str) or not isinstance(arguments, Mapping):
        return None
    extra = _rest(block, "type", "id", "name", "input")
    return ToolCall(id=identifier, name=name, arguments=json.dumps(arguments, ensure_ascii=False), extra=extra)


def _result(block: Json, _: Candidate | None) -> Part | None:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        return None
    known = ["type", "tool_use_id"]
    content, whole = _result_content(block.get("content"))
    if whole:
        known.append("content")
    if block.get("is_error") is True:
        known.append("is_error")
    return ToolResult(
        call_id=call_id, content=content, is_error=block.get("is_error") is True, extra=_rest(block, *known)
    )


def _result_content(content: object) -> tuple[str | tuple[Text | Image | Document, ...], bool]:
    """Return the neutral content, and whether it is all: what it cannot hold stays in `extra`, for the way back."""
    if content is None or isinstance(content, str):
        return content or "", bool(content)
    if not isinstance(content, Iterable):
        return "", False
    parts = [part_from_block(block, None) for block in content]
    kept = tuple(part for part in parts if isinstance(part, Text | Image | Document))
    return kept, bool(kept) and len(kept) == len(parts)


def _image(block: Json, _: Candidate | None) -> Part | None:
    source, extra = block.get("source"), _rest(block, "type", "source")
    match source:
        case {"type": "url", "url": str(url), **rest} if not rest:
            return Image(url=url, extra=extra)
        case {"type": "base64", "media_type": str(kind), "data": str(text), **rest} if not rest and kind:
            data = _decoded(text)
            return None if data is None else Image(data=data, media_type=kind, extra=extra)
    return None


def _document(block: Json, _: Candidate | None) -> Part | None:
    data, name = _document_data(block.get("source")), block.get("title")
    if data is None or not isinstance(name, str | None):
        return None
    known = ("type", "source") if name is None else ("type", "source", "title")
    source, kind = data
    extra = _rest(block, *known)
    if isinstance(source, str):
        return Document(url=source, name=name, extra=extra)
    return Document(data=source, media_type=kind, name=name, extra=extra)


def _document_data(source: object) -> tuple[str | bytes, str] | None:
    """Return a document's URL or bytes, and its type."""
    match source:
        case {"type": "url", "url": str(url), **rest} if not rest:
            return url, "application/pdf"
        case {"type": "text", "media_type": "text/plain", "data": str(text), **rest} if not rest and _is_utf8(text):
            return text.encode(), "text/plain"
        case {"type": "base64", "media_type": "application/pdf", "data": str(text), **rest} if not rest:
            data = _decoded(text)
            return None if data is None else (data, "application/pdf")
    return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(text: str) -> bytes | None:
    """Return the bytes, or None where encoding them again would not give *text* back."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


_READERS: Final[Mapping[str, Reader]] = cast(
    "Mapping[str, Reader]",
    {
        "text": _text,
        "thinking": _thinking,
        "redacted_thinking": _redacted,
        "tool_use": _call,
        "tool_result": _result,
        "image": _image,
        "document": _document,
    },
)
