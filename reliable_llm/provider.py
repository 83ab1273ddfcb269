"""Where requests can go: a vendor's endpoint, its models and the keys for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from reliable_llm.credentials import Credential, credentials
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import Limits, RetryPolicy, Timeouts, check_number
from reliable_llm.provider_checks import (
    checked_capabilities,
    checked_concurrency,
    checked_headers,
    checked_models,
    checked_name,
    checked_rules,
    checked_settings,
    checked_url,
    credentials_of,
    labels_of,
    preset_of,
    refuse_beside_clients,
)
from reliable_llm.types import Capabilities

if TYPE_CHECKING:
    import anthropic
    import httpx2
    import openai

    from reliable_llm.adapters.base import Adapter
    from reliable_llm.clock import Clock
    from reliable_llm.core.classify import Rule

    AnyAnthropic = (
        anthropic.AsyncAnthropic
        | anthropic.AsyncAnthropicBedrock
        | anthropic.AsyncAnthropicBedrockMantle
        | anthropic.AsyncAnthropicVertex
    )
    AnthropicClient = AnyAnthropic | Callable[[httpx2.AsyncClient], AnyAnthropic]
    OpenAIClient = openai.AsyncOpenAI | Callable[[httpx2.AsyncClient], openai.AsyncOpenAI]

Api = Literal["chat", "responses", "messages", "gemini"]

# The variables that the vendors' own SDKs read a base URL from.
_BASE_URL_ENV: Final = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}

Protocol = Literal["openai", "anthropic", "gemini"]

# Reached through clients of their own: there is no one address, and no key that would do in a header.
_SIGNED: Final = {"bedrock": "AsyncAnthropicBedrock", "vertex": "AsyncAnthropicVertex"}

# The SDK's own, without the path of the endpoint that speaks OpenAI's protocol.
_GEMINI_URL: Final = "https://generativelanguage.googleapis.com/"

# The vendors' own default is 1,000 connections with 100 kept alive; we keep all of them alive (see adapters/http.py).
POOL_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Provider:
    """One endpoint with its models and keys. Build it with `Provider.openai(...)` or `Provider.anthropic(...)`.

    `models` maps the chain's name of a model to this provider's own id for it. `vendor` decides how failures are read.
    A gateway behind `base_url` that retries or falls back by itself should be told not to: one owner of retries.
    `capabilities` holds what is known by model. `max_concurrency` bounds the requests under way at once; a call that
    has to wait for its turn waits within its own deadline, and outside the attempt's timeout. `limits` says how much
    each key may be used; with it, calls are paced. `retry` is the policy for this provider's candidates; one given with
    a call goes before it; `reserve` and `failover_on` are the whole call's in any case.
    """

    name: str
    vendor: str
    api: Api
    models: Mapping[str, str]
    keys: tuple[Credential, ...]
    base_url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    http_client: httpx2.AsyncClient | None = field(default=None, repr=False)
    transport: Literal["httpx2", "aiohttp"] = "httpx2"
    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    classify: tuple[Rule, ...] = ()
    max_concurrency: int | None = None
    limits: Limits | None = None
    retry: RetryPolicy | None = None
    pool_limit: int = POOL_LIMIT
    custom: Adapter | None = field(default=None, repr=False)
    clients: tuple[object, ...] = field(default=(), repr=False)

    @classmethod
    def openai(
        cls,
        *,
        models: Sequence[str] | Mapping[str, str],
        keys: Iterable[str] | None = None,
        name: str = "openai",
        vendor: str | None = None,
        api: Literal["chat", "responses"] = "chat",
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        http_client: httpx2.AsyncClient | None = None,
        transport: Literal["httpx2", "aiohttp"] | None = None,
        capabilities: Capabilities | Mapping[str, Capabilities] | None = None,
        classify: Iterable[Rule] = (),
        max_concurrency: int | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        pool_limit: int = POOL_LIMIT,
        clients: Iterable[OpenAIClient] | None = None,
    ) -> Provider:
        """Return an endpoint that speaks OpenAI's protocol: OpenAI itself, or any compatible host.

        `keys=None` reads the vendor's usual environment variable (OPENAI_API_KEY). `vendor` names a known host (azure,
        openrouter, groq, ...; see `reliable_llm.vendors`) and gives its base_url; without it the host of `base_url`
        decides. `clients` are ready clients in place of keys, such as `AsyncAzureOpenAI`; see `reliable_llm.clients`.
        Raises `ConfigurationError` naming what to change.
        """
        return _build(
            cls, "openai", name, vendor, api, models, keys, base_url, headers, timeouts, http_client, transport,
            capabilities, classify, max_concurrency, pool_limit, limits, retry, clients,
        )  # fmt: skip

    @classmethod
    def anthropic(
        cls,
        *,
        models: Sequence[str] | Mapping[str, str],
        keys: Iterable[str] | None = None,
        name: str = "anthropic",
        vendor: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        http_client: httpx2.AsyncClient | None = None,
        transport: Literal["httpx2", "aiohttp"] | None = None,
        capabilities: Capabilities | Mapping[str, Capabilities] | None = None,
        classify: Iterable[Rule] = (),
        max_concurrency: int | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        pool_limit: int = POOL_LIMIT,
        clients: Iterable[AnthropicClient] | None = None,
    ) -> Provider:
        """Return an endpoint that speaks Anthropic's messages protocol. `keys=None` reads ANTHROPIC_API_KEY.

        `clients` are ready clients in place of keys, such as `AsyncAnthropicBedrock` and `AsyncAnthropicVertex`; see
        `reliable_llm.clients`.
        """
        return _build(
            cls, "anthropic", name, vendor, "messages", models, keys, base_url, headers, timeouts, http_client,
            transport, capabilities, classify, max_concurrency, pool_limit, limits, retry, clients,
        )  # fmt: skip

    @classmethod
    def gemini(
        cls,
        *,
        models: Sequence[str] | Mapping[str, str],
        keys: Iterable[str] | None = None,
        name: str = "gemini",
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        http_client: httpx2.AsyncClient | None = None,
        transport: Literal["httpx2", "aiohttp"] | None = None,
        capabilities: Capabilities | Mapping[str, Capabilities] | None = None,
        classify: Iterable[Rule] = (),
        max_concurrency: int | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        pool_limit: int = POOL_LIMIT,
    ) -> Provider:
        """Return an endpoint of the Gemini API on Google's own client. `keys=None` reads GEMINI_API_KEY.

        Needs the extra `reliable-llm[gemini]`. Google's OpenAI-compatible endpoint needs no extra:
        `Provider.openai(vendor="gemini", ...)`.
        """
        return _build(
            cls, "gemini", name, "gemini", "gemini", models, keys, base_url or _GEMINI_URL, headers, timeouts,
            http_client, transport, capabilities, classify, max_concurrency, pool_limit, limits, retry, None,
        )  # fmt: skip

    @classmethod
    def of(
        cls,
        adapter: Adapter,
        *,
        models: Sequence[str] | Mapping[str, str],
        name: str,
        keys: Iterable[str] = ("none",),
        timeouts: Timeouts | None = None,
        capabilities: Capabilities | Mapping[str, Capabilities] | None = None,
        max_concurrency: int | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
    ) -> Provider:
        """Return an endpoint behind an adapter of your own (`reliable_llm.adapters.base.Adapter`)."""
        by_model = checked_models(name, models)
        return cls(
            name=checked_name(name),
            vendor=adapter.vendor,
            api="chat",
            models=by_model,
            keys=credentials(name, keys),
            timeouts=checked_settings(name, "timeouts", timeouts, Timeouts) or Timeouts(),
            capabilities=checked_capabilities(name, capabilities, by_model),
            max_concurrency=checked_concurrency(name, max_concurrency),
            limits=checked_settings(name, "limits", limits, Limits),
            retry=checked_settings(name, "retry", retry, RetryPolicy),
            custom=adapter,
        )

    def adapter(self, clock: Clock) -> Adapter:
        """Build the adapter. Cheap: the vendor's SDK is imported when the first request needs it."""
        from reliable_llm.adapters import build_adapter

        adapter = self.custom or build_adapter(self, clock)
        if not any(each.prompt_tools for each in self.capabilities.values()):
            return adapter
        from reliable_llm.adapters.prompted import PromptedTools

        return PromptedTools(adapter)

    @property
    def endpoint(self) -> str:
        """The base URL without user, password and query: safe to print."""
        if self.base_url is None:
            return "default"
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))

    def __repr__(self) -> str:
        return f"Provider({self.name!r}, vendor={self.vendor!r}, models={list(self.models)}, {len(self.keys)} keys)"


def _build(
    cls: type[Provider],
    protocol: Protocol,
    name: str,
    vendor: str | None,
    api: Api,
    models: Sequence[str] | Mapping[str, str],
    keys: Iterable[str] | None,
    base_url: str | None,
    headers: Mapping[str, str] | None,
    timeouts: Timeouts | None,
    http_client: httpx2.AsyncClient | None,
    transport: Literal["httpx2", "aiohttp"] | None,
    capabilities: Capabilities | Mapping[str, Capabilities] | None,
    classify: Iterable[Rule],
    max_concurrency: int | None,
    pool_limit: int,
    limits: Limits | None,
    retry: RetryPolicy | None,
    clients: Iterable[object] | None,
) -> Provider:
    checked_name(name)
    own: tuple[object, ...] = ()
    if clients is not None:
        from reliable_llm.adapters.clients import base_url_of, checked, vendor_of

        own = checked(name, protocol, clients)
        refuse_beside_clients(name, own, keys=keys, base_url=base_url, http_client=http_client)
        vendor, base_url = vendor or vendor_of(own[0]) or protocol, base_url_of(own[0])
    base_url = base_url or os.environ.get(_BASE_URL_ENV.get(protocol, "")) if vendor is None else base_url
    known = preset_of(protocol, name, vendor, base_url)
    if known.name in _SIGNED and not own and base_url is None:
        client = (
            f"{_SIGNED[known.name]}(...)"
            if protocol == "anthropic"
            else f"AsyncOpenAI(provider=providers.{known.name}(...))"
        )
        raise ConfigurationError(
            f"provider {name!r}: requests to {known.name} are signed by a client of its own: write "
            f"clients=[{client}], or give the base_url of a gateway"
        )
    by_model = checked_models(name, models)
    if api not in ("chat", "responses", "messages", "gemini"):
        raise ConfigurationError(f"api of provider {name!r} must be 'chat' or 'responses', got {api!r}")
    if transport not in (None, "httpx2", "aiohttp"):
        raise ConfigurationError(f"transport of provider {name!r} must be 'httpx2' or 'aiohttp', got {transport!r}")
    check_number(f"Provider({name!r})", "pool_limit", pool_limit, low=1, whole=True)
    return cls(
        name=name,
        vendor=known.name,
        api=api,
        models=by_model,
        keys=labels_of(name, own) if own else credentials_of(name, keys, known.key_variable, needed=known.needs_key),
        base_url=checked_url(name, base_url or known.base_url),
        headers=checked_headers(name, headers),
        timeouts=checked_settings(name, "timeouts", timeouts, Timeouts) or Timeouts(),
        http_client=http_client,
        transport=transport or "httpx2",
        capabilities=checked_capabilities(name, capabilities, by_model),
        classify=checked_rules(name, classify),
        max_concurrency=checked_concurrency(name, max_concurrency),
        limits=checked_settings(name, "limits", limits, Limits),
        retry=checked_settings(name, "retry", retry, RetryPolicy),
        pool_limit=pool_limit,
        clients=own,
    )
