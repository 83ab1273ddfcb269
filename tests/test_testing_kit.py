"""The public kit for users' own tests."""

from __future__ import annotations

import pytest

from reliable_llm import FailoverChat, Limits, RateLimitedError, Timeouts
from reliable_llm.pytest_plugin import reliable_llm_drill  # noqa: F401 - a fixture
from reliable_llm.testing import (
    Drill,
    act,
    connection_refused,
    error,
    hang,
    html,
    ok,
    out_of_quota,
    overloaded,
    rate_limited,
    stream,
)


@pytest.fixture
def drill(reliable_llm_drill: Drill) -> Drill:  # noqa: F811
    return reliable_llm_drill


@pytest.fixture
def chat(drill: Drill) -> FailoverChat:
    timeouts = Timeouts(attempt=5, first_token=5, idle=5)
    providers = [drill.openai(models=["m1"], timeouts=timeouts), drill.anthropic(models=["m2"], timeouts=timeouts)]
    return FailoverChat(providers, route=["openai/m1", "anthropic/m2"], clock=drill.clock)


def test_a_limited_key_sends_us_to_the_other_vendor(drill: Drill, chat: FailoverChat) -> None:
    drill.answers("openai", rate_limited(retry_after=60))
    drill.answers("anthropic", ok("hello", usage=(3, 4)))
    reply = drill.run(chat("hi"))
    assert (reply.text, str(reply.served_by)) == ("hello", "anthropic/m2")
    drill.assert_requests({"openai/k1/m1": 1, "anthropic/k1/m2": 1})


@pytest.mark.parametrize("fault", [out_of_quota(), overloaded(), html(), connection_refused(), hang(), error(500)])
def test_every_ready_made_fault_is_survived(drill: Drill, chat: FailoverChat, fault) -> None:
    drill.answers("openai", fault)
    drill.answers("anthropic", ok("hello"))
    assert drill.run(chat("hi")).text == "hello"


def test_time_goes_on_between_runs(drill: Drill, chat: FailoverChat) -> None:
    drill.answers("openai", out_of_quota(), ok("back"))
    drill.answers("anthropic", ok("meanwhile"))
    assert drill.run(chat("hi")).text == "meanwhile"
    drill.pass_time(299)
    assert drill.run(chat("hi")).text == "meanwhile"
    drill.pass_time(1)
    assert drill.run(chat("hi")).text == "back"
    assert drill.now == 300.0


def test_a_script_may_be_replaced(drill: Drill, chat: FailoverChat) -> None:
    drill.answers("openai", ok("one"))
    drill.run(chat("hi"))
    drill.answers("openai", act({"act": "ok", "text": "two"}))
    assert drill.run(chat("hi")).text == "two"


def test_what_was_sent_can_be_looked_at(drill: Drill, chat: FailoverChat) -> None:
    drill.answers("openai", ok("hello"))
    drill.run(chat("the question"))
    assert drill.arrivals[0].body["messages"] == [{"role": "user", "content": "the question"}]
    assert drill.order() == ["openai/k1/m1"]


def test_sleeps_are_recorded_and_cost_nothing(drill: Drill) -> None:
    alone = FailoverChat([drill.openai(models=["m1"])], clock=drill.clock)
    drill.answers("openai", rate_limited(retry_after=20), ok("hello"))
    drill.run(alone("hi"))
    assert sum(drill.slept) == pytest.approx(20.0, abs=5.1)


def test_an_error_of_the_product_reaches_the_test(drill: Drill) -> None:
    alone = FailoverChat([drill.openai(models=["m1"])], clock=drill.clock)
    drill.answers("openai", rate_limited(retry_after=600))
    with pytest.raises(RateLimitedError):
        drill.run(alone("hi"))


def test_wrong_counts_are_named(drill: Drill, chat: FailoverChat) -> None:
    drill.answers("openai", ok("hello"))
    drill.run(chat("hi"))
    with pytest.raises(AssertionError, match="anthropic/k1/m2: expected 1, got 0"):
        drill.assert_requests({"openai/k1/m1": 1, "anthropic/k1/m2": 1})


def test_a_stream_left_open_is_a_leak() -> None:
    drill = Drill()
    drill.answers("openai", stream("a", "b", gap=1))

    async def leave_open() -> None:
        client = drill.http_client("openai")
        request = client.build_request("POST", "https://openai.example/v1/chat/completions", json={"stream": True})
        await client.send(request, stream=True)

    drill.run(leave_open())
    with pytest.raises(AssertionError, match="request 1 to openai"):
        drill.assert_all_closed()


def test_a_simulated_provider_may_have_limits(drill: Drill) -> None:
    drill.answers("openai", ok("hi"))
    chat = FailoverChat([drill.openai(models=["m1"], limits=Limits(requests_per_minute=6))], clock=drill.clock)
    drill.run(chat("hi"))
    drill.run(chat("hi"))

    assert drill.now >= 10
