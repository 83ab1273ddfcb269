"""A neutral request in Anthropic's terms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter

from reliable_llm.adapters.anthropic_messages import AnthropicAdapter
from reliable_llm.adapters.anthropic_request import DEFAULT_MAX_TOKENS
from reliable_llm.adapters.base import AdapterSettings, Prepared, Target
from reliable_llm.errors import ConfigurationError, InvalidRequestError, UnsupportedFeatureError
from reliable_llm.types import (
    Candidate,
    ChatRequest,
    Document,
    HostedTool,
    Image,
    Message,
    OutputSchema,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolName,
    ToolResult,
)

ME = Candidate("anthropic", "claude")
HI = (Message("user", "hi"),)
LOOKUP = Tool(name="lookup", description="Look up.", parameters={"properties": {"q": {"type": "string"}}})
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
PERSON = OutputSchema(
    name="Person",
    schema={"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]},
)


def prepare(
    messages: tuple[Message, ...] = HI,
    *,
    without: frozenset[str] | set[str] = frozenset(),
    stream: bool = False,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Prepared:
    adapter = AnthropicAdapter(AdapterSettings(vendor="anthropic", headers=headers or {}))
    target = Target(candidate=ME, model_id="claude-sonnet-4-5")
    return adapter.prepare(ChatRequest(messages=messages, **fields), target, stream=stream, without=frozenset(without))


# ---------------------------------------------------------------- the smallest request


def test_a_plain_prompt_is_the_smallest_body() -> None:
    assert prepare().body == {
        "model": "claude-sonnet-4-5",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": DEFAULT_MAX_TOKENS,
    }


def test_the_content_is_the_body_written_down() -> None:
    prepared = prepare((Message("user", "Grüße"),), tools=(LOOKUP,))
    assert prepared.content is not None
    assert json.loads(prepared.content) == prepared.body


def test_a_stream_says_so() -> None:
    assert prepare(stream=True).body["stream"] is True


@pytest.mark.parametrize("odd", [float("nan"), object(), "\ud800"])
def test_what_json_cannot_express_is_refused_before_any_request(odd: object) -> None:
    with pytest.raises(InvalidRequestError):
        prepare(extra={"anthropic": {"metadata": odd}})


@pytest.mark.parametrize("messages", [(), (Message("user", ""),), (Message("user", (Text(" "),)),)])
def test_nothing_to_answer_is_refused(messages: tuple[Message, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        prepare(messages)


def test_a_system_prompt_alone_is_unsupported_here_only() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepare((Message("system", "Be brief."),))
    assert raised.value.feature == "system_only"


def test_a_prefill_loses_the_white_space_at_its_end() -> None:
    prepared = prepare((*HI, Message("assistant", "The answer is (\n ")))
    assert prepared.body["messages"][-1] == {"role": "assistant", "content": "The answer is ("}  # type: ignore[index]


def test_a_picture_in_an_assistant_message_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepare((*HI, Message("assistant", (Document(url="https://x/a.pdf"),)), Message("user", "and?")))
    assert raised.value.feature == "assistant_media"


BODY: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)


def exhaust(value: object) -> None:
    """Walk through *value*: pydantic checks what is typed `Iterable` only as it is read."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for inner in value:
            exhaust(inner)


@pytest.mark.parametrize("without", [set(), {"structured_output"}, {"reasoning_history"}])
@pytest.mark.parametrize("choice", [None, "auto", "required", ToolName("lookup")])
def test_a_body_with_everything_in_it_is_what_the_sdks_types_accept(without: set[str], choice: Any) -> None:
    prepared = prepare(
        (
            Message("system", (Text("Be brief.", {"anthropic": {"cache_control": {"type": "ephemeral"}}}),)),
            *thinking(ME),
        ),
        tools=(LOOKUP, Tool(name="g", strict=True), HostedTool(vendor="anthropic", spec=SEARCH)),
        tool_choice=choice,
        parallel_tool_calls=False,
        output=PERSON,
        reasoning="high",
        stop=("END",),
        without=without,
    )
    exhaust(BODY.validate_python(prepared.body, strict=True, extra="forbid"))


# ---------------------------------------------------------------- tool turns


def call(identifier: str) -> ToolCall:
    return ToolCall(id=identifier, name="lookup", arguments="{}")


def result(identifier: str) -> Message:
    return Message("tool", (ToolResult(call_id=identifier, content="x"),))


ORPHANS = {
    "a_call_at_the_end": (*HI, Message("assistant", (call("a"),))),
    "a_call_before_text": (*HI, Message("assistant", (call("a"),)), Message("user", "go on")),
    "one_of_two_calls": (*HI, Message("assistant", (call("a"), call("b"))), result("a")),
    "a_result_at_the_start": (result("a"),),
    "a_result_too_late": (*HI, Message("assistant", "no"), result("a")),
    "a_result_of_another_call": (*HI, Message("assistant", (call("a"),)), result("b")),
    "a_second_result": (*HI, Message("assistant", (call("a"),)), result("a"), result("a")),
}


@pytest.mark.parametrize("name", ORPHANS)
def test_an_orphaned_call_or_result_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="tool"):
        prepare(ORPHANS[name])


def test_malformed_arguments_are_refused_by_the_tools_name() -> None:
    broken = ToolCall(id="a", name="lookup", arguments="{nonsense secret")
    with pytest.raises(InvalidRequestError, match="lookup") as raised:
        prepare((*HI, Message("assistant", (broken,)), result("a")))
    assert "secret" not in str(raised.value)


# ---------------------------------------------------------------- reasoning in the history


def thinking(issuer: Candidate | None) -> tuple[Message, ...]:
    said = (Reasoning(text="hm", signature="sig-a", issuer=issuer), Text("a"), call("c"))
    return (*HI, Message("assistant", said), result("c"))


def blocks(prepared: Prepared) -> list[dict[str, Any]]:
    messages: Any = prepared.body["messages"]
    return list(messages[1]["content"])


def test_FS_098_own_thinking_goes_back_untouched_and_in_its_place() -> None:
    first = blocks(prepare(thinking(ME)))[0]
    assert first == {"type": "thinking", "thinking": "hm", "signature": "sig-a"}


@pytest.mark.parametrize("issuer", [Candidate("P2", "claude"), Candidate("anthropic", "other")])
def test_FS_096_a_foreign_signature_is_never_on_the_wire(issuer: Candidate) -> None:
    prepared = prepare(thinking(issuer))
    assert [block["type"] for block in blocks(prepared)] == ["text", "tool_use"]
    assert prepared.dropped == ("reasoning_history",)


def test_FS_097_thinking_of_unknown_origin_is_sent_first_and_then_stripped() -> None:
    first, second = prepare(thinking(None)), prepare(thinking(None), without={"reasoning_history"})
    assert [block["type"] for block in blocks(first)] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in blocks(second)] == ["text", "tool_use"]


def test_FS_097_stripping_takes_own_thinking_too() -> None:
    prepared = prepare(thinking(ME), without={"reasoning_history"})
    assert "sig-a" not in json.dumps(prepared.body)


def test_unsigned_reasoning_of_unknown_origin_is_left_out() -> None:
    history = (*HI, Message("assistant", (Reasoning(text="hm"), Text("a"))), Message("user", "b"))
    assert [block["type"] for block in blocks(prepare(history))] == ["text"]


# ---------------------------------------------------------------- tools


def test_a_tools_schema_is_an_object() -> None:
    assert prepare(tools=(LOOKUP,)).body["tools"] == [
        {
            "name": "lookup",
            "description": "Look up.",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
        }
    ]


def test_a_strict_tools_schema_is_in_the_strict_dialect() -> None:
    tool = Tool(
        name="f", strict=True, parameters={"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
    )
    (wire,) = prepare(tools=(tool,)).body["tools"]  # type: ignore[misc]
    assert wire["strict"] is True
    assert wire["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "{minimum: 1}"}},
        "additionalProperties": False,
    }


def test_a_tools_own_hints_stay() -> None:
    tool = Tool(name="f", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}, "openai": {"x": 1}})
    (wire,) = prepare(tools=(tool,)).body["tools"]  # type: ignore[misc]
    assert wire["cache_control"] == {"type": "ephemeral"}
    assert "x" not in wire


def test_an_own_hosted_tool_passes() -> None:
    spec = {"type": "web_search_20260209", "name": "web_search"}
    assert prepare(tools=(HostedTool(vendor="anthropic", spec=spec),)).body["tools"] == [spec]


def test_FS_080_a_foreign_hosted_tool_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepare(tools=(HostedTool(vendor="openai", spec={"type": "web_search"}),))
    assert raised.value.feature == "hosted_tool"


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("none", None, {"type": "none"}),
        (ToolName("lookup"), None, {"type": "tool", "name": "lookup"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("auto", True, {"type": "auto"}),
    ],
)
def test_the_choice_of_tools(choice: Any, parallel: bool | None, wire: dict[str, object]) -> None:
    assert prepare(tools=(LOOKUP,), tool_choice=choice, parallel_tool_calls=parallel).body["tool_choice"] == wire


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_without_tools_there_is_no_choice(choice: Any) -> None:
    assert "tool_choice" not in prepare(tool_choice=choice, parallel_tool_calls=False).body


@pytest.mark.parametrize(
    "fields", [{"tool_choice": "required"}, {"tools": (LOOKUP,), "tool_choice": ToolName("other")}]
)
def test_a_choice_that_cannot_be_met_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="tool_choice"):
        prepare(**fields)


def test_FS_081_a_request_with_tools_is_never_sent_without_them() -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        prepare(tools=(LOOKUP,), without={"tools"})
    assert raised.value.feature == "tools"


# ---------------------------------------------------------------- the form of the answer


def test_FS_090_a_schema_goes_in_its_native_form() -> None:
    assert prepare(output=PERSON).body["output_config"] == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"age": {"type": "integer", "description": "{minimum: 0}"}},
                "required": ["age"],
                "additionalProperties": False,
            },
        }
    }


def test_FS_091_without_the_native_form_a_tool_is_forced() -> None:
    prepared = prepare(output=PERSON, without={"structured_output"})
    assert "output_config" not in prepared.body
    (tool,) = prepared.body["tools"]  # type: ignore[misc]
    assert (tool["name"], tool["input_schema"]) == ("Person", PERSON.schema)
    assert prepared.body["tool_choice"] == {"type": "tool", "name": "Person", "disable_parallel_tool_use": True}
    assert prepared.answer_tool == "Person"


def test_beside_other_tools_the_answer_tool_is_one_choice_of_several() -> None:
    prepared = prepare(output=PERSON, tools=(Tool(name="Person"), LOOKUP), without={"structured_output"})
    names = [tool["name"] for tool in prepared.body["tools"]]  # type: ignore[attr-defined]
    assert names == ["Person", "lookup", "Person_"]
    assert prepared.answer_tool == "Person_"
    assert prepared.body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


@pytest.mark.parametrize("system", [(), (Message("system", "Be brief."),), (Message("system", (Text("Be brief."),)),)])
def test_without_tools_the_schema_goes_into_the_prompt(system: tuple[Message, ...]) -> None:
    prepared = prepare((*system, *HI), output=PERSON, without={"structured_output", "tools"})
    told = json.dumps(prepared.body["system"])
    assert "minimum" in told
    assert ("Be brief." in told) == bool(system)
    assert "tools" not in prepared.body


def test_a_schema_that_no_tool_can_take_goes_into_the_prompt() -> None:
    output = OutputSchema(name="list", schema={"type": "array", "items": {"type": "string"}})
    prepared = prepare(output=output, without={"structured_output"})
    assert prepared.answer_tool is None
    assert "array" in str(prepared.body["system"])


# ---------------------------------------------------------------- parameters


def test_sampling_is_dropped_and_reported() -> None:
    prepared = prepare(temperature=0.2, top_p=0.9)
    assert not {"temperature", "top_p"} & prepared.body.keys()
    assert prepared.dropped == ("temperature", "top_p")


def test_sampling_is_sent_with_the_version_that_takes_it() -> None:
    prepared = prepare(temperature=0.0, extra={"anthropic": {"anthropic_version": "2023-06-01", "top_k": 5}})
    assert (prepared.body["temperature"], prepared.body["top_k"], prepared.dropped) == (0.0, 5, ())
    assert prepared.headers == {"anthropic-version": "2023-06-01"}
    assert "anthropic_version" not in prepared.body


def test_sampling_is_sent_where_the_providers_headers_ask_for_that_version() -> None:
    assert prepare(temperature=0.5, headers={"Anthropic-Version": "2023-06-01"}).body["temperature"] == 0.5


@pytest.mark.parametrize(("beta", "header"), [("a-1", "a-1"), (["a-1", "b-2"], "a-1,b-2")])
def test_betas_become_a_header(beta: object, header: str) -> None:
    assert prepare(extra={"anthropic": {"anthropic_beta": beta}}).headers == {"anthropic-beta": header}


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
def test_an_effort_with_a_word_here_is_sent(effort: str) -> None:
    assert prepare(reasoning=effort).body["output_config"] == {"effort": effort}


@pytest.mark.parametrize("effort", ["none", "minimal"])
def test_an_effort_without_a_word_here_is_dropped_and_reported(effort: str) -> None:
    prepared = prepare(reasoning=effort)
    assert "output_config" not in prepared.body
    assert prepared.dropped == ("reasoning",)


def test_an_effort_stands_beside_a_schema() -> None:
    config: Any = prepare(reasoning="low", output=PERSON).body["output_config"]
    assert config.keys() == {"format", "effort"}


def test_the_default_limit_leaves_room_for_thinking() -> None:
    limits = [
        prepare().body["max_tokens"],
        prepare(reasoning="high").body["max_tokens"],
        prepare(extra={"anthropic": {"thinking": {"type": "enabled", "budget_tokens": 9000}}}).body["max_tokens"],
    ]
    assert limits == [DEFAULT_MAX_TOKENS, 2 * DEFAULT_MAX_TOKENS, 9000 + DEFAULT_MAX_TOKENS]


def test_the_callers_limit_is_sent_as_it_is() -> None:
    assert prepare(max_tokens=5, reasoning="high").body["max_tokens"] == 5


def test_stop_sequences_of_white_space_are_dropped_and_reported() -> None:
    prepared = prepare(stop=("END", "\n"))
    assert prepared.body["stop_sequences"] == ["END"]
    assert prepared.dropped == ("stop",)


def test_what_has_no_word_here_is_reported() -> None:
    message = Message("user", (Image(url="https://x/a.png", detail="low"),), name="ann")
    assert prepare((message,)).dropped == ("image_detail", "name")


# ---------------------------------------------------------------- extra, overrides, without


def test_extra_is_merged_by_vendor_and_by_provider() -> None:
    prepared = prepare(
        reasoning="low",
        extra={"anthropic": {"output_config": {"task_budget": 1}, "speed": "fast"}, "openai": {"seed": 1}},
    )
    assert prepared.body["output_config"] == {"effort": "low", "task_budget": 1}
    assert prepared.body["speed"] == "fast"
    assert "seed" not in prepared.body


def test_FS_127_overrides_are_for_this_candidate_only() -> None:
    prepared = prepare(
        max_tokens=8192,
        stop=("END",),
        overrides={"anthropic/claude": {"max_tokens": 4096, "stop": None}, "openai/gpt": {"max_tokens": 1}},
    )
    assert prepared.body["max_tokens"] == 4096
    assert "stop_sequences" not in prepared.body


def test_an_override_by_provider_yields_to_one_by_candidate() -> None:
    overrides = {"anthropic": {"max_tokens": 1, "reasoning": "low"}, "anthropic/claude": {"max_tokens": 2}}
    prepared = prepare(overrides=overrides)
    assert (prepared.body["max_tokens"], prepared.body["output_config"]) == (2, {"effort": "low"})


def test_an_override_in_the_vendors_own_words_changes_the_body() -> None:
    prepared = prepare(
        extra={"anthropic": {"speed": "fast"}},
        overrides={"anthropic/claude": {"speed": None, "service_tier": "auto"}},
    )
    assert "speed" not in prepared.body
    assert prepared.body["service_tier"] == "auto"


@pytest.mark.parametrize(
    ("parameter", "path"),
    [
        ("reasoning", ("output_config",)),
        ("output_config.effort", ("output_config",)),
        ("stop", ("stop_sequences",)),
        ("stop_sequences", ("stop_sequences",)),
        ("tool_choice", ("tool_choice",)),
    ],
)
def test_doing_without_a_parameter_takes_it_out(parameter: str, path: tuple[str, ...]) -> None:
    fields: dict[str, Any] = {"reasoning": "low", "stop": ("END",), "tools": (LOOKUP,), "tool_choice": "auto"}
    assert path[0] in prepare(**fields).body
    assert path[0] not in prepare(**fields, without={f"parameter:{parameter}"}).body


def test_doing_without_parallel_calls_leaves_the_choice() -> None:
    prepared = prepare(tools=(LOOKUP,), parallel_tool_calls=False, without={"parameter:parallel_tool_calls"})
    assert prepared.body["tool_choice"] == {"type": "auto"}


def test_what_is_required_stays_whatever_is_to_be_done_without() -> None:
    prepared = prepare(without={"parameter:max_tokens", "parameter:messages", "parameter:model"})
    assert prepared.body.keys() >= {"max_tokens", "messages", "model"}


def test_a_key_among_the_headers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="keys="):
        prepare(headers={"X-API-Key": "sk-ant-x"})
