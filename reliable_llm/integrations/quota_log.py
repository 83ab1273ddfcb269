"""The seven log lines of StrategyActor's quota fallback, word for word, at their levels, each with `plan_id`."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from reliable_llm.events import Event, QuotaModeActive, QuotaModeEntered, QuotaProbe
from reliable_llm.telemetry.log import LOGGER
from reliable_llm.telemetry.seed_events import ALSO_FAILED, CREATING, DETECTED, ELAPSED, REUSING, STILL, SUCCESSFUL
from reliable_llm.types import Candidate


class QuotaLog:
    """Writes them: three as a listener of the coordinator, four when it is told."""

    def __init__(self, primary: str) -> None:
        self._primary = primary
        self._logger = structlog.get_logger(LOGGER)

    def __call__(self, event: Event, tags: Mapping[str, str], /) -> None:
        plan_id = tags.get("plan_id", "")
        match event:
            case QuotaModeEntered(provider=self._primary):
                self._logger.warning(DETECTED, plan_id=plan_id, original_error=event.original_error)
            case QuotaModeActive(provider=self._primary):
                self._logger.debug(STILL, plan_id=plan_id, remaining=round(event.remaining, 1))
            case QuotaProbe(provider=self._primary):
                self._logger.info(ELAPSED, plan_id=plan_id, time_since_error=round(event.time_since_error, 1))
            case _:
                pass

    def fallback_used(self, plan_id: str, *, cached: bool) -> None:
        self._logger.warning(REUSING if cached else CREATING, plan_id=plan_id)

    def fallback_answered(self, plan_id: str, fallback: Candidate) -> None:
        self._logger.warning(
            SUCCESSFUL, plan_id=plan_id, fallback_provider=fallback.provider, fallback_model=fallback.model
        )

    def fallback_failed(self, plan_id: str, fallback: Candidate, error: Exception) -> None:
        self._logger.error(
            ALSO_FAILED,
            plan_id=plan_id,
            fallback_provider=fallback.provider,
            fallback_model=fallback.model,
            fallback_error=str(error),
            fallback_error_type=type(error).__name__,
        )
