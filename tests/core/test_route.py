"""Which candidates, in which order, and which of them can serve a request."""

from __future__ import annotations

import pytest

from reliable_llm.core.route import chain_from, checked_route, computed_order, lacking, needs_of, obstacle
from reliable_llm.errors import ConfigurationError
from reliable_llm.types import (
    Candidate,
    ChatRequest,
    Document,
    HostedTool,
    Image,
    Message,
    OutputSchema,
    Part,
    Reasoning,
    Text,
    Tool,
    ToolResult,
)
from tests.core.trips import World

KNOWN = {"openai": ["m1", "m2"], "azure": ["m1"]}
PICTURE = Image(url="https://pictures.example/1.png")


def names(candidates: tuple[Candidate, ...]) -> list[str]:
    return [str(candidate) for candidate in candidates]


def needs(*parts: Part, **fields: object) -> frozenset[str]:
    content = parts or "hi"
    return needs_of(ChatRequest(messages=(Message("user", content),), **fields))  # type: ignore[arg-type]


# ---------------------------------------------------------------- order


def test_the_model_chain_is_outside_the_provider_chain() -> None:
    order = computed_order({"p1": ["m1", "m2"], "p2": ["m1", "m2"]})
    assert names(order) == ["p1/m1", "p2/m1", "p1/m2", "p2/m2"]


def test_models_come_in_the_order_of_their_first_mention() -> None:
    assert names(computed_order({"p1": ["m2"], "p2": ["m1", "m2"]})) == ["p1/m2", "p2/m2", "p2/m1"]


@pytest.mark.parametrize("entry", ["openai/m2", ("openai", "m2"), ["openai", "m2"], Candidate("openai", "m2")])
def test_a_route_takes_pairs_texts_and_candidates(entry: object) -> None:
    order, repeated = checked_route([entry], KNOWN)  # type: ignore[list-item]
    assert (names(order), repeated) == (["openai/m2"], ())


def test_a_model_name_may_hold_slashes() -> None:
    order, _ = checked_route(["openai/meta/llama"], {"openai": ["meta/llama"]})
    assert order == (Candidate("openai", "meta/llama"),)


def test_repeated_candidates_are_pruned_and_named() -> None:
    order, repeated = checked_route(["openai/m1", "azure/m1", "openai/m1"], KNOWN)
    assert (names(order), names(repeated)) == (["openai/m1", "azure/m1"], ["openai/m1"])


@pytest.mark.parametrize("entry", ["openai", ("openai",), ("openai", ""), ("openai", 1), ("a", "b", "c")])
def test_what_is_no_candidate_is_refused(entry: object) -> None:
    with pytest.raises(ConfigurationError, match="pairs"):
        checked_route([entry], KNOWN)  # type: ignore[list-item]


@pytest.mark.parametrize(("entry", "word"), [("nobody/m1", "nobody"), ("azure/m2", "m1")])
def test_a_route_to_nobody_is_refused_and_says_what_there_is(entry: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        checked_route([entry], KNOWN)


def test_an_empty_route_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="empty"):
        checked_route([], KNOWN)


def test_a_call_for_a_model_starts_there() -> None:
    order = computed_order({"p1": ["m1", "m2", "m3"]})
    assert names(chain_from(order, "m2", {})) == ["p1/m2", "p1/m3"]


def test_declared_fallbacks_replace_the_order() -> None:
    order = computed_order({"p1": ["m1", "m2", "m3"]})
    assert names(chain_from(order, "m2", {"m2": ["m1"]})) == ["p1/m2", "p1/m1"]


def test_a_model_without_fallbacks_stands_alone() -> None:
    assert names(chain_from(computed_order({"p1": ["m1", "m2"]}), "m1", {"m1": []})) == ["p1/m1"]


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="m9"):
        chain_from(computed_order(KNOWN), "m9", {})


# ---------------------------------------------------------------- what a request needs


def test_plain_text_needs_nothing() -> None:
    assert needs() == frozenset()


@pytest.mark.parametrize(
    ("part", "feature"),
    [
        (PICTURE, "vision"),
        (Document(url="https://documents.example/1.pdf"), "documents"),
        (Reasoning(text="hm"), "reasoning_history"),
        (ToolResult(call_id="1", content=(Text("see"), PICTURE)), "vision"),
    ],
)
def test_a_part_needs_its_feature(part: Part, feature: str) -> None:
    assert needs(Text("look"), part) == {feature}


def test_a_tool_result_in_plain_text_needs_nothing() -> None:
    assert needs(ToolResult(call_id="1", content="42")) == frozenset()


def test_a_tool_needs_tools() -> None:
    assert "tools" in needs(tools=(Tool(name="lookup"),))


def test_a_hosted_tool_needs_its_vendor() -> None:
    assert "hosted_tool:openai" in needs(tools=(HostedTool(vendor="openai", spec={"type": "web_search"}),))


def test_what_the_caller_sets_is_needed_too() -> None:
    assert needs(temperature=0.5) == {"parameter:temperature"}


def test_a_schema_needs_structured_output() -> None:
    assert "structured_output" in needs(output=OutputSchema(name="Person", schema={}))


def test_a_stream_needs_streaming() -> None:
    assert "streaming" in needs_of(ChatRequest(messages=(Message("user", "hi"),)), stream=True)


# ---------------------------------------------------------------- what a candidate lacks


@pytest.mark.parametrize("feature", ["tools", "vision", "documents", "structured_output", "streaming"])
def test_a_declared_lack_counts_and_an_unknown_one_does_not(feature: str) -> None:
    world = World(p=1)
    wanted = frozenset({feature})
    assert lacking(world.stop("p/m1", **{feature: False}), wanted, 0) == wanted
    assert lacking(world.stop("p/m1", **{feature: True}), wanted, 0) == frozenset()
    assert lacking(world.stop("p/m1"), wanted, 0) == frozenset()


def test_a_learned_lack_counts_for_its_time() -> None:
    world = World(p=1)
    world.health["p"].learn("m1", "vision", until=10)
    assert lacking(world.stop("p/m1"), frozenset({"vision"}), 9) == {"vision"}
    assert lacking(world.stop("p/m1"), frozenset({"vision"}), 10) == frozenset()


def test_only_what_is_needed_is_lacking() -> None:
    assert lacking(World(p=1).stop("p/m1", vision=False), frozenset({"tools"}), 0) == frozenset()


def test_a_hosted_tool_of_another_vendor_is_lacking() -> None:
    stop = World(openai=1).stop("openai/m1")
    assert lacking(stop, frozenset({"hosted_tool:openai"}), 0) == frozenset()
    assert lacking(stop, frozenset({"hosted_tool:anthropic"}), 0) == {"hosted_tool:anthropic"}


def test_more_output_than_the_candidate_gives_is_lacking() -> None:
    stop = World(p=1).stop("p/m1", max_output=1000)
    assert lacking(stop, frozenset({"max_output:1000"}), 0) == frozenset()
    assert lacking(stop, frozenset({"max_output:1001"}), 0) == {"max_output:1001"}


def test_with_no_declared_limit_any_output_is_tried() -> None:
    assert lacking(World(p=1).stop("p/m1"), frozenset({"max_output:1000000"}), 0) == frozenset()


@pytest.mark.parametrize(
    ("missing", "want"),
    [
        (set(), None),
        ({"vision"}, "vision"),
        ({"structured_output", "reasoning_history", "streaming"}, None),
        ({"streaming", "tools"}, "tools"),
        ({"hosted_tool:openai"}, "hosted_tool:openai"),
    ],
)
def test_only_what_cannot_be_emulated_is_an_obstacle(missing: set[str], want: str | None) -> None:
    assert obstacle(World(p=1).stop("p/m1"), frozenset(missing)) == want


def test_tools_are_no_obstacle_where_they_may_go_into_the_prompt() -> None:
    assert obstacle(World(p=1).stop("p/m1", prompt_tools=True), frozenset({"tools"})) is None


def test_one_refused_spelling_of_the_output_limit_is_no_obstacle_two_are() -> None:
    stop = World(p=1).stop("p/m1")
    spellings = {"parameter:max_tokens", "parameter:max_completion_tokens"}
    assert obstacle(stop, frozenset({"parameter:max_tokens"})) is None
    assert obstacle(stop, frozenset(spellings)) in spellings
