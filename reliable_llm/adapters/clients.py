"""Vendors' clients that the user built: checked, and built over our connections; see `reliable_llm.clients`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from reliable_llm.credentials import Credential
from reliable_llm.errors import AuthenticationError, ConfigurationError, ReliableLLMError
from reliable_llm.vendors import vendor_from_base_url

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex

# Told by the class: the address may be a proxy's. Anthropic's own platform on AWS answers as Anthropic does.
_BY_CLASS: Final = (
    ("AnthropicAWS", "anthropic"),
    ("Azure", "azure"),
    ("Foundry", "azure"),
    ("Bedrock", "bedrock"),
    ("Vertex", "vertex"),
)
_EXTRAS: Final = {"boto3": "bedrock", "botocore": "bedrock", "google": "vertex"}


class OnBedrock:
    """Builds a client for Claude on Amazon Bedrock; see `bedrock`."""

    vendor: Final = "bedrock"

    def __init__(self, region: str | None, profile: str | None, key: Credential | None) -> None:
        self._region = region
        self._profile = profile
        self._key = key

    def __call__(self, http: httpx2.AsyncClient) -> AsyncAnthropicBedrock:
        """Return the client, over the connections of *http*."""
        from anthropic import AsyncAnthropicBedrock

        return AsyncAnthropicBedrock(
            aws_region=self._region,
            aws_profile=self._profile,
            api_key=self._key.reveal() if self._key else None,
            http_client=http,
        )


class OnVertex:
    """Builds a client for Claude on Google Vertex AI; see `vertex`."""

    vendor: Final = "vertex"

    def __init__(self, region: str, project: str) -> None:
        self._region = region
        self._project = project

    def __call__(self, http: httpx2.AsyncClient) -> AsyncAnthropicVertex:
        """Return the client, over the connections of *http*."""
        from anthropic import AsyncAnthropicVertex

        return AsyncAnthropicVertex(region=self._region, project_id=self._project, http_client=http)


def bedrock(region: str | None = None, *, profile: str | None = None, key: str | None = None) -> OnBedrock:
    """Return what builds a client for Claude on Amazon Bedrock; needs the extra `reliable-llm[bedrock]`.

    Without *key*, an API key of Bedrock's, the credentials are found as all AWS tools find them, those of *profile*
    first. Without *region* it is AWS_REGION or that of the profile.
    """
    return OnBedrock(region, profile, None if key is None else Credential(key, label="of bedrock"))


def vertex(region: str, project: str) -> OnVertex:
    """Return what builds a client for Claude on Google Vertex AI; needs the extra `reliable-llm[vertex]`.

    The credentials are Google's application default credentials. *region* may be "global".
    """
    return OnVertex(region, project)


def checked(provider: str, sdk: str, given: Iterable[object]) -> tuple[object, ...]:
    """Return *given* as a tuple; refuse what is no asynchronous client of *sdk* and no function that builds one."""
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"clients of provider {provider!r} must be a list: write clients=[...]")
    clients = tuple(given)
    if not clients:
        raise ConfigurationError(f"clients of provider {provider!r} are none: name at least one, or leave it out")
    for client in clients:
        if not callable(client):
            _check(provider, sdk, client)
    if len(set(map(id, clients))) < len(clients):
        raise ConfigurationError(f"clients of provider {provider!r} name one client twice: list each once")
    return clients


def _check(provider: str, sdk: str, client: object) -> None:
    kind = type(client).__name__
    if sdk not in {cls.__module__.partition(".")[0] for cls in type(client).__mro__}:
        raise ConfigurationError(f"clients of provider {provider!r} must be clients of the {sdk} package, got {kind}")
    if not inspect.iscoroutinefunction(getattr(client, "post", None)):
        raise ConfigurationError(f"client {kind} of provider {provider!r} blocks: build Async{kind} instead")


def vendor_of(client: object) -> str | None:
    """Return the vendor that *client* talks to, None where nothing tells: then it is the package's own."""
    known = getattr(client, "vendor", None) or next((v for part, v in _BY_CLASS if part in type(client).__name__), None)
    if known is not None:
        return str(known)
    found = vendor_from_base_url(str(getattr(client, "base_url", "")))
    return None if found == "unknown" else found


def base_url_of(client: object) -> str | None:
    """Return the address that *client* was built with."""
    return str(client.base_url) if hasattr(client, "base_url") else None


def built(clients: tuple[object, ...], http: httpx2.AsyncClient, sdk: str) -> Iterator[object]:
    """Yield the clients themselves; *http* is for those that are yet to be built."""
    for client in clients:
        if not callable(client):
            yield client
            continue
        try:
            made = client(http)
        except ImportError as missing:
            raise missing_extra(missing) from missing
        except ValueError as wrong:  # the SDKs' own word for a missing region
            raise ConfigurationError("a client of this provider could not be built: see the cause") from wrong
        _check("of this function", sdk, made)
        yield made


def missing_extra(missing: ImportError) -> ConfigurationError:
    """Return the error for a package that a cloud's client needs and that is not installed."""
    package = (missing.name or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    remedy = f"pip install 'reliable-llm[{extra}]'" if extra else "install it"
    return ConfigurationError(f"this provider's client needs {package or 'a package that is not installed'}: {remedy}")


def failure_of_set_up(failure: Exception) -> ReliableLLMError | None:
    """Return the error for a client that lacks a package, credentials, a region or a project; None for all else.

    The SDKs raise bare errors for what is missing.
    """
    if isinstance(failure, ImportError):
        return missing_extra(failure)
    if type(failure) in (RuntimeError, ValueError) and "has been closed" not in str(failure)[:200]:
        return AuthenticationError("the client of this provider has no credentials: see the cause")
    return None
