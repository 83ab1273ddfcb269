"""What is known about one failed attempt: facts only, no vendor objects, no judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The facts of one failed attempt.

    `vendor` comes from configuration, never from the text; `sdk` is "openai", "anthropic" or "gemini". `status` is the
    HTTP status, or None where there was no answer or the failure came inside a stream. `headers` have lower-case names.
    `body` is decoded JSON, or str, bytes or None. `message` is the vendor's message where the SDK has taken it out.
    `exceptions` are class names along the MRO, most specific first. `transport` is the cause of a transport failure:
    "dns", "tls", "refused", "reset", "connect", "connect_timeout", "read_timeout", "write_timeout", "pool", "protocol",
    "decoding", "redirects", "local_protocol", "unsupported_protocol", "invalid_url", "closed". `output_started` is True
    once output had reached the caller.
    """

    vendor: str
    sdk: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: object = field(default=None, repr=False)
    message: str = field(default="", repr=False)
    exceptions: tuple[str, ...] = ()
    transport: str | None = None
    output_started: bool = False
