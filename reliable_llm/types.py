"""What goes in and what comes out: messages, tools, requests, replies, usage, the ledger and stream events.

Frozen plain data. A repr shows shapes and sizes, never what somebody wrote. All durations are seconds.

`extra` on a message, a part or a tool is kept per vendor (`{"anthropic": {"cache_control": {...}}}`): it goes back
untouched to that vendor and to no other.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from reliable_llm.errors import Kind, ToolArgumentsError

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Json: TypeAlias = Mapping[str, object]


class _Nothing(Mapping[str, Json]):
    """A mapping without entries: one object for all the fields left out, which pickles and copies as itself."""

    def __getitem__(self, key: str) -> Json:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final[Mapping[str, Json]] = _Nothing()


def _nothing() -> Mapping[str, Json]:
    # A default may be a mapping proxy only from Python 3.12 on, where it can be hashed.
    return NOTHING


# ---------------------------------------------------------------- who answers


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A provider and a model (the chain's name of it). `str()` gives `openai/gpt-5.1`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class ServedBy(NamedTuple):
    """Who answered. `str()` gives `openai/gpt-5.1`."""

    provider: str
    model: str
    key_label: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


# ---------------------------------------------------------------- message parts


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    def __repr__(self) -> str:
        return f"Text({len(self.text)} chars)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture, by `url` or as `data` bytes with a `media_type` such as `image/png`."""

    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None
    detail: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        if (self.url is None) == (self.data is None):
            raise ValueError("Image takes either url= or data=, exactly one of them")
        if self.data is not None and not self.media_type:
            raise ValueError("Image with data= needs media_type=, for example 'image/png'")

    def __repr__(self) -> str:
        return "Image(url)" if self.data is None else f"Image({self.media_type}, {len(self.data)} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document such as a PDF, by `url` or as `data` bytes with a `media_type`."""

    url: str | None = None
    data: bytes | None = None
    media_type: str = "application/pdf"
    name: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        if (self.url is None) == (self.data is None):
            raise ValueError("Document takes either url= or data=, exactly one of them")

    def __repr__(self) -> str:
        return "Document(url)" if self.data is None else f"Document({self.media_type}, {len(self.data)} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for. `arguments` is the JSON text as the model wrote it; `parsed()` decodes it."""

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    def parsed(self) -> dict[str, object]:
        """Return the arguments as a dict.

        Raises `ToolArgumentsError` (a `ValueError`, too) naming the tool where they are not a JSON object; its `text`
        is the raw text.
        """
        try:
            value = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._malformed()
        return value

    def _malformed(self) -> ToolArgumentsError:
        from reliable_llm.errors import ToolArgumentsError

        error = ToolArgumentsError(f"arguments of tool call {self.name!r} are not a JSON object, see .text for them")
        error.text = self.arguments
        return error

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, id={self.id!r}, {len(self.arguments)} chars)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool gave back for the call with `call_id`: text, or text and picture parts."""

    call_id: str
    content: str | tuple[Text | Image | Document, ...] = ""
    is_error: bool = False
    name: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    def __repr__(self) -> str:
        return f"ToolResult(call_id={self.call_id!r}, is_error={self.is_error})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """What the model thought. Bound to its issuer: `signature` and `opaque` are valid nowhere else.

    `issuer` is the candidate that wrote it, None where that is not known.
    """

    text: str = ""
    signature: str | None = None
    opaque: str | None = None
    issuer: Candidate | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    def __repr__(self) -> str:
        return f"Reasoning({len(self.text)} chars, issuer={self.issuer})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A block that only `vendor` understands. Goes back to that vendor untouched, and to no other."""

    vendor: str
    data: Json

    def __repr__(self) -> str:
        return f"Opaque(vendor={self.vendor!r})"


Part: TypeAlias = Text | Image | Document | ToolCall | ToolResult | Reasoning | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `content` is plain text or parts; tool results stand in a message of role `tool`."""

    role: Role
    content: str | tuple[Part, ...]
    name: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Text(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, Text))

    def __repr__(self) -> str:
        shape = f"{len(self.content)} chars" if isinstance(self.content, str) else f"{len(self.content)} parts"
        return f"Message({self.role!r}, {shape})"


# ---------------------------------------------------------------- tools and output


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call. `parameters` is its JSON schema."""

    name: str
    description: str = ""
    parameters: Json = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool:
    """A tool that the vendor itself runs (`spec` is its own form, e.g. `{"type": "web_search"}`)."""

    vendor: str
    spec: Json


@dataclass(frozen=True, slots=True)
class ToolName:
    """The choice of one tool by name."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | ToolName


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """What a structured answer must look like. `type` is the caller's pydantic model, where there is one."""

    name: str
    schema: Json
    strict: bool = True
    type: type | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a candidate can do. None means unknown: it is tried, and a refusal is learned.

    `context_window` and `max_output` are tokens. `prompt_tools` opts in to describing tools in the prompt, and parsing
    calls from the answer, where the candidate has no native tools.
    """

    tools: bool | None = None
    vision: bool | None = None
    documents: bool | None = None
    structured_output: bool | None = None
    streaming: bool | None = None
    context_window: int | None = None
    max_output: int | None = None
    prompt_tools: bool = False


# ---------------------------------------------------------------- the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One call, in no vendor's terms.

    `reasoning` is an effort: none, minimal, low, medium, high, xhigh or max. `extra` holds further body fields by
    provider name or vendor. `overrides` replaces fields per candidate (`{"openai/gpt-5.1": {"temperature": None}}`;
    None leaves the field out). `tags` are the caller's own words for logs and traces. `strict` refuses candidates that
    have no word for something in the request; `truncate` allows the oldest turns of too long a history to be dropped.
    `allow_empty` takes an answer that ends by itself without a word for one: by default it is a failure.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool | HostedTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    output: OutputSchema | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    reasoning: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_nothing)
    overrides: Mapping[str, Json] = field(default_factory=_nothing)
    tags: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    truncate: bool = False
    allow_empty: bool = False

    def __repr__(self) -> str:
        return f"ChatRequest({len(self.messages)} messages, {len(self.tools)} tools)"


# ---------------------------------------------------------------- usage and the ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens. `input_tokens` includes cached ones; None means that the vendor did not say, 0 means zero.

    `partial` is true where the stream ended before its final count.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    partial: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            partial=self.partial or other.partial,
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else left + right


class Attempt(NamedTuple):
    """One request on the wire and what came of it. `kind` is None for the one that answered.

    `started` counts from the start of the call, `waited` is what was slept before it.
    """

    number: int
    provider: str
    model: str
    key_label: str
    started: float
    elapsed: float
    waited: float = 0.0
    kind: Kind | None = None
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    usage: Usage | None = None
    probe: bool = False

    def __str__(self) -> str:
        outcome = "answered" if self.kind is None else str(self.kind)
        status = f" {self.status}" if self.status and self.kind is not None else ""
        return f"{self.provider}/{self.model} [{self.key_label}] {outcome}{status}"


# ---------------------------------------------------------------- the reply


class FinishReason(enum.StrEnum):
    """Why the answer ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    OTHER = "other"


class RawReply(Protocol):
    """The vendor's answer: `body` as decoded, `typed()` as the vendor SDK's own object, built when asked for."""

    @property
    def body(self) -> Json: ...

    def typed(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterReply:
    """What one adapter got for one attempt. `dropped` names request fields this vendor has no word for.

    `attempts` is what a coordinator tried that stands behind the adapter (`reliable_llm.nested`).
    """

    parts: tuple[Part, ...]
    finish_reason: FinishReason
    usage: Usage | None = None
    model: str | None = None
    request_id: str | None = None
    raw: RawReply | None = None
    dropped: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_detail: str | None = None
    status: int = 200
    attempts: tuple[Attempt, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class ChatReply:
    """The answer and what it took.

    `served_by` gave it, `requested` was the first choice. `usage` is the answer's own; `usage_total` and `usage_by`
    add what rejected attempts cost. `dropped` names request fields that the serving vendor has no word for.
    `parsed` holds the structured answer, where one was asked for. `degraded` marks the last resort's answer.
    """

    parts: tuple[Part, ...]
    served_by: ServedBy
    requested: Candidate
    finish_reason: FinishReason
    usage: Usage | None
    attempts: tuple[Attempt, ...]
    model: str | None = None
    request_id: str | None = None
    parsed: object = None
    dropped: tuple[str, ...] = ()
    degraded: bool = False
    context_truncated: bool = False
    finish_detail: str | None = None
    raw_reply: RawReply | None = None

    @property
    def text(self) -> str:
        """All text of the answer, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def message(self) -> Message:
        """The answer as a message, to go on with."""
        return Message("assistant", self.parts)

    @property
    def raw(self) -> object:
        """The vendor SDK's typed object, built when first asked for; None where no vendor answered."""
        return None if self.raw_reply is None else self.raw_reply.typed()

    @property
    def failed_over(self) -> bool:
        return (self.served_by.provider, self.served_by.model) != (self.requested.provider, self.requested.model)

    @property
    def usage_by(self) -> Mapping[str, Usage]:
        """Usage by candidate, rejected attempts included."""
        totals: dict[str, Usage] = {}
        for attempt in self.attempts:
            if attempt.usage is not None:
                where = f"{attempt.provider}/{attempt.model}"
                totals[where] = totals[where] + attempt.usage if where in totals else attempt.usage
        return totals

    @property
    def usage_total(self) -> Usage | None:
        """Usage of all attempts together; None where no vendor gave any."""
        total: Usage | None = None
        for usage in self.usage_by.values():
            total = usage if total is None else total + usage
        return total

    def __repr__(self) -> str:
        return (
            f"ChatReply({self.served_by}, {self.finish_reason}, {len(self.text)} chars, {len(self.attempts)} attempts)"
        )


# ---------------------------------------------------------------- stream events


@dataclass(frozen=True, slots=True)
class Started:
    """The first output is about to come, from this candidate. Sent once, and again after `Restarted` or `Continued`."""

    served_by: ServedBy
    model: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    index: int
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """The call is complete; only now may it be run."""

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class UsageUpdate:
    usage: Usage


@dataclass(frozen=True, slots=True)
class Finished:
    """The vendor's terminal event has come."""

    finish_reason: FinishReason
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Restarted:
    """What was shown so far is void: another candidate starts the answer from the beginning."""

    cause: Kind


@dataclass(frozen=True, slots=True)
class Continued:
    """A seam: another candidate goes on where the text so far ended."""

    cause: Kind


@dataclass(frozen=True, slots=True)
class Alive:
    """A ping or an empty chunk: resets the idle timer, never reaches the caller."""


StreamEvent: TypeAlias = (
    Started
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallEnded
    | UsageUpdate
    | Finished
    | Restarted
    | Continued
    | Alive
)


def text_of(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the text of every message; for size estimates."""
    for message in messages:
        yield message.text
