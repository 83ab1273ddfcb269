"""The small languages inside a scenario."""

from __future__ import annotations

import json

import httpx2
import pytest

from reliable_llm.drill import phrases
from reliable_llm.drill.vendors import faults
from reliable_llm.drill.vendors.conditions import condition
from reliable_llm.drill.vendors.dates import dated
from reliable_llm.drill.vendors.shapes import Incoming
from reliable_llm.types import HostedTool, Text, ToolCall, ToolResult


def test_messages_are_read_from_lines() -> None:
    said = phrases.messages(["user: go", "assistant: text '' + calls id1 f, id2 f", "tool id1: 1"])
    assert [each.role for each in said] == ["user", "assistant", "tool"]
    assert [type(part) for part in said[1].content] == [Text, ToolCall, ToolCall]
    assert said[2].content == (ToolResult(call_id="id1", content="1"),)


@pytest.mark.parametrize("line", ["go", "assistant: thinking + calls f", "assistant: text 'a' + x"])
def test_a_line_that_is_no_message_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"message|calls"):
        phrases.message(line)


def test_tools_are_names_objects_or_hosted() -> None:
    assert phrases.tool("f").name == "f"
    assert phrases.tool({"name": "f", "parameters": {"type": "object"}}).parameters == {"type": "object"}
    assert isinstance(phrases.tool({"hosted": "web_search", "vendor": "openai"}), HostedTool)


def test_a_schema_becomes_a_type_that_checks() -> None:
    read = phrases.schema("Person{name:str, age:int, tags:[str], note:str?}")
    assert read.schema["required"] == ["name", "age", "tags"]
    with pytest.raises(ValueError, match="age"):
        read.type(name="Ada", age="old", tags=[])


@pytest.mark.parametrize(
    ("said", "size", "kind"),
    [
        ("6.2 MB inline", 6_200_000, "image/png"),
        ("inline image/webp, 2 kB", 2_000, "image/webp"),
        ("data URL", 64, "image/png"),
    ],
)
def test_an_image_is_made_in_the_size_asked(said: str, size: int, kind: str) -> None:
    made = phrases.image(said)
    assert (len(made.data or b""), made.media_type) == (size, kind)


def test_an_image_may_be_a_url() -> None:
    assert phrases.image("https URL").url == "https://images.example/cat.png"
    assert phrases.image("https://a.example/b.png").url == "https://a.example/b.png"


@pytest.mark.parametrize(
    ("said", "calls", "answered", "asked"),
    [
        ("c1", ("c1",), False, False),
        ("c1 + tool result", ("c1",), True, False),
        ("c1, c2 + tool results", ("c1", "c2"), True, False),
        ("c1 + c2", ("c1", "c2"), False, False),
        ("c1's reply + user", ("c1",), False, True),
        ("c1 with its thinking + tool result", ("c1",), True, False),
        ("c1 + tool result + user turn", ("c1",), True, True),
    ],
)
def test_a_history_is_earlier_calls(said: str, calls: tuple[str, ...], answered: bool, asked: bool) -> None:
    read = phrases.history(said)
    assert (read.calls, read.answered, read.asked) == (calls, answered, asked)


def test_a_history_may_be_made_up() -> None:
    turns = phrases.history("assistant turn with thinking of unknown origin + tool call + result").invented
    assert [turn.role for turn in turns] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("breaks after 2 chunks", phrases.Consumer(2)),
        ("stops after the first chunk", phrases.Consumer(1)),
        ("5 s per chunk", phrases.Consumer(None, 5.0)),
        ("never reads", phrases.Consumer(0)),
        ({"stop_after": 3}, phrases.Consumer(3)),
        ("raises ValueError('x') after 1 chunk", phrases.Consumer(1, 0.0, "ValueError('x')")),
    ],
)
def test_a_consumer_is_read(said: object, read: phrases.Consumer) -> None:
    assert phrases.consumer(said) == read


@pytest.mark.parametrize(
    ("said", "body", "holds"),
    [
        ("temperature or top_p present, or max tokens above 10 (422)", {"temperature": 0}, True),
        ("temperature or top_p present, or max tokens above 10", {"max_completion_tokens": 11}, True),
        ("temperature or top_p present, or max tokens above 10", {"max_tokens": 10}, False),
        ("no max_tokens", {}, True),
        ("tools missing", {"tools": []}, False),
        ("image present", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, True),
        ("assistant prefill", {"messages": [{"role": "assistant", "content": "so"}]}, True),
        ("empty text block", {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, True),
        ("two consecutive messages of the same role", {"messages": [{"role": "user"}, {"role": "user"}]}, True),
        ("tool id longer than 64", {"messages": [{"role": "tool", "tool_call_id": "x" * 65}]}, True),
        ("orphan tool result", {"messages": [{"role": "tool", "tool_call_id": "x"}]}, True),
        ("tool_use without tool_result", {"messages": [{"role": "user", "content": "hi"}]}, False),
        ("consecutive user messages", {"messages": [{"role": "user"}, {"role": "user"}]}, True),
        ("messages end with an assistant turn", {"messages": [{"role": "assistant", "content": "so"}]}, True),
        ("blank text block", {"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}, True),
        ("empty assistant content", {"messages": [{"role": "assistant", "content": ""}]}, True),
        ("thinking block in the history", {"messages": [{"role": "user", "content": "hi"}]}, False),
        ("more than one system message", {"messages": [{"role": "system"}, {"role": "system"}]}, True),
        ("system role in the messages", {"messages": [{"role": "user"}]}, False),
        ("cache_control anywhere", {"system": [{"type": "text", "cache_control": {}}]}, True),
        ("any image", {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, True),
        ("tool result without its call", {"messages": [{"role": "tool", "tool_call_id": "x"}]}, True),
    ],
)
def test_a_condition_holds_for_what_it_describes(said: str, body: dict[str, object], holds: bool) -> None:
    read = condition(said)
    assert read.holds(Incoming(number=1, path="/", model="m", body=body)) is holds


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ("header x-team missing", False),
        ("header X-Team present", True),
        ("x-team header is not blue", False),
        ("x-team header is not red", True),
        ("header x-team == blue", True),
        ("header x-other absent", True),
    ],
)
def test_a_condition_may_look_at_a_header(said: str, holds: bool) -> None:
    incoming = Incoming(number=1, path="/", model="m1", body={}, headers=httpx2.Headers({"X-Team": "blue"}))
    assert condition(said).holds(incoming) is holds


def test_a_condition_names_its_status() -> None:
    assert (condition("any thinking (422 odd)").status, condition("any thinking").status) == (422, 400)


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "ssl.SSLError", "httpx2.ConnectTimeout", "ReadError('x')"])
def test_exceptions_are_known_by_name(name: str) -> None:
    assert type(faults.named(name)).__name__ in name


@pytest.mark.parametrize("name", ["NoSuchError", "os.system", "print", "ssl.create_default_context"])
def test_what_is_no_exception_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not known"):
        faults.named(name)


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("HTTP-date +30s", "Thu, 01 Jan 1970 00:00:30 GMT"),
        ("HTTP-date in 30 s", "Thu, 01 Jan 1970 00:00:30 GMT"),
        ("HTTP-date 30 s from now", "Thu, 01 Jan 1970 00:00:30 GMT"),
        ("HTTP-date 10 s ago", "Wed, 31 Dec 1969 23:59:50 GMT"),
        ("now+2m as date", "Thu, 01 Jan 1970 00:02:00 GMT"),
        ("rfc3339 now-10s", "1969-12-31T23:59:50Z"),
        ("epoch +5", "5"),
        ("7", "7"),
        ("6m0s", "6m0s"),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT"),
    ],
)
def test_a_header_may_be_a_time_from_now(said: str, written: str) -> None:
    assert json.loads(json.dumps(dated({"retry-after": said}, 0.0))) == {"retry-after": written}
