"""The scenario format: an outage written down (one JSON object a line, or one JSON document).

The models below are the format; `scenario.schema.json`, for editors, is made from them. A field they do not know makes
a scenario *unsupported*: it is listed with the reason, and never passes in silence. All times are seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema, field_validator

from reliable_llm.tomlfile import nearest
from reliable_llm.vendors import VENDORS

ACTS: Final = (
    "ok", "ok_json", "ok_tool", "empty", "error", "raw", "stream", "stream_tool", "hang", "reset", "refuse", "inject",
)  # fmt: skip
ENDS: Final = ("done", "eof", "cut", "stall", "error_frame", "zero_bytes", "reset")
OPS: Final = ("chat", "stream", "structured", "construct", "reset", "aclose", "inspect", "wall_clock_jump")
PHASES: Final = (
    "connect", "headers", "before_headers", "first_byte", "body", "mid_body", "after_headers", "mid_stream", "stream",
)  # fmt: skip
HOOKS: Final = ("on_request", "on_response")
MOMENTS: Final = ("chunk", "ping", "comment", "keep-alive", "keepalive")
SHAPES: Final = (
    "choices_empty", "choices_null", "content_null", "content_empty", "text_empty", "whitespace", "thinking_only",
    "no_fields",
)  # fmt: skip

# How an empty answer may be described, in order: the first pattern that is found decides.
_SHAPES: Final = (
    (r"thinking|reasoning", "thinking_only"),
    (r"white|blank|space", "whitespace"),
    (r"choices?_(null|none)|null_choices", "choices_null"),
    (r"choice", "choices_empty"),
    (r"null|none", "content_null"),
    (r"text|string", "text_empty"),
    (r"content|list|block", "content_empty"),
)


def shape_of(name: str) -> str:
    """Return the shape that *name* describes, such as `content_null` for `null content`; *name* itself if unknown."""
    plain = re.sub(r"[^a-z]+", "_", name.lower())
    return next((shape for pattern, shape in _SHAPES if plain not in SHAPES and re.search(pattern, plain)), plain)


Seconds = Annotated[float, Field(ge=0)]
Number = Annotated[Any, WithJsonSchema({"type": "number"})]
Count = Annotated[int, Field(ge=0)]
Tokens = Annotated[list[int], Field(min_length=2, max_length=2, description="[input, output] tokens")]
Pair = Annotated[list[str], Field(min_length=2, max_length=2, description="[provider, model]")]


def _one_of(names: tuple[str, ...], text: str) -> dict[str, JsonValue]:
    return {"enum": list(names), "description": text}


class Part(BaseModel):
    """A piece of a scenario. Fields that it does not know are kept aside, to be reported."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, protected_namespaces=())

    def unknown(self, where: str) -> Iterator[str]:
        """Yield what is not known here and below, as `where.field`."""
        yield from (f"{where}.{name}" for name in self.model_extra or {})
        for name in type(self).model_fields:
            yield from _unknown_in(getattr(self, name), f"{where}.{name}")


def _unknown_in(value: object, where: str) -> Iterator[str]:
    if isinstance(value, Part):
        yield from value.unknown(where)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _unknown_in(each, f"{where}[{number}]")


class Provider(Part):
    """One simulated vendor and how it is configured."""

    name: str
    kind: str = Field(json_schema_extra=_one_of(("openai", "anthropic"), "its protocol, or a known host such as groq"))
    keys: list[str]
    models: list[str]
    api: Literal["chat", "responses"] = "chat"
    caps: dict[str, bool] = Field(default_factory=dict, description="what its models can do: tools, vision, ...")
    window: int | None = Field(default=None, description="context window, tokens")
    max_output: int | None = Field(default=None, description="longest answer, tokens")
    pool_limit: int | None = Field(default=None, ge=1, description="connections that it may hold open")
    max_concurrency: int | None = Field(
        default=None, ge=1, description="calls in flight; the rest wait in this process"
    )
    base_url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    raw_key_suffix: str = Field(default="", description="added to each key, to see what is made of it")
    rejects: list[str] = Field(default_factory=list, description="parameters that it answers with a 400")
    vendor: str | None = None

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        if value in ("openai", "anthropic") or value in VENDORS:
            return value
        raise ValueError("must be 'openai', 'anthropic' or a known host such as 'groq'")

    @property
    def protocol(self) -> str:
        """What it speaks: openai or anthropic."""
        return "anthropic" if self.kind == "anthropic" else "openai"


class Policy(Part):
    """What a scenario changes of the corpus defaults. The product checks the values."""

    max_retries: Number = 2
    backoff_s: Number = Field(default=1.0, description="the first wait; each further one is twice as long")
    cap_s: Number = Field(default=30.0, description="the longest wait")
    jitter: Number = 0.0
    patience_s: Number = Field(
        default=None,
        validation_alias=AliasChoices("patience_s", "patience"),
        description="cap_s unless given; may be written patience",
    )
    quota_recovery_s: Number = 300.0
    cooldown: Literal["retry_after"] | dict[str, Number] | None = Field(
        default=None, description='"retry_after", or seconds of rest by kind of failure'
    )
    wait_for_cooldown: bool = False
    attempt_timeout_s: Number = None
    connect_timeout_s: Number = None
    first_byte_timeout_s: Number = None
    first_token_timeout_s: Number = None
    idle_timeout_s: Number = None
    deadline_s: Number = Field(default=None, description="for every call that names none")
    reserve_per_remaining_candidate_s: Number = 0.0
    schema_retries: Number = 1
    failover_on: list[str] = Field(default_factory=list)


class Setup(Part):
    """The coordinator under drill."""

    providers: list[Provider]
    route: list[Pair] = Field(default_factory=list, description="the exact order of (provider, model)")
    policy: Policy = Policy()


class Act(Part):
    """What a simulated vendor does with one request."""

    act: str = Field(json_schema_extra=_one_of(ACTS, "what happens"))
    repeat: bool = Field(default=False, description="on the last act: for all further requests too")
    for_first: Count | None = Field(default=None, description="this act answers so many requests")
    delay_s: Seconds = Field(default=0.0, description="silence before the reply")
    status: int | None = Field(default=None, ge=100, le=599)
    headers: dict[str, str] = Field(default_factory=dict)
    error: dict[str, object] | str | None = None
    resets_in_seconds: float | None = Field(default=None, description="put into the error body")
    body_chars: Count | None = Field(default=None, description="the error body is padded to this size")
    content_type: str | None = None
    body: object = None
    text: str | None = None
    obj: object = None
    calls: list[dict[str, object]] = Field(default_factory=list, description="tool calls: id, name, args")
    shape: str | None = Field(default=None, json_schema_extra=_one_of(SHAPES, "how the answer is empty"))
    thinking: dict[str, str] | str | None = None
    finish: str | None = None
    stop_reason: str | None = None
    usage: Tokens | None = None
    start_usage: Tokens | None = None
    model_reported: str | None = None
    reject_if: str | None = Field(
        default=None, description="a condition on the request; where it holds the answer is a 400"
    )
    chunks: list[str] = Field(default_factory=list)
    end: str = Field(default="done", json_schema_extra=_one_of(ENDS, "how the stream ends"))
    preamble: bool | None = Field(default=None, description="send the start events first")
    gap_s: Seconds = Field(default=0.0, description="between chunks")
    timeline: list[tuple[float, str]] | None = Field(default=None, description="[second, chunk or ping] pairs")
    bad_json_after: Count | None = Field(default=None, description="a broken event after so many chunks")
    extra_chunks: dict[str, str] = Field(default_factory=dict, description="odd but legal chunks: first, middle, last")
    id: str | None = None
    name: str | None = None
    arg_deltas: list[str] = Field(default_factory=list)
    phase: str | None = Field(default=None, json_schema_extra=_one_of(PHASES, "where it happens"))
    raises: str | None = Field(default=None, alias="raise", description="the exception that the transport raises")

    @field_validator("shape", mode="before")
    @classmethod
    def _plain_shape(cls, value: object) -> object:
        return shape_of(value) if isinstance(value, str) else value


class Upstream(Part):
    """The script of one (provider, key, model); `*` stands for any."""

    match: str = Field(pattern=r"^[^/]+/[^/]+/.+$")
    script: list[Act] = Field(min_length=1)


class Call(Part):
    """Something that the application does at second `t`."""

    id: str
    t: Seconds = 0.0
    op: str = Field(default="chat", json_schema_extra=_one_of(OPS, "what is called"))
    prompt: str | None = None
    system: str | None = None
    messages: list[object] | str | None = None
    history: str | None = None
    tokens: Count | None = Field(default=None, description="size of the prompt")
    max_tokens: Count | None = None
    temperature: float | None = None
    tools: list[str | dict[str, object]] | str | None = None
    image: str | None = None
    schema_: str | None = Field(default=None, alias="schema", description="Name{field:type, field:type}")
    extra: str | dict[str, object] | None = None
    deadline_s: Seconds | None = None
    cancel_at: Seconds | str | None = Field(default=None, description="a second, or 'after N chunks'")
    cancel_twice: bool | str = False
    sequential: bool = False
    concurrent: bool | Count = False
    concurrent_with: str | None = None
    wrapped_in: str | None = None
    hook: dict[str, str] | None = None
    loop: str | None = None
    on: str | None = None
    overrides: dict[str, dict[str, object]] = Field(default_factory=dict)
    failover: bool = True
    failover_on: list[str] = Field(default_factory=list)
    fallback_on_invalid: bool = False
    on_interrupt: Literal["raise", "restart", "continue"] | None = None
    consumer: str | dict[str, object] | None = None
    what: list[str] | None = None
    then: str | None = None
    provider: str | None = None
    by_s: float | None = Field(default=None, description="seconds that the wall clock jumps")
    by: float | None = None
    seconds: float | None = None
    jump_s: float | None = None
    delta_s: float | None = None
    note: str | None = None


class Expect(Part):
    """What must come of it. `never` and `also` are for people."""

    results: list[dict[str, object]] = Field(default_factory=list)
    requests: dict[str, int] = Field(default_factory=dict, description="attempts on the wire; what is not listed is 0")
    waited_s: dict[str, float | list[float]] = Field(default_factory=dict)
    order: list[str] | None = None
    logs: list[dict[str, object]] = Field(default_factory=list)
    never: list[str] = Field(default_factory=list)
    also: list[str] = Field(default_factory=list)


class Scenario(Part):
    """One outage: the set-up, what the vendors do, what is called, and what must come of it."""

    id: str
    title: str = ""
    setup: Setup
    upstream: list[Upstream]
    calls: list[Call] = Field(min_length=1)
    expect: Expect = Expect()
    area: str | None = None
    source: object = None
    why_hard: str | None = None
    disagreement: object = None
    needs: list[str] = Field(default_factory=list)
    fault_family: str | None = None
    note: str | None = None

    def unsupported(self) -> list[str]:
        """Return what this scenario asks for and the drill does not know, each with its reason."""
        fields = [f"{name.removeprefix('scenario.')}: unknown field" for name in self.unknown("scenario")]
        return [f for f in fields if not f.startswith("expect.")] + list(_unknown_names(self))

    def acts(self) -> Iterator[Act]:
        for entry in self.upstream:
            yield from entry.script


def _unknown_names(scenario: Scenario) -> Iterator[str]:
    for number, entry in enumerate(scenario.upstream):
        for step, act in enumerate(entry.script):
            yield from _unknown_in_act(f"upstream[{number}].script[{step}]", act)
    for number, call in enumerate(scenario.calls):
        yield from _not_in(f"calls[{number}].op", call.op, OPS)
        for name in call.hook or {}:
            yield from _not_in(f"calls[{number}].hook", name, HOOKS)
        if call.then and not re.search("pickle|copy", call.then):
            yield f"calls[{number}].then {call.then!r}: not known; write 'pickle' or 'deepcopy'"


def _unknown_in_act(where: str, act: Act) -> Iterator[str]:
    yield from _not_in(f"{where}.act", act.act, ACTS)
    yield from _not_in(f"{where}.end", act.end, ENDS)
    yield from _not_in(f"{where}.phase", act.phase, PHASES)
    yield from _not_in(f"{where}.shape", act.shape, SHAPES)
    for _, what in act.timeline or ():
        yield from _not_in(f"{where}.timeline", what, MOMENTS)


def _not_in(field: str, value: str | None, known: tuple[str, ...]) -> Iterator[str]:
    if value is not None and value not in known:
        yield f"{field} {value!r}: not known{nearest(value, known)}"


def json_schema() -> Mapping[str, object]:
    """Return the JSON schema of one scenario, as shipped in `scenario.schema.json`."""
    return Scenario.model_json_schema(by_alias=True)
