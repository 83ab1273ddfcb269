"""Set-up from the environment and from a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliable_llm import BudgetPolicy, ConfigurationError, FailoverChat, HedgePolicy, Kind, RetryPolicy
from reliable_llm.asking import as_request
from reliable_llm.config import Settings, from_env, load
from reliable_llm.events import ConfigWarning, Event
from reliable_llm.types import Candidate

BOTH_KEYS = {"OPENAI_API_KEY": "sk-a", "ANTHROPIC_API_KEY": "sk-b"}
SECRET = "sk-very-secret-0123456789"

MINIMAL = """
[[providers]]
kind = "openai"
keys = ["sk-a"]
models = ["gpt-5.1"]
"""


def labels(settings: Settings) -> list[str]:
    return [key.label for provider in settings.providers for key in provider.keys]


def secrets(settings: Settings) -> list[str]:
    return [key.reveal() for provider in settings.providers for key in provider.keys]


def complaint_of(environ: dict[str, str], models: list[str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        from_env(environ, models=models)
    return str(caught.value)


# ---------------------------------------------------------------- the environment


def test_models_in_the_variable_are_the_route_in_their_order() -> None:
    models = "anthropic/claude-sonnet-4-5, openai/gpt-5.1\nopenai/gpt-5.1-mini"

    settings = from_env({**BOTH_KEYS, "RELIABLE_LLM_MODELS": models})

    assert settings.route == (
        Candidate("anthropic", "claude-sonnet-4-5"),
        Candidate("openai", "gpt-5.1"),
        Candidate("openai", "gpt-5.1-mini"),
    )


def test_models_given_as_an_argument_replace_those_of_the_variable() -> None:
    settings = from_env({**BOTH_KEYS, "RELIABLE_LLM_MODELS": "anthropic/a"}, models=["openai/o"])

    assert settings.route == (Candidate("openai", "o"),)


def test_a_model_named_twice_is_served_once_and_warned_about() -> None:
    told: list[Event] = []
    settings = from_env(BOTH_KEYS, models=["openai/o", "openai/o"])
    chat = FailoverChat(settings.providers, route=settings.route, listeners=[lambda event, _: told.append(event)])

    assert told == [ConfigWarning("openai", "duplicate candidate openai/o")]
    assert chat.route == (Candidate("openai", "o"),)


def test_a_model_id_may_hold_slashes() -> None:
    settings = from_env(BOTH_KEYS, models=["openai/meta-llama/llama-4"])

    assert settings.route == (Candidate("openai", "meta-llama/llama-4"),)


def test_a_vendor_without_a_listed_model_is_left_out() -> None:
    settings = from_env(BOTH_KEYS, models=["openai/gpt-5.1"])

    assert [provider.name for provider in settings.providers] == ["openai"]


@pytest.mark.parametrize("text", ["sk-a,sk-b", "sk-a, sk-b", " sk-a\nsk-b\n", "sk-a sk-b,"])
def test_several_keys_are_separated_by_commas_or_white_space(text: str) -> None:
    settings = from_env({"OPENAI_API_KEYS": text}, models=["openai/gpt-5.1"])

    assert secrets(settings) == ["sk-a", "sk-b"]


def test_the_variable_for_several_keys_wins_over_the_one_for_one() -> None:
    settings = from_env({"OPENAI_API_KEYS": "sk-b", "OPENAI_API_KEY": "sk-a"}, models=["openai/gpt-5.1"])

    assert secrets(settings) == ["sk-b"]


def test_white_space_around_a_lone_key_is_forgiven() -> None:
    assert secrets(from_env({"OPENAI_API_KEY": " sk-a\n"}, models=["openai/m"])) == ["sk-a"]


def test_the_base_urls_of_the_vendors_own_variables_are_used() -> None:
    environ = {**BOTH_KEYS, "OPENAI_BASE_URL": "http://localhost:1/v1", "ANTHROPIC_BASE_URL": "http://localhost:2"}

    settings = from_env(environ, models=["openai/o", "anthropic/a"])

    assert [provider.base_url for provider in settings.providers] == ["http://localhost:1/v1", "http://localhost:2"]


def test_any_known_vendor_is_reached_at_its_usual_address_with_its_usual_key() -> None:
    settings = from_env({"GROQ_API_KEYS": "gsk-a,gsk-b"}, models=["groq/llama-3.3-70b-versatile"])
    (groq,) = settings.providers

    assert (groq.name, groq.vendor, groq.base_url) == ("groq", "groq", "https://api.groq.com/openai/v1")
    assert secrets(settings) == ["gsk-a", "gsk-b"]


def test_a_server_of_ones_own_needs_no_key() -> None:
    (ollama,) = from_env({}, models=["ollama/qwen3"]).providers

    assert ollama.base_url == "http://localhost:11434/v1"


def test_a_vendor_without_a_usual_address_is_refused_with_the_variable_for_it() -> None:
    complaint = complaint_of({"AZURE_OPENAI_API_KEY": "sk-a"}, ["azure/gpt-5.1"])

    assert complaint.startswith("AZURE_BASE_URL: not set")


def test_failures_are_read_as_those_of_the_host_behind_the_usual_variable() -> None:
    environ = {"OPENAI_API_KEY": "sk-a", "OPENAI_BASE_URL": "https://openrouter.ai/api/v1"}
    (provider,) = from_env(environ, models=["openai/gpt-5.1"]).providers

    assert (provider.name, provider.vendor) == ("openai", "openrouter")


def test_without_any_key_the_variables_to_set_are_named() -> None:
    complaint = complaint_of({})

    assert "OPENAI_API_KEY" in complaint
    assert "ANTHROPIC_API_KEY" in complaint
    assert "RELIABLE_LLM_MODELS" in complaint


def test_without_a_model_an_example_for_the_keys_at_hand_is_given() -> None:
    assert "RELIABLE_LLM_MODELS=anthropic/<model>" in complaint_of({"ANTHROPIC_API_KEY": "sk-b"})


def test_a_model_whose_vendor_has_no_key_is_refused_with_the_variable_to_set() -> None:
    complaint = complaint_of({"OPENAI_API_KEY": "sk-a"}, ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"])

    assert complaint.startswith("ANTHROPIC_API_KEY: not set")
    assert "anthropic/claude-sonnet-4-5" in complaint


def test_a_blank_key_counts_as_none() -> None:
    assert complaint_of({"OPENAI_API_KEY": "  "}, ["openai/m"]).startswith("OPENAI_API_KEY: not set")


def test_a_model_without_a_vendor_is_refused_with_ways_to_write_it() -> None:
    complaint = complaint_of(BOTH_KEYS, ["gpt-5.1"])

    assert "openai/gpt-5.1, anthropic/gpt-5.1" in complaint


def test_a_misspelt_provider_is_refused_with_the_nearest_one() -> None:
    assert "did you mean 'anthropic'?" in complaint_of(BOTH_KEYS, ["antropic/claude-sonnet-4-5"])


def test_a_key_with_a_newline_inside_is_refused_with_its_variable_and_without_itself() -> None:
    complaint = complaint_of({"OPENAI_API_KEY": f"{SECRET}\n{SECRET}"}, ["openai/m"])

    assert complaint.startswith("OPENAI_API_KEY: key openai#1")
    assert "on one line" in complaint
    assert "secret" not in complaint


def test_a_key_listed_twice_is_refused() -> None:
    assert "openai#1 and openai#2 are the same" in complaint_of({"OPENAI_API_KEYS": "sk-a,sk-a"}, ["openai/m"])


def test_a_base_url_without_a_scheme_is_refused_with_its_variable() -> None:
    complaint = complaint_of({**BOTH_KEYS, "OPENAI_BASE_URL": "localhost:8000/v1"}, ["openai/m"])

    assert "OPENAI_BASE_URL" in complaint


def test_a_coordinator_is_built_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-b")
    monkeypatch.setenv("RELIABLE_LLM_MODELS", "anthropic/claude-sonnet-4-5")

    status = FailoverChat.from_env().status()

    assert [key.label for provider in status.providers for key in provider.keys] == ["anthropic#1"]


# ---------------------------------------------------------------- the file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "llm.toml"


def loaded(file: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    file.write_text(text, encoding="utf-8")
    return load(file, environ=environ or {})


def refused(file: Path, text: str, environ: dict[str, str] | None = None) -> str:
    """Return what is said about *text*, after the name of the file."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(file, text, environ)
    assert str(caught.value).startswith(f"{file}: ")
    return str(caught.value).removeprefix(f"{file}: ")


def test_a_file_gives_providers_policies_and_route(file: Path) -> None:
    settings = loaded(
        file,
        """
        route = ["backup/claude", "main/gpt-5.1"]

        [[providers]]
        kind = "openai"
        name = "main"
        keys = ["sk-a", "sk-b"]
        models = ["gpt-5.1"]
        base_url = "http://localhost:1/v1"
        headers = { x-team = "blue" }
        max_concurrency = 7
        capabilities = { "gpt-5.1" = { vision = true, context_window = 1000 } }

        [[providers]]
        kind = "anthropic"
        name = "backup"
        keys = ["sk-c"]
        models = { claude = "claude-sonnet-4-5" }
        capabilities = { tools = false }

        [retry]
        max_retries = 1
        failover_on = ["content_policy"]

        [recovery]
        quota = 60
        breaker = { server_error = 30 }

        [budget]
        share = 0.2

        [hedge]
        delay = 2
        """,
    )
    main, backup = settings.providers

    assert settings.route == (Candidate("backup", "claude"), Candidate("main", "gpt-5.1"))
    assert labels(settings) == ["main#1", "main#2", "backup#1"]
    assert (main.base_url, dict(main.headers), main.max_concurrency) == (
        "http://localhost:1/v1",
        {"x-team": "blue"},
        7,
    )
    assert main.capabilities["gpt-5.1"].context_window == 1000
    assert dict(backup.models) == {"claude": "claude-sonnet-4-5"}
    assert backup.capabilities["claude"].tools is False
    assert settings.retry.max_retries == 1
    assert settings.retry.failover_on == {Kind.CONTENT_POLICY}
    assert settings.recovery.quota == 60
    assert settings.recovery.breaker == {Kind.SERVER_ERROR: 30}
    assert settings.budget == BudgetPolicy(share=0.2)
    assert settings.hedge == HedgePolicy(delay=2)


def test_a_minimal_file_leaves_everything_else_at_its_default(file: Path) -> None:
    settings = loaded(file, MINIMAL)

    assert settings == Settings(providers=settings.providers)


def test_timeouts_for_all_are_the_base_of_a_providers_own(file: Path) -> None:
    settings = loaded(file, f"{MINIMAL}timeouts = {{ idle = 5 }}\n[timeouts]\nattempt = 60\nidle = 9\n")

    assert (settings.providers[0].timeouts.attempt, settings.providers[0].timeouts.idle) == (60, 5)


@pytest.mark.parametrize(
    "line",
    [
        'keys_env = "TEAM_KEYS"',
        'keys_env = ["TEAM_KEYS"]',
        'keys_env = ["ONE", "TWO"]',
        'keys = ["env:ONE", "env:TWO"]',
    ],
)
def test_keys_may_come_from_variables(file: Path, line: str) -> None:
    text = MINIMAL.replace('keys = ["sk-a"]', line)
    environ = {"TEAM_KEYS": "sk-1,sk-2", "ONE": "sk-1", "TWO": "sk-2"}

    assert secrets(loaded(file, text, environ)) == ["sk-1", "sk-2"]


@pytest.mark.parametrize(
    "line", ['keys = ["env:sk-secret-1"]', 'keys_env = ["sk-secret-1"]', 'keys_env = "sk-secret-1"']
)
def test_a_key_in_place_of_a_variable_is_refused_without_showing_it(file: Path, line: str) -> None:
    said = refused(file, MINIMAL.replace('keys = ["sk-a"]', line))

    assert "names what cannot be an environment variable" in said
    assert "secret" not in said


def test_a_variable_that_is_not_set_is_named_with_its_place(file: Path) -> None:
    text = MINIMAL.replace('"sk-a"', '"sk-a", "env:TEAM_KEY"')

    assert refused(file, text) == "providers[0].keys[1]: environment variable TEAM_KEY is not set: set it to the key"


def test_a_byte_order_mark_is_forgiven(file: Path) -> None:
    file.write_text(MINIMAL, encoding="utf-8-sig")

    assert secrets(load(file)) == ["sk-a"]


@pytest.mark.parametrize(
    ("wrong", "right", "complaint"),
    [
        ("kind =", "knid =", "providers[0]: has no kind"),
        ("models =", "model =", "providers[0]: unknown key 'model': did you mean 'models'?"),
        ("keys =", "key =", "providers[0]: unknown key 'key': did you mean 'keys'?"),
        ("[[providers]]", "[[provider]]", "unknown key 'provider': did you mean 'providers'?"),
        ('"openai"', '"opnai"', "providers[0].kind: unknown kind 'opnai': did you mean 'openai'?"),
        ('"openai"', "5", "providers[0].kind: must be a string, got a number"),
        ('keys = ["sk-a"]', "", "providers[0]: has no key: set OPENAI_API_KEY, or add keys_env"),
        ('["gpt-5.1"]', '"gpt-5.1"', "providers[0].models: must be a list, got a string"),
        ('["gpt-5.1"]', "[]", "providers[0].models: is empty"),
        ('["gpt-5.1"]', "[1]", "providers[0].models[0]: must be a string, got a number"),
        ('["sk-a"]', '"sk-a"', "providers[0].keys: must be a list, got a string"),
        ('["sk-a"]', "[]", "providers[0].keys: is empty"),
        ('["sk-a"]', '["a b"]', "providers[0]: key openai#1 holds a space"),
        ('["sk-a"]', '["sk-a", "sk-a"]', "providers[0]: keys openai#1 and openai#2 are the same"),
    ],
)
def test_a_slip_in_a_provider_is_named_with_its_place(file: Path, wrong: str, right: str, complaint: str) -> None:
    assert refused(file, MINIMAL.replace(wrong, right)).startswith(complaint)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("max_concurrency = 0", "providers[0]: Provider('openai').max_concurrency must be a whole number from 1"),
        ('base_url = "localhost"', "providers[0]: base_url"),
        ("base_url = 5", "providers[0].base_url: must be a string"),
        ("headers = { a = 1 }", "providers[0].headers.a: must be a string"),
        ('name = "a/b"', "providers[0]: provider name"),
        ('transport = "carrier pigeon"', "providers[0]: transport"),
        ('api = "chatt"', "providers[0]: api"),
        ("timeouts = { attempts = 1 }", "providers[0].timeouts: unknown key 'attempts': did you mean 'attempt'?"),
        ("timeouts = { attempt = -1 }", "providers[0].timeouts: Timeouts.attempt must be"),
        ("timeouts = 5", "providers[0].timeouts: must be a table, got a number"),
        ("capabilities = { visoin = true }", "providers[0].capabilities: unknown key 'visoin'"),
        ("capabilities = { vision = 1 }", "providers[0].capabilities.vision: must be true or false"),
        ("capabilities = { context_window = 1.5 }", "providers[0].capabilities.context_window: must be a whole number"),
        ("capabilities = { gpt-6 = { vision = true } }", "providers[0]: capabilities"),
        ("http_client = 1", "providers[0]: unknown key 'http_client'"),
    ],
)
def test_a_bad_setting_of_a_provider_is_named_with_its_place(file: Path, line: str, complaint: str) -> None:
    assert refused(file, f"{MINIMAL}{line}\n").startswith(complaint)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("[retry]\nmax_retry = 1", "retry: unknown key 'max_retry': did you mean 'max_retries'?"),
        ("[retry]\nmax_retries = true", "retry: RetryPolicy.max_retries must be a whole number"),
        ("[retry]\nmax_retries = nan", "retry: RetryPolicy.max_retries must be a whole number"),
        ("[retry]\nbackoff = '1'", "retry: RetryPolicy.backoff must be a number"),
        ("[retry]\nwait_for_cooldown = 1", "retry.wait_for_cooldown: must be true or false, got a number"),
        (
            "[retry]\nfailover_on = ['contentpolicy']",
            "retry: RetryPolicy.failover_on must hold kinds of failure (content_policy), and 'contentpolicy' is none",
        ),
        ("[retry]\nfailover_on = [['content_policy']]", "retry: holds a list or a table where a single value belongs"),
        ("[recovery]\nquota = 0", "recovery: RecoveryPolicy.quota must be"),
        ("[recovery]\nbreaker = 5", "recovery.breaker: must be a table, got a number"),
        (
            "[recovery]\nbreaker = { sever_error = 5 }",
            "recovery: RecoveryPolicy.breaker must hold kinds of failure (server_error)",
        ),
        ("[budget]\nshare = -1", "budget: BudgetPolicy.share must be a number from 0"),
        ("[hedge]\ndelays = 2", "hedge: unknown key 'delays': did you mean 'delay'?"),
        ("[hedge]\nquantile = '0.9'", "hedge: HedgePolicy.quantile must be a number"),
        ("[timeouts]\nconnect = inf", "timeouts: Timeouts.connect must be a number"),
        ("[[providers]]\nkind='openai'\nkeys=['sk-b']\nmodels=['m']", "providers: 2 providers are named 'openai'"),
    ],
)
def test_a_bad_policy_is_named_with_its_place(file: Path, lines: str, complaint: str) -> None:
    assert refused(file, f"{MINIMAL}{lines}\n").startswith(complaint)


@pytest.mark.parametrize(
    ("route", "complaint"),
    [
        ('["openai/gpt-6"]', "route: route names openai/gpt-6"),
        ('["openia/gpt-5.1"]', "route: route names provider 'openia'"),
        ("[]", "route: is empty"),
        ("[5]", "route[0]: must be a string, got a number"),
    ],
)
def test_a_route_to_nowhere_is_refused_with_what_there_is(file: Path, route: str, complaint: str) -> None:
    assert refused(file, f"route = {route}\n{MINIMAL}").startswith(complaint)


def test_a_file_that_is_not_toml_is_refused_with_the_line(file: Path) -> None:
    assert "line 2" in refused(file, "[retry]\nmax_retries =\n")


def test_one_table_where_a_list_of_tables_belongs_is_told_how_to_write(file: Path) -> None:
    says = "providers: must be a list, got a table: write [[providers]] instead of [providers]"
    assert refused(file, '[providers]\nkind = "openai"\n') == says


def test_a_file_without_providers_is_refused(file: Path) -> None:
    assert refused(file, "[retry]\n").startswith("no provider: add a [[providers]] table")


def test_a_missing_file_is_refused(file: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"llm\.toml: cannot be read: No such file or directory; check the path"
    ):
        load(file)


def test_a_file_in_another_encoding_is_refused(file: Path) -> None:
    file.write_bytes("# ключ".encode("cp1251"))

    with pytest.raises(ConfigurationError, match="save it as UTF-8"):
        load(file)


@pytest.mark.parametrize(
    "line",
    [f'keys = "{SECRET}"', f'keys = ["{SECRET}\\n{SECRET}"]', f'keys = [["{SECRET}"]]', f'headers = ["{SECRET}"]'],
)
def test_a_key_in_the_wrong_place_is_never_shown(file: Path, line: str) -> None:
    assert "secret" not in refused(file, MINIMAL.replace('keys = ["sk-a"]', line))


def test_a_coordinator_is_built_from_a_file(file: Path) -> None:
    file.write_text(MINIMAL, encoding="utf-8")

    status = FailoverChat.from_toml(str(file)).status()

    assert [provider.name for provider in status.providers] == ["openai"]


def test_a_coordinator_from_a_file_hedges_and_keeps_to_a_budget_as_written(file: Path) -> None:
    text = MINIMAL.replace('["gpt-5.1"]', '["gpt-5.1", "gpt-5-mini"]') + "[budget]\n[hedge]\ndelay = 2\n"
    file.write_text(text, encoding="utf-8")
    coordination = FailoverChat.from_toml(str(file))._coordination
    stops = coordination.candidates.chosen(model=None, route=None, failover=True)

    assert coordination.driver.budget is not None
    assert coordination.driver.hedge_delay(as_request("hi"), stops) == 2


def test_a_provider_may_have_a_policy_of_its_own_on_top_of_that_of_all(file: Path) -> None:
    text = MINIMAL + "retry = { max_retries = 5 }\n\n[retry]\nbackoff = 3\n"
    file.write_text(text, encoding="utf-8")
    settings = load(file)

    assert settings.providers[0].retry == RetryPolicy(max_retries=5, backoff=3)
    assert settings.retry == RetryPolicy(backoff=3)


def test_geminis_own_api_is_a_kind(file: Path) -> None:
    file.write_text('[[providers]]\nkind = "gemini"\nkeys = ["sk-a"]\nmodels = ["gemini-3-pro"]\n', encoding="utf-8")
    (gemini,) = load(file).providers

    assert (gemini.name, gemini.api) == ("gemini", "gemini")
