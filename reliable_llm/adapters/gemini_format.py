"""Conversations in Gemini's terms: contents of parts, and a system instruction apart from them."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from reliable_llm.adapters.openai_messages import check_pairs
from reliable_llm.adapters.openai_parts import unsupported
from reliable_llm.adapters.tool_ids import WireIds, wire_id
from reliable_llm.errors import InvalidRequestError
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

Wire: TypeAlias = dict[str, object]

VENDOR: Final = "gemini"

# https://ai.google.dev/gemini-api/docs/thought-signatures: what stands in for a signature on a call that another model
# made. Without any, Gemini 3 refuses the whole conversation.
NO_SIGNATURE: Final = "skip_thought_signature_validator"

_SIGNATURE: Final = "thoughtSignature"
_ISSUER: Final = "issuer"


class Writer:
    """Messages in, contents out, for one candidate. `dropped` names what Gemini has no word for."""

    def __init__(self, candidate: Candidate, *, reasoning: bool) -> None:
        self._candidate = candidate
        self._reasoning = reasoning
        self._ids = WireIds()
        self._names: dict[str, str] = {}
        self.dropped: set[str] = set()

    def write(self, messages: Iterable[Message]) -> tuple[list[Wire], str | None]:
        """Return the contents and the system instruction.

        Raises `InvalidRequestError` for a call without its result or a result without its call, and for arguments that
        are no JSON object; `UnsupportedFeatureError` for media without a type.
        """
        messages = tuple(messages)
        check_pairs(messages)
        contents: list[Wire] = []
        for message in messages:
            if message.role != "system" and (parts := list(self._parts(message))):
                _append(contents, "model" if message.role == "assistant" else "user", parts)
        system = "\n\n".join(message.text for message in messages if message.role == "system" and message.text.strip())
        return contents, system or None

    def _parts(self, message: Message) -> Iterator[Wire]:
        if message.name is not None:
            self.dropped.add("name")
        signed = False
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield self._call(part, signed)
                signed = True
            else:
                yield from self._part(part)

    def _part(self, part: Part) -> Iterator[Wire]:
        match part:
            case Text():
                if part.text.strip():
                    yield {"text": part.text, **self._own(part.extra)}
            case Image() | Document():
                yield self._media(part)
            case ToolResult():
                yield from self._result(part)
            case Reasoning():
                yield from self._thought(part)
            case Opaque():
                yield from self._opaque(part)
            case ToolCall():
                raise InvalidRequestError("a tool call stands in an assistant message")

    def _own(self, extra: Mapping[str, Json]) -> Wire:
        """Return what was kept for Gemini. A signature goes back to the model that gave it, and to no other."""
        kept = dict(extra.get(VENDOR, NOTHING)) if extra else {}
        issuer = kept.pop(_ISSUER, None)
        if issuer is not None and issuer != str(self._candidate):
            kept.pop(_SIGNATURE, None)
        return kept

    def _call(self, call: ToolCall, signed: bool) -> Wire:
        try:
            arguments = call.parsed()
        except ValueError as malformed:
            raise InvalidRequestError(str(malformed)) from None
        identifier = self._ids.call(call.id)
        self._names[call.id] = call.name
        own = self._own(call.extra)
        # Parallel calls carry one signature, on the first of them.
        stand_in = {} if signed or _SIGNATURE in own else {_SIGNATURE: NO_SIGNATURE}
        return {"functionCall": {"id": identifier, "name": call.name, "args": arguments}, **own, **stand_in}

    def _result(self, result: ToolResult) -> Iterator[Wire]:
        inner = (Text(result.content),) if isinstance(result.content, str) else result.content
        text = "".join(part.text for part in inner if isinstance(part, Text))
        yield {
            "functionResponse": {
                "id": self._ids.result(result.call_id),
                "name": self._names.get(result.call_id) or result.name or wire_id(result.call_id),
                "response": {"error" if result.is_error else "output": text},
            },
            **self._own(result.extra),
        }
        for part in inner:
            if not isinstance(part, Text):
                yield self._media(part)

    def _media(self, part: Image | Document) -> Wire:
        if isinstance(part, Image) and part.detail is not None:
            self.dropped.add("image_detail")
        own = self._own(part.extra)
        if part.data is not None:
            data = base64.b64encode(part.data).decode()
            return {"inlineData": {"mimeType": part.media_type, "data": data}, **own}
        return {**_by_url(part), **own}

    def _thought(self, part: Reasoning) -> Iterator[Wire]:
        if not self._reasoning or part.issuer != self._candidate or not part.text:
            self.dropped.add("reasoning_history")
            return
        signature = {} if part.signature is None else {_SIGNATURE: part.signature}
        yield {"text": part.text, "thought": True, **signature}

    def _opaque(self, part: Opaque) -> Iterator[Wire]:
        if part.vendor == VENDOR:
            yield dict(part.data)
        else:
            self.dropped.add("opaque")


def _by_url(part: Image | Document) -> Wire:
    url = part.url or ""
    header, _, data = url.partition(",")
    if url.startswith("data:") and header.endswith(";base64"):
        return {"inlineData": {"mimeType": header.removeprefix("data:").removesuffix(";base64"), "data": data}}
    known = part.media_type or mimetypes.guess_type(url.partition("?")[0])[0]
    if known is None:
        raise unsupported("vision", "Gemini takes media by URL only with a media type: give media_type=")
    return {"fileData": {"mimeType": known, "fileUri": url}}


def _append(contents: list[Wire], role: str, parts: list[Wire]) -> None:
    last = contents[-1] if contents else None
    before = last["parts"] if last is not None and last["role"] == role else None
    if isinstance(before, list):
        before.extend(parts)
        before.sort(key=lambda part: "functionResponse" not in part)
    else:
        contents.append({"role": role, "parts": parts})


# ---------------------------------------------------------------- in


def read_part(raw: Json, candidate: Candidate, made_id: str) -> Part | None:
    """Return one part of an answer; *made_id* is for a call that came without an id. None where there is nothing."""
    call = raw.get("functionCall")
    if isinstance(call, Mapping):
        return _read_call(call, raw, candidate, made_id)
    text = raw.get("text")
    if not isinstance(text, str):
        return Opaque(vendor=VENDOR, data=dict(raw))
    signature = raw.get(_SIGNATURE)
    if raw.get("thought") is True:
        return Reasoning(text=text, signature=signature if isinstance(signature, str) else None, issuer=candidate)
    if not text and signature is None:
        return None
    return Text(text, _kept(raw, ("text", "thought"), candidate))


def _read_call(call: Json, raw: Json, candidate: Candidate, made_id: str) -> ToolCall:
    identifier, arguments = call.get("id"), call.get("args")
    return ToolCall(
        id=identifier if isinstance(identifier, str) and identifier else made_id,
        name=str(call.get("name")),
        arguments=json.dumps(arguments if isinstance(arguments, Mapping) else {}, ensure_ascii=False),
        extra=_kept(raw, ("functionCall",), candidate),
    )


def _kept(raw: Json, known: tuple[str, ...], candidate: Candidate) -> Mapping[str, Json]:
    rest = {name: value for name, value in raw.items() if name not in known}
    if _SIGNATURE in rest:
        rest[_ISSUER] = str(candidate)
    return {VENDOR: rest} if rest else NOTHING
