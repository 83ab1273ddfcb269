"""What a running application knows about its keys, for `reliable-llm status --watch` in another terminal.

    async with await serve_status(chat, "/run/user/1000/my-app.sock"):
        ...

    reliable-llm status --watch --socket /run/user/1000/my-app.sock

A Unix socket that only its owner may open (mode 0600). Whoever connects gets one line of JSON and is disconnected;
nothing is read from them, so nothing can be changed. At most `MOST_READERS` are served at once, each within `PATIENCE`
seconds. Keys appear as labels, as everywhere.

The line: `{"v": 1, "pid": 1234, "providers": [{"name", "endpoint", "keys": [...], "models", "lacking", "waiting",
"turn_in"}]}`, where a key is `{"label", "health", "models", "under_way"}` and a health is `{"state", "seconds_left",
"reason", "status", "code"}`. The fields mean what they mean in `chat.status()`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from reliable_llm.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliable_llm.chat import FailoverChat
    from reliable_llm.status import Health, ProviderStatus, Status

VERSION: Final = 1
MOST_READERS: Final = 8
PATIENCE: Final = 2.0
MOST_BYTES: Final = 4_000_000
_ONLY_THE_OWNER: Final = 0o177


class StatusServer:
    """An open socket; `aclose()` closes it and removes the file."""

    def __init__(self, chat: FailoverChat, path: Path) -> None:
        self._chat = chat
        self._path = path
        self._readers = 0
        self._server: asyncio.Server | None = None

    async def _open(self) -> Self:
        self._server = await asyncio.start_unix_server(self._tell, sock=_bound(self._path))
        return self

    async def _tell(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._readers += 1
        try:
            if self._readers <= MOST_READERS:
                writer.write(_line(self._chat.status()))
                async with asyncio.timeout(PATIENCE):
                    await writer.drain()
        except (TimeoutError, OSError):
            writer.transport.abort()
        finally:
            self._readers -= 1
            writer.close()

    async def aclose(self) -> None:
        """Close the socket and remove its file."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            self._path.unlink(missing_ok=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def serve_status(chat: FailoverChat, path: str | os.PathLike[str]) -> StatusServer:
    """Open a socket at *path* that tells what *chat* knows. Raises `ConfigurationError` where that cannot be.

    A socket that a dead process has left there is replaced; one that somebody serves, or any other file, is not.
    """
    return await StatusServer(chat, Path(path))._open()  # noqa: SLF001 - opened here and nowhere else


def _bound(path: Path) -> socket.socket:
    _clear(path)
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(_ONLY_THE_OWNER)  # from the first moment on: a chmod afterwards would leave a gap
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"status socket {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    listening.setblocking(False)
    return listening


def _clear(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"status socket {path}: there is a file of this name already")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
            probe.connect(str(path))
            raise ConfigurationError(f"status socket {path}: another process serves it already")
    path.unlink(missing_ok=True)


# ---------------------------------------------------------------- the line


def _line(status: Status) -> bytes:
    told = {"v": VERSION, "pid": os.getpid(), "providers": [_provider(each) for each in status.providers]}
    return json.dumps(told, ensure_ascii=True).encode() + b"\n"


def _provider(provider: ProviderStatus) -> Mapping[str, object]:
    return {
        "name": provider.name,
        "endpoint": provider.endpoint,
        "keys": [
            {
                "label": key.label,
                "health": _health(key.health),
                "models": _by_model(key.models),
                "under_way": key.under_way,
            }
            for key in provider.keys
        ],
        "models": _by_model(provider.models),
        "lacking": {model: sorted(lacks) for model, lacks in provider.lacking},
        "waiting": provider.waiting,
        "turn_in": provider.turn_in,
    }


def _by_model(models: tuple[tuple[str, Health], ...]) -> Mapping[str, object]:
    return {model: _health(health) for model, health in models}


def _health(health: Health) -> Mapping[str, object]:
    return {each.name: getattr(health, each.name) for each in dataclasses.fields(health)}


def read_status(path: str | os.PathLike[str]) -> Mapping[str, object]:
    """Return what the application behind the socket *path* tells; raise `ConfigurationError` where none does."""
    try:
        with socket.socket(socket.AF_UNIX) as reading:
            reading.settimeout(PATIENCE)
            reading.connect(os.fspath(path))
            told = json.loads(_received(reading))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"status socket {path}: no application tells its status there (await serve_status(chat, path) opens one)"
        ) from error
    if not isinstance(told, dict) or told.get("v") != VERSION:
        raise ConfigurationError(f"status socket {path}: written by another version of reliable-llm")
    return told


def _received(reading: socket.socket) -> bytes:
    received = bytearray()
    while chunk := reading.recv(65_536):
        received += chunk
        if len(received) > MOST_BYTES:
            raise ValueError("too long for a status")
    return bytes(received)
