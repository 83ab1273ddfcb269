"""No exception class of the two SDKs is unknown to the tables: a new one in a new release fails here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Final, get_args

import anthropic
import httpx2
import openai
import pytest

from reliable_llm.adapters.failures import error_from_exception
from reliable_llm.core.classify import CODES
from reliable_llm.core.rules.anthropic_admin import BY_STATUS_ONLY
from reliable_llm.core.rules.statuses import BY_CLASS, BY_STATUS_CLASS
from reliable_llm.errors import Kind

KNOWN_NAMES: Final = set(BY_CLASS) | set(BY_STATUS_CLASS)
KNOWN_CODES: Final = {code for rule in CODES for code in rule.lowered} | BY_STATUS_ONLY


def exported(package: ModuleType) -> Iterator[type[BaseException]]:
    for name in dir(package):
        found = getattr(package, name)
        if inspect.isclass(found) and issubclass(found, BaseException):
            yield found


def below(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from below(sub)


def meet_one_error() -> None:
    """Let the SDK raise once: the classes for its error codes exist only from then on."""
    answer = httpx2.MockTransport(lambda _request: httpx2.Response(400, json={}))
    with httpx2.Client(transport=answer) as http, pytest.raises(anthropic.BadRequestError):
        anthropic.Anthropic(api_key="k", http_client=http, max_retries=0).post("/x", body={}, cast_to=object)


# A new release of an SDK may bring classes and codes that nobody here has read yet: those go by their status, and
# must not turn these tests red. Where many are new, the tables are out of date.
@pytest.mark.parametrize("sdk", [openai, anthropic], ids=lambda sdk: sdk.__name__)
def test_the_classes_that_an_sdk_exports_are_named_or_stand_for_a_known_code(sdk: ModuleType) -> None:
    classes = set(exported(sdk))
    new = {cls.__name__ for cls in classes if cls.__name__ not in KNOWN_NAMES and error_code(cls) not in KNOWN_CODES}
    assert len(new) < 3, new


def test_the_error_codes_that_anthropic_has_a_class_for_are_known() -> None:
    meet_one_error()
    codes = {code for cls in below(anthropic.APIStatusError) if (code := error_code(cls)) is not None}
    assert len(codes) > 80  # 92 in anthropic 2.10, 133 in 2.14, 137 in 2.15
    assert len(codes - KNOWN_CODES) < len(codes) / 10, codes - KNOWN_CODES


def error_code(cls: type[BaseException]) -> str | None:
    """Return the `error_code` that a class of Anthropic's stands for."""
    values = get_args(inspect.get_annotations(cls).get("error_code"))
    return values[0] if values and isinstance(values[0], str) else None


STATUSES: Final = (400, 401, 402, 403, 404, 408, 409, 412, 413, 422, 429, 431, 499, 500, 501, 503, 504, 529)


@pytest.mark.parametrize("status", STATUSES)
def test_both_sdks_classes_of_one_status_become_one_kind(status: int) -> None:
    request = httpx2.Request("POST", "http://vendor.test")
    kinds = set()
    for sdk, base in (("openai", openai.APIStatusError), ("anthropic", anthropic.APIStatusError)):
        response = httpx2.Response(status, request=request, json={"odd": True})
        exc = base("failed", response=response, body=None)
        kinds.add(error_from_exception(exc, vendor=sdk, sdk=sdk, wall=0.0).kind)
    assert len(kinds) == 1


@pytest.mark.parametrize("name", sorted(BY_CLASS))
def test_a_class_that_says_it_all_is_no_guess(name: str) -> None:
    assert isinstance(BY_CLASS[name], Kind)
