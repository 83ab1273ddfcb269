"""The runner: what was observed, what was expected, what is not understood."""

from __future__ import annotations

import copy
import json

import pytest

from reliable_llm.drill.load import parse
from reliable_llm.drill.runner import Report, run_scenario
from reliable_llm.drill.scenario import Scenario

Json = dict[str, object]


def scenario(*acts: Json, calls: list[Json] | None = None, expect: Json | None = None, **setup: object) -> Scenario:
    """Return a scenario with one provider, one key and one script."""
    provider = {"name": "P1", "kind": "openai", "keys": ["k1"], "models": ["m1"], **setup.pop("provider", {})}
    row = {
        "id": "S1",
        "setup": {"providers": [provider], "route": [["P1", "m1"]], "policy": {}, **setup},
        "upstream": [{"match": "P1/*/*", "script": list(acts)}],
        "calls": calls or [{"id": "c1"}],
        "expect": expect or {},
    }
    (found,) = parse(json.dumps(row))
    assert isinstance(found, Scenario)
    return found


def outcome(report: Report, call: str = "c1") -> Json:
    return next(row for row in report.observed["results"] if row["call"] == call)


OK = {"act": "ok", "text": "hi", "repeat": True}
BUSY = {"act": "error", "status": 503, "error": {"type": "server_error", "message": "m"}}


def test_a_scenario_that_holds_passes() -> None:
    expect = {"results": [{"call": "c1", "ok": {"served_by": "P1/m1", "text": "hi"}}], "requests": {"P1/k1/m1": 1}}
    report = run_scenario(scenario(OK, expect=expect))
    assert report.passed
    assert report.observed["order"] == ["P1/k1/m1"]


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"results": [{"call": "c1", "ok": {"text": "ho"}}], "requests": {"P1/k1/m1": 1}}, 'c1: text want "ho"'),
        ({"results": [{"call": "c1", "raises": {"kind": "timeout"}}], "requests": {"P1/k1/m1": 1}}, "c1: want raises"),
        ({"requests": {"P1/k1/m1": 2}}, "requests P1/k1/m1: want 2, got 1"),
        ({"requests": {}}, "requests P1/k1/m1: want 0, got 1"),
        ({"requests": {"P1/k1/m1": 1}, "waited_s": {"c1": 3}}, "waited c1: want 3.0 s, got 0.0 s"),
        ({"requests": {"P1/k1/m1": 1}, "order": ["P2/k1/m1"]}, "order: want"),
        ({"requests": {"P1/k1/m1": 1}, "logs": [{"event": "failover"}]}, "no event"),
        ({"requests": {"P1/k1/m1": 1}, "results": [{"call": "c9", "ok": {}}]}, "c9: no result"),
    ],
)
def test_each_difference_is_named(expect: Json, said: str) -> None:
    report = run_scenario(scenario(OK, expect=expect))
    assert [m for m in report.mismatches if m.startswith(said)]
    assert not report.passed


def test_an_expectation_that_nobody_can_compare_is_no_pass() -> None:
    expect = {"results": [{"call": "c1", "ok": {"mood": "good"}}], "requests": {"P1/k1/m1": 1}}
    report = run_scenario(scenario(OK, expect=expect))
    assert list(report.unchecked) == ["c1.mood: nothing to compare it with"]
    assert not report.passed


@pytest.mark.parametrize(
    "changes",
    [
        {"calls": [{"id": "c1", "wrapped_in": "a blanket"}]},
        {"calls": [{"id": "c1", "schema": "whatever"}]},
        {"calls": [{"id": "c1", "history": "long ago"}]},
        {"calls": [{"id": "c1", "op": "stream", "consumer": "humming"}]},
        {"calls": [{"id": "c1", "image": "of a cat"}]},
        {"calls": [{"id": "c1", "cancel_at": "dawn"}]},
        {"calls": [{"id": "c1", "failover_on": ["rain"]}]},
        {"calls": [{"id": "c1", "messages": ["go"]}]},
        {"provider": {"caps": {"telepathy": True}}},
    ],
)
def test_a_phrase_that_nobody_understands_makes_it_unsupported(changes: Json) -> None:
    report = run_scenario(scenario(OK, **copy.deepcopy(changes)))
    assert report.unsupported
    assert report.observed == {}


@pytest.mark.parametrize("act", [{"act": "ok", "reject_if": "it rains"}, {"act": "inject", "raise": "NoSuchError"}])
def test_an_act_that_nobody_understands_makes_it_unsupported(act: Json) -> None:
    assert run_scenario(scenario(act)).unsupported


def test_backoff_and_timeouts_are_waited_time() -> None:
    policy = {"attempt_timeout_s": 10, "max_retries": 1}
    report = run_scenario(scenario({"act": "hang"}, OK, policy=policy))
    assert report.observed["waited_s"] == {"c1": 11.0}


def test_a_slow_answer_is_no_waited_time() -> None:
    report = run_scenario(scenario({**OK, "delay_s": 9}))
    assert report.observed["waited_s"] == {"c1": 0.0}


def test_a_call_is_cancelled_at_its_second() -> None:
    report = run_scenario(scenario({"act": "hang"}, calls=[{"id": "c1", "t": 2, "cancel_at": 5}]))
    raised = outcome(report)["raises"]
    assert (raised["kind"], raised["at"]) == ("cancelled", 5.0)
    assert report.observed["waited_s"] == {"c1": 0.0}


def test_a_stream_is_cancelled_after_its_first_chunk() -> None:
    act = {"act": "stream", "chunks": ["a", "b"], "gap_s": 1}
    report = run_scenario(scenario(act, calls=[{"id": "c1", "op": "stream", "cancel_at": "after the first chunk"}]))
    raised = outcome(report)["raises"]
    assert (raised["kind"], raised["partial_text"]) == ("cancelled", "a")


def test_the_callers_own_timeout_has_a_name_of_its_own() -> None:
    report = run_scenario(scenario({"act": "hang"}, calls=[{"id": "c1", "wrapped_in": "asyncio.timeout(3)"}]))
    assert outcome(report)["raises"]["kind"] == "caller_timeout"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("KeyboardInterrupt", "base_exception"),
        ("RuntimeError('x')", "app_error"),
        ("asyncio.CancelledError", "cancelled"),
    ],
)
def test_what_the_transport_raises_passes_through_as_the_same_object(name: str, kind: str) -> None:
    report = run_scenario(scenario({"act": "inject", "raise": name}))
    raised = outcome(report)["raises"]
    assert (raised["kind"], raised["identity"]) == (kind, "same object")


@pytest.mark.parametrize(("hook", "requests"), [("on_request", {}), ("on_response", {"P1/k1/m1": 1})])
def test_an_error_of_the_applications_own_hook_is_no_failure_of_the_vendor(hook: str, requests: Json) -> None:
    calls = [{"id": "c1", "hook": {hook: "raises RuntimeError('app bug')"}}]
    report = run_scenario(scenario(OK, calls=calls))
    assert outcome(report)["raises"]["kind"] == "app_error"
    assert report.observed["requests"] == requests


def test_a_consumer_may_leave_early_and_nothing_leaks() -> None:
    act = {"act": "stream", "chunks": ["a", "b", "c"], "gap_s": 1}
    report = run_scenario(scenario(act, calls=[{"id": "c1", "op": "stream", "consumer": "breaks after 2 chunks"}]))
    assert outcome(report)["ok"]["text"] == "ab"
    assert not report.mismatches or all("never closed" not in m for m in report.mismatches)


def test_a_stream_that_its_consumer_left_names_who_served_it() -> None:
    act = {"act": "stream", "chunks": ["a", "b"], "start_usage": [9, 1]}
    report = run_scenario(scenario(act, calls=[{"id": "c1", "op": "stream", "consumer": "breaks after 1 chunk"}]))
    assert outcome(report)["ok"]["served_by"] == "P1/m1"


def test_a_stream_that_nobody_reads_is_opened_all_the_same() -> None:
    act = {"act": "stream", "chunks": ["a", "b"]}
    report = run_scenario(scenario(act, calls=[{"id": "c1", "op": "stream", "consumer": "never reads"}]))
    assert outcome(report)["ok"]["text"] == ""


@pytest.mark.parametrize("name", ["patience", "patience_s"])
def test_patience_may_be_written_as_the_product_names_it(name: str) -> None:
    read = scenario(OK, policy={name: 7})
    assert (read.setup.policy.patience_s, read.unsupported()) == (7, [])


@pytest.mark.parametrize(("sent", "kind"), [({"x-team": "blue"}, "ok"), ({}, "raises")])
def test_a_header_of_the_providers_own_reaches_the_vendor(sent: Json, kind: str) -> None:
    act = {**OK, "reject_if": "header x-team missing (400)"}
    assert kind in outcome(run_scenario(scenario(act, provider={"headers": sent})))


@pytest.mark.parametrize("preamble", [True, False])
def test_silence_before_the_first_output_is_bounded_by_the_idle_timeout(preamble: bool) -> None:
    stall = {"act": "stream", "chunks": [], "end": "stall", "preamble": preamble}
    answer = {"act": "stream", "chunks": ["a"]}
    policy = {"idle_timeout_s": 20, "max_retries": 1}
    report = run_scenario(scenario(stall, answer, calls=[{"id": "c1", "op": "stream"}], policy=policy))
    assert (outcome(report)["ok"]["text"], report.observed["waited_s"]["c1"]) == ("a", 21)


def test_a_first_token_timeout_that_is_given_is_what_counts_before_the_first_output() -> None:
    stall = {"act": "stream", "chunks": [], "end": "stall", "preamble": True}
    policy = {"idle_timeout_s": 20, "first_token_timeout_s": 30, "max_retries": 0}
    report = run_scenario(scenario(stall, calls=[{"id": "c1", "op": "stream"}], policy=policy))
    assert report.observed["waited_s"]["c1"] == 30


def test_pings_before_the_first_output_are_signs_of_life() -> None:
    act = {"act": "stream", "chunks": ["a"], "timeline": [[15, "ping"], [30, "ping"], [45, "chunk"]]}
    calls = [{"id": "c1", "op": "stream"}]
    report = run_scenario(scenario(act, calls=calls, provider={"kind": "anthropic"}, policy={"idle_timeout_s": 20}))
    assert outcome(report)["ok"]["at"] == 45


def test_c1_to_c3_are_three_calls_at_once() -> None:
    report = run_scenario(scenario({**OK, "delay_s": 5}, calls=[{"id": "c1..c3"}]))
    assert [row["ok"]["at"] for row in report.observed["results"]] == [5.0, 5.0, 5.0]


def test_sequential_calls_follow_each_other() -> None:
    report = run_scenario(scenario({**OK, "delay_s": 5}, calls=[{"id": "c1..c3", "sequential": True}]))
    assert [row["ok"]["at"] for row in report.observed["results"]] == [5.0, 10.0, 15.0]


def test_two_coordinators_share_the_wire_and_nothing_else() -> None:
    quota = {"act": "error", "status": 429, "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}
    calls = [{"id": "c1", "on": "X"}, {"id": "c2", "t": 1, "on": "Y"}, {"id": "c3", "t": 2, "on": "X"}]
    report = run_scenario(scenario(quota, OK, calls=calls))
    assert ["ok" in row for row in report.observed["results"]] == [False, True, False]
    assert report.observed["requests"] == {"P1/k1/m1": 2}


def test_calls_in_two_event_loops_use_one_coordinator() -> None:
    calls = [{"id": "c1", "loop": "first"}, {"id": "c2", "t": 7, "loop": "second"}]
    report = run_scenario(scenario(OK, calls=calls))
    assert [row["ok"]["at"] for row in report.observed["results"]] == [0.0, 7.0]


def test_reset_forgets_and_close_ends() -> None:
    quota = {"act": "error", "status": 429, "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}
    calls = [
        {"id": "c1"},
        {"id": "r", "t": 1, "op": "reset"},
        {"id": "c2", "t": 2},
        {"id": "x", "t": 3, "op": "aclose"},
        {"id": "c3", "t": 4},
    ]
    report = run_scenario(scenario(quota, OK, calls=calls))
    assert outcome(report, "c2")["ok"]["text"] == "hi"
    assert outcome(report, "c3")["raises"]["kind"] == "closed"


def test_a_set_up_that_the_product_refuses_is_an_outcome() -> None:
    report = run_scenario(scenario(OK, calls=[{"id": "c1", "op": "construct"}], policy={"max_retries": -1}))
    assert outcome(report)["raises"]["kind"] == "configuration"


def test_a_call_that_can_never_end_is_reported_as_hung() -> None:
    calls = [{"id": "c1", "history": "c2"}, {"id": "c2", "history": "c1"}]
    assert outcome(run_scenario(scenario(OK, calls=calls)))["raises"]["kind"] == "hung"


def test_a_script_that_runs_out_is_a_mismatch() -> None:
    report = run_scenario(scenario({"act": "ok", "text": "hi"}, calls=[{"id": "c1"}, {"id": "c2", "t": 1}]))
    assert any("no more to say" in m for m in report.mismatches)


def test_a_script_for_somebody_else_is_told_as_that() -> None:
    mine = scenario(OK)
    theirs = [entry.model_copy(update={"match": "P7/*/*"}) for entry in mine.upstream]
    report = run_scenario(mine.model_copy(update={"upstream": theirs}))
    assert any("no match of upstream is for P1/k1/m1" in m for m in report.mismatches)


def test_a_key_is_seen_on_the_wire_as_it_was_sent() -> None:
    report = run_scenario(scenario(OK, provider={"keys": ["k1", "k2"]}, calls=[{"id": "c1"}, {"id": "c2", "t": 1}]))
    assert report.observed["order"] == ["P1/k1/m1", "P1/k2/m1"]


def test_one_seed_gives_one_report() -> None:
    policy = {"jitter": 1.0, "max_retries": 3}
    busy = scenario(BUSY, BUSY, BUSY, OK, policy=policy)
    first, second, other = (run_scenario(busy, seed=seed).as_json() for seed in (1, 1, 2))
    assert first == second
    assert first["observed"]["waited_s"] != other["observed"]["waited_s"]
