"""LangChain's messages as ours, and our replies as LangChain's. Pure.

An answer's content is always its text. What LangChain has no place for (signed thinking, blocks that only one vendor
understands) travels in `additional_kwargs["reliable_llm"]` as plain JSON and goes back to its issuer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.messages import ToolCall as LangChainToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk

from reliable_llm.adapters.openai_messages import from_openai
from reliable_llm.integrations.transport import story
from reliable_llm.types import (
    Candidate,
    ChatReply,
    Message,
    Opaque,
    Part,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStarted,
    ToolResult,
    Usage,
)

KEPT: Final = "reliable_llm"

# ---------------------------------------------------------------- in


def from_langchain(messages: Iterable[BaseMessage]) -> tuple[Message, ...]:
    """Return LangChain's messages as ours. Raises `InvalidRequestError` for content that no chat vendor knows."""
    return tuple(made for message in messages for made in _read(message))


def _read(message: BaseMessage) -> tuple[Message, ...]:
    if isinstance(message, AIMessage):
        return (Message("assistant", tuple(_assistant_parts(message))),)
    made = from_openai([convert_to_openai_messages(message)])
    if isinstance(message, ToolMessage) and message.status == "error":
        return tuple(replace(each, content=tuple(_failed(part) for part in each.parts)) for each in made)
    return made


def _failed(part: Part) -> Part:
    return replace(part, is_error=True) if isinstance(part, ToolResult) else part


def _assistant_parts(message: AIMessage) -> Iterator[Part]:
    kept = message.additional_kwargs.get(KEPT)
    yield from _kept(kept if isinstance(kept, Mapping) else {})
    if message.text:
        yield Text(message.text)
    for call in message.tool_calls:
        yield ToolCall(id=call["id"] or "", name=call["name"], arguments=_json(call["args"]))
    for broken in message.invalid_tool_calls:
        yield ToolCall(id=broken["id"] or "", name=broken["name"] or "", arguments=broken["args"] or "")


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _kept(kept: Mapping[str, object]) -> Iterator[Part]:
    for raw in _mappings(kept.get("reasoning")):
        provider, _, model = str(raw.get("issuer") or "").partition("/")
        yield Reasoning(
            text=str(raw.get("text") or ""),
            signature=_text(raw.get("signature")),
            opaque=_text(raw.get("opaque")),
            issuer=Candidate(provider, model) if model else None,
        )
    for raw in _mappings(kept.get("opaque")):
        data = raw.get("data")
        if isinstance(data, Mapping):
            yield Opaque(vendor=str(raw.get("vendor")), data=data)


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, Sequence) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# ---------------------------------------------------------------- out


def to_langchain(reply: ChatReply) -> AIMessage:
    """Return *reply* as a message; `response_metadata` tells who answered and what it took."""
    calls, broken = _calls(reply)
    return AIMessage(
        content=reply.text,
        additional_kwargs=_additional(reply, told_reasoning=False),
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=_usage(reply.usage),
        response_metadata=_metadata(reply),
    )


def chunk_of(event: StreamEvent) -> AIMessageChunk | None:
    """Return what *event* adds to the message, or None."""
    match event:
        case TextDelta():
            return AIMessageChunk(content=event.text)
        case ReasoningDelta():
            return AIMessageChunk(content="", additional_kwargs={"reasoning_content": event.text})
        case ToolCallStarted():
            return _call_chunk(event.index, "", event.name, event.id)
        case ToolCallDelta():
            return _call_chunk(event.index, event.arguments)
        case _:
            return None


def _call_chunk(index: int, args: str, name: str | None = None, id: str | None = None) -> AIMessageChunk:  # noqa: A002 - LangChain's name
    return AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name=name, args=args, id=id, index=index)])


def last_chunk(reply: ChatReply) -> AIMessageChunk:
    """Return the chunk that ends a message: usage, and who answered."""
    return AIMessageChunk(
        content="",
        additional_kwargs=_additional(reply, told_reasoning=True),
        usage_metadata=_usage(reply.usage),
        response_metadata=_metadata(reply),
        chunk_position="last",
    )


def _calls(reply: ChatReply) -> tuple[list[LangChainToolCall], list[InvalidToolCall]]:
    calls, broken = [], []
    for call in reply.tool_calls:
        try:
            calls.append(tool_call(name=call.name, args=call.parsed(), id=call.id))
        except ValueError as error:
            broken.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=str(error)))
    return calls, broken


def _additional(reply: ChatReply, *, told_reasoning: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    if reply.reasoning and not told_reasoning:
        found["reasoning_content"] = reply.reasoning
    kept: dict[str, object] = {}
    if reasoning := [_as_json(part) for part in reply.parts if isinstance(part, Reasoning)]:
        kept["reasoning"] = reasoning
    if opaque := [{"vendor": p.vendor, "data": dict(p.data)} for p in reply.parts if isinstance(p, Opaque)]:
        kept["opaque"] = opaque
    return found | ({KEPT: kept} if kept else {})


def _as_json(part: Reasoning) -> dict[str, object]:
    issuer = None if part.issuer is None else str(part.issuer)
    return {"text": part.text, "signature": part.signature, "opaque": part.opaque, "issuer": issuer}


def _metadata(reply: ChatReply) -> dict[str, object]:
    return {
        "model_name": reply.model or reply.served_by.model,
        "model_provider": reply.served_by.provider,
        "finish_reason": str(reply.finish_reason),
        "request_id": reply.request_id,
        **story(reply),
    }


def _usage(usage: Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    incoming, outgoing = usage.input_tokens or 0, usage.output_tokens or 0
    return UsageMetadata(
        input_tokens=incoming,
        output_tokens=outgoing,
        total_tokens=incoming + outgoing,
        input_token_details=InputTokenDetails(
            cache_read=usage.cache_read_tokens or 0, cache_creation=usage.cache_write_tokens or 0
        ),
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens or 0),
    )
