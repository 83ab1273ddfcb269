"""`reliable-llm status --watch`: a table of every key and model of a running application, refreshed."""

from __future__ import annotations

import time  # noqa: TID251 - the command line waits in real time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from reliable_llm.errors import ConfigurationError
from reliable_llm.status_server import read_status

if TYPE_CHECKING:
    from rich.table import Table

_STYLES: Final = {"ready": "green", "resting": "yellow", "probing": "cyan", "out": "red"}

Row = tuple[str, str, str, str, str]


def pace(seconds: float) -> float:
    """Return how long to wait between two looks, whatever number was asked for."""
    return min(max(0.1, seconds), 3600.0)  # in this order: what is no number is the shortest


def run(path: str, *, every: float, times: int | None = None) -> int:
    """Show what the socket *path* tells, again every *every* seconds, *times* times or until interrupted."""
    try:
        from rich.live import Live
    except ImportError as missing:
        raise ConfigurationError("status --watch needs rich: pip install 'reliable-llm[rich]'") from missing
    shown = 1
    with Live(table(read_status(path)), auto_refresh=False) as live:
        live.refresh()
        while times is None or shown < times:
            time.sleep(every)
            live.update(table(read_status(path)), refresh=True)
            shown += 1
    return 0


def table(told: Mapping[str, Any]) -> Table:
    """Return *told* as a table: one row a queue, a key, a key for one model, or a model.

    Raises `ConfigurationError` for what is no status.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(_printable(f"process {told.get('pid')}")), title_justify="left")
    for heading in ("provider", "key or model", "state", "for", "why"):
        made.add_column(heading)
    try:
        for provider, name, state, left, why in rows(told):
            made.add_row(Text(provider), Text(name), Text(state, style=_STYLES.get(state, "")), Text(left), Text(why))
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ConfigurationError("status socket: what it tells is no status of this version") from error
    return made


def rows(told: Mapping[str, Any]) -> Iterator[Row]:
    """Yield what the table shows, without anything that a terminal would obey."""
    for row in _rows(told):
        provider, name, state, left, why = map(_printable, row)
        yield provider, name, state, left, why


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())


def _rows(told: Mapping[str, Any]) -> Iterator[Row]:
    for provider in told["providers"]:
        name = provider["name"]
        if provider.get("waiting") is not None:
            yield _queue(name, provider["waiting"], provider.get("turn_in"))
        for key in provider["keys"]:
            busy = key.get("under_way")
            yield _row(name, key["label"] + (f" ({busy} under way)" if busy else ""), key["health"])
            yield from (_row(name, f"{key['label']} for {model}", health) for model, health in key["models"].items())
        for model, health in provider["models"].items():
            lacks = provider["lacking"].get(model, [])
            yield _row(name, model + (f" (lacks {', '.join(lacks)})" if lacks else ""), health)


def _queue(provider: str, waiting: int, turn_in: float | None) -> Row:
    turn = "when a request ends" if turn_in is None else f"{turn_in:.0f} s" if turn_in else ""
    return provider, "queue", f"{waiting} waiting", turn, ""


def _row(provider: str, name: str, health: Mapping[str, Any]) -> Row:
    left = health["seconds_left"]
    why = " ".join(str(word) for word in (health["reason"], health["status"], health["code"]) if word is not None)
    return provider, name, health["state"], f"{left:.0f} s" if left else "", why
