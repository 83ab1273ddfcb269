"""Whether a value fits a schema."""

from __future__ import annotations

import pytest

from reliable_llm.schema_check import problems

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}

FITS = [
    ({}, object),
    ({"type": "integer"}, 3.0),
    ({"type": ["string", "null"]}, None),
    ({"enum": [1, "a"]}, 1.0),
    ({"const": {"a": [1]}}, {"a": [1.0]}),
    ({"type": "number", "exclusiveMaximum": 3}, 2.9),
    ({"multipleOf": 0.1}, 0.3),
    ({"items": {"type": "string"}}, ["a"]),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1, 2]),
    ({"uniqueItems": True}, [1, True, "1"]),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 1),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 1),
    ({"not": {"type": "string"}}, 1),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "x"),
    ({"additionalProperties": {"type": "integer"}}, {"a": 1}),
    ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, {"xa": 1}),
    ({"propertyNames": {"maxLength": 1}}, {"a": 1}),
    ({"type": "unheard-of"}, 1),
    ({"pattern": "("}, "a pattern of another dialect"),
    ({"minLength": 3}, 1),
    (PERSON, {"name": "Ada", "age": 36}),
]


@pytest.mark.parametrize(("schema", "value"), FITS)
def test_what_fits_has_no_problems(schema: dict[str, object], value: object) -> None:
    assert problems(value, schema) == []


MISFITS = [
    ({"type": "integer"}, True, "the answer: must be of type integer"),
    ({"type": "integer"}, 1.5, "the answer: must be of type integer"),
    ({"type": ["string", "null"]}, 1, "the answer: must be of type string or null"),
    ({"enum": [1]}, True, "the answer: must be one of 1"),
    ({"const": 1}, 2, "the answer: must be 1"),
    ({"minimum": 1}, 0, "the answer: must be at least 1"),
    ({"exclusiveMinimum": 1}, 1, "the answer: must be more than 1"),
    ({"multipleOf": 2}, 3, "the answer: must be a multiple of 2"),
    ({"minLength": 2}, "a", "the answer: must have at least 2 characters"),
    ({"maxItems": 1}, [1, 2], "the answer: must have at most 1 items"),
    ({"minProperties": 1}, {}, "the answer: must have at least 1 members"),
    ({"pattern": "^a"}, "b", "the answer: must match the pattern ^a"),
    ({"items": {"type": "string"}}, ["a", 1], "[1]: must be of type string"),
    ({"prefixItems": [{"type": "string"}]}, [1], "[0]: must be of type string"),
    ({"items": False}, [1], "[0]: is not allowed"),
    ({"uniqueItems": True}, [1, 1.0], "the answer: must not hold the same item twice"),
    ({"anyOf": [{"type": "string"}]}, 1, "the answer: fits none of the forms allowed"),
    ({"oneOf": [{}, {}]}, 1, "the answer: must fit exactly one of the forms allowed, and fits 2"),
    ({"not": {}}, 1, "the answer: is not allowed"),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, 1, "the answer: must be of type string"),
    ({"additionalProperties": {"type": "integer"}}, {"a": "x"}, "a: must be of type integer"),
    ({"patternProperties": {"^x": {"type": "integer"}}}, {"xa": "b"}, "xa: must be of type integer"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "ab: must have at most 1 characters"),
    (PERSON, {"name": "Ada"}, "the answer: lacks age"),
    (PERSON, {"name": "Ada", "age": "36"}, "age: must be of type integer"),
    (PERSON, {"name": "Ada", "age": 1, "x": 1}, "the answer: holds a member that the schema does not know"),
]


@pytest.mark.parametrize(("schema", "value", "problem"), MISFITS)
def test_what_does_not_fit_is_told_in_one_sentence(schema: dict[str, object], value: object, problem: str) -> None:
    assert problems(value, schema) == [problem]


def test_a_problem_deep_inside_is_named_by_its_place() -> None:
    schema = {"properties": {"rows": {"items": {"properties": {"n": {"type": "integer"}}}}}}

    assert problems({"rows": [{"n": 1}, {"n": "x"}]}, schema) == ["rows[1].n: must be of type integer"]


def test_a_problem_never_quotes_the_value() -> None:
    assert "secret" not in str(problems({"name": 1, "age": "secret"}, PERSON))


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}

    assert problems(1, schema) == []


def test_a_tree_is_checked_to_its_leaves() -> None:
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"kids": {"items": {"$ref": "#/$defs/node"}}, "n": {"type": "integer"}}}},
    }

    assert problems({"kids": [{"kids": [{"n": "x"}]}]}, schema) == ["kids[0].kids[0].n: must be of type integer"]
