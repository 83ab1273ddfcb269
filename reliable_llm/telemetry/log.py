"""Events as structlog lines: the event's name, its fields, the caller's tags.

structlog is never configured here. In an application that has not configured it either, only warnings and errors are
written: structlog's default would print every attempt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from reliable_llm.events import WARNING, Event

LOGGER: Final = "reliable_llm"


class _Logger(Protocol):
    def bind(self) -> object: ...
    def log(self, level: int, event: str, **fields: object) -> object: ...


class EventLog:
    """The listener that writes events to structlog."""

    __slots__ = ("_logger",)

    def __init__(self) -> None:
        self._logger: _Logger = structlog.get_logger(LOGGER)

    def wants(self, level: int) -> bool:
        """Tell whether an event of this level would be written; asked before a debug event is built at all."""
        if not structlog.is_configured():
            return level >= WARNING
        enabled: Callable[[int], bool] | None = getattr(self._logger.bind(), "is_enabled_for", None)
        return enabled is None or enabled(level)

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        if event.level < WARNING and not self.wants(event.level):
            return
        fields: dict[str, object] = dict(tags)
        for each in dataclasses.fields(event):
            value = getattr(event, each.name)
            fields[each.name] = str(value) if isinstance(value, str) else value
        self._logger.log(event.level, event.event, **fields)

    def listener_failed(self, listener: object, error: Exception) -> None:
        """Say that a listener has raised. By type only: what it says may hold what nobody should read in a log."""
        name = getattr(listener, "__qualname__", type(listener).__qualname__)
        self._logger.log(WARNING, "listener_failed", listener=name, error=type(error).__name__)
