"""The command line, where no vendor is needed: what is refused, and what is said about it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from reliable_llm.cli import main

GOOD_FILE = '[[providers]]\nkind = "openai"\nkeys = ["sk-very-secret"]\nmodels = ["gpt-5.1"]\n'


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    """Run a command that must end with *status* and print nothing but a message; return the message."""
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def test_without_a_key_the_variables_and_the_drill_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, "chat", "hi")

    assert "OPENAI_API_KEY" in message
    assert "reliable-llm drill" in message


def test_without_a_model_the_variable_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a")

    assert "RELIABLE_LLM_MODELS=openai/<model>" in said(capsys, "chat", "hi")


def test_a_key_with_a_newline_is_refused_without_being_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret\nsk-very-secret")

    message = said(capsys, "chat", "hi", "--model", "openai/gpt-5.1")

    assert "OPENAI_API_KEY: key openai#1" in message
    assert "secret" not in message


@pytest.mark.parametrize("prompt", ["", "  ", "\n"])
def test_an_empty_prompt_is_refused(capsys: pytest.CaptureFixture[str], prompt: str) -> None:
    assert "the prompt is empty" in said(capsys, "chat", prompt)


def test_an_empty_standard_input_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))

    assert "the prompt is empty" in said(capsys, "chat", "-")


def test_a_slip_in_the_file_is_refused_with_its_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "llm.toml"
    file.write_text(GOOD_FILE.replace("models", "modles"), encoding="utf-8")

    message = said(capsys, "chat", "hi", "--config", str(file))

    assert f"{file}: providers[0]: unknown key 'modles': did you mean 'models'?" in message
    assert "drill" not in message


@pytest.mark.parametrize("deadline", ["0", "-1", "nan"])
def test_a_deadline_in_the_past_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, deadline: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a")

    assert "deadline must be" in said(capsys, "chat", "hi", "--model", "openai/gpt-5.1", f"--deadline={deadline}")


def test_status_shows_candidates_and_keys_by_label(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "llm.toml"
    file.write_text(GOOD_FILE, encoding="utf-8")

    assert main(["status", "--config", str(file)]) == 0
    out, _ = capsys.readouterr()

    assert "openai#1: ready" in out
    assert "gpt-5.1: ready" in out
    assert "secret" not in out


@pytest.mark.parametrize("arguments", [[], ["chatt", "hi"], ["chat"], ["chat", "hi", "--deadline", "soon"]])
def test_a_wrong_use_ends_with_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "usage: reliable-llm" in capsys.readouterr().err


def test_the_package_runs_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "reliable_llm", "--version"], capture_output=True, text=True, timeout=50, check=True
    )

    assert run.stdout.startswith("reliable-llm ")


def test_a_reader_that_leaves_is_no_traceback() -> None:
    chatter = "import reliable_llm.cli as c; c._status = lambda args: [print('x' * 100) for _ in range(9999)] and 0"
    run = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{chatter}; c.main([\'status\'])" | head -n 1'],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )

    assert run.stderr == ""
