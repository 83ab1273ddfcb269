"""Group F: how the chain is set up, and which model id goes to whom."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import reliable_llm
from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import ConfigurationError, QuotaExhaustedError
from reliable_llm.provider import Provider
from tests.support import STEADY, Listening, ManualClock, Vendor, anthropic_ok, openai_error, openai_ok, out_of_quota

# A family and a version: `gpt-5.1`, `claude-sonnet-4-5`, but not `gemini-cli`.
MODEL_ID = re.compile(r"(?:gpt|claude|gemini)-(?:\w+-)*\d")
MISSING = openai_error(404, "The model does not exist", code="model_not_found")


def chat_of(*providers: Provider, **settings: object) -> FailoverChat:
    return FailoverChat(providers, retry=STEADY, clock=ManualClock(), **settings)  # type: ignore[arg-type]


async def test_f1_the_requested_model_comes_first_and_then_its_fallbacks() -> None:
    vendor = Vendor(openai_ok()).on("m2", MISSING)
    chat = chat_of(vendor.openai(models=["m1", "m2", "m3"]), fallbacks={"m2": ["m1"]})
    reply = await chat("hi", model="m2")
    assert (vendor.models, reply.served_by.model) == (["m2", "m1"], "m1")


async def test_f1_a_model_without_fallbacks_of_its_own_stands_alone() -> None:
    vendor = Vendor(MISSING)
    chat = chat_of(vendor.openai(models=["m1", "m2"]), fallbacks={"m1": []})
    with pytest.raises(reliable_llm.ModelNotFoundError):
        await chat("hi", model="m1")
    assert vendor.models == ["m1"]


async def test_f2_providers_are_tried_as_listed() -> None:
    first, second, third = Vendor(MISSING), Vendor(MISSING), Vendor(openai_ok())
    chat = chat_of(first.openai(name="z"), second.openai(name="a"), third.openai(name="m"))
    reply = await chat("hi")
    assert [attempt.provider for attempt in reply.attempts] == ["z", "a", "m"]


async def test_f2_a_route_overrides_the_order() -> None:
    first, second = Vendor(openai_ok()), Vendor(anthropic_ok())
    chat = chat_of(first.openai(models=["gpt"]), second.anthropic(models=["claude"]), route=[("anthropic", "claude")])
    assert str((await chat("hi")).served_by) == "anthropic/claude"
    assert str((await chat("hi", route=["openai/gpt"])).served_by) == "openai/gpt"


async def test_f3_each_provider_has_its_own_keys() -> None:
    first, second = Vendor(MISSING), Vendor(anthropic_ok())
    await chat_of(first.openai("sk-openai-key"), second.anthropic("sk-ant-key"))("hi")
    assert (first.keys, second.keys) == (["sk-openai-key"], ["sk-ant-key"])


def test_f3_no_key_at_all_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        FailoverChat([Provider.openai(models=["m1"])])


async def test_f3_a_listed_provider_without_a_key_is_warned_about_and_passed_by() -> None:
    heard, second = Listening(), Vendor(anthropic_ok())
    chat = chat_of(Provider.openai(models=["m1"]), second.anthropic(models=["m1"]), listeners=[heard])
    assert heard.of(events.ConfigWarning) == [events.ConfigWarning("openai", "no key")]
    assert (await chat("hi")).served_by.provider == "anthropic"


async def test_f4_a_model_is_sent_under_the_providers_own_id() -> None:
    first, second = Vendor(out_of_quota()), Vendor(anthropic_ok())
    first_p = first.openai(models={"smart": "gpt-5.1"})
    second_p = second.anthropic(models={"smart": "claude-sonnet-4-5"})
    reply = await chat_of(first_p, second_p)("hi")
    assert (first.models, second.models) == (["gpt-5.1"], ["claude-sonnet-4-5"])
    assert (str(reply.requested), str(reply.served_by)) == ("openai/smart", "anthropic/smart")


async def test_f4_a_model_is_never_sent_to_a_provider_that_does_not_list_it() -> None:
    first, second = Vendor(out_of_quota()), Vendor(anthropic_ok())
    await chat_of(first.openai(models=["gpt-5.1"]), second.anthropic(models=["claude-sonnet-4-5"]))("hi")
    assert second.models == ["claude-sonnet-4-5"]


def test_f5_a_repeated_candidate_is_pruned_with_a_warning() -> None:
    heard = Listening()
    vendor = Vendor(openai_ok())
    chat = chat_of(vendor.openai(models=["m1"]), route=["openai/m1", "openai/m1"], listeners=[heard])
    assert repr(chat) == "FailoverChat(openai/m1)"
    assert heard.of(events.ConfigWarning) == [events.ConfigWarning("openai", "duplicate candidate openai/m1")]


@pytest.mark.parametrize("models", [[""], ["  "], [], "gpt-5.1"])
def test_f5_blank_models_are_refused(models: object) -> None:
    with pytest.raises(ConfigurationError, match="models"):
        Provider.openai(models=models, keys=["sk-key"])  # type: ignore[arg-type]


@pytest.mark.parametrize("route", [["openai/m9"], ["nobody/m1"], []])
def test_f5_a_route_to_nowhere_is_refused(route: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="route"):
        chat_of(Vendor(openai_ok()).openai(models=["m1"]), route=route)


async def test_f5_fallbacks_that_point_at_each_other_end() -> None:
    vendor = Vendor(MISSING)
    chat = chat_of(vendor.openai(models=["m1", "m2"]), fallbacks={"m1": ["m2"], "m2": ["m1"]})
    with pytest.raises(reliable_llm.ModelNotFoundError):
        await chat("hi", model="m1")
    assert vendor.models == ["m1", "m2"]


def test_f6_no_model_id_is_built_into_the_core() -> None:
    root = Path(reliable_llm.__file__).parent
    outer = {"integrations", "drill", "adapters"}
    found = [
        f"{path.name}: {node.value}"
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in outer
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODEL_ID.match(node.value)
    ]
    assert found == []


async def test_f_the_error_of_an_empty_chain_is_that_of_its_first_candidate() -> None:
    first, second = Vendor(out_of_quota()), Vendor(MISSING)
    with pytest.raises(QuotaExhaustedError):
        await chat_of(first.openai(), second.openai(name="second"))("hi")
