"""The vendors whose failures we can read, and where they are: data.

`resolve` is what `Provider.openai(vendor=...)` uses. The host of a base_url decides only where no vendor was named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

from reliable_llm.errors import ConfigurationError

Protocol = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor. `hosts` are endings of its host names; `key_env` is the variable its own tools read the key from."""

    name: str
    protocol: Protocol = "openai"
    base_url: str | None = None
    key_env: str | None = None
    base_url_env: str | None = None
    needs_key: bool = True
    hosts: tuple[str, ...] = ()


VENDORS: Final[Mapping[str, Vendor]] = MappingProxyType(
    {
        vendor.name: vendor
        for vendor in (
            Vendor(name="openai", key_env="OPENAI_API_KEY", base_url_env="OPENAI_BASE_URL", hosts=("api.openai.com",)),
            Vendor(
                name="anthropic",
                protocol="anthropic",
                key_env="ANTHROPIC_API_KEY",
                base_url_env="ANTHROPIC_BASE_URL",
                hosts=("api.anthropic.com",),
            ),
        )
    }
)


def vendor_from_base_url(base_url: str) -> str | None:
    """Return the vendor whose host *base_url* names, or None."""
    host = urlsplit(base_url).hostname or ""
    for vendor in VENDORS.values():
        if any(host == ending or host.endswith("." + ending) for ending in vendor.hosts):
            return vendor.name
    return None


def resolve(protocol: Protocol, *, vendor: str | None, base_url: str | None, provider: str) -> Vendor:
    """Return the vendor of a provider; raise `ConfigurationError` for a name that is not known."""
    name = vendor or (vendor_from_base_url(base_url) if base_url else None) or protocol
    if name not in VENDORS:
        raise ConfigurationError(
            f"vendor of provider {provider!r} must be one of {', '.join(sorted(VENDORS))}, got {name!r}"
        )
    return VENDORS[name]
