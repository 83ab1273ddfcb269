"""Keys kept out of what Anthropic's SDK logs at DEBUG. OpenAI's has such a filter of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

_HOLD_KEYS: Final = frozenset({"authorization", "x-api-key"})


class _WithoutKeys(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the headers of a request's options; let every record pass."""
        options = record.args
        if isinstance(options, Mapping) and isinstance(headers := options.get("headers"), Mapping):
            shown = {name: "<redacted>" if str(name).lower() in _HOLD_KEYS else headers[name] for name in headers}
            record.args = {**options, "headers": shown}
        return True


_FILTER: Final = _WithoutKeys()


def hide_keys() -> None:
    """Put the filter in place; once is enough."""
    logging.getLogger("anthropic._base_client").addFilter(_FILTER)
