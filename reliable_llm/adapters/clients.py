"""Vendors' clients that the user built: checked, and built over our connections; see `reliable_llm.clients`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from reliable_llm.errors import ConfigurationError
from reliable_llm.vendors import vendor_from_base_url

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex

# The clouds that have an address of their own choice: told by the class.
_BY_CLASS: Final = (("Azure", "azure"), ("Foundry", "azure"), ("Bedrock", "bedrock"), ("Vertex", "vertex"))
_EXTRAS: Final = {"boto3": "bedrock", "botocore": "bedrock", "google": "vertex"}


def bedrock(
    region: str | None = None, *, profile: str | None = None, key: str | None = None
) -> Callable[[httpx2.AsyncClient], AsyncAnthropicBedrock]:
    """Return what builds a client for Claude on Amazon Bedrock; needs the extra `reliable-llm[bedrock]`.

    Without *key*, an API key of Bedrock's, the credentials are found as all AWS tools find them, those of *profile*
    first. Without *region* it is AWS_REGION or that of the profile.
    """

    def build(http: httpx2.AsyncClient) -> AsyncAnthropicBedrock:
        from anthropic import AsyncAnthropicBedrock

        return AsyncAnthropicBedrock(aws_region=region, aws_profile=profile, api_key=key, http_client=http)

    return build


def vertex(region: str, project: str) -> Callable[[httpx2.AsyncClient], AsyncAnthropicVertex]:
    """Return what builds a client for Claude on Google Vertex AI; needs the extra `reliable-llm[vertex]`.

    The credentials are Google's application default credentials. *region* may be "global".
    """

    def build(http: httpx2.AsyncClient) -> AsyncAnthropicVertex:
        from anthropic import AsyncAnthropicVertex

        return AsyncAnthropicVertex(region=region, project_id=project, http_client=http)

    return build


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
    found = vendor_from_base_url(str(getattr(client, "base_url", "")))
    if found != "unknown":
        return found
    return next((vendor for part, vendor in _BY_CLASS if part in type(client).__name__), None)


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


def is_set_up(failure: Exception) -> bool:
    """Tell whether an SDK's client found no credentials, region or project: it raises bare errors for that."""
    return type(failure) in (RuntimeError, ValueError) and "has been closed" not in str(failure)[:200]
