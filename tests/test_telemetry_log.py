"""Events as structlog lines; structlog is never configured by us."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import Kind
from reliable_llm.telemetry.log import EventLog
from tests.support import STEADY, ManualClock, ScriptedAdapter, fails, provider


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Leave structlog as it was found."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def chat_of(*script: Any) -> FailoverChat:
    providers = [provider("a", ScriptedAdapter(*script)), provider("b", ScriptedAdapter(vendor="anthropic"))]
    return FailoverChat(providers, retry=STEADY, clock=ManualClock())


class Lines:
    """A logger that keeps what would be printed."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def processor(self, logger: object, method: str, line: dict[str, Any]) -> Any:
        self.kept.append(line)
        raise structlog.DropEvent

    @property
    def names(self) -> list[str]:
        return [line["event"] for line in self.kept]


def configured(level: int) -> Lines:
    lines = Lines()
    wrapper = structlog.make_filtering_bound_logger(level)
    structlog.configure(processors=[lines.processor], wrapper_class=wrapper, cache_logger_on_first_use=False)
    return lines


async def test_a_line_holds_the_events_name_its_fields_and_the_callers_tags() -> None:
    with capture_logs() as lines:
        await chat_of(fails(Kind.QUOTA_EXHAUSTED))("hi", tags={"plan_id": "p1"})
    moved = next(line for line in lines if line["event"] == "failover")
    assert moved == {
        "event": "failover",
        "log_level": "warning",
        "from_": "a/m1",
        "to": "b/m1",
        "reason": "quota_exhausted",
        "plan_id": "p1",
    }


async def test_kinds_are_written_as_plain_text() -> None:
    with capture_logs() as lines:
        await chat_of(fails(Kind.QUOTA_EXHAUSTED))("hi")
    values = [value for line in lines for value in line.values()]
    assert {type(value) for value in values} <= {str, int, float, bool, type(None)}


async def test_every_event_is_written_at_its_level() -> None:
    lines = configured(logging.DEBUG)
    await chat_of(fails(Kind.SERVER_ERROR), "hello")("hi")
    assert lines.names == [
        "attempt_started",
        "attempt_failed",
        "retry_scheduled",
        "attempt_started",
        "attempt_succeeded",
    ]


async def test_the_applications_level_counts() -> None:
    lines = configured(logging.INFO)
    await chat_of(fails(Kind.SERVER_ERROR), "hello")("hi")
    assert lines.names == ["attempt_failed", "retry_scheduled"]


async def test_a_healthy_call_writes_nothing_at_info() -> None:
    lines = configured(logging.INFO)
    await chat_of()("hi")
    assert lines.names == []


async def test_without_any_configuration_only_warnings_and_errors_are_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await chat_of(fails(Kind.SERVER_ERROR), fails(Kind.QUOTA_EXHAUSTED))("hi")
    written = capsys.readouterr().err
    assert "attempt_failed" not in written
    assert "failover" in written


@pytest.mark.parametrize(("level", "written"), [(events.DEBUG, False), (events.INFO, False), (events.WARNING, True)])
def test_what_would_be_written_is_known_beforehand(level: int, written: bool) -> None:
    assert EventLog().wants(level) is written


def test_a_level_that_is_set_later_counts_from_then_on() -> None:
    log = EventLog()
    configured(logging.CRITICAL)
    before = log.wants(events.INFO)
    configured(logging.INFO)
    assert (before, log.wants(events.INFO)) == (False, True)


def test_a_logger_that_does_not_tell_its_level_gets_everything() -> None:
    structlog.configure(wrapper_class=structlog.BoundLogger)
    assert EventLog().wants(events.DEBUG)


@pytest.mark.parametrize("wrapper", [structlog.BoundLogger, structlog.make_filtering_bound_logger(logging.DEBUG)])
async def test_whichever_logger_the_application_has_chosen_the_call_answers(wrapper: type) -> None:
    structlog.configure(wrapper_class=wrapper)
    assert (await chat_of(fails(Kind.QUOTA_EXHAUSTED))("hi")).served_by.provider == "b"


async def test_the_standard_librarys_logging_works_too(caplog: pytest.LogCaptureFixture) -> None:
    structlog.configure(
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    )
    with caplog.at_level(logging.INFO, logger="reliable_llm"):
        await chat_of(fails(Kind.QUOTA_EXHAUSTED))("hi")
    assert [record.message for record in caplog.records] == [
        "attempt_failed",
        "key_parked",
        "quota_mode_entered",
        "failover",
    ]


@pytest.mark.parametrize("name", ["event", "self", "exc_info", "stack_info", "level", "method_name"])
async def test_a_tag_may_have_any_name(name: str) -> None:
    lines = configured(logging.DEBUG)
    await chat_of()("hi", tags={name: "mine"})
    assert all("mine" in line.values() for line in lines.kept)


async def test_the_library_does_not_configure_structlog() -> None:
    await chat_of(fails(Kind.SERVER_ERROR))("hi")
    assert not structlog.is_configured()


def test_every_event_has_a_name_of_its_own_and_a_level() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    named = [kind for kind in kinds if kind is not events.Event and kind is not events.ToolSkipped]
    names = [kind.event for kind in named]
    assert len(set(names)) == len(names)
    assert {kind.level for kind in named} <= {events.DEBUG, events.INFO, events.WARNING, events.ERROR}
