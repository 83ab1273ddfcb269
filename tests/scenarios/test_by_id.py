"""Scenarios whose point is no count: what may never be seen, sent or changed. Each test carries its scenario's id."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Sequence

import pytest
import structlog

from reliable_llm import (
    FailoverChat,
    InvalidRequestError,
    Kind,
    Message,
    ReliableLLMError,
    RetryPolicy,
    StreamInterruptedError,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from reliable_llm.drill.load import parse
from reliable_llm.drill.runner import Report, run_scenario
from reliable_llm.drill.scenario import Scenario
from reliable_llm.drill.vendors.conditions import blocks, call_ids, messages, result_ids
from reliable_llm.provider import Provider
from reliable_llm.testing import (
    Act,
    Drill,
    act,
    connection_refused,
    error,
    ok,
    out_of_quota,
    overloaded,
    rate_limited,
    stream,
)

ONCE = RetryPolicy(max_retries=0)
SECRET = "sk-test-NOTAREALKEY0001"
BUSY = error(503, error_type="server_error")


@pytest.fixture
def drill() -> Drill:
    return Drill()


def pair(drill: Drill, *first: Act, second: Act | None = None, retry: RetryPolicy = ONCE) -> FailoverChat:
    """Return a coordinator with an OpenAI primary and an Anthropic fallback."""
    drill.answers("openai", *first)
    drill.answers("anthropic", second or ok("p2"))
    return FailoverChat([drill.openai(models=["m1"]), drill.anthropic(models=["m2"])], retry=retry, clock=drill.clock)


def alone(drill: Drill, *acts: Act, kind: str = "openai", retry: RetryPolicy = ONCE) -> FailoverChat:
    """Return a coordinator with one candidate."""
    drill.answers("P1", *acts)
    provider = (drill.openai if kind == "openai" else drill.anthropic)("P1", models=["m1"], keys=[SECRET])
    return FailoverChat([provider], retry=retry, clock=drill.clock)


def raised(drill: Drill, call) -> ReliableLLMError:
    with pytest.raises(ReliableLLMError) as caught:
        drill.run(call)
    return caught.value


def tool_call(*ids: str) -> Act:
    return act({"act": "ok_tool", "calls": [{"id": each, "name": "lookup", "args": {"q": each[:1]}} for each in ids]})


LOOKUP = Tool(name="lookup")


# ---------------------------------------------------------------- what is read


def test_fs_014_a_plain_400_without_key_wording_stays_an_invalid_request(drill: Drill) -> None:
    chat = alone(drill, error(400, error_type="INVALID_ARGUMENT", code="INVALID_ARGUMENT", message="bad field"))
    assert isinstance(raised(drill, chat("hi")), InvalidRequestError)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_fs_047_an_end_without_the_terminal_event_is_an_interruption_at_both_vendors(drill: Drill, kind: str) -> None:
    chat = alone(drill, stream("half ", "an", end="eof"), kind=kind)

    async def read() -> None:
        async with chat.stream("hi") as answer:
            async for _ in answer:
                pass

    failed = raised(drill, read())
    assert isinstance(failed, StreamInterruptedError)
    assert failed.partial_text == "half an"


def test_fs_076_the_numbers_in_the_vendors_text_are_filled_in(drill: Drill) -> None:
    text = "prompt is too long: 210000 tokens > 200000 maximum"
    failed = raised(
        drill, alone(drill, error(400, error_type="invalid_request_error", message=text), kind="anthropic")("hi")
    )
    assert (failed.verdict.limit_tokens, failed.verdict.used_tokens) == (200_000, 210_000)


@pytest.mark.parametrize(
    ("code", "kind"), [(429, Kind.RATE_LIMITED), (401, Kind.AUTHENTICATION), (502, Kind.SERVER_ERROR)]
)
def test_fs_134_the_code_inside_a_200_decides_the_kind(drill: Drill, code: int, kind: Kind) -> None:
    body = {"error": {"message": "upstream", "code": code}}
    chat = pair(drill, act({"act": "raw", "status": 200, "content_type": "application/json", "body": body}))
    reply = drill.run(chat("hi"))
    assert [attempt.kind for attempt in reply.attempts] == [kind, None]


def test_fs_133_a_json_body_that_is_no_json_is_malformed(drill: Drill) -> None:
    page = act({"act": "raw", "status": 200, "content_type": "application/json", "body": "<html>upstream error</html>"})
    reply = drill.run(pair(drill, page)("hi"))
    assert [attempt.kind for attempt in reply.attempts] == [Kind.MALFORMED_RESPONSE, None]


# ---------------------------------------------------------------- what is sent


def test_fs_078_tool_call_ids_are_lawful_paired_and_stable_on_every_wire(drill: Drill) -> None:
    chat = pair(drill, tool_call("call_" + "9" * 90), BUSY, ok("back"), second=tool_call("toolu_01.Z"))

    async def talk() -> None:
        said: list[Message] = [Message("user", "go")]
        for _ in range(3):
            reply = await chat(said, tools=[LOOKUP])
            said.append(reply.message)
            said += [Message("tool", (ToolResult(call_id=call.id, content="found"),)) for call in reply.tool_calls]

    drill.run(talk())
    for arrival in drill.arrivals:
        assert call_ids(arrival.body) == result_ids(arrival.body)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for each in call_ids(arrival.body))
    first_ids = {call_ids(arrival.body)[0] for arrival in drill.arrivals[1:]}
    assert len(first_ids) == 1


def test_fs_079_parallel_results_reach_anthropic_in_one_user_turn_before_the_text(drill: Drill) -> None:
    calls = (ToolCall(id="id1", name="f", arguments="{}"), ToolCall(id="id2", name="f", arguments="{}"))
    said = [
        Message("user", "go"),
        Message("assistant", (Text(""), *calls)),
        Message("tool", (ToolResult(call_id="id1", content="1"),)),
        Message("tool", (ToolResult(call_id="id2", content="2"),)),
        Message("user", "sum them"),
    ]
    drill.run(pair(drill, BUSY)(said, tools=[Tool(name="f")]))
    sent = list(messages(drill.arrivals[-1].body))
    assert [turn["role"] for turn in sent] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent[-1]["content"]] == ["tool_result", "tool_result", "text"]
    assert all(block.get("text") != "" for block in blocks(drill.arrivals[-1].body))


def test_fs_081_no_request_goes_out_without_the_tools_that_were_given(drill: Drill) -> None:
    drill.run(pair(drill, BUSY, second=tool_call("t1"))("hi", tools=[LOOKUP]))
    assert all(arrival.body.get("tools") for arrival in drill.arrivals)


def test_fs_123_the_primarys_key_is_never_sent_to_a_fallback_without_one(drill: Drill) -> None:
    drill.answers("P1", BUSY)
    drill.answers("P3", ok("p3"))
    providers = [
        drill.openai("P1", models=["m1"], keys=["k1"]),
        drill.anthropic("P2", models=["m2"], keys=[]),
        drill.openai("P3", models=["m3"], keys=["k3"]),
    ]
    chat = FailoverChat(providers, retry=ONCE, clock=drill.clock)
    assert drill.run(chat("hi")).text == "p3"
    drill.assert_requests({"P1/k1/m1": 1, "P3/k3/m3": 1})


# ---------------------------------------------------------------- what is shown


def shown(failed: ReliableLLMError) -> str:
    return " ".join([str(failed), repr(failed), repr(failed.args), repr(failed.attempts), repr(vars(failed))])


def test_fs_105_a_key_with_a_trailing_newline_works_and_is_in_no_text(drill: Drill) -> None:
    drill.answers("P1", error(401, error_type="invalid_request_error", code="invalid_api_key"))
    chat = FailoverChat([drill.openai("P1", models=["m1"], keys=[SECRET + "\n"])], retry=ONCE, clock=drill.clock)
    failed = raised(drill, chat("hi"))
    drill.assert_requests({f"P1/{SECRET}/m1": 1})
    assert SECRET not in shown(failed) + repr(chat) + str(chat.status())


def test_fs_107_a_key_inside_the_base_url_is_in_no_text(drill: Drill, capsys: pytest.CaptureFixture[str]) -> None:
    drill.answers("P1", connection_refused())
    provider = Provider.openai(
        name="P1",
        models=["m1"],
        keys=["k1"],
        base_url="https://gw.example/v1?api_key=FAKESECRET03",
        http_client=drill.http_client("P1"),
    )
    chat = FailoverChat([provider], retry=ONCE, clock=drill.clock)
    failed = raised(drill, chat("hi"))
    assert failed.kind is Kind.CONNECTION
    assert "FAKESECRET03" not in shown(failed) + repr(chat) + repr(provider) + str(chat.status())
    assert "FAKESECRET03" not in capsys.readouterr().out


def test_fs_108_repr_of_the_coordinator_and_its_configuration_shows_no_key(drill: Drill) -> None:
    chat = alone(drill, ok("x"))
    drill.run(chat("hi"))
    seen = [repr(chat), str(chat), repr(vars(chat)), repr(chat.status()), str(chat.status())]
    assert not [text for text in seen if SECRET in text]


def test_fs_109_the_prompt_is_in_no_log_record(drill: Drill) -> None:
    prompt = "my secret diary entry"
    refused = error(400, error_type="invalid_request_error", code="content_policy_violation", message=f"no: {prompt}")
    with structlog.testing.capture_logs() as records:
        failed = raised(drill, pair(drill, refused)(prompt))
    assert failed.kind is Kind.CONTENT_POLICY
    assert prompt not in repr(records) + shown(failed)


def test_fs_110_a_failover_that_did_not_happen_is_not_announced(drill: Drill) -> None:
    with structlog.testing.capture_logs() as records:
        failed = raised(drill, alone(drill, BUSY)("hi"))
    assert len(failed.attempts) == 1
    assert "failover" not in [record["event"] for record in records]


def test_fs_121_the_status_lists_each_key_with_state_reason_and_time_left(drill: Drill) -> None:
    chat = pair(drill, out_of_quota())
    drill.run(chat("hi"))

    async def look() -> None:
        (key,) = chat.status().providers[0].keys
        assert (key.health.state, key.health.reason, key.health.seconds_left) == (
            "resting",
            Kind.QUOTA_EXHAUSTED,
            300.0,
        )

    drill.run(look())


def test_fs_130_every_attempt_has_its_status_kind_and_request_id(drill: Drill) -> None:
    limited = error(429, code="rate_limit_exceeded", headers={"x-request-id": "req-1", "retry-after": "9"})
    answer = act({"act": "ok", "text": "p2", "headers": {"request-id": "req-3"}})
    reply = drill.run(pair(drill, limited, second=answer)("hi"))
    first, last = reply.attempts
    assert (first.kind, first.status, first.request_id, first.retry_after) == (Kind.RATE_LIMITED, 429, "req-1", 9.0)
    assert (last.kind, last.request_id) == (None, "req-3")


def test_fs_132_errors_survive_pickling_and_copying_without_a_key(drill: Drill) -> None:
    chat = pair(drill, rate_limited(retry_after=90), second=overloaded())
    failed = raised(drill, chat("a private question"))
    dumped = pickle.dumps(failed)
    for again in (pickle.loads(dumped), copy.deepcopy(failed), copy.copy(failed)):
        assert (type(again), str(again), again.status, again.retry_after) == (
            type(failed),
            str(failed),
            429,
            failed.retry_after,
        )
        assert again.attempts == failed.attempts
    assert b"Bearer" not in dumped
    assert b"private question" not in dumped


# ---------------------------------------------------------------- what is left alone


def test_fs_117_the_callers_objects_are_not_changed(drill: Drill) -> None:
    said = [{"role": "user", "content": "hi"}]
    tools = [LOOKUP]
    extra = {"openai": {"user": "someone"}, "anthropic": {"metadata": {"user_id": "someone"}}}
    before = copy.deepcopy((said, extra))
    drill.run(pair(drill, BUSY)(said, tools=tools, extra=extra))
    assert (said, extra) == before
    assert tools == [LOOKUP]


def test_fs_119_one_coordinator_serves_two_event_loops(drill: Drill) -> None:
    chat = pair(drill, ok("one"), ok("two"))
    assert [drill.run(chat("hi")).text, drill.run(chat("hi")).text] == ["one", "two"]
    drill.assert_requests({"openai/k1/m1": 2})


# ---------------------------------------------------------------- when


def report_of(*acts: dict[str, object], calls: Sequence[dict[str, object]], **policy: object) -> Report:
    row: dict[str, object] = {
        "id": "S1",
        "setup": {
            "providers": [{"name": "P1", "kind": "openai", "keys": ["k1"], "models": ["m1"]}],
            "route": [["P1", "m1"]],
            "policy": policy,
        },
        "upstream": [{"match": "P1/*/*", "script": list(acts)}],
        "calls": list(calls),
    }
    (found,) = parse(json.dumps(row))
    assert isinstance(found, Scenario)
    return run_scenario(found)


def test_fs_115_fifty_limited_calls_neither_return_early_nor_together() -> None:
    limit = {"act": "error", "status": 429, "headers": {"retry-after": "5"}, "error": {"code": "rate_limit_exceeded"}}
    report = report_of(
        {**limit, "for_first": 50},
        {"act": "ok", "text": "ok", "repeat": True},
        calls=[{"id": "c1..c50", "concurrent": 50}],
        jitter=0.2,
        max_retries=3,
    )
    retries = sorted(moment.at for moment in report.moments if moment.what == "sent")[50:]
    assert len(retries) == 50
    assert retries[0] >= 5.0
    assert max(sum(at <= other < at + 0.05 for other in retries) for at in retries) <= 25


def test_fs_116_a_slow_and_a_limited_call_keep_nobody_waiting() -> None:
    report = report_of(
        {"act": "hang"},
        {"act": "error", "status": 429, "headers": {"retry-after": "20"}, "error": {"code": "rate_limit_exceeded"}},
        {"act": "ok", "text": "p1", "repeat": True},
        calls=[{"id": "c1", "cancel_at": 4}, *({"id": f"c{n}", "t": 0.1 * (n - 1)} for n in range(2, 6))],
    )
    ends = {row["call"]: row["ok"]["at"] for row in report.observed["results"] if "ok" in row}
    assert all(ends[call] <= 1.0 for call in ("c3", "c4", "c5"))
