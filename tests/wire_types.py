"""Strict validators built from the vendors' own request types, and the rules of the APIs that types do not express."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

Wire = Mapping[str, Any]


@functools.cache
def _validator(vendor: str) -> TypeAdapter[Any]:
    if vendor == "anthropic":
        from anthropic.types import MessageParam

        return TypeAdapter(MessageParam)
    if vendor == "responses":
        from openai.types.responses import ResponseInputItemParam

        return TypeAdapter(ResponseInputItemParam)
    from openai.types.chat import ChatCompletionMessageParam

    return TypeAdapter(ChatCompletionMessageParam)


def _exhaust(value: object) -> None:
    """Walk through *value*: pydantic checks what is typed `Iterable` only as it is read."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _exhaust(inner)


def check_types(vendor: str, messages: Iterable[Wire]) -> None:
    """Raise `ValidationError` for what *vendor*'s types do not allow: `openai`, `responses` or `anthropic`."""
    for message in messages:
        _exhaust(_validator(vendor).validate_python(message, strict=True, extra="forbid"))


def check_openai(messages: list[Any]) -> None:
    """Every call is answered right after it, by one tool message each; nothing is empty."""
    check_types("openai", messages)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == [], "a call without its result"
        assert message.get("content") or message.get("tool_calls"), "an empty message"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert all(len(call) <= 64 for call in waiting)
        assert len(set(waiting)) == len(waiting)
    assert waiting == []


def check_responses(items: list[Any]) -> None:
    """Every call item is answered by one output item."""
    check_types("responses", items)
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert sorted(calls) == sorted(outputs)


def check_anthropic(messages: list[Any]) -> None:
    """Roles alternate, results stand first in the message after their calls, no text is blank."""
    check_types("anthropic", messages)
    waiting: list[str] = []
    for number, message in enumerate(messages):
        assert message["content"], "an empty message"
        assert number == 0 or message["role"] != messages[number - 1]["role"], "two messages of the same role"
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert [block.get("tool_use_id") for block in blocks[: len(results)]] == results, "results do not come first"
        assert sorted(results) == sorted(waiting), "calls and results do not match"
        assert all(block["text"].strip() for block in blocks if block["type"] == "text"), "blank text"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(len(call) <= 64 and call.replace("-", "").replace("_", "").isalnum() for call in waiting)
    assert waiting == []
