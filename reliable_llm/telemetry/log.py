"""Events as structlog lines: the event's name, its fields, the caller's tags.

structlog is never configured here. In an application that has not configured it either, only warnings and errors are
written, and to standard error: structlog's default would print every attempt, among the application's own output.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from reliable_llm.events import DEBUG, ERROR, INFO, WARNING, Event

LOGGER: Final = "reliable_llm"


_METHODS: Final = {DEBUG: "debug", INFO: "info", WARNING: "warning", ERROR: "error"}

# Words that a logging call takes for itself.
_RESERVED: Final = frozenset({"self", "event", "method_name", "exc_info", "stack_info"})


class EventLog:
    """The listener that writes events to structlog."""

    __slots__ = ("_bound", "_bound_by", "_logger")

    def __init__(self) -> None:
        self._logger = structlog.get_logger(LOGGER)
        self._bound: object = None
        self._bound_by: tuple[object, object] | None = None

    def wants(self, level: int) -> bool:
        """Tell whether an event of this level would be written; asked before a debug event is built at all."""
        if not structlog.is_configured():
            return level >= WARNING
        # Binding costs more than all the rest of an event: done once for each configuration.
        config = structlog.get_config()
        bound_by = config["wrapper_class"], config["logger_factory"]
        if bound_by != self._bound_by:
            self._bound, self._bound_by = self._logger.bind(), bound_by
        # Looked up on the class: structlog's generic logger claims to have every method.
        enabled: Callable[[object, int], bool] | None = getattr(type(self._bound), "is_enabled_for", None)
        return enabled is None or enabled(self._bound, level)

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        if event.level < WARNING and not self.wants(event.level):
            return
        fields: dict[str, object] = {f"tag_{name}" if name in _RESERVED else name: tag for name, tag in tags.items()}
        for each in dataclasses.fields(event):
            value = getattr(event, each.name)
            fields[each.name] = str(value) if isinstance(value, str) else value
        self._write(event.level, event.event, fields)

    def _write(self, level: int, name: str, fields: Mapping[str, object]) -> None:
        # Every kind of structlog's loggers has these methods; `log(level, ...)` not all.
        logger = self._logger if structlog.is_configured() else structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
        write: Callable[..., object] = getattr(logger, _METHODS[level])
        write(name, **fields)

    def listener_failed(self, listener: object, error: Exception) -> None:
        """Say that a listener has raised. By type only: what it says may hold what nobody should read in a log."""
        name = getattr(listener, "__qualname__", type(listener).__qualname__)
        self._write(WARNING, "listener_failed", {"listener": name, "error": type(error).__name__})
