"""Tools from typed functions."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from reliable_llm import ConfigurationError, FailoverChat, Tool, ToolArgumentsError, run_tools, tool
from reliable_llm.tools import FunctionTool
from reliable_llm.types import HostedTool, Image, Text, ToolCall, ToolResult
from tests.support import Vendor, openai_ok


class Place(BaseModel):
    city: str


@tool
async def weather(city: str, unit: Literal["C", "F"] = "C", json: Annotated[int, Field(ge=1)] = 1) -> str:
    """Tell the weather.

    For the next days.

    Args:
        city: Name of
            the city.
        unit (str): Of temperature.

    Returns:
        Words.
    """
    return f"{city} {json} {unit}"


@tool(name="find", description="Finds.", strict=True)
def lookup(where: Place, *, limit: int | None = None) -> dict[str, object]:
    return {"city": where.city, "limit": limit}


def call(arguments: object, name: str = "weather", id: str = "c1") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments))


# ---------------------------------------------------------------- what the model is told


def test_a_tool_is_named_after_its_function() -> None:
    assert weather.name == "weather"


def test_name_description_and_strict_can_be_given() -> None:
    assert (lookup.name, lookup.description, lookup.strict) == ("find", "Finds.", True)


def test_the_description_is_the_docstring_before_its_sections() -> None:
    assert weather.description == "Tell the weather.\n\nFor the next days."


def test_arguments_are_described_by_the_docstring() -> None:
    properties = weather.parameters["properties"]

    assert isinstance(properties, dict)
    assert properties["city"] == {"type": "string", "description": "Name of the city."}


def test_arguments_without_a_default_are_required_and_others_are_not() -> None:
    assert weather.parameters["required"] == ["city"]


def test_other_arguments_are_not_allowed() -> None:
    assert weather.parameters["additionalProperties"] is False


def test_models_among_the_arguments_bring_their_schema() -> None:
    assert "Place" in json.dumps(lookup.parameters["$defs"])


def test_a_function_without_arguments_has_an_empty_object() -> None:
    @tool
    def now() -> str:
        return "now"

    assert (now.parameters["type"], now.parameters["properties"]) == ("object", {})


@pytest.mark.parametrize("function", [lambda x: x, print, lambda *args: args])
def test_what_a_model_cannot_call_is_no_tool(function: object) -> None:
    with pytest.raises((ConfigurationError, ValueError)):
        tool(function)  # type: ignore[call-overload]


def test_positional_only_arguments_are_refused_naming_them() -> None:
    def f(x: int, /) -> int:
        return x

    with pytest.raises(ConfigurationError, match="'x'"):
        tool(f)


def test_a_tool_shows_its_function_but_no_schema_machinery() -> None:
    assert "TypeAdapter" not in repr(weather)


# ---------------------------------------------------------------- running calls


async def test_a_call_runs_the_function_with_its_arguments() -> None:
    (result,) = await run_tools([call({"city": "Oslo", "json": 2})], [weather])

    assert result == ToolResult(call_id="c1", name="weather", content="Oslo 2 C")


async def test_models_arrive_as_models_and_plain_values_leave_as_json() -> None:
    (result,) = await run_tools([call({"where": {"city": "Oslo"}}, "find")], [lookup])

    assert json.loads(str(result.content)) == {"city": "Oslo", "limit": None}


async def test_results_keep_the_order_of_the_calls() -> None:
    gate = asyncio.Event()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "slow"

    @tool
    async def quick() -> str:
        gate.set()
        return "quick"

    results = await run_tools([call({}, "slow", "1"), call({}, "quick", "2")], [slow, quick])

    assert [(each.call_id, each.content) for each in results] == [("1", "slow"), ("2", "quick")]


@pytest.mark.parametrize("value", [Image(url="https://x/a.png"), [Text("see"), Image(url="https://x/a.png")]])
async def test_pictures_leave_as_parts(value: object) -> None:
    @tool
    def draw() -> object:
        return value

    (result,) = await run_tools([call({}, "draw")], [draw])

    assert isinstance(result.content, tuple)
    assert isinstance(result.content[-1], Image)


async def test_a_result_of_ones_own_is_taken_as_it_is() -> None:
    own = ToolResult(call_id="c1", content="no", is_error=True)

    @tool
    def fail() -> ToolResult:
        return own

    assert await run_tools([call({}, "fail")], [fail]) == (own,)


@pytest.mark.parametrize(
    "arguments", ['{"city": "Os', "[]", "{}", '{"city": "Oslo", "x": 1}', '{"city": 1, "json": 0}']
)
async def test_arguments_that_do_not_fit_go_back_to_the_model(arguments: str) -> None:
    (result,) = await run_tools([call(arguments)], [weather])

    assert (result.is_error, result.call_id) == (True, "c1")


async def test_a_tool_that_there_is_not_is_told_with_those_there_are() -> None:
    (result,) = await run_tools([call({}, "wether")], [weather, Tool(name="plain"), HostedTool(vendor="x", spec={})])

    assert (result.is_error, '["weather"]' in str(result.content)) == (True, True)


async def test_what_a_function_raises_is_the_applications_and_stops_the_others() -> None:
    cancelled = asyncio.Event()

    @tool
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    @tool
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await run_tools([call({}, "wait", "1"), call({}, "fail", "2")], [wait, fail])
    assert cancelled.is_set()


async def test_the_error_for_bad_arguments_holds_the_raw_text_and_what_is_wrong() -> None:
    with pytest.raises(ToolArgumentsError) as raised:
        weather.check(call('{"days": 1}'))
    assert (raised.value.text, raised.value.problems) == (
        '{"days": 1}',
        ("city: Field required", "days: Extra inputs are not permitted"),
    )


@pytest.mark.parametrize("arguments", ['{"city": "Os', "[]", "null"])
def test_arguments_that_are_no_object_are_a_typed_error_with_the_raw_text(arguments: str) -> None:
    with pytest.raises(ToolArgumentsError, match="'weather'") as raised:
        call(arguments).parsed()
    assert raised.value.text == arguments
    assert pickle.loads(pickle.dumps(raised.value)).text == arguments


# ---------------------------------------------------------------- in a call


async def test_a_function_may_stand_among_the_tools_of_a_call() -> None:
    def city(name: str) -> str:
        """Find a city."""
        return name

    vendor = Vendor(openai_ok())
    await FailoverChat([vendor.openai()])("hi", tools=[city, weather])

    sent = [each["function"]["name"] for each in vendor.arrivals[0].body["tools"]]
    assert sent == ["city", "weather"]


async def test_what_is_no_tool_is_refused_before_any_request() -> None:
    vendor = Vendor(openai_ok())

    with pytest.raises(ConfigurationError, match="a tool is"):
        await FailoverChat([vendor.openai()])("hi", tools=["weather"])  # type: ignore[list-item]
    assert vendor.arrivals == []


def test_a_decorated_function_is_a_tool() -> None:
    assert isinstance(weather, FunctionTool)
    assert isinstance(weather, Tool)
