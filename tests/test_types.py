"""Plain data: what it refuses, what it shows, what it adds up."""

from __future__ import annotations

import copy
import pickle

import pytest

from reliable_llm.errors import Kind
from reliable_llm.types import (
    NOTHING,
    Attempt,
    Candidate,
    ChatReply,
    ChatRequest,
    Document,
    FinishReason,
    Image,
    Message,
    Opaque,
    OutputSchema,
    Reasoning,
    ServedBy,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    text_of,
)

SECRET = "what somebody wrote"


def attempt(number: int, where: str = "openai/m1", usage: Usage | None = None, kind: Kind | None = None) -> Attempt:
    name, model = where.split("/")
    return Attempt(
        number=number, provider=name, model=model, key_label=f"{name}#1", started=0, elapsed=0, usage=usage, kind=kind
    )


def reply(*attempts: Attempt, served: str = "openai/m1", parts: tuple[object, ...] = (Text("hello"),)) -> ChatReply:
    name, model = served.split("/")
    return ChatReply(
        parts=parts,  # type: ignore[arg-type]
        served_by=ServedBy(name, model, f"{name}#1"),
        requested=Candidate("openai", "m1"),
        finish_reason=FinishReason.STOP,
        usage=None,
        attempts=attempts,
    )


# ---------------------------------------------------------------- a repr shows shapes


@pytest.mark.parametrize(
    "thing",
    [
        Text(SECRET),
        Image(data=SECRET.encode(), media_type="image/png"),
        Image(url=f"https://x.example/{SECRET}"),
        Document(data=SECRET.encode()),
        Document(url=f"https://x.example/{SECRET}"),
        ToolCall(id="1", name="lookup", arguments=SECRET),
        ToolResult(call_id="1", content=SECRET),
        Reasoning(text=SECRET, signature=SECRET, opaque=SECRET),
        Opaque(vendor="openai", data={"x": SECRET}),
        Message("user", SECRET),
        Message("user", (Text(SECRET),)),
        ChatRequest(messages=(Message("user", SECRET),)),
        reply(parts=(Text(SECRET),)),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_repr_does_not_show_what_somebody_wrote(thing: object) -> None:
    assert SECRET not in repr(thing)
    assert SECRET not in repr([thing])


# ---------------------------------------------------------------- parts and messages


@pytest.mark.parametrize("kind", [Image, Document])
@pytest.mark.parametrize("fields", [{}, {"url": "u", "data": b"d", "media_type": "image/png"}])
def test_a_picture_or_document_has_an_address_or_bytes(kind: type, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="either url= or data="):
        kind(**fields)


def test_bytes_of_a_picture_need_a_media_type() -> None:
    with pytest.raises(ValueError, match="media_type"):
        Image(data=b"x")


def test_the_text_of_a_message_is_its_text_parts() -> None:
    message = Message("user", (Text("The "), Image(url="u"), Text("Rhine")))
    assert (message.text, Message("user", "The Rhine").text) == ("The Rhine", "The Rhine")


def test_a_plain_message_has_one_part() -> None:
    assert Message("user", "hi").parts == (Text("hi"),)
    assert Message("user", (Text("hi"),)).parts == (Text("hi"),)


def test_the_texts_of_messages_come_in_order() -> None:
    assert list(text_of((Message("user", "a"), Message("assistant", "b")))) == ["a", "b"]


@pytest.mark.parametrize("arguments", ["", "{}"])
def test_a_tool_call_without_arguments_has_none(arguments: str) -> None:
    assert ToolCall(id="1", name="lookup", arguments=arguments).parsed() == {}


@pytest.mark.parametrize("arguments", ["[1]", "{", "3", "null"])
def test_arguments_that_are_no_object_are_refused_by_the_tools_name(arguments: str) -> None:
    with pytest.raises(ValueError, match="'lookup'"):
        ToolCall(id="1", name="lookup", arguments=arguments).parsed()


def test_messages_pickle_and_copy() -> None:
    message = Message("user", (Text("hi"), ToolResult(call_id="1")))
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == message


def test_what_was_left_out_is_one_object_also_after_pickling() -> None:
    assert Tool(name="x").extra is NOTHING
    assert pickle.loads(pickle.dumps(NOTHING)) is NOTHING


def test_a_schema_is_strict_by_default() -> None:
    assert OutputSchema(name="x", schema={}).strict


# ---------------------------------------------------------------- usage and replies


def test_usage_adds_up_and_unknown_is_not_zero() -> None:
    total = Usage(input_tokens=1, output_tokens=None) + Usage(input_tokens=2, output_tokens=3, partial=True)
    assert total == Usage(input_tokens=3, output_tokens=3, partial=True)
    assert (Usage() + Usage()).input_tokens is None


def test_usage_is_told_by_candidate_and_in_total() -> None:
    one = Usage(input_tokens=1, output_tokens=2)
    answer = reply(
        attempt(1, usage=one, kind=Kind.EMPTY_RESPONSE), attempt(2, usage=one), attempt(3, "azure/m2", usage=one)
    )
    assert answer.usage_by == {"openai/m1": one + one, "azure/m2": one}
    assert answer.usage_total == one + one + one


def test_without_any_usage_the_total_is_unknown() -> None:
    assert reply(attempt(1)).usage_total is None


def test_another_provider_or_model_means_that_a_fallback_answered() -> None:
    assert not reply().failed_over
    assert reply(served="openai/m2").failed_over
    assert reply(served="azure/m1").failed_over


def test_a_reply_is_text_reasoning_and_tool_calls() -> None:
    call = ToolCall(id="1", name="lookup", arguments="{}")
    answer = reply(parts=(Reasoning(text="hm"), Text("The "), call, Text("Rhine")))
    assert (answer.text, answer.reasoning, answer.tool_calls) == ("The Rhine", "hm", (call,))
    assert answer.message == Message("assistant", answer.parts)


def test_without_a_vendors_answer_there_is_no_raw_object() -> None:
    assert reply().raw is None


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Candidate("openai", "m1"), "openai/m1"),
        (ServedBy("openai", "m1", "openai#1"), "openai/m1"),
        (attempt(1), "openai/m1 [openai#1] answered"),
        (attempt(1, kind=Kind.TIMEOUT), "openai/m1 [openai#1] timeout"),
        (attempt(1, kind=Kind.RATE_LIMITED)._replace(status=429), "openai/m1 [openai#1] rate_limited 429"),
    ],
)
def test_what_names_something_prints_well(made: object, text: str) -> None:
    assert str(made) == text
