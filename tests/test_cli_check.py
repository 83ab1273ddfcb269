"""`reliable-llm check`: what it says about a configuration, and what a call to each candidate tells."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from reliable_llm.cli import main
from reliable_llm.commands.check import reaction
from reliable_llm.commands.remedies import remedy_for
from reliable_llm.config import Settings
from reliable_llm.errors import ConfigurationError, Kind, default_verdict
from reliable_llm.policy import RecoveryPolicy, RetryPolicy

if TYPE_CHECKING:
    from tests.conftest import Llmock

FILE = """
route = ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"]
[[providers]]
kind = "openai"
keys = ["sk-secret-a", "sk-secret-b"]
models = ["gpt-5.1"]
[[providers]]
kind = "anthropic"
keys_env = ["MY_KEY"]
models = { "claude-sonnet-4-5" = "claude-sonnet-4-5-20250929" }
[recovery]
quota = 600
"""


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MY_KEY", "sk-secret-c")
    path = tmp_path / "llm.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["check", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_candidates_are_told_in_order_with_their_keys_by_label(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    out = told(capsys, str(file))

    assert "1. openai/gpt-5.1 at https://api.openai.com/v1, keys openai#1, openai#2\n" in out
    assert "2. anthropic/claude-sonnet-4-5 (there claude-sonnet-4-5-20250929) at https://api.anthropic.com" in out
    assert "secret" not in out


def test_a_cloud_whose_client_knows_the_address_is_told_so(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(
        '[[providers]]\nkind = "anthropic"\nvendor = "bedrock"\nregion = "us-east-1"\nmodels = ["m"]\n',
        encoding="utf-8",
    )

    assert "1. anthropic/m at the address of its own client, keys anthropic#1" in told(capsys, str(file))


def test_the_settings_of_the_file_are_in_what_is_told(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert "the key rests 600 s" in told(capsys, str(file))


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ("{}", "each key: as fast as the vendor's headers say; further calls queue, at most 10000"),
        (
            "{ requests_per_minute = 60, tokens_per_minute = 1e6, queue = 5 }",
            "each key: at most 60 requests a minute, 1,000,000 tokens a minute; further calls queue, at most 5",
        ),
        ("{ max_concurrency = 4 }", "each key: at most 4 requests at once; further calls queue"),
    ],
)
def test_limits_are_told_with_their_candidate(
    capsys: pytest.CaptureFixture[str], file: Path, limits: str, says: str
) -> None:
    file.write_text(FILE.replace('kind = "openai"', f'kind = "openai"\nlimits = {limits}'), encoding="utf-8")

    assert says in told(capsys, str(file))


def test_a_provider_in_no_candidate_is_told(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(FILE.replace('"openai/gpt-5.1", ', ""), encoding="utf-8")

    assert "openai is in no candidate: add it to route" in told(capsys, str(file))


def test_a_warning_about_the_set_up_is_told(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    twin = '[[providers]]\nkind = "openai"\nname = "{}"\nkeys = ["sk-a"]\nmodels = ["m"]\n'
    file.write_text(twin.format("one") + twin.format("two"), encoding="utf-8")

    assert "warning: one: all providers share one vendor, and its outages" in told(capsys, str(file))


def test_a_candidate_that_is_in_the_route_twice_is_told(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(FILE.replace('route = ["openai/gpt-5.1",', 'route = ["openai/gpt-5.1", "openai/gpt-5.1",'))

    assert "warning: openai: duplicate candidate openai/gpt-5.1" in told(capsys, str(file))


def test_every_kind_of_a_vendors_failure_is_told(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    own = {Kind.DEADLINE, Kind.QUEUE_FULL, Kind.CANCELLED, Kind.CONFIGURATION, Kind.CLOSED}
    caused_by_what_was_asked = {Kind.STREAM_INTERRUPTED, Kind.INVALID_OUTPUT, Kind.OUTPUT_TRUNCATED}
    out = told(capsys, str(file))

    assert [k for k in set(Kind) - own - caused_by_what_was_asked if str(k).replace("_", " ") not in out] == []


def does(kind: Kind, *, keys: bool = True, candidates: bool = True, **policies: object) -> str:
    settings = Settings(providers=(), **policies)  # type: ignore[arg-type]
    return reaction(kind, settings, several_keys=keys, several_candidates=candidates)


def test_with_one_key_and_one_candidate_nothing_else_is_promised() -> None:
    alone = does(Kind.QUOTA_EXHAUSTED, keys=False, candidates=False)

    assert alone.startswith("raised at once; the key rests 300 s")


def test_a_rate_limited_candidate_is_waited_for_longer_where_there_is_no_other() -> None:
    assert "a wait of up to 1 s" in does(Kind.RATE_LIMITED)
    assert "a wait of up to 30 s" in does(Kind.RATE_LIMITED, candidates=False)


def test_one_provider_with_several_models_has_candidates_that_rest() -> None:
    assert does(Kind.SERVER_ERROR).endswith("; the candidate rests 15 s")
    assert "rests" not in does(Kind.SERVER_ERROR, candidates=False)


def test_retries_are_those_of_the_policy() -> None:
    assert does(Kind.SERVER_ERROR, retry=RetryPolicy(max_retries=1, backoff=2)).startswith("1 retry from 2 s, then")
    assert does(Kind.SERVER_ERROR, retry=RetryPolicy(max_retries=0)).startswith("the next candidate")


def test_a_refusal_moves_on_where_the_policy_says_so() -> None:
    assert does(Kind.CONTENT_POLICY) == "raised at once"
    moving = RetryPolicy(failover_on=frozenset({Kind.CONTENT_POLICY}))
    assert does(Kind.CONTENT_POLICY, retry=moving) == "the next candidate, else it is raised"


def test_what_is_not_remembered_is_not_promised() -> None:
    assert "remembered" not in does(Kind.MODEL_NOT_FOUND, recovery=RecoveryPolicy(memory=0))


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("models = [", "modles = [", "providers[0]: unknown key 'modles': did you mean 'models'?"),
        ('"MY_KEY"', '"NO_KEY"', "environment variable NO_KEY is not set: set it to the key"),
        ('"sk-secret-a"', '"sk-secret-a\\n"', "providers[0]: key openai#1"),
        ('models = ["gpt-5.1"]', "models = []", "providers[0].models: is empty: give at least one"),
        ("quota = 600", "quota = -1", "recovery: RecoveryPolicy.quota must be a number from 0.001"),
        ("[recovery]", "[recovery", "is not TOML"),
        ('"openai/gpt-5.1",', '"openai/gpt-6",', "route: "),
    ],
)
def test_a_slip_is_one_clear_message(
    capsys: pytest.CaptureFixture[str], file: Path, old: str, new: str, said: str
) -> None:
    if "\\n" in new:
        new = new.replace('\\n"', '\\nsecret"')
    file.write_text(FILE.replace(old, new, 1), encoding="utf-8")

    assert main(["check", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"reliable-llm: {file}: " in err
    assert said in err
    assert "secret" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.toml", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("bin", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")

    assert main(["check", str(tmp_path / name)]) == 2
    assert said in capsys.readouterr().err


# ---------------------------------------------------------------- --call


@pytest.fixture
def both(vendors: Llmock, monkeypatch: pytest.MonkeyPatch) -> Llmock:
    monkeypatch.setenv("RELIABLE_LLM_MODELS", "openai/gpt-5.1,anthropic/claude-sonnet-4-5")
    return vendors


def test_a_call_goes_to_each_candidate_once(capsys: pytest.CaptureFixture[str], both: Llmock) -> None:
    out = told(capsys, "--call")

    assert "openai/gpt-5.1: answered in " in out
    assert "anthropic/claude-sonnet-4-5: answered in " in out
    assert [request["provider"] for request in both.requests()] == ["openai", "anthropic"]


def test_without_call_nothing_is_sent(capsys: pytest.CaptureFixture[str], both: Llmock) -> None:
    assert "Nothing was sent" in told(capsys)
    assert both.requests() == []


def test_a_refused_key_is_told_with_what_to_change(capsys: pytest.CaptureFixture[str], both: Llmock) -> None:
    both.add("fail", provider="openai", status=401)

    assert main(["check", "--call"]) == 2
    out = capsys.readouterr().out
    assert "the key was refused: copy it again from the vendor's page into OPENAI_API_KEY or the file" in out
    assert "anthropic/claude-sonnet-4-5: answered in " in out


def test_a_base_url_that_redirects_is_told_with_what_to_change() -> None:
    redirected = replace(default_verdict(Kind.CONFIGURATION), status=302)

    assert (remedy_for(ConfigurationError("x", verdict=redirected)) or "").startswith("the base URL leads elsewhere")
    assert remedy_for(ConfigurationError("what to change")) == ""


def test_what_cannot_be_reached_is_told_with_what_to_look_at(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(
        '[[providers]]\nkind = "openai"\nkeys = ["k"]\nmodels = ["m"]\nbase_url = "http://127.0.0.1:9/v1"\n',
        encoding="utf-8",
    )

    assert main(["check", "--call", str(file)]) == 1
    assert "check the network, the base URL and the certificates of this machine" in capsys.readouterr().out


def test_an_outage_is_status_1(capsys: pytest.CaptureFixture[str], both: Llmock) -> None:
    both.add("fail", provider="anthropic", status=500)

    assert main(["check", "--call"]) == 1
    assert "anthropic/claude-sonnet-4-5: " in capsys.readouterr().out


# ---------------------------------------------------------------- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_a_script_completes_the_commands(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    pytest.importorskip("shtab")

    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("chat", "check", "drill", "explain", "init", "status"))


def test_the_script_for_bash_completes_in_bash(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    script = tmp_path / "script"
    written = subprocess.run(
        [sys.executable, "-m", "reliable_llm", "completion", "bash"], capture_output=True, timeout=50, check=True
    )
    script.write_bytes(written.stdout)
    ask = f"source {script}; COMP_WORDS=(reliable-llm ch); COMP_CWORD=1; _shtab_reliable_llm; echo ${{COMPREPLY[@]}}"

    said = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=50, check=True)

    assert said.stdout.split() == ["chat", "check"]
