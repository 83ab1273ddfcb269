"""Claude on Bedrock and on Vertex, and users' own rules, from the environment and from a file."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from reliable_llm import ConfigurationError, FailoverChat, Kind, Rule
from reliable_llm.commands import init
from reliable_llm.config import from_env, load
from reliable_llm.provider import Provider

BEDROCK = """
[[providers]]
kind = "anthropic"
vendor = "bedrock"
name = "bedrock"
region = "eu-west-3"
models = { "claude" = "anthropic.claude" }
"""
VERTEX = """
[[providers]]
kind = "anthropic"
vendor = "vertex"
name = "vertex"
region = "global"
project = "acme"
models = ["claude"]
"""


def provider_in(tmp_path: Path, text: str, **environ: str) -> Provider:
    file = tmp_path / "llm.toml"
    file.write_text(text)
    return load(file, environ=environ).providers[0]


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        provider_in(tmp_path, text)
    return str(caught.value)


def address_of(provider: Provider) -> str:
    """Return where the provider's first client sends."""
    build = provider.clients[0]
    assert callable(build)
    return str(build(httpx2.AsyncClient()).base_url)


def test_bedrock_in_a_file_is_a_client_of_its_region(tmp_path: Path) -> None:
    provider = provider_in(tmp_path, BEDROCK)

    assert (provider.vendor, [key.label for key in provider.keys]) == ("bedrock", ["bedrock#1"])
    assert address_of(provider) == "https://bedrock-runtime.eu-west-3.amazonaws.com"


def test_each_of_bedrocks_api_keys_is_a_client(tmp_path: Path) -> None:
    provider = provider_in(tmp_path, BEDROCK + 'keys_env = ["BEDROCK_KEYS"]', BEDROCK_KEYS="bk-one,bk-two")

    assert [key.label for key in provider.keys] == ["bedrock#1", "bedrock#2"]
    assert "bk-" not in repr(provider) + repr(provider.keys)


def test_bedrock_behind_a_gateway_is_spoken_to_like_any_address(tmp_path: Path) -> None:
    provider = provider_in(tmp_path, BEDROCK + 'base_url = "https://gateway.example"\nkeys = ["k"]')

    assert (provider.clients, provider.base_url) == ((), "https://gateway.example")


def test_vertex_in_a_file_is_a_client_of_its_region_and_project(tmp_path: Path) -> None:
    provider = provider_in(tmp_path, VERTEX)

    assert (provider.vendor, address_of(provider)) == ("vertex", "https://aiplatform.googleapis.com/v1/")


@pytest.mark.parametrize("field", ["region", "project"])
def test_vertex_without_its_place_says_what_to_add(tmp_path: Path, field: str) -> None:
    text = "\n".join(line for line in VERTEX.splitlines() if not line.startswith(field))

    assert f"providers[0]: has no {field}: add {field} = ..." in complaint(tmp_path, text)


def test_vertex_takes_no_keys(tmp_path: Path) -> None:
    said = complaint(tmp_path, VERTEX + 'keys = ["secret-key"]')

    assert "takes no keys" in said
    assert "secret-key" not in said


def test_another_vendor_has_no_region(tmp_path: Path) -> None:
    assert "unknown key 'region'" in complaint(tmp_path, BEDROCK.replace('vendor = "bedrock"', 'vendor = "anthropic"'))


def test_bedrock_from_the_environment_needs_no_key() -> None:
    settings = from_env({"AWS_REGION": "eu-west-3"}, models=["bedrock/anthropic.claude"])

    assert address_of(settings.providers[0]) == "https://bedrock-runtime.eu-west-3.amazonaws.com"


def test_bedrocks_api_key_comes_from_the_usual_variable() -> None:
    environ = {"AWS_REGION": "eu-west-3", "AWS_BEARER_TOKEN_BEDROCK": "bk-one"}
    build = from_env(environ, models=["bedrock/anthropic.claude"]).providers[0].clients[0]

    assert callable(build)
    assert build(httpx2.AsyncClient()).api_key == "bk-one"


def test_vertex_from_the_environment_is_of_the_usual_variables() -> None:
    environ = {"CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "acme"}

    settings = from_env(environ, models=["vertex/claude"])

    assert address_of(settings.providers[0]) == "https://us-east5-aiplatform.googleapis.com/v1/"


def test_vertex_without_its_variables_names_them() -> None:
    with pytest.raises(ConfigurationError, match="CLOUD_ML_REGION and ANTHROPIC_VERTEX_PROJECT_ID: not set"):
        from_env({"CLOUD_ML_REGION": "us-east5"}, models=["vertex/claude"])


def test_a_coordinator_over_both_clouds_can_be_built_from_what_init_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init.run("-", ["bedrock/anthropic.claude", "vertex/claude"], {})
    file = tmp_path / "llm.toml"
    file.write_text(capsys.readouterr().out)

    FailoverChat.from_toml(file)

    assert [provider.vendor for provider in load(file).providers] == ["bedrock", "vertex"]


# ---------------------------------------------------------------- rules


def test_a_file_may_hold_rules(tmp_path: Path) -> None:
    rule = '[{ kind = "quota_exhausted", statuses = [403], codes = ["TEAM_BUDGET"], retry_after = 3600 }]'

    provider = provider_in(tmp_path, VERTEX + f"classify = {rule}")

    assert provider.classify == (
        Rule(kind=Kind.QUOTA_EXHAUSTED, statuses=(403,), codes=("TEAM_BUDGET",), retry_after=3600),
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('{ kind = "x" }', "providers[0].classify[0]: Rule.kind must be one of authentication, "),
        ('{ kind = "timeout", pattern = "(" }', "Rule.pattern must be a regular expression"),
        ('{ kind = "timeout", code = ["A"] }', "unknown key 'code': did you mean 'codes'?"),
        ("{ codes = ['A'] }", "has no kind: add kind = ..."),
        ("5", "must be a table"),
    ],
)
def test_a_rule_that_cannot_work_is_told_with_its_place(tmp_path: Path, rule: str, said: str) -> None:
    assert said in complaint(tmp_path, VERTEX + f"classify = [{rule}]")
