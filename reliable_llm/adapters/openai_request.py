"""What both OpenAI endpoints share in a request: overrides, parameters, schemas, and the JSON that goes out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reliable_llm.adapters.openai_parts import OPENAI, Wire, unsupported
from reliable_llm.adapters.overrides import applied, extra_fields
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import Candidate, ChatRequest, HostedTool, Json, Message, OutputSchema, Tool, ToolName

_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(slots=True)
class Body:
    """A body being written. `without` names what to do without; what is asked for and left out goes to `dropped`."""

    fields: Wire
    without: frozenset[str]
    dropped: list[str] = field(default_factory=list)

    def put(self, name: str, wire: str, value: object) -> None:
        """Set *wire* to *value* unless it is None or to be done without, under the neutral *name* or the vendor's."""
        if value is None:
            return
        if f"parameter:{name}" in self.without or f"parameter:{wire}" in self.without:
            self.dropped.append(name)
        else:
            self.fields[wire] = value

    def put_max_tokens(self, value: int | None, *spellings: str) -> None:
        """Set the output limit under the first of *spellings* that was not refused."""
        if value is None:
            return
        wire = next((wire for wire in spellings if f"parameter:{wire}" not in self.without), None)
        if wire is None:
            self.dropped.append("max_tokens")
        else:
            self.fields[wire] = value

    def merge(self, request: ChatRequest, candidate: Candidate, vendor: str, overrides: Json) -> None:
        """Add the caller's own fields: for the vendor, for the provider, then for this candidate (None removes)."""
        for key, value in extra_fields(request, (vendor, candidate.provider)).items():
            self.put(key, key, value)
        if overrides:
            self.fields = applied(self.fields, overrides)


# ---------------------------------------------------------------- tools and structured output


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """How a structured answer is asked for: natively, by a tool whose arguments are the answer, or in the prompt."""

    native: OutputSchema | None = None
    tool: Tool | None = None
    prompt: Message | None = None


def plan_output(request: ChatRequest, without: frozenset[str]) -> OutputPlan:
    """Return how to ask for `request.output` with what is left."""
    output = request.output
    if output is None:
        return OutputPlan()
    if "structured_output" not in without:
        return OutputPlan(native=output)
    if "tools" not in without:
        return OutputPlan(tool=_output_tool(output, request))
    text = json.dumps(output.schema, ensure_ascii=False, default=_plain)
    instruction = f"Answer with one JSON value that fits this JSON schema, and with nothing else:\n{text}"
    return OutputPlan(prompt=Message("system", instruction))


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, Iterable) else ()


def _output_tool(output: OutputSchema, request: ChatRequest) -> Tool:
    taken = {tool.name for tool in request.tools if isinstance(tool, Tool)}
    name = schema_name(output.name)
    while name in taken:
        name = f"{name[:56]}_answer"
    return Tool(name=name, description="Gives the final answer.", parameters=output.schema)


def schema_name(name: str) -> str:
    """Return *name* as OpenAI takes it: 1 to 64 letters, digits, `_` and `-`."""
    return _NAME.sub("_", name)[:64] or "answer"


def all_tools(request: ChatRequest, plan: OutputPlan, without: frozenset[str]) -> tuple[Tool | HostedTool, ...]:
    """Return the caller's tools and the plan's; raise `UnsupportedFeatureError` where there may be none."""
    if request.tools and "tools" in without:
        raise unsupported("tools", "this candidate takes no tools")
    return request.tools if plan.tool is None else (*request.tools, plan.tool)


def chosen_tool(request: ChatRequest, plan: OutputPlan, tools: tuple[Tool | HostedTool, ...]) -> str | ToolName | None:
    """Return the tool choice, with the plan's own tool in mind; raise `InvalidRequestError` for a choice of nothing."""
    choice = request.tool_choice
    if plan.tool is not None and choice in (None, "auto", "none"):
        return "required" if request.tools and choice != "none" else ToolName(plan.tool.name)
    if not tools:
        if choice in (None, "auto", "none"):
            return None
        raise InvalidRequestError("tool_choice asks for a tool, and the request has none")
    if isinstance(choice, ToolName) and not any(_tool_name(tool) == choice.name for tool in tools):
        raise InvalidRequestError(f"tool_choice names {choice.name!r}, which is not among the tools")
    return choice


def _tool_name(tool: Tool | HostedTool) -> object:
    return tool.name if isinstance(tool, Tool) else tool.spec.get("type")


def strict_schema(schema: Json) -> Json | None:
    """Return *schema* in OpenAI's strict dialect, or None where that would change what it means.

    Strict wants every property required and no others. An object that says nothing about others is closed; optional
    properties, open objects and keywords that the dialect lacks make the schema non-strict.
    """
    strict = _strict(schema)
    return strict if isinstance(strict, dict) and strict.get("type") == "object" else None


# https://platform.openai.com/docs/guides/structured-outputs: what strict mode refuses.
_NOT_STRICT: Final = frozenset(
    {"not", "if", "then", "else", "patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"}
    | {"dependentRequired", "dependentSchemas", "contains", "minContains", "maxContains", "uniqueItems"}
    | {"minProperties", "maxProperties", "prefixItems", "additionalItems"}
)
_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf"})
_NOTES: Final = frozenset({"default", "discriminator", "examples"})


def _strict(schema: object) -> Wire | None:
    if not isinstance(schema, Mapping) or not _NOT_STRICT.isdisjoint(schema):
        return None
    if "$ref" in schema:
        return {"$ref": schema["$ref"]} | ({"$defs": _strict_named(schema["$defs"])} if "$defs" in schema else {})
    made: Wire = {}
    for key, value in schema.items():
        if key not in _NOTES:
            made["anyOf" if key in _LISTED else key] = _strict_value(key, value)
    if any(value is None for key, value in made.items() if key in _NAMED | {"anyOf", "items"}):
        return None
    return _closed(made) if made.get("type") == "object" or "properties" in made else made


def _strict_value(key: str, value: object) -> object:
    if key in _NAMED:
        return _strict_named(value)
    if key in _LISTED:
        # `allOf` with one member is the member; with more it has no strict form.
        members = [_strict(member) for member in _listed(value)]
        return None if None in members or (key == "allOf" and len(members) > 1) else members
    return _strict(value) if key == "items" else value


def _strict_named(value: object) -> Wire | None:
    made = {name: _strict(member) for name, member in value.items()} if isinstance(value, Mapping) else {}
    return None if None in made.values() else dict(made)


def _closed(made: Wire) -> Wire | None:
    properties = made.get("properties")
    if not isinstance(properties, dict) or not properties or made.get("additionalProperties", False) is not False:
        return None
    if set(_listed(made.get("required"))) != set(properties):
        return None
    return {**made, "additionalProperties": False}


# ---------------------------------------------------------------- JSON


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode


def to_json(body: Json) -> bytes:
    """Return *body* as JSON; raise `InvalidRequestError` naming the first field that has no JSON form."""
    try:
        return _encode(body).encode()
    except (ValueError, TypeError, RecursionError):
        # Python's own message quotes what it could not encode: a prompt.
        raise InvalidRequestError(f"{_culprit(body)}, which cannot be sent as JSON") from None


def _culprit(body: object) -> str:
    try:
        found = _find_bad(body, "")
    except RecursionError:
        found = None
    return found or "the request holds itself, or is nested too deeply"


def _find_bad(value: object, path: str) -> str | None:
    if isinstance(value, Mapping):
        named = ((f"{path}.{key}" if path else str(key), member) for key, member in value.items())
        return next((found for name, member in named if (found := _find_bad(member, name))), None)
    if isinstance(value, list | tuple):
        members = (_find_bad(member, f"{path}[{number}]") for number, member in enumerate(value))
        return next((found for found in members if found), None)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{path} is not a finite number"
    if isinstance(value, str):
        return f"{path} holds half of a surrogate pair" if _is_broken(value) else None
    if value is None or isinstance(value, bool | int | float) or hasattr(value, "model_dump"):
        return None
    return f"{path} is a {type(value).__name__}"


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def stops(request: ChatRequest) -> list[str]:
    """Return the stop sequences; an override may be one string."""
    given: object = request.stop
    return [given] if isinstance(given, str) else [str(stop) for stop in request.stop]


def follows_openai(vendor: str) -> bool:
    """Tell whether *vendor* takes OpenAI's newest spellings."""
    return vendor in (OPENAI, "azure")
