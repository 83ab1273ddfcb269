"""Group Q: an account out of money is left alone for 300 s, then probed once. freezegun moves the timer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from freezegun import freeze_time

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.errors import InvalidRequestError, Kind, QuotaExhaustedError
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.provider import Provider
from tests.support import (
    CLAUDE,
    STEADY,
    Listening,
    ManualClock,
    Response,
    ScriptedAdapter,
    Vendor,
    anthropic_error,
    anthropic_ok,
    fails,
    openai_error,
    openai_ok,
    out_of_quota,
    provider,
    rate_limited,
)

if TYPE_CHECKING:
    from freezegun.api import FrozenDateTimeFactory

# No sleep is ever taken: frozen time does not pass while somebody waits for it.
NO_RETRIES = RetryPolicy(max_retries=0, jitter=0)


class Main:
    """The first seed's main job on the system's clock: OpenAI, and Claude when the money is spent."""

    def __init__(self, time: FrozenDateTimeFactory) -> None:
        self.time = time
        self.openai = Vendor(out_of_quota(), openai_ok())
        self.claude = Vendor(anthropic_ok())
        self.heard = Listening()
        self.chat = self.over()

    def over(self, *, keys: tuple[str, ...] = ("sk-openai-a",), recovery: RecoveryPolicy | None = None) -> FailoverChat:
        providers = [self.openai.openai(*keys), self.claude.anthropic()]
        return FailoverChat(providers, retry=NO_RETRIES, recovery=recovery, listeners=[self.heard])

    def answers(self, *answers: Response) -> None:
        self.openai = Vendor(*answers)
        self.chat = self.over()

    async def ask(self) -> str:
        return (await self.chat("hi")).served_by.provider

    @property
    def calls(self) -> tuple[int, int]:
        return len(self.openai.arrivals), len(self.claude.arrivals)


@pytest.fixture
async def main() -> AsyncIterator[Main]:
    # The SDKs' models take a frozen datetime for an unknown type: they are imported before time stands still.
    await FailoverChat([Vendor(openai_ok()).openai(), Vendor(anthropic_ok()).anthropic()]).warmup()
    with freeze_time("2026-01-01", real_asyncio=True) as time:
        yield Main(time)


async def test_q1_after_a_quota_error_the_primary_is_left_alone_for_300_seconds(main: Main) -> None:
    assert await main.ask() == "anthropic"
    for _ in range(3):
        main.time.tick(99.9)
        assert await main.ask() == "anthropic"
    assert main.calls == (1, 4)


async def test_q2_the_interval_is_300_seconds_by_default(main: Main) -> None:
    await main.ask()
    assert main.heard.of(events.QuotaModeEntered)[0].seconds == 300


async def test_q2_the_interval_is_a_setting(main: Main) -> None:
    main.chat = main.over(recovery=RecoveryPolicy(quota=60))
    await main.ask()
    main.time.tick(59.9)
    assert await main.ask() == "anthropic"
    main.time.tick(0.2)
    assert await main.ask() == "openai"


async def test_q2_a_reset_time_of_the_server_extends_it(main: Main) -> None:
    main.answers(out_of_quota(retry_after="1800"), openai_ok())
    await main.ask()
    main.time.tick(1_799)
    assert await main.ask() == "anthropic"
    main.time.tick(1)
    assert await main.ask() == "openai"


async def test_q2_no_more_than_a_day_is_believed(main: Main) -> None:
    main.answers(out_of_quota(retry_after="8640000"), openai_ok())
    await main.ask()
    main.time.tick(86_400)
    assert await main.ask() == "openai"


async def test_q3_at_300_seconds_the_primary_is_asked_first_and_stays(main: Main) -> None:
    await main.ask()
    main.time.tick(300)
    assert [await main.ask(), await main.ask()] == ["openai", "openai"]
    assert main.calls == (3, 1)


async def test_q4_of_fifty_calls_at_the_same_moment_one_probes(main: Main) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(request: object) -> object:
        asked.set()
        await go_on.wait()
        return openai_ok()

    main.answers(out_of_quota(), slowly)
    await main.ask()
    main.time.tick(300)
    calls = [asyncio.create_task(main.ask()) for _ in range(50)]
    await asked.wait()
    served = [await call for call in asyncio.as_completed(calls[1:])]
    assert (served, main.calls) == (["anthropic"] * 49, (2, 50))
    go_on.set()
    assert await calls[0] == "openai"


async def test_q4_after_the_probe_has_succeeded_everybody_is_back(main: Main) -> None:
    await main.ask()
    main.time.tick(300)
    await main.ask()
    assert await asyncio.gather(*(main.ask() for _ in range(10))) == ["openai"] * 10


async def test_q5_a_probe_that_meets_the_same_error_parks_it_for_300_seconds_more(main: Main) -> None:
    main.answers(out_of_quota(), out_of_quota(), openai_ok())
    await main.ask()
    main.time.tick(310)
    assert await main.ask() == "anthropic"
    main.time.tick(299)
    assert await main.ask() == "anthropic"
    main.time.tick(1)
    assert await main.ask() == "openai"
    assert main.calls == (3, 3)


async def test_q6_a_probe_that_proves_nothing_leaves_the_park_and_the_caller_gets_an_answer(main: Main) -> None:
    main.answers(out_of_quota(), openai_error(500), openai_ok())
    await main.ask()
    main.time.tick(300)
    assert await main.ask() == "anthropic"
    assert await main.ask() == "anthropic"
    assert main.calls == (2, 3)
    main.time.tick(300)
    assert await main.ask() == "openai"


async def test_q6_a_probe_that_meets_another_answer_ends_the_park(main: Main) -> None:
    main.answers(out_of_quota(), openai_error(400, "messages: wrong"), openai_ok())
    await main.ask()
    main.time.tick(300)
    with pytest.raises(InvalidRequestError):
        await main.ask()
    assert await main.ask() == "openai"


async def test_q7_when_both_fail_the_primarys_quota_error_is_raised_and_holds_both(main: Main) -> None:
    main.claude = Vendor(anthropic_error(500, "api_error"))
    main.chat = main.over()
    with pytest.raises(QuotaExhaustedError) as raised:
        await main.ask()
    assert [(attempt.provider, attempt.kind) for attempt in raised.value.attempts] == [
        ("openai", Kind.QUOTA_EXHAUSTED),
        ("anthropic", Kind.SERVER_ERROR),
    ]
    assert type(raised.value.__cause__).__name__ == "RateLimitError"


async def test_q7_when_the_primary_was_parked_its_stored_error_is_raised(main: Main) -> None:
    await main.ask()
    main.claude.on(CLAUDE, anthropic_error(500, "api_error"))
    with pytest.raises(QuotaExhaustedError) as raised:
        await main.ask()
    error = raised.value
    assert (error.provider, error.status, error.code, error.retry_after) == ("openai", 429, "insufficient_quota", 300)
    assert [attempt.kind for attempt in error.attempts] == [Kind.SERVER_ERROR]
    assert main.calls[0] == 1


async def test_q8_the_fallback_is_built_when_first_needed_and_once(main: Main) -> None:
    built: list[str] = []
    claude = ScriptedAdapter("hello", vendor="anthropic")

    class Counting(Provider):
        def adapter(self, clock: object) -> ScriptedAdapter:
            built.append(self.name)
            return claude

    keys = main.claude.anthropic().keys
    second = Counting(name="anthropic", vendor="anthropic", api="messages", models={CLAUDE: CLAUDE}, keys=keys)
    main.openai = Vendor(openai_ok(), out_of_quota())
    main.chat = FailoverChat([main.openai.openai(), second], retry=NO_RETRIES)
    await main.ask()
    assert built == []
    assert [await main.ask(), await main.ask()] == ["anthropic", "anthropic"]
    assert built == ["anthropic"]


async def test_q8_with_no_key_for_the_fallback_the_quota_error_is_raised(main: Main) -> None:
    main.chat = FailoverChat([main.openai.openai(), Provider.anthropic(models=[CLAUDE])], retry=NO_RETRIES)
    with pytest.raises(QuotaExhaustedError):
        await main.ask()


async def test_q9_a_plain_429_does_not_start_the_timer(main: Main) -> None:
    main.answers(rate_limited(retry_after="20"), openai_ok())
    assert await main.ask() == "anthropic"
    main.time.tick(20)
    assert await main.ask() == "openai"
    assert main.heard.of(events.QuotaModeEntered) == []


# ---------------------------------------------------------------- must-show 4


async def test_ten_calls_with_a_spent_primary_ask_it_once_and_never_sleep() -> None:
    first, second = ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED)), ScriptedAdapter()
    chat = FailoverChat([provider("first", first), provider("second", second)])
    for _ in range(10):
        await chat("hi")
    assert (len(first.sent), len(second.sent)) == (1, 10)


async def test_ten_calls_with_a_refused_key_ask_it_once() -> None:
    first, second = ScriptedAdapter(fails(Kind.AUTHENTICATION)), ScriptedAdapter()
    chat = FailoverChat([provider("first", first), provider("second", second)])
    for _ in range(10):
        await chat("hi")
    assert (len(first.sent), len(second.sent)) == (1, 10)


async def test_ten_calls_with_a_server_that_is_down_ask_it_three_times() -> None:
    first, second = ScriptedAdapter(fails(Kind.SERVER_ERROR)), ScriptedAdapter()
    pair = [provider("first", first), provider("second", second)]
    clock = ManualClock()
    chat = FailoverChat(pair, retry=STEADY, clock=clock)
    for _ in range(10):
        await chat("hi")
    assert (len(first.sent), len(second.sent), clock.slept) == (3, 10, [0.5, 1])
