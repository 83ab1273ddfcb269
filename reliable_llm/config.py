"""Providers and policies from the environment or from a TOML file.

Environment: `RELIABLE_LLM_MODELS`, such as `openai/gpt-5.1,groq/llama-3.3-70b-versatile`, names the candidates in the
order they are tried, each as vendor (`reliable_llm.vendors`) and model. A vendor's key is in `OPENAI_API_KEY` or, for
several keys, in `OPENAI_API_KEYS` (separated by commas or white space; it wins over the other); its address, where it
is not the usual one, is in `OPENAI_BASE_URL`; the same for `ANTHROPIC_`, `GROQ_` and the rest.

File (everything but `kind` and `models` may be left out; durations are seconds):

    route = ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"]

    [[providers]]
    kind = "openai"                               # or "anthropic", "gemini": whose API is spoken there
    vendor = "openai"                             # whose host it is: "groq", "azure", ...
    name = "openai"
    keys_env = ["OPENAI_API_KEYS"]                # or keys = ["env:OPENAI_API_KEY", ...]
    models = ["gpt-5.1"]                          # or { "gpt-5.1" = "the provider's own id" }
    base_url = "https://api.openai.com/v1"
    timeouts = { attempt = 60 }
    retry = { max_retries = 1 }                   # at this provider; the rest is as in [retry]
    limits = { requests_per_minute = 60 }         # of each key; {} learns them from the vendor's headers
    capabilities = { "gpt-5.1" = { context_window = 400000 } }
    classify = [{ kind = "quota_exhausted", statuses = [403], codes = ["TEAM_BUDGET"] }]   # the fields of `Rule`

    [[providers]]                                 # Claude on Amazon Bedrock or on Google Vertex AI
    kind = "anthropic"
    vendor = "bedrock"                            # its keys, if any, are API keys of Bedrock's
    region = "us-east-1"
    profile = "team"                              # may be left out: who signs is found as all AWS tools find it
    models = { "claude-sonnet-4-5" = "anthropic.claude-sonnet-4-5-20250929-v1:0" }

    [[providers]]
    kind = "anthropic"
    vendor = "vertex"                             # signed in by Google's application default credentials
    region = "global"
    project = "my-project"
    models = { "claude-sonnet-4-5" = "claude-sonnet-4-5@20250929" }

    [timeouts]                                    # for every provider that does not say otherwise
    [retry]
    [recovery]
    [budget]                                      # bounds what retries add; without the table nothing does
    [hedge]                                       # starts a second candidate beside a slow one; likewise

The fields of the last tables are those of `Timeouts`, `RetryPolicy`, `RecoveryPolicy`, `BudgetPolicy` and
`HedgePolicy`. Every error names the file, the place in it and the remedy. A key is never part of an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reliable_llm.config_clouds import clients_from_env, clients_from_file, is_signed, signing_fields
from reliable_llm.core.route import as_candidate, checked_route
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import BudgetPolicy, HedgePolicy, Limits, RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.tomlfile import Node, nearest, read, refuse
from reliable_llm.types import Candidate, Capabilities
from reliable_llm.vendors import VENDORS, VendorPreset

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from reliable_llm.core.classify import Rule

    _T = TypeVar("_T", bound=DataclassInstance)

MODELS_VARIABLE: Final = "RELIABLE_LLM_MODELS"
KINDS: Final = ("openai", "anthropic", "gemini")

_ONLY_IN_CODE: Final = frozenset({"http_client", "clients"})
_READ_APART: Final = frozenset({"kind", "keys", "keys_env", "timeouts", "retry", "region", "project", "profile"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a `FailoverChat` is built from. `route` None means the computed order; a repetition in it is kept, to be
    warned about.
    """

    providers: tuple[Provider, ...]
    route: tuple[Candidate, ...] | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    recovery: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    budget: BudgetPolicy | None = None
    hedge: HedgePolicy | None = None


# ---------------------------------------------------------------- the environment


def from_env(environ: Mapping[str, str] = os.environ, *, models: Iterable[str] | None = None) -> Settings:
    """Return settings for *models* (`vendor/model`; None reads `RELIABLE_LLM_MODELS`) with the keys in *environ*."""
    place = "models" if models is not None else MODELS_VARIABLE
    listed = _listed(environ.get(MODELS_VARIABLE, "")) if models is None else tuple(models)
    if not listed:
        refuse(place, _no_models(environ))
    route = tuple(_candidate(place, text) for text in listed)
    models_of: dict[str, dict[str, None]] = {}
    for candidate in route:
        models_of.setdefault(candidate.provider, {})[candidate.model] = None
    providers = tuple(_from_env(environ, vendor, list(each)) for vendor, each in models_of.items())
    return Settings(providers=providers, route=route)


def _no_models(environ: Mapping[str, str]) -> str:
    with_key = [preset.name for preset in vendors_with_key(environ)]
    if not with_key:
        example = f"{MODELS_VARIABLE}, such as openai/<model>"
        return f"no API key is set: set OPENAI_API_KEY, ANTHROPIC_API_KEY or another vendor's, then {example}"
    example = ",".join(f"{vendor}/<model>" for vendor in with_key)
    return f"no model is named: write {MODELS_VARIABLE}={example} or pass models (--model)"


def _candidate(place: str, text: str) -> Candidate:
    vendor, slash, model = text.partition("/")
    if not slash or not model:
        refuse(place, f"{text!r} names no vendor: write openai/{text}, anthropic/{text} or the like")
    if vendor not in VENDORS:
        refuse(place, f"unknown vendor {vendor!r}{nearest(vendor, list(VENDORS))}")
    return Candidate(vendor, model)


def _from_env(environ: Mapping[str, str], vendor: str, models: list[str]) -> Provider:
    preset = VENDORS[vendor]
    variable, address = key_variable(environ, preset), f"{_prefix(vendor)}_BASE_URL"
    given = environ.get(address)
    if is_signed(vendor) and not given:
        clients = clients_from_env(environ, vendor, _keys(environ, variable) if variable else ())
        return Provider.anthropic(name=vendor, vendor=vendor, models=models, clients=clients)
    if variable is None and preset.needs_key:
        candidates = ", ".join(f"{vendor}/{model}" for model in models)
        refuse(usual_key_variable(preset), f"not set, and {candidates} needs it: set it, or take the model out")
    base_url = given or preset.base_url
    if base_url is None:
        refuse(address, f"not set, and {vendor} has no usual address: set it")
    keys = ("none",) if variable is None else _keys(environ, variable)
    # Another vendor's host behind OPENAI_BASE_URL: its failures are read as that vendor's.
    known = None if vendor == preset.sdk else vendor
    try:
        return _make(preset.sdk)(name=vendor, vendor=known, models=models, keys=keys, base_url=base_url)
    except ConfigurationError as error:
        read = [name for name in (variable, address if given else None) if name]
        refuse(" and ".join(read) or vendor, str(error))


def _prefix(vendor: str) -> str:
    return vendor.upper().replace("-", "_")


def vendors_with_key(environ: Mapping[str, str]) -> list[VendorPreset]:
    """Return the vendors that can be used as they stand: the key is set, and the address known.

    HF_TOKEN, GITHUB_TOKEN and the like are set for many reasons: they are no wish to use those vendors.
    """
    meant = [each for each in VENDORS.values() if each.base_url and (each.key_variable or "").endswith("_API_KEY")]
    return [preset for preset in meant if key_variable(environ, preset)]


def usual_key_variable(preset: VendorPreset) -> str:
    """Return the variable in which a key of the vendor's is looked for."""
    return preset.key_variable or f"{_prefix(preset.name)}_API_KEY"


def key_variable(environ: Mapping[str, str], preset: VendorPreset) -> str | None:
    """Return the variable with the vendor's keys: the plural holds several, and wins."""
    names = (f"{preset.key_variable}S", preset.key_variable) if preset.key_variable else ()
    return next((name for name in names if environ.get(name, "").strip()), None)


def _keys(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """Return the keys in *variable*. Only a name that ends in KEYS may hold several: a lone key is not cut in two."""
    value = environ.get(variable, "")
    return _listed(value) if variable.upper().endswith("KEYS") else (value,)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


# ---------------------------------------------------------------- the file


def load(path: str | os.PathLike[str], *, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings in the TOML file at *path*; its `env:` and `keys_env` names are read from *environ*."""
    file = os.fspath(path)
    top = read(file).table(("route", "providers", "timeouts", "retry", "recovery", "budget", "hedge"))
    if "providers" not in top:
        refuse(file, "no provider: add a [[providers]] table with kind and models")
    timeouts = _given(top, "timeouts", Timeouts) or Timeouts()
    retry = _given(top, "retry", RetryPolicy) or RetryPolicy()
    providers = tuple(_provider(node, timeouts, retry, environ) for node in top["providers"].items())
    _refuse_twins(top["providers"], providers)
    return Settings(
        providers=providers,
        route=_route(top["route"], providers) if "route" in top else None,
        retry=retry,
        recovery=_given(top, "recovery", RecoveryPolicy) or RecoveryPolicy(),
        budget=_given(top, "budget", BudgetPolicy),
        hedge=_given(top, "hedge", HedgePolicy),
    )


def _given(top: Mapping[str, Node], name: str, kind: type[_T]) -> _T | None:
    """Return the settings in a table of the file, on top of their defaults; None where there is no such table."""
    return top[name].onto(kind()) if name in top else None


def _provider(node: Node, timeouts: Timeouts, retry: RetryPolicy, environ: Mapping[str, str]) -> Provider:
    given = node.table()
    if "kind" not in given:
        node.refuse(f"has no kind: add kind = {' or '.join(map(repr, KINDS))}")
    make = _constructor(given["kind"])
    signing = signing_fields(given)
    given = node.table({"kind", "keys_env", *signing, *signature(make).parameters} - _ONLY_IN_CODE)
    if "models" not in given:
        node.refuse("has no models: add models = [...]")
    arguments = {name: _argument(name, value) for name, value in given.items() if name not in _READ_APART}
    if "timeouts" in given:
        timeouts = given["timeouts"].onto(timeouts)
    if "retry" in given:
        arguments["retry"] = given["retry"].onto(retry)
    keys = _listed_keys(given, environ)
    if signing and "base_url" not in given:
        arguments["clients"], keys = clients_from_file(node, given, keys), None
    try:
        provider = make(keys=keys, timeouts=timeouts, **arguments)
    except ConfigurationError as error:
        node.refuse(str(error))
    if not provider.keys:
        usual = VENDORS[provider.vendor].key_variable if provider.vendor in VENDORS else None
        node.refuse("has no key: " + (f"set {usual}, or add keys_env = [...]" if usual else "add keys_env = [...]"))
    return provider


def _constructor(kind: Node) -> Callable[..., Provider]:
    if kind.text() not in KINDS:
        kind.refuse(f"unknown kind {kind.value!r}{nearest(kind.text(), KINDS)}")
    return _make(kind.text())


def _argument(name: str, node: Node) -> object:
    if name == "models":
        return node.texts() if isinstance(node.value, dict) else [item.text() for item in node.items()]
    if name == "headers":
        return node.texts()
    if name == "capabilities":
        return _capabilities(node)
    if name == "limits":
        return node.onto(Limits())
    if name == "classify":
        return [_rule(item) for item in node.items()]
    return node.value if name in ("max_concurrency", "pool_limit") else node.text()


def _rule(node: Node) -> Rule:
    from reliable_llm.core.classify import Rule  # the tables of built-in rules come with it

    fields = node.table(list(signature(Rule).parameters))
    if "kind" not in fields:
        node.refuse("has no kind: add kind = ..., what the failure is")
    given: dict[str, Any] = {name: value.value for name, value in fields.items()}
    try:
        return Rule(**given)
    except ConfigurationError as error:
        node.refuse(str(error))


def _capabilities(node: Node) -> Capabilities | dict[str, Capabilities]:
    tables = node.table()
    if any(isinstance(each.value, dict) for each in tables.values()):
        return {model: each.onto(Capabilities()) for model, each in tables.items()}
    return node.onto(Capabilities())


def _listed_keys(fields: Mapping[str, Node], environ: Mapping[str, str]) -> list[str] | None:
    """Return the keys of a provider, or None where it names none: then its usual variable is read."""
    if "keys" not in fields and "keys_env" not in fields:
        return None
    keys: list[str] = []
    for node in fields["keys"].items() if "keys" in fields else ():
        text = node.text()
        keys += _read(node, text.removeprefix("env:"), environ) if text.startswith("env:") else [text]
    if "keys_env" in fields:
        names = fields["keys_env"]
        for node in [names] if isinstance(names.value, str) else names.items():
            keys += _read(node, node.text(), environ)
    return keys


def _read(node: Node, variable: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    if not variable.isidentifier():  # it may be a key, and is not shown
        node.refuse("names what cannot be an environment variable: write its name, such as OPENAI_API_KEY")
    if not environ.get(variable, "").strip():
        node.refuse(f"environment variable {variable} is not set: set it to the key")
    return _keys(environ, variable)


def _refuse_twins(node: Node, providers: Iterable[Provider]) -> None:
    names = [provider.name for provider in providers]
    for name in names:
        if names.count(name) > 1:
            node.refuse(f"{names.count(name)} providers are named {name!r}: give each its own name")


def _route(node: Node, providers: Iterable[Provider]) -> tuple[Candidate, ...]:
    listed = [item.text() for item in node.items()]
    try:
        checked_route(listed, {provider.name: provider.models for provider in providers})
        return tuple(as_candidate(text) for text in listed)
    except ConfigurationError as error:
        node.refuse(str(error))


def _make(kind: str) -> Callable[..., Provider]:
    constructors: Mapping[str, Callable[..., Provider]] = {
        "openai": Provider.openai,
        "anthropic": Provider.anthropic,
        "gemini": Provider.gemini,
    }
    return constructors[kind]
