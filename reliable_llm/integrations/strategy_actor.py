"""A drop-in for `StrategyActor._execute_with_llm` and its quota fallback, with the same names, and its holes closed.

    class StrategyActor(StrategyActorMixin):
        def execute(self, plan): ...
            text = self._execute_with_llm(prompt, plan_id=plan.id)      # or: await self._execute_with_llm_async(...)

The constants are the seed's and are configuration: arguments win over the environment, the environment over a TOML
file, the file over these constants. What differs from the seed, and why, is in `examples/strategy_actor.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Final, Generic, NoReturn, TypeVar, overload

import structlog

from reliable_llm.adapters.base import Adapter
from reliable_llm.diagnosis import diagnose
from reliable_llm.errors import ConfigurationError, Kind, ReliableLLMError
from reliable_llm.integrations.quota_fallback import Parser, QuotaFallback
from reliable_llm.last_resort import is_outage
from reliable_llm.policy import check_number
from reliable_llm.tomlfile import read, refuse
from reliable_llm.types import ServedBy

T = TypeVar("T")

_FALLBACK_PROVIDER = "anthropic"
_FALLBACK_MODEL = "claude-sonnet-4-20250514"
_QUOTA_RECOVERY_INTERVAL = 300  # seconds

_TABLE: Final = "strategy_actor"
_PREFIX: Final = "RELIABLE_LLM_"


def _is_quota_error(exc: BaseException) -> bool:
    """Tell whether *exc* says that the primary is out of quota or over its rate: then the fallback is used.

    Known exceptions are judged by type, status and code. Only of untyped ones is the text read, for the seed's words.
    """
    return diagnose(exc).kind in (Kind.QUOTA_EXHAUSTED, Kind.RATE_LIMITED)


# ---------------------------------------------------------------- configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySettings:
    """Who answers, who stands in, and after how many seconds the primary is tried again."""

    primary_provider: str = "openai"
    primary_model: str = ""
    fallback_provider: str = field(default_factory=lambda: _FALLBACK_PROVIDER)
    fallback_model: str = field(default_factory=lambda: _FALLBACK_MODEL)
    quota_recovery_interval: float = field(default_factory=lambda: float(_QUOTA_RECOVERY_INTERVAL))

    def __post_init__(self) -> None:
        check_number("StrategySettings", "quota_recovery_interval", self.quota_recovery_interval, low=0.001)

    @classmethod
    def load(cls, path: str | None = None, *, environ: Mapping[str, str] = os.environ) -> StrategySettings:
        """Read the table `[strategy_actor]` of the TOML file at *path*, then `RELIABLE_LLM_PRIMARY_MODEL` and its like.

        The variables are the fields' names in capitals after `RELIABLE_LLM_`; they win over the file. Raises
        `ConfigurationError` naming the place.
        """
        base = cls() if path is None else _from_file(path, cls())
        given = {each.name: environ[_variable(each.name)] for each in fields(cls) if environ.get(_variable(each.name))}
        interval = given.pop("quota_recovery_interval", None)
        if interval is not None:
            base = replace(base, quota_recovery_interval=_number(interval))
        return replace(base, **given)  # type: ignore[arg-type]  # the rest are strings


def _from_file(path: str, base: StrategySettings) -> StrategySettings:
    top = read(path).table()
    if _TABLE not in top:
        refuse(path, f"has no [{_TABLE}] table")
    return top[_TABLE].onto(base)


def _variable(name: str) -> str:
    return _PREFIX + name.upper()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{_variable('quota_recovery_interval')} must be a number of seconds") from None


@cache
def _shared(settings: StrategySettings) -> QuotaFallback:
    """Return the one `QuotaFallback` of this process for *settings*: actors with the same key share what is known."""
    return QuotaFallback(settings)


# ---------------------------------------------------------------- the actor


@dataclass(frozen=True, slots=True)
class StrategyOutcome(Generic[T]):
    """What a plan got. `degraded` is true for the stub's value; `outage` is the error that it stands in for."""

    value: T
    served_by: ServedBy | None = None
    outage: ReliableLLMError | None = None

    @property
    def degraded(self) -> bool:
        return self.outage is not None


class StrategyActorMixin:
    """Gives a class `_execute_with_llm` and the state it kept. Configure it by `strategy_settings`, or by assigning
    `quota_fallback`; without either, the environment decides."""

    strategy_settings: StrategySettings | None = None
    _own_fallback: QuotaFallback | None = None

    @property
    def quota_fallback(self) -> QuotaFallback:
        """Primary and fallback: this actor's own if assigned, else the one that all actors of these settings share."""
        return self._own_fallback or _shared(self.strategy_settings or StrategySettings.load())

    @quota_fallback.setter
    def quota_fallback(self, llm: QuotaFallback) -> None:
        self._own_fallback = llm

    @property
    def _using_fallback(self) -> bool:
        return self.quota_fallback._using_fallback  # noqa: SLF001 - the seed's own name

    @property
    def _last_quota_error_time(self) -> float | None:
        return self.quota_fallback._last_quota_error_time  # noqa: SLF001 - the seed's own name

    @property
    def _fallback_llm(self) -> Adapter | None:
        return self.quota_fallback._fallback_llm  # noqa: SLF001 - the seed's own name

    @overload
    def _execute_with_llm(self, prompt: str, *, plan_id: str = ..., system: str | None = ...) -> str: ...
    @overload
    def _execute_with_llm(
        self, prompt: str, *, plan_id: str = ..., system: str | None = ..., parser: Parser[T]
    ) -> T: ...
    def _execute_with_llm(
        self, prompt: str, *, plan_id: str = "", system: str | None = None, parser: Parser[T] | None = None
    ) -> str | T:
        """Return the model's text, or *parser*'s tree. For synchronous code, a worker thread included."""
        text = self.quota_fallback.ask_sync(prompt, plan_id=plan_id, system=system).text
        return text if parser is None else parser(text)

    @overload
    async def _execute_with_llm_async(self, prompt: str, *, plan_id: str = ..., system: str | None = ...) -> str: ...
    @overload
    async def _execute_with_llm_async(
        self, prompt: str, *, plan_id: str = ..., system: str | None = ..., parser: Parser[T]
    ) -> T: ...
    async def _execute_with_llm_async(
        self, prompt: str, *, plan_id: str = "", system: str | None = None, parser: Parser[T] | None = None
    ) -> str | T:
        """The same for asynchronous code."""
        text = (await self.quota_fallback.ask(prompt, plan_id=plan_id, system=system)).text
        return text if parser is None else parser(text)

    def _execute_or_stub(
        self,
        prompt: str,
        *,
        stub: Callable[[], T],
        parser: Parser[T],
        plan_id: str = "",
        system: str | None = None,
    ) -> StrategyOutcome[T]:
        """Return the tree; after an outage *stub*'s (your `_execute_stub`), with the outage logged and in the outcome.

        Only an outage is stood in for: a request that would fail everywhere is raised.
        """
        try:
            reply = self.quota_fallback.ask_sync(prompt, plan_id=plan_id, system=system)
        except ReliableLLMError as error:
            return _stubbed(error, stub, plan_id)
        return StrategyOutcome(parser(reply.text), reply.served_by)

    async def _execute_or_stub_async(
        self,
        prompt: str,
        *,
        stub: Callable[[], T],
        parser: Parser[T],
        plan_id: str = "",
        system: str | None = None,
    ) -> StrategyOutcome[T]:
        """The same for asynchronous code."""
        try:
            reply = await self.quota_fallback.ask(prompt, plan_id=plan_id, system=system)
        except ReliableLLMError as error:
            return _stubbed(error, stub, plan_id)
        return StrategyOutcome(parser(reply.text), reply.served_by)


def _stubbed(error: ReliableLLMError, stub: Callable[[], T], plan_id: str) -> StrategyOutcome[T]:
    if not is_outage(error):
        raise error
    logger = structlog.get_logger("reliable_llm")
    logger.error("Deterministic stub used: every provider is down", plan_id=plan_id, kind=str(error.kind))
    return StrategyOutcome(stub(), outage=error)


# ---------------------------------------------------------------- end-to-end tests


class OutcomeUnverifiableError(AssertionError):
    """An end-to-end test met an outage: it can tell nothing, and says so by failing. Never skip on it."""


@contextmanager
def verifiable_outcome(what: str = "this test") -> Iterator[None]:
    """Turn an outage inside the block into `OutcomeUnverifiableError`; anything else passes as it is."""
    try:
        yield
    except ReliableLLMError as error:
        if not is_outage(error):
            raise
        _unverifiable(what, error)


def assert_verifiable(outcome: StrategyOutcome[T], what: str = "this test") -> T:
    """Return the outcome's value; raise `OutcomeUnverifiableError` where it is the stub's."""
    if outcome.outage is not None:
        _unverifiable(what, outcome.outage)
    return outcome.value


def _unverifiable(what: str, error: ReliableLLMError) -> NoReturn:
    raise OutcomeUnverifiableError(
        f"the outcome of {what} cannot be verified: no provider is available, so it was not tested. {error}"
    ) from error
