"""Tools, the choice among them, and the form of the answer, in Anthropic's terms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from reliable_llm.adapters.anthropic_blocks import VENDOR, Block
from reliable_llm.adapters.anthropic_format import as_blocks, own, unsupported
from reliable_llm.adapters.anthropic_schema import object_root, to_dialect
from reliable_llm.adapters.base import Target
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import ChatRequest, HostedTool, OutputSchema, Tool, ToolName

_TOOL_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class Draft:
    """A body in the making."""

    request: ChatRequest
    target: Target
    without: frozenset[str]
    body: Block = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    answer_tool: str | None = None


def write_tools(draft: Draft) -> None:
    """Write `tools` and `tool_choice`."""
    request = draft.request
    if "tools" in draft.without and request.tools:
        raise unsupported("tools", "this candidate takes no tools")
    if request.tools:
        draft.body["tools"] = [_tool(tool, draft) for tool in request.tools]
    choice = _choice(draft)
    if choice is not None:
        draft.body["tool_choice"] = choice


def _tool(tool: Tool | HostedTool, draft: Draft) -> Block:
    if isinstance(tool, HostedTool):
        if tool.vendor != VENDOR:
            raise unsupported("hosted_tool", f"a tool hosted by {tool.vendor} runs nowhere else")
        return dict(tool.spec)
    strict = tool.strict and "structured_output" not in draft.without
    schema = {"type": "object", **tool.parameters}
    wire: Block = {"name": tool.name, "input_schema": to_dialect(schema) if strict else schema}
    if tool.description:
        wire["description"] = tool.description
    if strict:
        wire["strict"] = True
    return wire | own(tool.extra)


def _choice(draft: Draft) -> Block | None:
    request, choice = draft.request, draft.request.tool_choice
    if not request.tools:
        if choice not in (None, "auto", "none"):
            raise InvalidRequestError("tool_choice asks for a tool, but the request has no tools")
        return None
    wire: Block | None = {"type": _CHOICES[choice]} if isinstance(choice, str) else _named(choice, request)
    if request.parallel_tool_calls is not False or choice == "none":
        return wire
    return {**(wire or {"type": "auto"}), "disable_parallel_tool_use": True}


_CHOICES: Final[Mapping[str, object]] = {"auto": "auto", "none": "none", "required": "any"}


def _named(choice: ToolName | None, request: ChatRequest) -> Block | None:
    if choice is None:
        return None
    if not any(isinstance(tool, HostedTool) or tool.name == choice.name for tool in request.tools):
        raise InvalidRequestError(f"tool_choice names {choice.name!r}, which is none of the request's tools")
    return {"type": "tool", "name": choice.name}


def write_output(draft: Draft) -> None:
    """Write the form of the answer: natively, as a tool, or in words, as the candidate can."""
    output = draft.request.output
    if output is None:
        return
    if "structured_output" not in draft.without:
        draft.body["output_config"] = {"format": {"type": "json_schema", "schema": to_dialect(output.schema)}}
        return
    root = None if "tools" in draft.without else object_root(output.schema)
    if root is None:
        draft.body["system"] = _with_schema(draft.body.get("system"), output)
    else:
        _force_answer(draft, output, root)


def _force_answer(draft: Draft, output: OutputSchema, root: Block) -> None:
    """Ask for the answer as the input of a tool; beside other tools, let the model choose among all."""
    others = as_blocks(draft.body.get("tools"))
    name = _free_name(output.name, {str(tool.get("name")) for tool in others})
    answer: Block = {"name": name, "description": "Give the final answer by calling this tool.", "input_schema": root}
    draft.answer_tool = name
    draft.body["tools"] = [*others, answer]
    choice: Block = {"type": "any"} if others else {"type": "tool", "name": name}
    draft.body["tool_choice"] = choice | {"disable_parallel_tool_use": True}


def _free_name(wanted: str, taken: set[str]) -> str:
    name = _TOOL_NAME.sub("_", wanted)[:60] or "answer"
    while name in taken:
        name += "_"
    return name


def _with_schema(system: object, output: OutputSchema) -> object:
    """Return the system prompt with *output* described in words."""
    schema = json.dumps(dict(output.schema), ensure_ascii=False)
    asked = f"Answer with one JSON value that fits this JSON schema, and with nothing else:\n{schema}"
    if isinstance(system, str):
        return f"{system}\n\n{asked}"
    return [*as_blocks(system), {"type": "text", "text": asked}] if system else asked
