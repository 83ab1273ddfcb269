"""Tools from typed functions: name, description and JSON schema are read off the function, calls are checked and run.

@tool
async def weather(city: str, days: int = 1) -> str:
    \"\"\"Tell the weather.

    Args:
        city: Name of the city.
    \"\"\"

reply = await chat(conversation, tools=[weather])
conversation.append(reply)
conversation.add_results(await run_tools(reply.tool_calls, [weather]))
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, Required, cast, get_type_hints, overload

from reliable_llm.errors import ConfigurationError, ToolArgumentsError
from reliable_llm.types import Document, HostedTool, Image, Text, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# What both vendors take as a tool's name.
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SECTION: Final = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$")
_ARGUMENT: Final = re.compile(r"^(\*{0,2}\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool(Tool):
    """A tool that knows the function behind it."""

    function: Callable[..., Any]
    arguments: TypeAdapter[dict[str, Any]] = field(repr=False, compare=False)

    def check(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments of *call* as the function takes them.

        Raises `ToolArgumentsError` with the raw text and what is wrong with it.
        """
        from pydantic import ValidationError

        try:
            return self.arguments.validate_json(call.arguments or "{}")
        except ValidationError as invalid:
            found = invalid.errors(include_url=False, include_context=False, include_input=False)
            raise _unfit(
                call, [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found]
            ) from None

    async def run(self, call: ToolCall) -> ToolResult:
        """Call the function and return what it gave: text as it is, parts as they are, anything else as JSON.

        Raises `ToolArgumentsError` for arguments that it does not take, and whatever the function raises.
        """
        given = self.function(**self.check(call))
        return _result(call, await given if inspect.isawaitable(given) else given)


def _unfit(call: ToolCall, problems: Sequence[str]) -> ToolArgumentsError:
    error = ToolArgumentsError(f"the arguments of tool call {call.name!r} are not what the tool takes, see .problems")
    error.text, error.problems = call.arguments, tuple(problems)
    return error


def _result(call: ToolCall, value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, Text | Image | Document):
        value = (value,)
    if isinstance(value, tuple | list) and value and all(isinstance(each, Text | Image | Document) for each in value):
        return ToolResult(call_id=call.id, name=call.name, content=tuple(value))
    return ToolResult(call_id=call.id, name=call.name, content=value if isinstance(value, str) else _json(value))


def _json(value: object) -> str:
    from pydantic import TypeAdapter

    return TypeAdapter[Any](Any).dump_json(value).decode()


# ---------------------------------------------------------------- from functions


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, strict: bool | None = None
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a typed function; also a decorator, with or without arguments.

    The description is the docstring's text before its sections; what `Args:` says, and `Annotated[..., Field(...)]`,
    describes the arguments. Raises `ConfigurationError` for a function that no model could call.
    """
    if function is None:
        return lambda decorated: _made(decorated, name, description, strict)
    return _made(function, name, description, strict)


def as_tool(given: object) -> Tool | HostedTool:
    """Return *given* as a tool: one already, or a function."""
    if isinstance(given, Tool | HostedTool):
        return given
    if callable(given):
        return tool(given)
    raise ConfigurationError(f"a tool is a Tool, a HostedTool or a function, not {type(given).__name__}")


def _made(function: Callable[..., Any], name: str | None, description: str | None, strict: bool | None) -> FunctionTool:
    name = name or str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"a tool's name is 1 to 64 letters, digits, '_' and '-', got {name!r}: pass name=")
    told, by_argument = _read_docstring(inspect.getdoc(function) or "")
    arguments = _arguments(function, name, by_argument)
    return FunctionTool(
        name=name,
        description=told if description is None else description,
        parameters=_schema(arguments),
        strict=strict,
        function=function,
        arguments=arguments,
    )


def _arguments(function: Callable[..., Any], name: str, told: Mapping[str, str]) -> TypeAdapter[dict[str, Any]]:
    from pydantic import ConfigDict, Field, TypeAdapter, with_config
    from typing_extensions import TypedDict

    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise ConfigurationError(f"tool {name!r}: argument {each.name!r} cannot be given by name")
        hint = hints.get(each.name, Any)
        described = Annotated[hint, Field(description=told[each.name])] if each.name in told else hint
        fields[each.name] = Required[described] if each.default is each.empty else NotRequired[described]
    # A TypedDict, because a model's fields may not be called what models call their methods (`copy`, `json`).
    made = with_config(ConfigDict(extra="forbid"))(TypedDict(name, fields))  # type: ignore[operator]
    return cast("TypeAdapter[dict[str, Any]]", TypeAdapter(made))


def _schema(arguments: TypeAdapter[dict[str, Any]]) -> Mapping[str, object]:
    schema = arguments.json_schema()
    schema.pop("title", None)
    for each in schema.get("properties", {}).values():
        each.pop("title", None)
    return {"type": "object", "properties": {}, **schema}


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what stands before the first section, and what `Args:` says about each argument."""
    section: str | None = None
    before: list[str] = []
    told: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section = found[1]
        elif section is None:
            before.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            if found := _ARGUMENT.match(line.strip()):
                last = found[1].lstrip("*")
                told[last] = found[2]
            elif last and line.strip():
                told[last] = f"{told[last]} {line.strip()}".strip()
    return "\n".join(before).strip(), told


# ---------------------------------------------------------------- running calls


async def run_tools(calls: Iterable[ToolCall], tools: Iterable[object]) -> tuple[ToolResult, ...]:
    """Run *calls* side by side and return their results in the same order.

    What the model got wrong goes back to it as a failed result: a tool that there is not, arguments that are not what
    the tool takes. What a function raises is the application's and passes through, the other calls being cancelled.
    """
    made = [as_tool(each) for each in tools]
    by_name = {each.name: each for each in made if isinstance(each, FunctionTool)}
    running = [asyncio.ensure_future(_run(call, by_name)) for call in calls]
    try:
        return tuple(await asyncio.gather(*running))
    except BaseException:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise


async def _run(call: ToolCall, tools: Mapping[str, FunctionTool]) -> ToolResult:
    found = tools.get(call.name)
    if found is None:
        known = json.dumps(sorted(tools))
        return _failed(call, f"There is no tool {call.name!r}. The tools are {known}.")
    try:
        return await found.run(call)
    except ToolArgumentsError as error:
        if error.text != call.arguments:
            raise  # another tool's, called inside this one
        return _failed(call, "The arguments do not fit: " + "; ".join(error.problems))


def _failed(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=text, is_error=True)
