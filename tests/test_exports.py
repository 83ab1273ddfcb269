"""The public names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import reliable_llm


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(reliable_llm.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_public_names_are_sorted() -> None:
    assert reliable_llm.__all__ == sorted(reliable_llm.__all__)


def test_type_checkers_see_exactly_the_public_names() -> None:
    assert names_for_type_checkers() == set(reliable_llm.__all__) - {"__version__"}


@pytest.mark.parametrize("name", reliable_llm.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(reliable_llm, name) is not None


@pytest.mark.parametrize("name", sorted(names_for_type_checkers()))
def test_a_public_name_is_the_object_that_its_module_defines(name: str) -> None:
    value = getattr(reliable_llm, name)

    assert value.__name__ == name
    assert value.__module__.startswith("reliable_llm.")


def test_every_error_of_the_taxonomy_is_public() -> None:
    from reliable_llm.errors import ERROR_CLASSES

    assert {cls.__name__ for cls in ERROR_CLASSES.values()} - set(reliable_llm.__all__) == set()


def test_dir_lists_the_public_names() -> None:
    assert set(reliable_llm.__all__) <= set(dir(reliable_llm))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'FailoverChatt'"):
        _ = reliable_llm.FailoverChatt  # type: ignore[attr-defined]
