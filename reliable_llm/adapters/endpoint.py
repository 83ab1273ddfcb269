"""What one endpoint's failures mean: every adapter reads them with its provider's vendor, rules and clock."""

from __future__ import annotations

from collections.abc import Mapping

from reliable_llm.adapters.base import AdapterSettings
from reliable_llm.adapters.failures import error_from_body, error_from_exception
from reliable_llm.errors import ReliableLLMError


class Endpoint:
    """Tells what came instead of an answer. *sdk* names the client, *request_ids* the headers with the request's id."""

    def __init__(self, settings: AdapterSettings, sdk: str, request_ids: tuple[str, ...]) -> None:
        self._settings = settings
        self._sdk = sdk
        self._request_ids = request_ids

    def request_id(self, headers: Mapping[str, str]) -> str | None:
        """Return the vendor's id of a request."""
        return next((headers[name] for name in self._request_ids if headers.get(name)), None)

    def failure(self, exc: Exception) -> ReliableLLMError:
        """Return the error for *exc*, raised by the vendor's client or by the transport."""
        settings = self._settings
        return error_from_exception(
            exc, vendor=settings.vendor, sdk=self._sdk, rules=settings.rules, wall=settings.clock.time()
        )

    def refusal(self, body: object, status: int | None, headers: Mapping[str, str]) -> ReliableLLMError:
        """Return the error for *body*, which came where an answer was due; *status* None for an event of a stream."""
        settings = self._settings
        error = error_from_body(
            body,
            status=status,
            headers=headers,
            vendor=settings.vendor,
            sdk=self._sdk,
            rules=settings.rules,
            wall=settings.clock.time(),
        )
        error.request_id = error.request_id or self.request_id(headers)
        return error
