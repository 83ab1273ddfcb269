"""What a scenario's call says to the coordinator: its messages and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from reliable_llm.asking import as_messages
from reliable_llm.drill import phrases
from reliable_llm.drill.scenario import Call
from reliable_llm.drill.setup import kind_of
from reliable_llm.types import HostedTool, Image, Message, Text, Tool, ToolResult

T = TypeVar("T")
_PROMPT: Final = "Name three rivers."
_WORD: Final = "abc "


class Conversations:
    """What was said so far, by call; and the objects that several calls share."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[Message, ...]] = {}
        self._shared: dict[str, tuple[object, object]] = {}

    def remember(self, call: str, sent: Sequence[object], reply: Message) -> None:
        self._said[call] = (*as_messages(list(sent)), reply)

    def messages(self, call: Call) -> list[Message | dict[str, object]]:
        """Return what *call* sends. Raises `KeyError` for a history that did not come to be."""
        if phrases.shared(call.messages):
            return self._the_shared("messages", lambda: [{"role": "user", "content": _PROMPT}])
        sent: list[Message | dict[str, object]] = list(self._history(call))
        if call.messages is not None:
            return sent + phrases.messages(call.messages)
        asked = call.prompt is not None or (call.history is not None and phrases.history(call.history).asked)
        if sent and isinstance(sent[-1], Message) and sent[-1].role == "tool" and not asked:
            return sent
        return [*sent, _question(call)]

    def _history(self, call: Call) -> tuple[Message, ...]:
        if call.history is None:
            return ()
        told = phrases.history(call.history)
        found = told.invented
        for earlier in told.calls:
            said = self._said[earlier]
            found = said if said[: len(found)] == found else found + said
            found += _results(found) if told.answered else ()
        return found

    def tools(self, call: Call) -> list[Tool | HostedTool]:
        if phrases.shared(call.tools):
            return self._the_shared("tools", lambda: [Tool(name="lookup")])
        return [phrases.tool(each) for each in call.tools or ()]

    def vendor_fields(self, call: Call) -> dict[str, dict[str, object]]:
        if phrases.shared(call.extra):
            return self._the_shared("extra", lambda: {"openai": {"user": "someone"}})
        given = call.extra if isinstance(call.extra, dict) else {}
        by_vendor = {name: value for name, value in given.items() if isinstance(value, dict)}
        return by_vendor if len(by_vendor) == len(given) else {"openai": given, "anthropic": given}

    def _the_shared(self, name: str, make: Callable[[], T]) -> T:
        now, _ = self._shared.setdefault(name, (make(), make()))
        return cast("T", now)

    def changed(self) -> list[str]:
        """Return the names of shared objects that are no longer what the caller made them."""
        return [name for name, (now, before) in self._shared.items() if now != before]


def _question(call: Call) -> Message:
    text = call.prompt or (_WORD * call.tokens if call.tokens else _PROMPT)
    if call.image is None:
        return Message("user", text)
    picture: Image = phrases.image(call.image)
    return Message("user", (Text(text), picture))


def _results(said: Sequence[Message]) -> tuple[Message, ...]:
    """Return an answer to each tool call of the last turn."""
    calls = [part for part in said[-1].parts if getattr(part, "arguments", None) is not None]
    made = tuple(ToolResult(call_id=call.id, content=f"result of {call.name}") for call in calls)  # type: ignore[union-attr]
    return (Message("tool", made),) if made else ()


def options(call: Call, talk: Conversations, deadline: float | None) -> dict[str, object]:
    """Return the keyword arguments of *call*, without those that it does not name."""
    chosen = [*call.failover_on, *(["invalid_output"] if call.fallback_on_invalid else [])]
    given: dict[str, object] = {
        "system": call.system,
        "tools": talk.tools(call) or None,
        "output": phrases.schema(call.schema_) if call.schema_ else None,
        "max_tokens": call.max_tokens,
        "temperature": call.temperature,
        "extra": talk.vendor_fields(call) or None,
        "overrides": call.overrides or None,
        "deadline": call.deadline_s or deadline,
        "failover": None if call.failover else False,
        "failover_on": [kind_of(name) for name in chosen] or None,
    }
    return {name: value for name, value in given.items() if value is not None}
