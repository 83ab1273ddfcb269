"""An answer of Gemini's, whole or in chunks: what is one becomes neutral, what is none is raised for what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from reliable_llm.adapters.base import Prepared
from reliable_llm.adapters.gemini_format import read_part
from reliable_llm.adapters.openai_chat_reply import made_id
from reliable_llm.adapters.openai_reply import count, says_something, text_or_none
from reliable_llm.errors import (
    ContentPolicyError,
    EmptyResponseError,
    Kind,
    MalformedResponseError,
    ReliableLLMError,
    default_verdict,
)
from reliable_llm.types import (
    AdapterReply,
    Finished,
    FinishReason,
    Json,
    Part,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageUpdate,
)

_FINISH: Final[Mapping[str, FinishReason]] = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_RECITATION"),
        FinishReason.CONTENT_FILTER,
    ),
}

# The model meant to call a tool and got it wrong: the next try may do.
_BROKEN_CALLS: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})


@dataclass(frozen=True, slots=True)
class GeminiRaw:
    """The answer as decoded. `typed()` builds the SDK's `GenerateContentResponse`."""

    body: Json

    def typed(self) -> object:
        """Return the SDK's own object."""
        from google.genai.types import GenerateContentResponse

        return GenerateContentResponse.model_validate(dict(self.body))

    def __repr__(self) -> str:
        return "GeminiRaw()"


class GeminiAssembly:
    """One answer: the first candidate of one or of many chunks."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._parts: list[Part] = []
        self._reason: str | None = None
        self._blocked: str | None = None
        self._id = ""
        self.is_answer = False
        self.model: str | None = None
        self.usage: Usage | None = None
        self.output_started = False

    # ------------------------------------------------------------ what came

    @property
    def proven(self) -> bool:
        """A finish reason, or the word that the prompt was blocked."""
        return self._reason is not None or self._blocked is not None

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""
        return self.proven and self.usage is not None

    def text(self) -> str:
        return "".join(part.text for part in self._parts if isinstance(part, Text))

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far; the call that stands in for a structured answer as the text that it is."""
        tool = self._prepared.answer_tool
        made = (Text(p.arguments) if isinstance(p, ToolCall) and p.name == tool else p for p in self._parts)
        return tuple(made)

    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """Return none: calls come whole."""
        return ()

    def finish_reason(self) -> FinishReason:
        if any(isinstance(part, ToolCall) for part in self.parts()):
            return FinishReason.TOOL_CALLS
        return _FINISH.get(self._reason or "", FinishReason.OTHER)

    @property
    def finish_detail(self) -> str | None:
        return self._reason or self._blocked

    # ------------------------------------------------------------ what comes

    def take(self, chunk: Json) -> list[StreamEvent]:
        """Return what *chunk* says. Never raises for what it holds."""
        self.model = text_or_none(chunk.get("modelVersion")) or self.model
        self._id = text_or_none(chunk.get("responseId")) or self._id
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, Mapping):
            self.is_answer = True
            self._blocked = text_or_none(feedback.get("blockReason")) or self._blocked
        events = self._take_candidate(chunk.get("candidates"))
        usage = usage_of(chunk.get("usageMetadata"))
        if usage is not None:
            self.usage = usage
            events.append(UsageUpdate(usage))
        return events

    def _take_candidate(self, candidates: object) -> list[StreamEvent]:
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        if not isinstance(first, Mapping):
            return []
        self.is_answer = True
        self._reason = text_or_none(first.get("finishReason")) or self._reason
        content = first.get("content")
        parts = content.get("parts") if isinstance(content, Mapping) else None
        listed = parts if isinstance(parts, list) else []
        return [event for raw in listed if isinstance(raw, Mapping) for event in self._take_part(raw)]

    def _take_part(self, raw: Json) -> list[StreamEvent]:
        candidate = self._prepared.target.candidate
        part = read_part(raw, candidate, made_id(self._id or str(candidate), len(self._parts)))
        if part is None:
            return []
        index = sum(isinstance(each, ToolCall) for each in self._parts)
        self._add(part)
        self.output_started = True
        match part:
            case Text():
                return [TextDelta(part.text)]
            case Reasoning():
                return [ReasoningDelta(part.text)]
            case ToolCall() if part.name == self._prepared.answer_tool:
                return [TextDelta(part.arguments)]
            case ToolCall():
                started = ToolCallStarted(index, part.id, part.name)
                return [started, ToolCallDelta(index, part.arguments), ToolCallEnded(index, part)]
            case _:
                return []

    def _add(self, part: Part) -> None:
        """Add a part; pieces of one text, or of one thought, become one as long as nothing is signed in between."""
        last = self._parts[-1] if self._parts else None
        if isinstance(part, Text) and isinstance(last, Text) and not last.extra:
            self._parts[-1] = replace(last, text=last.text + part.text, extra=part.extra)
        elif isinstance(part, Reasoning) and isinstance(last, Reasoning) and last.signature is None:
            self._parts[-1] = replace(last, text=last.text + part.text, signature=part.signature)
        else:
            self._parts.append(part)

    def error_in(self, name: str, chunk: Json) -> object:
        """Return the error document in *chunk*, or None."""
        return chunk if name == "error" or chunk.get("error") else None

    def done(self) -> bool:
        """Tell that `[DONE]`, which some gateways add, proves nothing."""
        return False

    def finish(self) -> list[StreamEvent]:
        """Return the last events; raise `ReliableLLMError` for an answer that says nothing."""
        failure = self.failure()
        if failure is not None:
            raise failure
        return [Finished(self.finish_reason(), self.usage)]

    def failure(self) -> ReliableLLMError | None:
        """Return what is wrong with an answer that has ended, None where it is one."""
        if self._reason in _BROKEN_CALLS:
            verdict = replace(default_verdict(Kind.MALFORMED_RESPONSE, rule="finish_reason"), status=200)
            return MalformedResponseError("the model's tool call could not be read", verdict=verdict)
        if says_something(self.parts()) or self._prepared.takes_silence(self.finish_reason()):
            return None
        if self._blocked is not None or self.finish_reason() is FinishReason.CONTENT_FILTER:
            verdict = replace(default_verdict(Kind.CONTENT_POLICY, rule="finish_reason"), status=200)
            return ContentPolicyError("the vendor's filter withheld the answer", verdict=verdict)
        verdict = replace(default_verdict(Kind.EMPTY_RESPONSE, rule="no_output"), status=200)
        return EmptyResponseError("the answer holds no text and no tool call", verdict=verdict)


def read_reply(body: Json, prepared: Prepared, headers: Mapping[str, str], request_id: str | None) -> AdapterReply:
    """Return a decoded answer as a reply; raise what it is where it is none, with its usage."""
    assembly = GeminiAssembly(prepared)
    assembly.take(body)
    failure = assembly.failure() if assembly.is_answer else malformed()
    if failure is not None:
        failure.usage, failure.request_id = assembly.usage, request_id
        raise failure
    return AdapterReply(
        parts=assembly.parts(),
        finish_reason=assembly.finish_reason(),
        usage=assembly.usage,
        model=assembly.model,
        request_id=request_id,
        raw=GeminiRaw(body),
        dropped=prepared.dropped,
        headers=headers,
        finish_detail=assembly.finish_detail,
    )


def malformed() -> MalformedResponseError:
    """Return the error for a success that holds no answer."""
    verdict = replace(default_verdict(Kind.MALFORMED_RESPONSE, rule="adapter"), status=200)
    return MalformedResponseError("a success status, but no answer", verdict=verdict)


def usage_of(raw: object) -> Usage | None:
    """Return Gemini's counts. Its candidates' tokens leave the thoughts out, and the prompt's hold the cached ones."""
    if not isinstance(raw, Mapping):
        return None
    answer, thoughts = count(raw.get("candidatesTokenCount")), count(raw.get("thoughtsTokenCount"))
    prompt, tools = count(raw.get("promptTokenCount")), count(raw.get("toolUsePromptTokenCount"))
    return Usage(
        input_tokens=prompt if tools is None else (prompt or 0) + tools,
        output_tokens=answer if thoughts is None else (answer or 0) + thoughts,
        cache_read_tokens=count(raw.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )
