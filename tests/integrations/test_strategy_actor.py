"""The StrategyActor drop-in: the seed's behaviour, and its holes H1 to H10 closed, by name."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from reliable_llm import (
    ConfigurationError,
    InvalidRequestError,
    Kind,
    Provider,
    QuotaExhaustedError,
    ReliableLLMError,
    RetryPolicy,
)
from reliable_llm.integrations import strategy_actor
from reliable_llm.integrations.quota_fallback import QuotaFallback
from reliable_llm.integrations.strategy_actor import (
    OutcomeUnverifiableError,
    StrategyActorMixin,
    StrategySettings,
    _is_quota_error,
    assert_verifiable,
    verifiable_outcome,
)
from tests.support import (
    CLAUDE,
    GPT,
    STEADY,
    Fails,
    ManualClock,
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

SETTINGS = StrategySettings(primary_model=GPT)


class Pair:
    """A primary and a fallback behind the real SDKs, and the drop-in over both."""

    def __init__(self, *primary: Any, fallback: Any = None, retry: RetryPolicy = STEADY) -> None:
        self.clock = ManualClock()
        self.openai = Vendor(*(primary or (openai_ok(),)))
        self.anthropic = Vendor(*(fallback or (anthropic_ok(),)))
        self.llm = QuotaFallback(
            SETTINGS,
            primary=self.openai.openai(),
            fallback=self.anthropic.anthropic(models=[SETTINGS.fallback_model]),
            retry=retry,
            clock=self.clock,
        )

    @property
    def asked(self) -> tuple[int, int]:
        """How many requests the primary and the fallback have got."""
        return len(self.openai.arrivals), len(self.anthropic.arrivals)


def scripted(primary: ScriptedAdapter, fallback: ScriptedAdapter, clock: ManualClock | None = None) -> QuotaFallback:
    return QuotaFallback(
        SETTINGS,
        primary=provider("openai", primary),
        fallback=provider("anthropic", fallback),
        clock=clock or ManualClock(),
        retry=STEADY,
    )


# ---------------------------------------------------------------- the seed's behaviour


def test_the_constants_are_the_seeds() -> None:
    constants = (
        strategy_actor._FALLBACK_PROVIDER,
        strategy_actor._FALLBACK_MODEL,
        strategy_actor._QUOTA_RECOVERY_INTERVAL,
    )

    assert constants == ("anthropic", "claude-sonnet-4-20250514", 300)


async def test_a_healthy_primary_answers_and_the_fallback_is_not_even_built() -> None:
    pair = Pair()

    assert await pair.llm("plan", plan_id="p1") == "hello from gpt"
    assert (pair.asked, pair.llm._fallback_llm, pair.llm._using_fallback) == ((1, 0), None, False)


async def test_a_quota_error_is_answered_by_the_fallback() -> None:
    pair = Pair(out_of_quota())

    assert await pair.llm("plan") == "hello from claude"
    assert pair.llm._using_fallback is True
    assert pair.llm._last_quota_error_time == pair.clock.time()
    assert pair.anthropic.models == [SETTINGS.fallback_model]


async def test_the_fallback_is_built_once_and_kept() -> None:
    pair = Pair(out_of_quota())
    await pair.llm("plan")
    built = pair.llm._fallback_llm
    await pair.llm("plan")

    assert built is not None
    assert pair.llm._fallback_llm is built


async def test_in_fallback_mode_the_primary_is_not_called() -> None:
    pair = Pair(out_of_quota())
    await pair.llm("plan")
    pair.clock.advance(299.9)
    await pair.llm("plan")

    assert pair.asked == (1, 2)


async def test_after_the_interval_the_primary_is_tried_and_its_answer_ends_fallback_mode() -> None:
    pair = Pair(out_of_quota(), openai_ok())
    await pair.llm("plan")
    pair.clock.advance(300)

    assert await pair.llm("plan") == "hello from gpt"
    assert (pair.asked, pair.llm._using_fallback) == ((2, 1), False)


async def test_a_further_quota_error_starts_the_interval_anew() -> None:
    pair = Pair(out_of_quota())
    await pair.llm("plan")
    pair.clock.advance(300)
    await pair.llm("plan")
    again = pair.llm._last_quota_error_time
    pair.clock.advance(299)
    await pair.llm("plan")

    assert again == pair.clock.time() - 299
    assert pair.asked == (2, 3)


async def test_with_both_down_the_primarys_quota_error_is_raised_from_the_fallbacks() -> None:
    pair = Pair(out_of_quota(), fallback=(anthropic_error(401, "authentication_error"),))

    with pytest.raises(QuotaExhaustedError) as raised:
        await pair.llm("plan")

    cause = raised.value.__cause__
    assert isinstance(cause, ReliableLLMError)
    assert (cause.kind, cause.provider) == (Kind.AUTHENTICATION, "anthropic")
    assert isinstance(cause.__cause__, anthropic.AuthenticationError)


async def test_the_vendors_own_exception_of_the_primary_stays_reachable() -> None:
    pair = Pair(out_of_quota(), fallback=(anthropic_error(401, "authentication_error"),))

    with pytest.raises(QuotaExhaustedError) as raised:
        await pair.llm("plan")

    assert isinstance(raised.value.__context__, openai.RateLimitError)


async def test_without_a_key_for_the_fallback_the_primarys_quota_error_is_raised() -> None:
    llm = QuotaFallback(
        SETTINGS, primary=Vendor(out_of_quota()).openai(), fallback=Provider.anthropic(models=[CLAUDE]), retry=STEADY
    )

    with pytest.raises(QuotaExhaustedError) as raised:
        await llm("plan")

    assert "ANTHROPIC_API_KEY" in str(raised.value.__cause__)


async def test_a_parser_makes_the_tree() -> None:
    assert await Pair(openai_ok("a,b")).llm("plan", parser=lambda text: text.split(",")) == ["a", "b"]


async def test_what_the_parser_raises_passes() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await Pair(openai_ok("no number")).llm("plan", parser=int)


async def test_a_bad_request_is_raised_and_does_not_reach_the_fallback() -> None:
    pair = Pair(openai_error(400, "messages must not be empty", code="invalid_request", type="invalid_request_error"))

    with pytest.raises(InvalidRequestError):
        await pair.llm("plan")

    assert pair.asked == (1, 0)


# ---------------------------------------------------------------- the seven log lines


def lines_of(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return level and words of the seed's lines, which are the ones in words."""
    return [(line["log_level"], line["event"]) for line in lines if " " in line["event"]]


async def test_the_fallbacks_lines_come_at_their_levels_in_order(caplog_structlog: list[dict[str, Any]]) -> None:
    pair = Pair(out_of_quota(), openai_ok())
    await pair.llm("plan", plan_id="p1")
    await pair.llm("plan", plan_id="p1")
    pair.clock.advance(300)
    await pair.llm("plan", plan_id="p1")

    assert lines_of(caplog_structlog) == [
        ("warning", "Quota error detected on primary provider"),
        ("warning", "Creating fallback LLM instance"),
        ("warning", "Fallback recovery successful"),
        ("debug", "Still in quota fallback mode"),
        ("warning", "Reusing cached fallback LLM instance"),
        ("warning", "Fallback recovery successful"),
        ("info", "Quota recovery interval elapsed, attempting primary"),
    ]


async def test_the_lines_carry_the_plan_and_their_fields(caplog_structlog: list[dict[str, Any]]) -> None:
    pair = Pair(out_of_quota(), openai_ok())
    await pair.llm("plan", plan_id="p1")
    pair.clock.advance(100)
    await pair.llm("plan", plan_id="p1")
    pair.clock.advance(200)
    await pair.llm("plan", plan_id="p1")

    said = {line["event"]: line for line in caplog_structlog if " " in line["event"]}
    assert {line["plan_id"] for line in said.values()} == {"p1"}
    assert "insufficient_quota" in said["Quota error detected on primary provider"]["original_error"]
    answered = said["Fallback recovery successful"]
    assert (answered["fallback_provider"], answered["fallback_model"]) == ("anthropic", SETTINGS.fallback_model)
    assert said["Still in quota fallback mode"]["remaining"] == 200
    assert said["Quota recovery interval elapsed, attempting primary"]["time_since_error"] == 300


async def test_with_both_down_an_error_line_tells_how_the_fallback_failed(
    caplog_structlog: list[dict[str, Any]],
) -> None:
    with pytest.raises(QuotaExhaustedError):
        await down().llm("plan", plan_id="p2")

    line = next(line for line in caplog_structlog if line["event"] == "Fallback provider also failed")
    assert (line["log_level"], line["plan_id"], line["fallback_provider"]) == ("error", "p2", "anthropic")
    assert (line["fallback_model"], line["fallback_error_type"]) == (SETTINGS.fallback_model, "AuthenticationError")
    assert line["fallback_error"]


async def test_the_lines_hold_neither_prompt_nor_key(caplog_structlog: list[dict[str, Any]]) -> None:
    pair = Pair(out_of_quota(), fallback=(anthropic_error(401, "authentication_error", "bad key sk-ant-a: my secret"),))

    with pytest.raises(QuotaExhaustedError):
        await pair.llm("my secret plan", plan_id="p3")

    assert "secret" not in str(caplog_structlog)
    assert "sk-" not in str(caplog_structlog)


# ---------------------------------------------------------------- synchronous code


def test_synchronous_code_can_call_it() -> None:
    pair = Pair(out_of_quota())
    try:
        assert pair.llm.call("plan", parser=str.upper) == "HELLO FROM CLAUDE"
        assert pair.llm.call("plan") == "hello from claude"
    finally:
        pair.llm.close()


async def test_a_worker_thread_of_the_running_loop_can_call_it() -> None:
    pair = Pair(out_of_quota())
    await pair.llm("plan")

    assert await asyncio.to_thread(pair.llm.call, "plan") == "hello from claude"
    assert pair.asked == (1, 2)


async def test_all_threads_share_one_memory_of_the_quota_error() -> None:
    pair = Pair(out_of_quota())
    await asyncio.to_thread(pair.llm.call, "first")
    texts = await asyncio.gather(*(asyncio.to_thread(pair.llm.call, f"plan {n}") for n in range(8)), pair.llm("plan"))
    await pair.llm.aclose()

    assert texts == ["hello from claude"] * 9
    assert pair.asked == (1, 10)


async def test_a_synchronous_call_on_the_loop_that_must_answer_it_is_refused() -> None:
    pair = Pair()
    await pair.llm("plan")

    with pytest.raises(RuntimeError, match="await"):
        pair.llm.call("plan")


def test_one_drop_in_outlives_the_event_loops_it_is_used_from() -> None:
    pair = Pair(out_of_quota())

    texts = [asyncio.run(pair.llm("plan")) for _ in range(2)]

    assert (texts, pair.asked) == (["hello from claude"] * 2, (1, 2))


async def test_cancelling_an_await_that_is_answered_elsewhere_ends_it_there() -> None:
    started, ended = threading.Event(), threading.Event()

    async def hang() -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    llm = scripted(ScriptedAdapter("first", hang), ScriptedAdapter("never"))
    await asyncio.to_thread(llm.call, "plan")  # its home is now a thread of its own
    task = asyncio.create_task(llm("plan"))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 10)
    await llm.aclose()


# ---------------------------------------------------------------- the holes


@pytest.mark.parametrize(
    "text", ["insufficient_quota", "Error code: 429 - slow down", "You exceeded your QUOTA", "RATE_LIMIT", "rate limit"]
)
def test_h1_the_seeds_words_are_found_in_untyped_exceptions(text: str) -> None:
    assert _is_quota_error(RuntimeError(text)) is True


@pytest.mark.parametrize("text", ["row 1429 is malformed", "connect to port 4290 failed", "boom"])
def test_h1_digits_within_other_numbers_are_no_quota_error(text: str) -> None:
    assert _is_quota_error(RuntimeError(text)) is False


async def test_h1_a_500_that_mentions_429_and_quota_does_not_start_fallback_mode() -> None:
    pair = Pair(openai_error(500, "took 429 ms, quota service unaffected"), openai_ok())

    assert await pair.llm("plan") == "hello from gpt"
    assert pair.llm._using_fallback is False


async def test_h2_a_throttle_is_waited_for_and_parks_nothing() -> None:
    pair = Pair(rate_limited(retry_after="1"), openai_ok())

    assert await pair.llm("plan") == "hello from gpt"
    assert (pair.clock.slept, pair.llm._using_fallback) == ([1.0], False)


async def test_h2_a_long_throttle_goes_to_the_fallback_and_returns_when_the_server_says() -> None:
    pair = Pair(rate_limited(retry_after="20"), openai_ok())

    first = await pair.llm("plan")
    pair.clock.advance(20)

    assert [first, await pair.llm("plan")] == ["hello from claude", "hello from gpt"]


async def test_h3_the_quota_error_is_raised_also_when_the_primary_was_not_called() -> None:
    pair = Pair(out_of_quota(), fallback=(anthropic_ok(), anthropic_error(403, "permission_error")))
    await pair.llm("plan")

    with pytest.raises(QuotaExhaustedError) as raised:
        await pair.llm("plan")

    assert pair.asked == (1, 2)
    assert (raised.value.provider, raised.value.code) == ("openai", "insufficient_quota")
    assert isinstance(raised.value.__cause__, ReliableLLMError)
    assert raised.value.__cause__.provider == "anthropic"


async def test_h4_a_probe_that_fails_otherwise_leaves_fallback_mode_on_and_gets_its_answer() -> None:
    pair = Pair(out_of_quota(), openai_error(500), retry=RetryPolicy(max_retries=0, jitter=0))
    await pair.llm("plan")
    pair.clock.advance(300)

    assert await pair.llm("plan") == "hello from claude"
    await pair.llm("plan")
    assert (pair.asked, pair.llm._using_fallback) == ((2, 3), True)


async def test_h5_of_fifty_calls_at_the_recovery_exactly_one_tries_the_primary() -> None:
    others_answered = asyncio.Event()

    async def slow_recovery(_request: httpx2.Request) -> httpx2.Response:
        await others_answered.wait()
        return openai_ok()

    pair = Pair(out_of_quota(), slow_recovery)
    await pair.llm("plan")
    pair.clock.advance(300)
    calls = [asyncio.ensure_future(pair.llm(f"plan {n}")) for n in range(50)]
    await asyncio.gather(*calls[1:])
    others_answered.set()

    texts = await asyncio.gather(*calls)

    assert texts.count("hello from gpt") == 1
    assert pair.asked == (2, 50)


class JumpingClock(ManualClock):
    """A machine whose wall clock is set by hand."""

    wall = 0.0

    def time(self) -> float:
        return super().time() + self.wall


async def test_h6_a_jump_of_the_wall_clock_changes_nothing() -> None:
    clock = JumpingClock()
    primary = ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED))
    llm = scripted(primary, ScriptedAdapter("fallback"), clock)
    await llm("plan")
    clock.wall = 86_400.0
    await llm("plan")

    assert len(primary.sent) == 1


async def test_h6_actors_with_the_same_drop_in_share_what_is_known_about_the_key() -> None:
    pair = Pair(out_of_quota())
    first, second = Actor(pair.llm), Actor(pair.llm)
    await first._execute_with_llm_async("plan")
    await second._execute_with_llm_async("plan")

    assert (pair.asked, second._using_fallback) == ((1, 2), True)


def test_h6_actors_of_the_same_settings_share_one_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-shared")
    monkeypatch.setenv("RELIABLE_LLM_PRIMARY_MODEL", "gpt-shared")

    assert StrategyActorMixin().quota_fallback is StrategyActorMixin().quota_fallback


def test_h7_the_fallback_is_configured_by_arguments_environment_and_file(tmp_path: Path) -> None:
    file = tmp_path / "llm.toml"
    file.write_text('[strategy_actor]\nprimary_model = "m1"\nfallback_model = "m2"\nquota_recovery_interval = 60\n')
    environ = {"RELIABLE_LLM_FALLBACK_MODEL": "m3", "RELIABLE_LLM_FALLBACK_PROVIDER": "groq"}

    settings = StrategySettings.load(str(file), environ=environ)

    assert settings == StrategySettings(
        primary_model="m1", fallback_provider="groq", fallback_model="m3", quota_recovery_interval=60
    )


def test_h7_a_changed_constant_counts_as_the_seeds_document_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy_actor, "_FALLBACK_MODEL", "claude-next")

    assert StrategySettings.load(environ={}).fallback_model == "claude-next"


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"RELIABLE_LLM_QUOTA_RECOVERY_INTERVAL": "soon"}, "RELIABLE_LLM_QUOTA_RECOVERY_INTERVAL"),
        ({"RELIABLE_LLM_QUOTA_RECOVERY_INTERVAL": "0"}, "quota_recovery_interval"),
    ],
)
def test_h7_a_senseless_interval_is_refused_by_name(environ: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        StrategySettings.load(environ=environ)


def test_h7_a_file_without_the_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "llm.toml"
    file.write_text("[retry]\nmax_retries = 1\n")

    with pytest.raises(ConfigurationError, match="strategy_actor"):
        StrategySettings.load(str(file), environ={})


def test_h7_an_unknown_provider_or_no_model_is_refused_with_a_remedy() -> None:
    with pytest.raises(ConfigurationError, match="openai"):
        QuotaFallback(StrategySettings(primary_provider="opnai", primary_model="m"))
    with pytest.raises(ConfigurationError, match="RELIABLE_LLM_PRIMARY_MODEL"):
        QuotaFallback(StrategySettings())


@pytest.mark.parametrize(
    "failure",
    [
        fails(Kind.SERVER_ERROR),
        fails(Kind.OVERLOADED),
        fails(Kind.TIMEOUT),
        fails(Kind.CONNECTION),
        fails(Kind.AUTHENTICATION),
        fails(Kind.PERMISSION),
        fails(Kind.MODEL_NOT_FOUND),
        fails(Kind.EMPTY_RESPONSE),
    ],
    ids=lambda failure: str(failure.kind),
)
async def test_h8_other_outages_of_the_primary_are_answered_by_the_fallback_too(failure: Fails) -> None:
    assert await scripted(ScriptedAdapter(failure), ScriptedAdapter("fallback"))("plan") == "fallback"


async def test_h10_the_requests_on_the_wire_are_the_attempts_and_retries_do_not_multiply() -> None:
    pair = Pair(openai_error(500), fallback=(anthropic_error(500, "api_error"),))

    with pytest.raises(ReliableLLMError) as raised:
        await pair.llm("plan")

    assert pair.asked == (3, 3)
    assert len(raised.value.attempts) == 6


async def test_h10_a_quota_error_is_not_retried() -> None:
    pair = Pair(out_of_quota(), fallback=(anthropic_error(401, "authentication_error"),))

    with pytest.raises(QuotaExhaustedError):
        await pair.llm("plan")

    assert pair.asked == (1, 1)


# ---------------------------------------------------------------- the actor


class Actor(StrategyActorMixin):
    def __init__(self, llm: QuotaFallback) -> None:
        self.quota_fallback = llm

    def _execute_stub(self) -> list[str]:
        return ["stub"]


def down() -> Pair:
    return Pair(out_of_quota(), fallback=(anthropic_error(401, "authentication_error"),))


async def test_h9_after_an_outage_the_stubs_tree_is_marked_and_carries_the_error() -> None:
    actor = Actor(down().llm)

    outcome = await actor._execute_or_stub_async("plan", stub=actor._execute_stub, parser=str.split)

    assert (outcome.value, outcome.degraded, outcome.served_by) == (["stub"], True, None)
    assert isinstance(outcome.outage, QuotaExhaustedError)


def test_h9_the_synchronous_form_does_the_same() -> None:
    actor = Actor(down().llm)
    try:
        outcome = actor._execute_or_stub("plan", stub=actor._execute_stub, parser=str.split)
    finally:
        actor.quota_fallback.close()

    assert (outcome.value, outcome.degraded) == (["stub"], True)


async def test_h9_the_stub_is_reported_as_an_error_with_the_plan(caplog_structlog: list[dict[str, Any]]) -> None:
    actor = Actor(down().llm)

    await actor._execute_or_stub_async("plan", stub=actor._execute_stub, parser=str.split, plan_id="p7")

    stub = next(line for line in caplog_structlog if "stub" in line["event"])
    assert (stub["log_level"], stub["plan_id"], stub["kind"]) == ("error", "p7", "quota_exhausted")


async def test_h9_a_bad_request_is_not_hidden_behind_the_stub() -> None:
    actor = Actor(scripted(ScriptedAdapter(fails(Kind.INVALID_REQUEST)), ScriptedAdapter("never")))

    with pytest.raises(InvalidRequestError):
        await actor._execute_or_stub_async("plan", stub=actor._execute_stub, parser=str.split)


async def test_an_actor_with_an_answer_is_not_degraded_and_names_who_gave_it() -> None:
    actor = Actor(Pair(out_of_quota(), fallback=(anthropic_ok("a b"),)).llm)

    outcome = await actor._execute_or_stub_async("plan", stub=actor._execute_stub, parser=str.split)

    assert (outcome.value, outcome.degraded) == (["a", "b"], False)
    assert str(outcome.served_by) == f"anthropic/{SETTINGS.fallback_model}"


def test_the_actors_synchronous_call_returns_the_tree() -> None:
    actor = Actor(Pair(openai_ok("a b")).llm)
    try:
        assert actor._execute_with_llm("plan", plan_id="p1", parser=str.split) == ["a", "b"]
    finally:
        actor.quota_fallback.close()


# ---------------------------------------------------------------- end-to-end tests of an application


async def test_an_end_to_end_test_fails_clearly_when_both_vendors_are_down() -> None:
    clear = "strategize cannot be verified: no provider is available"
    with pytest.raises(OutcomeUnverifiableError, match=clear), verifiable_outcome("strategize"):
        await down().llm("plan")


async def test_an_end_to_end_test_fails_on_a_stubs_tree_too() -> None:
    actor = Actor(down().llm)
    outcome = await actor._execute_or_stub_async("plan", stub=actor._execute_stub, parser=str.split)

    with pytest.raises(AssertionError, match="was not tested"):
        assert_verifiable(outcome)


async def test_an_end_to_end_test_with_an_answer_gets_its_value() -> None:
    actor = Actor(Pair(openai_ok("a b")).llm)
    outcome = await actor._execute_or_stub_async("plan", stub=actor._execute_stub, parser=str.split)

    assert assert_verifiable(outcome) == ["a", "b"]


async def test_other_failures_pass_an_end_to_end_test_as_they_are() -> None:
    with pytest.raises(InvalidRequestError), verifiable_outcome():
        raise InvalidRequestError("wrong")
