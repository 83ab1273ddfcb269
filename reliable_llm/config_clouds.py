"""Claude on Amazon Bedrock and on Google Vertex AI, from the environment or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reliable_llm.adapters.clients import OnBedrock, OnVertex, bedrock, vertex
from reliable_llm.tomlfile import Node, refuse

# What says where a cloud's client signs its requests, by vendor.
_SIGNING: Final[Mapping[str, tuple[str, ...]]] = {"bedrock": ("region", "profile"), "vertex": ("region", "project")}
_VERTEX_VARIABLES: Final = ("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID")


def is_signed(vendor: str) -> bool:
    """Tell whether requests to *vendor* are signed by a client of its own."""
    return vendor in _SIGNING


def clients_from_env(
    environ: Mapping[str, str], vendor: str, keys: tuple[str, ...]
) -> list[OnBedrock] | list[OnVertex]:
    """Return what builds the clients; the variables are those that the clouds' own tools read."""
    if vendor == "bedrock":
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
        return [bedrock(region, key=key) for key in keys] if keys else [bedrock(region)]
    region, project = (environ.get(name, "") for name in _VERTEX_VARIABLES)
    if not region or not project:
        refuse(" and ".join(_VERTEX_VARIABLES), f"not set, and {vendor} needs both: set them, or VERTEX_BASE_URL")
    return [vertex(region, project)]


def signing_fields(given: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the fields that a provider's table may have besides those of every provider."""
    if "vendor" not in given or given["kind"].text() != "anthropic":
        return ()
    return _SIGNING.get(given["vendor"].text(), ())


def clients_from_file(
    node: Node, given: Mapping[str, Node], keys: list[str] | None
) -> list[OnBedrock] | list[OnVertex]:
    """Return what builds the clients of a table: one for each of Bedrock's API keys, or one that signs."""
    vendor = given["vendor"].text()
    told = {name: given[name].text() for name in _SIGNING[vendor] if name in given}
    if vendor == "bedrock":
        return [bedrock(**told, key=key) for key in keys] if keys else [bedrock(**told)]
    if keys is not None:
        node.refuse("takes no keys: Vertex signs in with Google's application default credentials")
    for name in _SIGNING[vendor]:
        if name not in told:
            node.refuse(f"has no {name}: add {name} = ..., or the base_url of a gateway")
    return [vertex(**told)]
