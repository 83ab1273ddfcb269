"""Structured answers: a pydantic model or a JSON schema in, a checked value out, and the repair of what does not fit.

A bad answer goes back to the candidate that gave it, with a short word about what is wrong, as often as
`RetryPolicy.schema_retries` allows. Every such repair has transport retries of its own: a 503 does not use up a repair,
nor a repair a retry. The next candidate, where failing over on `invalid_output` is asked for, gets the caller's own
request.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from reliable_llm.errors import InvalidOutputError, InvalidRequestError, OutputTruncatedError
from reliable_llm.schema_check import problems
from reliable_llm.types import (
    AdapterReply,
    Candidate,
    ChatRequest,
    FinishReason,
    Json,
    Message,
    OutputSchema,
    Text,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Output: TypeAlias = OutputSchema | Json | type

# Answers without the value asked for that are answers all the same: the caller sees why in `finish_reason`.
_NO_VALUE: Final = frozenset({FinishReason.REFUSAL, FinishReason.CONTENT_FILTER, FinishReason.PAUSE})
_MOST_PROBLEMS: Final = 10
_THOUGHT: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


# ---------------------------------------------------------------- what is asked for


def as_output(output: object) -> OutputSchema:
    """Return what the caller asks for as a schema; raise `InvalidRequestError` for what is none.

    *output* is a pydantic model class (or a dataclass, or a TypedDict), an `OutputSchema`, or a JSON schema.
    """
    if isinstance(output, OutputSchema):
        return output
    if isinstance(output, Mapping):
        return _from_mapping(output)
    if isinstance(output, type):
        return _from_type(output)
    raise InvalidRequestError(
        f"output is a pydantic model class, a JSON schema or an OutputSchema, not {type(output).__name__}"
    )


def _from_mapping(schema: Json) -> OutputSchema:
    # OpenAI's response_format is taken as it is: people have it at hand.
    inner = schema.get("json_schema")
    if schema.get("type") == "json_schema" and isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return OutputSchema(
            name=str(inner.get("name") or "answer"), schema=inner["schema"], strict=inner.get("strict") is not False
        )
    return OutputSchema(name=str(schema.get("title") or "answer"), schema=schema)


def _from_type(wanted: type) -> OutputSchema:
    try:
        schema = _adapter(wanted).json_schema()
    except Exception as unusable:
        raise InvalidRequestError(f"output={wanted.__name__} has no JSON schema") from unusable
    if schema.get("type") != "object" and "$ref" not in schema:
        raise InvalidRequestError(f"output={wanted.__name__} is no object: vendors answer with a JSON object")
    return OutputSchema(name=wanted.__name__, schema=schema, type=wanted)


@functools.lru_cache(maxsize=128)
def _adapter(wanted: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(wanted)


# ---------------------------------------------------------------- what came


def read(answer: AdapterReply, output: OutputSchema) -> object:
    """Return the value in *answer*, None where the answer is another one (a refusal, a tool call).

    Raises `InvalidOutputError` for what does not fit, `OutputTruncatedError` for what was cut; both with the text.
    """
    if answer.finish_reason in _NO_VALUE or any(isinstance(part, ToolCall) for part in answer.parts):
        return None
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    value, wrong = value_of(text, output)
    if not wrong:
        return value
    error: InvalidOutputError | OutputTruncatedError
    if answer.finish_reason is FinishReason.LENGTH:
        error = OutputTruncatedError("the structured answer was cut by the output limit: raise max_tokens")
    else:
        error = InvalidOutputError(f"the answer does not fit the schema (problems: {len(wrong)}, see .problems)")
        error.problems = tuple(wrong)
    error.text = text
    error.usage = answer.usage
    error.request_id = answer.request_id
    error.verdict = replace(error.verdict, status=answer.status)
    raise error


def value_of(text: str, output: OutputSchema) -> tuple[object, list[str]]:
    """Return the value that *text* holds, and what is wrong with it (nothing, where it fits)."""
    bare = _THOUGHT.sub("", text).strip()
    value, wrong = _judged(bare, output)
    fenced = _fenced(bare) if wrong else []
    # Models asked in words like to wrap the value; two of them would be a guess.
    return _judged(fenced[0], output) if len(fenced) == 1 else (value, wrong)


def _fenced(text: str) -> list[str]:
    """Return what stands between lines of Markdown fences. By lines: a model may write blank ones without end."""
    found: list[str] = []
    inside: list[str] | None = None
    for line in text.split("\n"):
        if inside is None:
            inside = [] if line.rstrip().endswith(("```", "```json")) else None
        elif line.lstrip().startswith("```"):
            found.append("\n".join(inside).strip())
            inside = None
        else:
            inside.append(line)
    return found


def _judged(text: str, output: OutputSchema) -> tuple[object, list[str]]:
    if output.type is not None:
        return _by_type(text, output.type)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None, ["the answer is not valid JSON"]
    return value, problems(value, output.schema)


def _by_type(text: str, wanted: type) -> tuple[object, list[str]]:
    from pydantic import ValidationError

    try:
        return _adapter(wanted).validate_json(text), []
    except ValidationError as invalid:
        found = invalid.errors(include_url=False, include_context=False, include_input=False)
        return None, [f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}" for each in found]


# ---------------------------------------------------------------- the repair loop


class Repairs:
    """The structured answers of one call: what each candidate is asked next, and what its bad answers cost."""

    __slots__ = ("_added", "_output", "_request", "_spent")

    def __init__(self, request: ChatRequest, output: OutputSchema) -> None:
        self._request = request
        self._output = output
        self._added: dict[Candidate, tuple[Message, ...]] = {}
        self._spent: dict[Candidate, Usage] = {}

    def request_for(self, candidate: Candidate) -> ChatRequest:
        """Return the caller's request, for a candidate that has answered badly with that answer and a word about it."""
        added = self._added.get(candidate)
        return self._request if added is None else replace(self._request, messages=self._request.messages + added)

    def read(self, candidate: Candidate, answer: AdapterReply) -> object:
        """Return the value in *answer*; for a bad one, note what to send back, and raise."""
        try:
            return read(answer, self._output)
        except InvalidOutputError as error:
            self._note(candidate, answer, error.problems)
            raise

    def _note(self, candidate: Candidate, answer: AdapterReply, wrong: Sequence[str]) -> None:
        told = (Message("assistant", answer.parts), Message("user", complaint(wrong)))
        self._added[candidate] = self._added.get(candidate, ()) + told
        spent = self._spent.get(candidate)
        if answer.usage is not None:
            self._spent[candidate] = answer.usage if spent is None else spent + answer.usage

    def usage(self, candidate: Candidate, usage: Usage | None) -> Usage | None:
        """Return *usage* of the good answer with that of the bad ones before it at the same candidate."""
        spent = self._spent.get(candidate)
        return spent if usage is None else usage if spent is None else spent + usage


def complaint(wrong: Sequence[str]) -> str:
    """Return what the model is told about its answer."""
    more = [f"and {len(wrong) - _MOST_PROBLEMS} more"] if len(wrong) > _MOST_PROBLEMS else []
    listed = "\n".join(f"- {each}" for each in [*wrong[:_MOST_PROBLEMS], *more])
    return f"That answer does not fit the JSON schema:\n{listed}\nAnswer again with the corrected JSON value only."
