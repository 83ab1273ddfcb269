"""The schema dialect: equal to the SDK's own where that has an answer, and an answer where it has none."""

from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
from anthropic import transform_schema
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from reliable_llm.adapters.anthropic_schema import object_root, to_dialect


class Address(BaseModel):
    street: str = Field(min_length=1, description="with number")
    zip: str = Field(pattern=r"\d{5}")


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(ge=0, le=150, default=3)
    kind: Literal["a", "b"] = "a"
    addresses: list[Address] = Field(min_length=2)
    friends: list[Person] = []
    mail: str | None = None


FORMATS = ["email", "date-time", "color", ""]
leaves = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"format": st.sampled_from(FORMATS), "minLength": st.integers(0, 3), "title": st.just("T")},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", "boolean", "null"])},
        optional={"minimum": st.integers(0, 3), "description": st.sampled_from(["d", ""]), "default": st.just(1)},
    ),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from(["a", 1, None, [1]]), max_size=3)}, optional={"type": st.just("string")}
    ),
    st.fixed_dictionaries({"const": st.sampled_from(["a", {"b": 1}])}, optional={"type": st.just("string")}),
    st.just({"$ref": "#/$defs/X"}),
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
                "required": st.just(["a"]),
                "additionalProperties": st.booleans(),
                "$defs": st.dictionaries(st.just("X"), inner, max_size=1),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")}, optional={"items": inner, "minItems": st.integers(0, 3), "maxItems": st.just(4)}
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=2)}, optional={"description": st.just("d")}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, max_size=2)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, max_size=2)}),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(schemas)
def test_the_dialect_is_the_sdks_own(schema: dict[str, Any]) -> None:
    try:
        theirs = transform_schema(copy.deepcopy(schema))
    except ValueError:  # no type and nothing instead of one: refused there, passed on here
        return
    assert to_dialect(schema) == theirs


def test_a_models_schema_is_transformed_as_the_sdk_does() -> None:
    assert to_dialect(Person.model_json_schema()) == transform_schema(Person)


@settings(max_examples=50, deadline=None)
@given(schemas)
def test_the_callers_schema_stays_as_it_is(schema: dict[str, Any]) -> None:
    kept = copy.deepcopy(schema)
    to_dialect(schema)
    assert schema == kept


def test_a_list_of_types_becomes_alternatives() -> None:
    schema = {"type": ["string", "null"], "minLength": 1, "description": "d"}
    assert to_dialect(schema) == {
        "anyOf": [{"type": "string", "description": "{minLength: 1}"}, {"type": "null"}],
        "description": "d",
    }


def test_a_schema_that_allows_anything_is_passed_on() -> None:
    assert to_dialect({"type": "array", "items": True}) == {"type": "array", "items": {}}


def test_a_recursive_root_is_resolved_for_a_tool() -> None:
    class Node(BaseModel):
        next: Node | None = None

    root = object_root(Node.model_json_schema())
    assert root is not None
    assert root["type"] == "object"
    assert "Node" in root["$defs"]  # type: ignore[operator]


@pytest.mark.parametrize("schema", [{"type": "array"}, {"anyOf": []}, {"type": "object", "oneOf": []}, {"$ref": "#/x"}])
def test_a_root_that_is_no_plain_object_is_no_tools_input(schema: dict[str, object]) -> None:
    assert object_root(schema) is None
