"""Parts of a message in OpenAI's chat format, there and back."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from reliable_llm.adapters.tool_ids import wire_id
from reliable_llm.errors import InvalidRequestError, Kind, UnsupportedFeatureError, Verdict, default_verdict
from reliable_llm.types import (
    NOTHING,
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

Wire: TypeAlias = dict[str, object]

OPENAI: Final = "openai"

# Hosts that speak OpenAI's format to the letter: what was kept for OpenAI is right for them.
_SAME_FORMAT: Final = frozenset({OPENAI, "azure"})

_DATA_URL: Final = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)

# What may stand in a chat message's content as it is. Other opaque data belongs to other endpoints.
_CONTENT_TYPES: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})


def unsupported(feature: str, message: str) -> UnsupportedFeatureError:
    """Return the error for a *feature* that this vendor's endpoint lacks."""
    usual = default_verdict(Kind.UNSUPPORTED)
    verdict = Verdict(
        kind=usual.kind,
        scope=usual.scope,
        rotate_key=usual.rotate_key,
        retry_same=usual.retry_same,
        failover=usual.failover,
        feature=feature,
        rule="prepare",
    )
    return UnsupportedFeatureError(message, verdict=verdict)


def own_extra(extra: Mapping[str, Json], vendor: str) -> Json:
    """Return what was kept for *vendor*: under its own name, or OpenAI's where the format is the same."""
    if not extra:
        return NOTHING
    kept: Json = extra.get(OPENAI, NOTHING) if vendor in _SAME_FORMAT else NOTHING
    return {**kept, **extra[vendor]} if vendor in extra and vendor != OPENAI else kept


def is_own(opaque: Opaque, vendor: str) -> bool:
    """Tell whether *opaque* may be sent to *vendor*."""
    return opaque.vendor == vendor or (opaque.vendor == OPENAI and vendor in _SAME_FORMAT)


def losses(messages: Iterable[Message], vendor: str, keeps: Callable[[Reasoning], bool]) -> list[str]:
    """Return what of *messages* means nothing to *vendor*: reasoning but what it *keeps*, opaque parts of others."""
    parts = [part for message in messages if isinstance(message.content, tuple) for part in message.content]
    lost = ["reasoning_history"] if any(isinstance(part, Reasoning) and not keeps(part) for part in parts) else []
    return [*lost, "opaque"] if any(isinstance(part, Opaque) and not is_own(part, vendor) for part in parts) else lost


def data_url(data: bytes, media_type: str) -> str:
    """Return *data* as a URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def content_part(part: Part, vendor: str) -> Wire | None:
    """Return *part* as it stands in a chat message's content, or None where it has no place there."""
    match part:
        case Text():
            return {"type": "text", "text": part.text, **own_extra(part.extra, vendor)} if part.text else None
        case Image():
            return {"type": "image_url", "image_url": _image(part), **own_extra(part.extra, vendor)}
        case Document():
            return {"type": "file", "file": _file(part), **own_extra(part.extra, vendor)}
        case Opaque():
            return dict(part.data) if is_own(part, vendor) and part.data.get("type") in _CONTENT_TYPES else None
        case _:
            return None


def _image(image: Image) -> Wire:
    url = image.url if image.data is None else data_url(image.data, image.media_type or "image/png")
    return {"url": url} if image.detail is None else {"url": url, "detail": image.detail}


def _file(document: Document) -> Wire:
    if document.data is None:
        raise unsupported("documents", "chat completions take documents as data, not by URL")
    return {
        "filename": document.name or f"document.{document.media_type.rpartition('/')[2]}",
        "file_data": data_url(document.data, document.media_type),
    }


def tool_call(call: ToolCall, vendor: str) -> Wire:
    """Return *call* as an entry of an assistant message's `tool_calls`."""
    return {
        "id": wire_id(call.id),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments or "{}"},
        **own_extra(call.extra, vendor),
    }


def result_text(result: ToolResult) -> str:
    """Return the text of *result*. OpenAI has no word for a failed tool, so the text says it."""
    if isinstance(result.content, str):
        text = result.content
    else:
        text = "\n".join(part.text for part in result.content if isinstance(part, Text) and part.text)
    return f"Error: {text}" if result.is_error else text


# ---------------------------------------------------------------- in


def read_part(raw: object, where: str) -> Part:
    """Return one part of a chat message's content; *where* names it in errors."""
    if isinstance(raw, str):
        return Text(raw)
    if not isinstance(raw, Mapping):
        raise InvalidRequestError(f"{where} must be a string or an object with a type, not {type(raw).__name__}")
    kind = raw.get("type")
    if kind == "text" and isinstance(raw.get("text"), str):
        # The type is kept, too: it marks text that came in a list, and goes back in one.
        return Text(str(raw["text"]), extra={OPENAI: {key: raw[key] for key in raw if key != "text"}})
    if kind == "image_url" and isinstance(raw.get("image_url"), Mapping):
        return _read_image(raw)
    if kind == "file" and isinstance(raw.get("file"), Mapping):
        return _read_file(raw)
    if not isinstance(kind, str):
        raise InvalidRequestError(f"{where}.type is missing")
    return Opaque(vendor=OPENAI, data=dict(raw))


def _read_image(raw: Json) -> Part:
    inner = raw["image_url"]
    if not isinstance(inner, Mapping) or not isinstance(inner.get("url"), str) or set(inner) - {"url", "detail"}:
        return Opaque(vendor=OPENAI, data=dict(raw))
    url, detail = str(inner["url"]), inner.get("detail")
    extra = _rest(raw, "type", "image_url")
    decoded = _decode(url)
    if decoded is None:
        return Image(url=url, detail=detail, extra=extra)
    return Image(data=decoded[0], media_type=decoded[1], detail=detail, extra=extra)


def _read_file(raw: Json) -> Part:
    inner = raw["file"]
    known = isinstance(inner, Mapping) and set(inner) <= {"filename", "file_data"} and "filename" in inner
    decoded = _decode(str(inner.get("file_data"))) if known and isinstance(inner, Mapping) else None
    if decoded is None or not isinstance(inner, Mapping):
        return Opaque(vendor=OPENAI, data=dict(raw))
    return Document(
        data=decoded[0], media_type=decoded[1], name=str(inner["filename"]), extra=_rest(raw, "type", "file")
    )


def _decode(url: str) -> tuple[bytes, str] | None:
    """Return data and media type of a data URL that `data_url` would write again in the same way, else None."""
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return None
    try:
        data = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        return None
    return (data, match[1]) if data_url(data, match[1]) == url else None


def read_tool_call(raw: object, where: str) -> Part:
    """Return one entry of `tool_calls`: a function call, or another kind of call as it is."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("id"), str):
        raise InvalidRequestError(f"{where}.id is missing")
    function = raw.get("function")
    if not isinstance(function, Mapping):
        return Opaque(vendor=OPENAI, data=dict(raw))
    name, arguments = function.get("name"), function.get("arguments", "")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise InvalidRequestError(f"{where}.function needs a name and its arguments as JSON text")
    return ToolCall(id=str(raw["id"]), name=name, arguments=arguments, extra=_rest(raw, "id", "type", "function"))


def _rest(raw: Json, *known: str) -> Mapping[str, Json]:
    rest = {key: raw[key] for key in raw if key not in known}
    return {OPENAI: rest} if rest else NOTHING
