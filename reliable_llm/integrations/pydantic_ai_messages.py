"""Pydantic AI's messages as ours, and our replies as Pydantic AI's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from pydantic_ai import usage as pydantic_usage
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.messages import (
    FinishReason as PydanticFinishReason,
)
from pydantic_ai.tools import ToolDefinition

from reliable_llm.integrations.transport import story
from reliable_llm.types import (
    Candidate,
    ChatReply,
    Document,
    FinishReason,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)

KEPT: Final = "reliable_llm"

_FINISH: Final[Mapping[FinishReason, PydanticFinishReason]] = {
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_call",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.REFUSAL: "content_filter",
}

# ---------------------------------------------------------------- in


def from_pydantic_ai(messages: Iterable[ModelMessage], instructions: str | None) -> tuple[Message, ...]:
    """Return Pydantic AI's messages as ours, *instructions* after its system prompts. Raises its `UserError`."""
    made = [each for message in messages for each in _read(message)]
    if instructions:
        place = next((n for n, each in enumerate(made) if each.role != "system"), len(made))
        made.insert(place, Message("system", instructions))
    return tuple(made)


def _read(message: ModelMessage) -> Iterator[Message]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            yield from _read_request(part)
    else:
        parts = tuple(_read_response(message))
        if parts:
            yield Message("assistant", parts)


def _read_request(part: ModelRequestPart) -> Iterator[Message]:
    if isinstance(part, SystemPromptPart):
        yield Message("system", part.content)
    elif isinstance(part, UserPromptPart):
        content = part.content
        yield Message("user", content if isinstance(content, str) else tuple(_user_parts(content)))
    elif isinstance(part, ToolReturnPart):
        yield Message("tool", (_tool_result(part),))
    else:
        raise UserError(f"ReliableModel cannot send a {type(part).__name__}")


def _tool_result(part: ToolReturnPart) -> ToolResult:
    text, further = part.model_response_str_and_user_content()
    files = tuple(each for each in _user_parts(further) if isinstance(each, Image | Document))
    return ToolResult(
        call_id=part.tool_call_id,
        content=(Text(text), *files) if files else text,
        is_error=part.outcome in ("failed", "denied"),
        name=part.tool_name,
    )


def _user_parts(content: Sequence[UserContent]) -> Iterator[Part]:
    for item in content:
        match item:
            case str():
                yield Text(item)
            case TextContent():
                yield Text(item.content)
            case ImageUrl():
                yield Image(url=item.url)
            case DocumentUrl():
                yield Document(url=item.url, media_type=item.media_type)
            case BinaryContent() if item.is_image:
                yield Image(data=item.data, media_type=item.media_type)
            case BinaryContent() if item.is_document:
                yield Document(data=item.data, media_type=item.media_type)
            case CachePoint():
                pass
            case _:
                raise UserError(f"ReliableModel cannot send {type(item).__name__} content")


def _read_response(message: ModelResponse) -> Iterator[Part]:
    for part in message.parts:
        match part:
            case TextPart():
                yield Text(part.content)
            case ToolCallPart():
                yield ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=part.args_as_json_str())
            case ThinkingPart():
                yield _thought(part)
            case _:
                pass  # what other models made of their own tools and files: no one else can read it
    kept = (message.provider_details or {}).get(KEPT)
    opaque = kept.get("opaque") if isinstance(kept, Mapping) else None
    for raw in opaque or ():
        yield Opaque(vendor=str(raw["vendor"]), data=raw["data"])


def _thought(part: ThinkingPart) -> Reasoning:
    kept = (part.provider_details or {}).get(KEPT)
    kept = kept if isinstance(kept, Mapping) else {}
    provider, _, model = str(kept.get("issuer") or "").partition("/")
    return Reasoning(
        text=part.content,
        signature=part.signature,
        opaque=kept.get("opaque"),
        issuer=Candidate(provider, model) if model else None,
    )


def tool_of(definition: ToolDefinition) -> Tool:
    """Return one of Pydantic AI's tools as ours."""
    return Tool(
        name=definition.name,
        description=definition.description or "",
        parameters=definition.parameters_json_schema,
        strict=definition.strict,
    )


# ---------------------------------------------------------------- out


def to_pydantic_ai(reply: ChatReply) -> ModelResponse:
    """Return *reply* as a response; `provider_name` and `provider_details` tell who answered and what it took."""
    return ModelResponse(
        parts=[made for part in reply.parts if (made := _part(part)) is not None],
        usage=usage_of(reply.usage),
        model_name=reply.model or reply.served_by.model,
        provider_name=reply.served_by.provider,
        provider_details=details_of(reply),
        provider_response_id=reply.request_id,
        finish_reason=finish_of(reply.finish_reason),
    )


def _part(part: Part) -> ModelResponsePart | None:
    match part:
        case Text():
            return TextPart(part.text)
        case ToolCall():
            return ToolCallPart(part.name, part.arguments or "{}", part.id)
        case Reasoning():
            provider = part.issuer.provider if part.issuer is not None else None
            return ThinkingPart(
                part.text, signature=part.signature, provider_name=provider, provider_details=thinking_details(part)
            )
        case _:
            return None


def thinking_details(part: Reasoning) -> dict[str, object]:
    """Return what brings a thought back to its issuer."""
    issuer = None if part.issuer is None else str(part.issuer)
    return {KEPT: {"issuer": issuer, "opaque": part.opaque}}


def details_of(reply: ChatReply) -> dict[str, object]:
    """Return who answered and what it took, and blocks that only their vendor understands."""
    opaque = [asdict(part) for part in reply.parts if isinstance(part, Opaque)]
    return {**story(reply), **({KEPT: {"opaque": opaque}} if opaque else {})}


def finish_of(reason: FinishReason) -> PydanticFinishReason:
    return _FINISH.get(reason, "stop")


def usage_of(usage: Usage | None) -> pydantic_usage.RequestUsage:
    """Return *usage* in Pydantic AI's words."""
    usage = usage or Usage()
    return pydantic_usage.RequestUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cache_read_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens or 0,
        details={"reasoning_tokens": usage.reasoning_tokens} if usage.reasoning_tokens else {},
    )
