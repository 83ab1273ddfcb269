"""A running application's status, read by another process through a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from reliable_llm import FailoverChat, cli
from reliable_llm.commands import watch
from reliable_llm.commands.watch import rows
from reliable_llm.errors import ConfigurationError, Kind
from reliable_llm.policy import Limits
from reliable_llm.status_server import MOST_READERS, read_status, serve_status
from tests.support import ScriptedAdapter, fails, provider


def coordinator() -> FailoverChat:
    broke = ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED, status=429, code="insufficient_quota"))
    return FailoverChat([provider("first", broke, keys=2), provider("second", ScriptedAdapter("hello"))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.sock"


def mode_of(path: Path) -> int | None:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


async def told(path: Path) -> Any:
    return await asyncio.to_thread(read_status, path)


async def test_a_reader_is_told_every_key_by_label(path: Path) -> None:
    chat = coordinator()
    await chat("hi")
    async with await serve_status(chat, path):
        seen = [row[:3] for row in rows(await told(path))]
    assert seen == [
        ("first", "first#1", "resting"),
        ("first", "first#2", "resting"),
        ("first", "m1", "ready"),
        ("second", "second#1", "ready"),
        ("second", "m1", "ready"),
    ]


async def test_no_key_goes_over_the_socket(path: Path) -> None:
    async with await serve_status(coordinator(), path):
        assert "sk-" not in json.dumps(await told(path))


async def test_only_the_owner_may_open_it(path: Path) -> None:
    async with await serve_status(coordinator(), path):
        assert mode_of(path) == 0o600


async def test_the_file_goes_with_the_server(path: Path) -> None:
    server = await serve_status(coordinator(), path)
    await server.aclose()
    await server.aclose()
    assert mode_of(path) is None


async def test_a_socket_of_a_dead_process_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with await serve_status(coordinator(), path):
        assert (await told(path))["pid"] == os.getpid()


async def test_a_socket_that_somebody_serves_is_left_alone(path: Path) -> None:
    async with await serve_status(coordinator(), path):
        with pytest.raises(ConfigurationError, match="another process"):
            await serve_status(coordinator(), path)
        assert await told(path)


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(ConfigurationError, match="a file of this name"):
        asyncio.run(_serve(path))
    assert path.read_text() == "precious"


async def _serve(path: Path) -> None:
    await serve_status(coordinator(), path)


async def test_what_a_reader_sends_changes_nothing(path: Path) -> None:
    chat = coordinator()
    await chat("hi")
    before = [key.health.state for each in chat.status().providers for key in each.keys]
    async with await serve_status(chat, path):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"reset()\n" * 1000)
        with contextlib.suppress(ConnectionResetError):  # it hangs up on who talks
            await reader.read()
        writer.close()
        assert await told(path)
    assert [key.health.state for each in chat.status().providers for key in each.keys] == before


async def test_many_readers_at_once_are_bounded_and_harm_nobody(path: Path) -> None:
    async with await serve_status(coordinator(), path):
        silent = [await asyncio.open_unix_connection(str(path)) for _ in range(3 * MOST_READERS)]
        assert await told(path)
        for _, writer in silent:
            writer.close()


def test_nobody_there_is_said_with_the_remedy(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="serve_status"):
        read_status(path)


@pytest.mark.parametrize("said", [b"", b"[]", b"{}", b'{"v": 99}', b"\xff\xfe", b"[" * 100_000])
def test_a_stranger_behind_the_socket_is_a_configuration_error(path: Path, said: bytes) -> None:
    import threading

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def speak() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(said)

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(ConfigurationError):
            read_status(path)
        thread.join()


async def test_the_command_shows_a_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat = coordinator()
    await chat("hi")
    async with await serve_status(chat, path):
        assert await asyncio.to_thread(cli.main, ["status", "--socket", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "first#1" in shown
    assert "resting" in shown


async def test_the_table_is_refreshed_until_told_otherwise(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat = coordinator()
    async with await serve_status(chat, path):
        watching = asyncio.create_task(asyncio.to_thread(watch.run, str(path), every=0.01, times=3))
        assert await watching == 0
    assert "second#1" in capsys.readouterr().out


async def test_a_queue_is_told_where_there_are_limits(path: Path) -> None:
    chat = FailoverChat([provider("a", ScriptedAdapter("hello"), limits=Limits(requests_per_minute=600))])
    async with await serve_status(chat, path):
        assert ("a", "queue", "0 waiting", "", "") in list(rows(await told(path)))


def test_a_turn_that_nobody_can_foresee_is_told_as_such() -> None:
    of = {"name": "a", "keys": [], "models": {}, "lacking": {}, "waiting": 2, "turn_in": None}
    assert list(rows({"providers": [of]})) == [("a", "queue", "2 waiting", "when a request ends", "")]


def test_a_line_of_a_version_before_queues_is_read() -> None:
    ready = {"state": "ready", "seconds_left": None, "reason": None, "status": None, "code": None}
    of = {"name": "a", "keys": [{"label": "a#1", "health": ready, "models": {}}], "models": {}, "lacking": {}}
    assert list(rows({"providers": [of]})) == [("a", "a#1", "ready", "", "")]


@pytest.mark.parametrize(("seconds", "pace"), [("nan", 0.1), ("inf", 3600.0), ("-1", 0.1), ("2.5", 2.5)])
def test_any_number_of_seconds_is_a_pace(seconds: str, pace: float) -> None:
    assert watch.pace(float(seconds)) == pace


def test_watching_without_a_socket_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--watch"]) == 2
    assert "--socket" in capsys.readouterr().err
