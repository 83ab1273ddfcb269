"""What a `Provider` is given, checked: every error says what to write instead, and none shows a key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from reliable_llm.credentials import Credential, credentials, is_one_word
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import check_number
from reliable_llm.tomlfile import nearest
from reliable_llm.types import Capabilities

if TYPE_CHECKING:
    from reliable_llm.core.classify import Rule
    from reliable_llm.vendors import VendorPreset

_T = TypeVar("_T")


def refuse_beside_clients(provider: str, clients: tuple[object, ...], **given: object) -> None:
    """Refuse what a ready client has inside already. A function that builds one takes the `http_client`."""
    if all(map(callable, clients)):
        given.pop("http_client")
    for name, value in given.items():
        if value is not None:
            raise ConfigurationError(f"provider {provider!r} has both clients and {name}: give {name} to each client")


def checked_rules(provider: str, rules: object) -> tuple[Rule, ...]:
    if rules == ():
        return ()
    from reliable_llm.core.classify import Rule  # the tables of built-in rules come with it

    listed = tuple(rules) if isinstance(rules, Iterable) else (rules,)
    for rule in listed:
        if not isinstance(rule, Rule) or not isinstance(rules, Iterable):
            raise ConfigurationError(
                f"classify of provider {provider!r} must be a list of Rule(...), got {type(rule).__name__}"
            )
    return listed


def preset_of(protocol: str, provider: str, name: str | None, url: str | None) -> VendorPreset:
    from reliable_llm.vendors import VENDORS, VendorPreset, vendor_from_base_url

    chosen = name or (protocol if url is None else vendor_from_base_url(url))
    if chosen == "unknown":
        return VendorPreset(name=chosen, key_variable=VENDORS[protocol].key_variable)
    if chosen not in VENDORS:
        raise ConfigurationError(
            f"provider {provider!r}: unknown vendor {chosen!r} (any other host is vendor='unknown')"
            f"{nearest(chosen, list(VENDORS))}"
        )
    return VENDORS[chosen]


def checked_name(name: object) -> str:
    if isinstance(name, str) and name and "/" not in name and name == name.strip():
        return name
    raise ConfigurationError(f"provider name must be a non-empty string without '/' and outer spaces, got {name!r}")


def checked_models(provider: str, models: Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
    if isinstance(models, str):
        raise ConfigurationError(
            f"models of provider {provider!r} must be a list, not one string: write models=[{models!r}]"
        )
    by_model = dict(models) if isinstance(models, Mapping) else {model: model for model in models}
    if not by_model:
        raise ConfigurationError(f"provider {provider!r} has no models: name at least one")
    for name, model_id in by_model.items():
        texts: tuple[object, object] = (name, model_id)
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise ConfigurationError(
                f"models of provider {provider!r} must be non-empty strings, got {name!r}: {model_id!r}"
            )
    return by_model


def credentials_of(
    provider: str, keys: Iterable[str] | None, variable: str | None, *, needed: bool
) -> tuple[Credential, ...]:
    if keys is None:
        found = os.environ.get(variable, "") if variable else ""
        keys = [found] if found.strip() else [] if needed else ["none"]
    return credentials(provider, keys)


def labels_of(provider: str, clients: tuple[object, ...]) -> tuple[Credential, ...]:
    """Return what stands for *clients* where keys are counted, cooled and parked. None holds a secret."""
    return tuple(Credential(f"client-{n + 1}", label=f"{provider}#{n + 1}", index=n) for n in range(len(clients)))


def checked_url(provider: str, base_url: str | None) -> str | None:
    if base_url is None:
        return None
    try:
        parts = urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        valid = valid and base_url.isprintable() and " " not in base_url
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise ConfigurationError(
            f"base_url of provider {provider!r} must be a full http or https address, such as https://host/v1"
        )
    return base_url


def checked_headers(provider: str, given: object) -> dict[str, str]:
    """Return *given* as a dict; refuse what is no header. A value may be a secret: it is never shown."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"headers of provider {provider!r} must be a dict of strings: write headers={{...}}")
    for name, value in given.items():
        if not isinstance(name, str) or not is_one_word(name):
            raise ConfigurationError(f"headers of provider {provider!r} hold what is no name of a header")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise ConfigurationError(
                f"header {name!r} of provider {provider!r} must be a string of printable ASCII characters, on one line"
            )
    return dict(given)


def checked_capabilities(
    provider: str, given: Capabilities | Mapping[str, Capabilities] | None, models: Mapping[str, str]
) -> Mapping[str, Capabilities]:
    if given is None:
        return {}
    if isinstance(given, Capabilities):
        return dict.fromkeys(models, given)
    for model in given:
        if model not in models:
            raise ConfigurationError(
                f"capabilities of provider {provider!r} name model {model!r}, which is not in its models"
            )
    return dict(given)


def checked_concurrency(provider: str, limit: int | None) -> int | None:
    if limit is not None:
        check_number(f"Provider({provider!r})", "max_concurrency", limit, low=1, whole=True)
    return limit


def checked_settings(provider: str, name: str, given: object, kind: type[_T]) -> _T | None:
    """Return what is *given* as *name*, an instance of *kind* or None."""
    if given is not None and not isinstance(given, kind):
        raise ConfigurationError(
            f"{name} of provider {provider!r} must be {kind.__name__}(...), got {type(given).__name__}"
        )
    return given
