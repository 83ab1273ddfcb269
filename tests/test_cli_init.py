"""`reliable-llm init`: what it writes, and what it never does."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from reliable_llm.cli import main
from reliable_llm.commands.init import find
from reliable_llm.commands.settings import settings_of
from reliable_llm.config import load
from reliable_llm.policy import RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.vendors import VENDORS

KEYS = {"OPENAI_API_KEYS": "sk-secret-a,sk-secret-b", "GROQ_API_KEY": "sk-secret-c", "HF_TOKEN": "sk-secret-d"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for preset in VENDORS.values():
        monkeypatch.delenv(str(preset.key_variable), raising=False)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return KEYS


@pytest.mark.usefixtures("keys")
def test_what_is_written_loads_once_the_models_are_named() -> None:
    assert main(["init", "--model", "groq/m1", "--model", "openai/m2"]) == 0

    settings = load("llm.toml")
    assert [str(candidate) for candidate in settings.route or ()] == ["groq/m1", "openai/m2"]
    assert [len(provider.keys) for provider in settings.providers] == [1, 2]
    assert settings.retry == RetryPolicy()


@pytest.mark.usefixtures("keys")
def test_no_key_is_written_and_the_variables_are() -> None:
    main(["init"])

    text = Path("llm.toml").read_text(encoding="utf-8")
    assert "secret" not in text
    assert 'keys_env = ["OPENAI_API_KEYS"]' in text
    assert 'keys_env = ["GROQ_API_KEY"]' in text


@pytest.mark.usefixtures("keys")
def test_no_key_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init"])

    assert "secret" not in "".join(capsys.readouterr())


@pytest.mark.usefixtures("keys")
def test_a_token_that_serves_many_ends_is_mentioned_and_not_used() -> None:
    main(["init"])

    text = Path("llm.toml").read_text(encoding="utf-8")
    assert "# HF_TOKEN is set, too" in text
    assert [table["name"] for table in tomllib.loads(text)["providers"]] == ["openai", "groq"]


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("table", "policy"), [("timeouts", Timeouts), ("retry", RetryPolicy), ("recovery", RecoveryPolicy)]
)
def test_every_default_can_be_uncommented(table: str, policy: type) -> None:
    main(["init", "--model", "groq/m1", "--model", "openai/m2"])
    path = Path("llm.toml")
    text = path.read_text(encoding="utf-8")
    names = [field.name for field in fields(policy)]
    for name in names:
        assert f"\n# {name} = " in text
        text = text.replace(f"\n# {name} = ", f"\n{name} = ")
    path.write_text(text, encoding="utf-8")

    assert set(names) == set(tomllib.loads(text)[table])
    load("llm.toml")


@pytest.mark.parametrize("policy", [Timeouts, RetryPolicy, RecoveryPolicy])
def test_every_setting_is_explained(policy: type) -> None:
    assert [setting.name for setting in settings_of(policy) if not setting.says] == []


@pytest.mark.usefixtures("keys")
def test_the_next_step_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "my.toml"])

    assert capsys.readouterr().out.endswith("next: name the models in it, then: reliable-llm check my.toml\n")


@pytest.mark.usefixtures("keys")
def test_a_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("llm.toml").write_text("mine", encoding="utf-8")

    assert main(["init"]) == 2
    assert Path("llm.toml").read_text(encoding="utf-8") == "mine"
    assert "llm.toml exists and was left as it is" in capsys.readouterr().err


@pytest.mark.usefixtures("keys")
def test_a_place_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "nowhere/llm.toml"]) == 2
    assert "nowhere/llm.toml cannot be written (No such file or directory)" in capsys.readouterr().err


@pytest.mark.usefixtures("keys")
def test_a_dash_prints_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "-"]) == 0
    assert "[[providers]]" in capsys.readouterr().out
    assert list(Path().iterdir()) == []


def test_a_vendor_whose_key_comes_later_is_written_with_a_note() -> None:
    main(["init", "--model", "mistral/m1"])

    assert 'keys_env = ["MISTRAL_API_KEY"]      # not set yet' in Path("llm.toml").read_text(encoding="utf-8")


def test_without_a_key_and_a_model_there_is_nothing_to_write() -> None:
    with pytest.raises(ValueError, match="no API key is set: set OPENAI_API_KEY"):
        find(None, {})


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gpt-5.1", "--model: 'gpt-5.1' names no vendor: write it as openai/gpt-5.1"),
        ("opnai/gpt-5.1", "--model: unknown vendor 'opnai': did you mean 'openai'?"),
    ],
)
def test_a_slip_in_a_model_is_told(capsys: pytest.CaptureFixture[str], model: str, said: str) -> None:
    assert main(["init", "--model", model]) == 2
    assert said in capsys.readouterr().err
    assert not Path("llm.toml").exists()
