"""From a scenario's set-up to a coordinator on simulated vendors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final

import httpx2

from reliable_llm.config import Settings
from reliable_llm.drill import scenario as written
from reliable_llm.drill.vendors import faults
from reliable_llm.drill.vendors.observed import current_call
from reliable_llm.drill.vendors.wire import Site, Vendors
from reliable_llm.errors import Kind
from reliable_llm.policy import RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.types import Candidate, Capabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from reliable_llm.chat import FailoverChat
    from reliable_llm.clock import Clock
    from reliable_llm.events import Listener

# The corpus names no attempt timeout: this is the vendor SDKs' own default.
UNLIMITED: Final = 600.0
_URLS: Final = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_CAPS: Final = {"json_schema": "structured_output", "images": "vision", "schema": "structured_output"}
# What users of other libraries call these kinds.
_KINDS: Final = {"content_filtered": "content_policy", "content_filter": "content_policy", "refusal": "content_policy"}
_MORE_KINDS: Final = {"auth": "authentication", "truncated": "output_truncated", "bad_request": "invalid_request"}


# What the application's own hooks raise: by hook, then by call.
Hooks = Mapping[str, Mapping[str, BaseException]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """All that coordinators of one drill are built from. Each gets its own state; the wire is shared."""

    settings: Settings
    sites: Sequence[Site]
    clients: list[httpx2.AsyncClient] = field(default_factory=list)

    def build(self, vendors: Vendors, clock: Clock, listener: Listener, hooks: Hooks) -> FailoverChat:
        """Return a coordinator whose requests end at *vendors*. *hooks* fail the calls that they name."""
        from reliable_llm.chat import FailoverChat

        pairs = zip(self.settings.providers, self.sites, strict=True)
        wired = tuple(self._wired(provider, vendors.transport(site), hooks) for provider, site in pairs)
        return FailoverChat.from_settings(replace(self.settings, providers=wired), clock=clock, listeners=[listener])

    def _wired(self, provider: Provider, transport: httpx2.AsyncBaseTransport, hooks: Hooks) -> Provider:
        hook = {name.removeprefix("on_"): [_failing(errors)] for name, errors in hooks.items()}
        client = httpx2.AsyncClient(transport=transport, trust_env=False, event_hooks=hook)
        self.clients.append(client)
        return replace(provider, http_client=client)


def _failing(errors: Mapping[str, BaseException]) -> Callable[[object], object]:
    async def fail(_message: object) -> None:
        if error := errors.get(current_call.get() or ""):
            raise error

    return fail


def kind_of(name: str) -> Kind:
    """Return the kind of failure that a scenario calls *name*. Raises `ValueError`."""
    return Kind(_KINDS.get(name) or _MORE_KINDS.get(name) or name)


def hook_error(text: str) -> BaseException:
    return faults.named(text)


def blueprint(setup: written.Setup) -> Blueprint:
    """Return the set-up as written. Raises `ConfigurationError` where the product refuses it, `ValueError` for a name
    that nobody knows."""
    policy = setup.policy
    providers = tuple(_provider(each, _timeouts(policy)) for each in setup.providers)
    settings = Settings(
        providers=providers,
        route=tuple(Candidate(provider, model) for provider, model in setup.route) or None,
        retry=_retry(policy),
        recovery=_recovery(policy),
    )
    return Blueprint(
        settings=settings,
        sites=[_site(each, made) for each, made in zip(setup.providers, providers, strict=True)],
    )


def _provider(given: written.Provider, timeouts: Timeouts) -> Provider:
    suffix = re.sub(r"\\([nrt])", lambda m: {"n": "\n", "r": "\r", "t": "\t"}[m[1]], given.raw_key_suffix)
    make = Provider.openai if given.protocol == "openai" else Provider.anthropic
    made = make(
        name=given.name,
        models=given.models,
        keys=[key + suffix for key in given.keys],
        vendor=given.vendor or (None if given.base_url and "://" in given.base_url else given.kind),
        base_url=_base_url(given),
        headers=given.headers,
        timeouts=timeouts,
        capabilities=_capabilities(given),
        max_concurrency=given.max_concurrency or given.pool_limit,
    )
    return replace(made, api=given.api) if given.api != "chat" else made


def _base_url(given: written.Provider) -> str:
    if given.base_url is None:
        return _URLS[given.protocol]
    return given.base_url if "://" in given.base_url else f"https://{given.base_url}.example/v1"


def _capabilities(given: written.Provider) -> Capabilities:
    caps = {_CAPS.get(name, name): value for name, value in given.caps.items()}
    if unknown := caps.keys() - {each.name for each in fields(Capabilities)}:
        raise ValueError(f"caps {sorted(unknown)}: not known")
    return Capabilities(context_window=given.window, max_output=given.max_output, **caps)


def _site(given: written.Provider, made: Provider) -> Site:
    keys = {key.reveal(): alias for key, alias in zip(made.keys, given.keys, strict=True)}
    return Site(name=given.name, keys=keys, rejects=given.rejects, pool_limit=given.pool_limit)


def _timeouts(policy: written.Policy) -> Timeouts:
    attempt = policy.attempt_timeout_s or UNLIMITED
    idle = policy.idle_timeout_s or UNLIMITED
    return Timeouts(
        attempt=attempt,
        connect=policy.connect_timeout_s or attempt,
        first_byte=policy.first_byte_timeout_s or idle,
        first_token=policy.first_token_timeout_s or attempt,
        idle=idle,
        quiet=None if policy.first_token_timeout_s else policy.idle_timeout_s,
    )


def _retry(policy: written.Policy) -> RetryPolicy:
    return RetryPolicy(
        max_retries=policy.max_retries,
        backoff=policy.backoff_s,
        cap=policy.cap_s,
        jitter=policy.jitter,
        hint_jitter=policy.jitter,
        patience=policy.cap_s if policy.patience_s is None else policy.patience_s,
        wait_for_cooldown=policy.wait_for_cooldown,
        reserve=policy.reserve_per_remaining_candidate_s,
        failover_on=frozenset(kind_of(name) for name in policy.failover_on),
        schema_retries=policy.schema_retries,
        retry_timeouts=True,
    )


def _recovery(policy: written.Policy) -> RecoveryPolicy:
    breaker = policy.cooldown if isinstance(policy.cooldown, dict) else {}
    return RecoveryPolicy(
        quota=policy.quota_recovery_s,
        cooldowns=policy.cooldown == "retry_after",
        breaker={kind_of(name): seconds for name, seconds in breaker.items()},
    )


def from_settings(scenario: written.Scenario, settings: Settings) -> Blueprint:
    """Map the scenario's P1, P2 and so on to the user's providers, in order; policies and timeouts are the user's.

    Raises `ValueError` where the user has fewer providers or models than the scenario, or lacks a key that its script
    treats in a way of its own.
    """
    setup, mine = scenario.setup, _in_route_order(settings)
    if len(mine) < len(setup.providers):
        raise ValueError(f"needs {len(setup.providers)} providers, and the configuration has {len(mine)}")
    pairs = list(zip(setup.providers, mine, strict=False))
    return Blueprint(
        settings=replace(
            settings,
            providers=tuple(provider for _, provider in pairs),
            route=tuple(_candidate(pair, pairs) for pair in setup.route) or None,
        ),
        sites=[_mapped(given, provider, _keys_told_apart(given, scenario)) for given, provider in pairs],
    )


def key_names(setup: written.Setup, settings: Settings | None = None) -> dict[str, str]:
    """Return what reports call each key, by its label."""
    if settings is None:
        return {f"{each.name}#{number + 1}": key for each in setup.providers for number, key in enumerate(each.keys)}
    mine = _in_route_order(settings)[: len(setup.providers)]
    return {key.label: _numbered(number) for each in mine for number, key in enumerate(each.keys)}


def _numbered(number: int) -> str:
    return f"key-{number + 1}"


def _in_route_order(settings: Settings) -> list[Provider]:
    first = [candidate.provider for candidate in settings.route or ()]
    return sorted(settings.providers, key=lambda p: first.index(p.name) if p.name in first else len(first))


def _keys_told_apart(given: written.Provider, scenario: written.Scenario) -> int:
    """Return how many keys of *given* the script needs: up to the last one that it names."""
    matches = (each.match.split("/", 2) for each in scenario.upstream)
    named = [key for provider, key, _ in matches if provider == given.name and key in given.keys]
    return max((given.keys.index(key) + 1 for key in named), default=1)


def _mapped(given: written.Provider, mine: Provider, needed: int) -> Site:
    if len(mine.models) < len(given.models):
        raise ValueError(
            f"needs {len(given.models)} models at {mine.name}, and the configuration has {len(mine.models)}"
        )
    if len(mine.keys) < needed:
        raise ValueError(
            f"needs {needed} keys for {mine.name}, which its script tells apart, and the configuration has "
            f"{len(mine.keys)}: add keys, or rehearse something else"
        )
    keys = {key.reveal(): alias for key, alias in zip(mine.keys, _padded(given.keys, len(mine.keys)), strict=False)}
    models = dict(zip(mine.models.values(), given.models, strict=False))
    own = Site(
        name=mine.name,
        keys={key.reveal(): _numbered(number) for number, key in enumerate(mine.keys)},
        models={wire: name for name, wire in mine.models.items()},
    )
    return Site(name=given.name, keys=keys, models=models, rejects=given.rejects, pool_limit=given.pool_limit, own=own)


def _padded(keys: Sequence[str], count: int) -> list[str]:
    return [*keys, *(f"k{number + 1}" for number in range(len(keys), count))]


def _candidate(pair: Sequence[str], pairs: Sequence[tuple[written.Provider, Provider]]) -> Candidate:
    given, mine = next(each for each in pairs if each[0].name == pair[0])
    return Candidate(mine.name, list(mine.models)[given.models.index(pair[1])])
