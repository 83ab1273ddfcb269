"""What the simulated vendors have in common: the request as received, and the frames of an event stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reliable_llm.drill.scenario import Act

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One request as a vendor sees it. `issued` holds the thinking blocks that this vendor has given out so far."""

    number: int
    path: str
    model: str
    body: Json
    issued: Sequence[Json] = field(default=())
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def forced_tool(self) -> str | None:
        """The tool that must be called, where the request names one."""
        choice = self.body.get("tool_choice")
        if not isinstance(choice, dict):
            return None
        inner = choice.get("function", choice)
        return inner.get("name") if isinstance(inner, dict) else None


class Voice(Protocol):
    """One vendor's way to answer one request."""

    def answer(self, act: Act) -> Json:
        """Return the whole answer."""

    def error(self, act: Act) -> Json | str:
        """Return an error body."""

    def start(self) -> Iterator[bytes]:
        """Yield the events before the first output."""

    def thinking(self, text: str, signature: str | None) -> Iterator[bytes]: ...

    def text(self, chunk: str) -> Iterator[bytes]: ...

    def tool(self, call_id: str, name: str) -> Iterator[bytes]: ...

    def arguments(self, delta: str) -> Iterator[bytes]: ...

    def ping(self) -> bytes: ...

    def broken(self) -> bytes:
        """Return an event that is no JSON."""

    def odd(self, what: str) -> bytes:
        """Return an odd but legal event."""

    def failure(self, act: Act) -> bytes:
        """Return the event by which a stream reports an error."""

    def finish(self, act: Act) -> Iterator[bytes]:
        """Yield the events that prove the end."""


def frame(data: Json | str, event: str | None = None) -> bytes:
    """Return one server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode()


def arguments_of(call: Json) -> str:
    """Return a scripted tool call's arguments as JSON text."""
    given = call.get("args", call.get("arguments", {}))
    return given if isinstance(given, str) else json.dumps(given)


def thought(act: Act) -> tuple[str, str | None] | None:
    """Return the text and the signature of the act's thinking, where it has one."""
    if act.thinking is None:
        return ("...", "sig") if act.shape == "thinking_only" else None
    if isinstance(act.thinking, str):
        return act.thinking, None
    return act.thinking.get("text", ""), act.thinking.get("signature")


def error_object(act: Act, default_type: str) -> dict[str, object]:
    """Return the inner error object that the act describes."""
    given = act.error if isinstance(act.error, dict) else {}
    inner: dict[str, object] = {"type": default_type, "message": "simulated failure", **given}
    if act.resets_in_seconds is not None:
        inner["resets_in_seconds"] = act.resets_in_seconds
    return inner


def padded(body: Json, act: Act) -> Json:
    """Lengthen the error's message until the body has the size that the act asks for."""
    inner = body.get("error")
    missing = (act.body_chars or 0) - len(json.dumps(body))
    if missing <= 0 or not isinstance(inner, dict):
        return body
    return {**body, "error": {**inner, "message": str(inner.get("message", "")) + " " + "x" * (missing - 1)}}
