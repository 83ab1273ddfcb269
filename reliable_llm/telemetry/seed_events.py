"""The seven log lines of CleverAgents' quota fallback, word for word, from our events.

    chat = FailoverChat([...], listeners=[QuotaFallbackLog()])
    await chat("...", tags={"plan_id": "p-1"})

| level | line | fields besides `plan_id` |
|---|---|---|
| WARNING | Quota error detected on primary provider | original_error |
| WARNING | Creating fallback LLM instance | |
| WARNING | Reusing cached fallback LLM instance | |
| WARNING | Fallback recovery successful | fallback_provider, fallback_model |
| ERROR | Fallback provider also failed | the same, fallback_error, fallback_error_type |
| DEBUG | Still in quota fallback mode | remaining (seconds) |
| INFO | Quota recovery interval elapsed, attempting primary | time_since_error (seconds) |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from reliable_llm.errors import ERROR_CLASSES
from reliable_llm.events import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    QuotaModeActive,
    QuotaModeEntered,
    QuotaProbe,
    QuotaRecovered,
)
from reliable_llm.telemetry.log import LOGGER

DETECTED: Final = "Quota error detected on primary provider"
CREATING: Final = "Creating fallback LLM instance"
REUSING: Final = "Reusing cached fallback LLM instance"
SUCCESSFUL: Final = "Fallback recovery successful"
ALSO_FAILED: Final = "Fallback provider also failed"
STILL: Final = "Still in quota fallback mode"
ELAPSED: Final = "Quota recovery interval elapsed, attempting primary"


class QuotaFallbackLog:
    """A listener for one coordinator. A primary is a provider in quota mode; a fallback is any other one meanwhile."""

    def __init__(self) -> None:
        self._logger = structlog.get_logger(LOGGER)
        self._primaries: set[str] = set()
        self._fallbacks: set[str] = set()

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        log = self._logger.bind(plan_id=tags.get("plan_id", ""))
        match event:
            case QuotaModeEntered():
                self._primaries.add(event.provider)
                log.warning(DETECTED, original_error=event.original_error)
            case QuotaModeActive():
                self._primaries.add(event.provider)
                log.debug(STILL, remaining=round(event.remaining, 1))
            case QuotaProbe():
                log.info(ELAPSED, time_since_error=round(event.time_since_error, 1))
            case QuotaRecovered():
                self._primaries.discard(event.provider)
            case AttemptSucceeded(provider=name) if name in self._primaries:
                self._primaries.discard(name)  # its rest has ended in another way: an answer about something else
            case AttemptStarted() if self._is_fallback(event.provider):
                log.warning(REUSING if event.provider in self._fallbacks else CREATING)
                self._fallbacks.add(event.provider)
            case AttemptSucceeded() if self._is_fallback(event.provider):
                log.warning(SUCCESSFUL, fallback_provider=event.provider, fallback_model=event.model)
            case AttemptFailed(retries_left=0) if self._is_fallback(event.provider):
                log.error(
                    ALSO_FAILED,
                    fallback_provider=event.provider,
                    fallback_model=event.model,
                    fallback_error=" ".join(str(word) for word in (event.kind, event.status, event.code) if word),
                    fallback_error_type=ERROR_CLASSES[event.kind].__name__,
                )
            case _:
                pass

    def _is_fallback(self, provider: str) -> bool:
        return bool(self._primaries) and provider not in self._primaries
