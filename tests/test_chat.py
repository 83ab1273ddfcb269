"""FailoverChat: what it takes, what it refuses, and what lies between it and its adapters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reliable_llm import events
from reliable_llm.chat import FailoverChat
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.loop import run
from reliable_llm.errors import (
    ClosedError,
    ConfigurationError,
    ContentPolicyError,
    DeadlineExceededError,
    InvalidRequestError,
    Kind,
    QuotaExhaustedError,
    ServerError,
    UnsupportedFeatureError,
)
from reliable_llm.policy import RetryPolicy
from reliable_llm.provider import Provider
from reliable_llm.types import AdapterReply, Capabilities, ChatReply, ChatRequest, FinishReason, Image, Message, Text
from tests.support import (
    STEADY,
    Listening,
    ManualClock,
    ScriptedAdapter,
    Vendor,
    answer,
    fails,
    failure,
    openai_ok,
    provider,
)

LOOK = [Message("user", (Text("look"), Image(url="https://pictures.example/1.png")))]


def chat_of(*adapters: ScriptedAdapter, **settings: object) -> FailoverChat:
    names = "abc"[: len(adapters)]
    providers = [provider(name, adapter) for name, adapter in zip(names, adapters, strict=True)]
    settings.setdefault("clock", ManualClock())
    return FailoverChat(providers, retry=STEADY, **settings)  # type: ignore[arg-type]


# ---------------------------------------------------------------- set-up


def test_no_providers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one provider"):
        FailoverChat([])


def test_a_lone_provider_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(ConfigurationError, match=r"write FailoverChat\(\[provider\]\)"):
        FailoverChat(provider("a", ScriptedAdapter()))  # type: ignore[arg-type]


def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"made by Provider\.openai"):
        FailoverChat(["openai"])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["retry", "recovery", "budget", "hedge"])
def test_a_number_in_place_of_a_policy_is_refused_with_how_to_write_it(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} must be a \w+Policy, got int: write {name}="):
        FailoverChat([provider("a", ScriptedAdapter())], **{name: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"headers": ["x-team"]}, "must be a dict of strings"),
        ({"headers": {"x team": "a"}}, "hold what is no name of a header"),
        ({"headers": {"x-team": None}}, "header 'x-team' of provider 'openai' must be a string of printable ASCII"),
        ({"headers": {"x-team": "hunter2\r\nx-evil: 1"}}, "on one line"),
        ({"headers": {"x-team": "hunter2\u00e9"}}, "printable ASCII"),
        ({"base_url": "https://hunter2.example/v1\n"}, "base_url of provider 'openai' must be a full http or https"),
        ({"base_url": "https://hunter2.ex ample/v1"}, "base_url of provider 'openai' must be a full http or https"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_sent(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        Provider.openai(models=["m"], keys=["sk-a"], **given)
    assert "hunter2" not in str(refused.value)


async def asynchronous(request: object, error: object) -> str:
    return "hello"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"health": 3}, "health must be a store: write health=RedisHealth"),
        ({"clock": 3}, "clock must have monotonic, time, random and sleep, got int"),
        ({"listeners": print}, r"write listeners=\[\.\.\.\], got builtin_function_or_method"),
        ({"listeners": [3]}, "listeners must be a list of functions"),
        ({"last_resort": "sorry"}, "last_resort must be a plain function of the request and the error.*, got str"),
        ({"last_resort": asynchronous}, "not an asynchronous one"),
    ],
)
def test_what_is_no_part_of_a_coordinator_is_refused_with_what_to_give(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        FailoverChat([provider("a", ScriptedAdapter())], **given)


def test_a_route_that_is_one_string_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(ConfigurationError, match=r"write route=\['a/m1'\]"):
        FailoverChat([provider("a", ScriptedAdapter())], route="a/m1")


def test_two_providers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="same name"):
        FailoverChat([provider("a", ScriptedAdapter()), provider("a", ScriptedAdapter())])


def test_the_repr_is_the_route() -> None:
    assert repr(chat_of(ScriptedAdapter(), ScriptedAdapter())) == "FailoverChat(a/m1 > b/m1)"


def test_making_a_coordinator_builds_no_adapter() -> None:
    built: list[str] = []

    class Counting(Provider):
        def adapter(self, clock: object) -> ScriptedAdapter:
            built.append(self.name)
            return ScriptedAdapter()

    keys = provider("a", ScriptedAdapter()).keys
    chat = FailoverChat([Counting(name="a", vendor="openai", api="chat", models={"m1": "m1"}, keys=keys)])
    assert built == []
    asyncio.run(chat.warmup())
    assert built == ["a"]


async def test_a_provider_that_cannot_warm_up_is_warned_about() -> None:
    class Cold(ScriptedAdapter):
        async def warmup(self) -> None:
            raise failure(Kind.CONFIGURATION)

    heard = Listening()
    await FailoverChat([provider("a", Cold())], listeners=[heard]).warmup()
    assert heard.of(events.ConfigWarning) == [events.ConfigWarning("a", "warmup failed: configuration")]


# ---------------------------------------------------------------- calls


@pytest.mark.parametrize("prompt", ["hi", [Message("user", "hi")], [{"role": "user", "content": "hi"}]])
async def test_a_prompt_is_a_string_or_messages(prompt: object) -> None:
    adapter = ScriptedAdapter("hello")
    assert (await chat_of(adapter)(prompt)).text == "hello"  # type: ignore[arg-type]
    assert adapter.sent[0].text == "hi"


async def test_a_prepared_request_is_taken_as_it_is() -> None:
    adapter = ScriptedAdapter()
    request = ChatRequest(messages=(Message("user", "hi"),), temperature=0.3)
    await chat_of(adapter)(request)
    assert adapter.sent[0].request.temperature == 0.3


async def test_what_is_asked_for_reaches_the_adapter() -> None:
    adapter = ScriptedAdapter()
    await chat_of(adapter)("hi", system="Be brief.", max_tokens=9, temperature=0.1, top_p=0.2, stop="END")
    request = adapter.sent[0].request
    assert [message.role for message in request.messages] == ["system", "user"]
    assert (request.max_tokens, request.temperature, request.top_p, request.stop) == (9, 0.1, 0.2, ("END",))


async def test_tags_reach_every_listener_with_every_event() -> None:
    heard = Listening()
    await chat_of(ScriptedAdapter(), listeners=[heard])("hi", tags={"plan_id": "p1"})
    assert {tuple(tags.items()) for _, tags in heard.told} == {(("plan_id", "p1"),)}


async def test_a_wrong_request_is_refused_before_any_adapter_is_asked() -> None:
    adapter = ScriptedAdapter()
    with pytest.raises(InvalidRequestError):
        await chat_of(adapter)("")
    assert adapter.sent == []


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), True])
async def test_a_wrong_deadline_is_refused(deadline: float) -> None:
    with pytest.raises(ConfigurationError, match="deadline"):
        await chat_of(ScriptedAdapter())("hi", deadline=deadline)


async def test_a_wrong_kind_to_fail_over_on_is_refused_and_the_known_are_named() -> None:
    with pytest.raises(ConfigurationError, match="content_policy"):
        await chat_of(ScriptedAdapter())("hi", failover_on=["politics"])


async def test_a_closed_coordinator_takes_no_calls() -> None:
    adapter = ScriptedAdapter()
    chat = chat_of(adapter)
    await chat.aclose()
    with pytest.raises(ClosedError, match="closed"):
        await chat("hi")
    assert adapter.sent == []


async def test_a_call_under_way_starts_nothing_once_the_coordinator_is_closed() -> None:
    async def closed_meanwhile() -> AdapterReply:
        await chat.aclose()
        raise failure(Kind.SERVER_ERROR)

    adapter = ScriptedAdapter(closed_meanwhile, "from a new pool")
    chat = chat_of(adapter)
    with pytest.raises(ClosedError, match="under way") as raised:
        await chat("hi")
    assert len(adapter.sent) == 1
    assert [attempt.kind for attempt in raised.value.attempts] == [Kind.SERVER_ERROR]


async def test_an_answer_under_way_is_given_though_the_coordinator_is_closed() -> None:
    async def closed_meanwhile() -> AdapterReply:
        await chat.aclose()
        return answer("in time")

    chat = chat_of(ScriptedAdapter(closed_meanwhile))
    assert (await chat("hi")).text == "in time"


def test_who_waits_for_a_place_sends_nothing_once_the_coordinator_is_closed() -> None:
    slow = Slow()
    chat = FailoverChat([provider("a", slow, max_concurrency=1)], clock=DrillClock())

    async def two() -> list[object]:
        tasks = [asyncio.create_task(chat("hi")) for _ in range(2)]
        await asyncio.sleep(0.1)
        await chat.aclose()
        return [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)]

    assert (run(two()), len(slow.sent)) == ([ChatReply, ClosedError], 1)


async def test_a_request_is_prepared_once_per_candidate_whatever_the_retries() -> None:
    adapter = ScriptedAdapter(fails(Kind.SERVER_ERROR), fails(Kind.SERVER_ERROR), "hello")
    await chat_of(adapter)("hi")
    assert (len(adapter.prepared), len(adapter.sent)) == (1, 3)


async def test_a_candidate_whose_adapter_cannot_express_the_request_is_passed_by() -> None:
    first, second = ScriptedAdapter(), ScriptedAdapter("from the second")
    first.refuses = failure(Kind.UNSUPPORTED, feature="hosted_tool")
    assert (await chat_of(first, second)("hi")).text == "from the second"


async def test_where_no_adapter_can_express_it_that_is_said() -> None:
    adapter = ScriptedAdapter()
    adapter.refuses = failure(Kind.UNSUPPORTED, feature="something odd")
    with pytest.raises(UnsupportedFeatureError, match="something odd"):
        await chat_of(adapter)("hi")


async def test_a_bug_in_an_adapter_passes_as_raised_and_gives_the_permit_back() -> None:
    adapter = ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED))
    clock = ManualClock()
    chat = chat_of(adapter, clock=clock)
    with pytest.raises(QuotaExhaustedError):
        await chat("hi")
    clock.advance(300)
    adapter.script = [ZeroDivisionError("a bug")]
    with pytest.raises(ZeroDivisionError):
        await chat("hi")
    adapter.script = ["hello"]
    assert (await chat("hi")).attempts[0].probe


async def test_a_bug_in_preparing_gives_the_permit_back() -> None:
    adapter = ScriptedAdapter()
    adapter.refuses = ZeroDivisionError("a bug")
    chat = chat_of(adapter)
    with pytest.raises(ZeroDivisionError):
        await chat("hi")
    adapter.refuses = None
    assert (await chat("hi")).text == "hello"


async def test_a_picture_goes_to_a_candidate_that_sees() -> None:
    blind, seeing = ScriptedAdapter("a"), ScriptedAdapter("b")
    providers = [
        provider("blind", blind, capabilities=Capabilities(vision=False)),
        provider("seeing", seeing, capabilities=Capabilities(vision=True)),
    ]
    assert (await FailoverChat(providers, clock=ManualClock())(LOOK)).text == "b"
    assert blind.sent == []


async def test_a_refused_feature_is_remembered_and_costs_the_next_call_nothing() -> None:
    first, second = ScriptedAdapter(fails(Kind.UNSUPPORTED, feature="vision"), "hello"), ScriptedAdapter()
    chat = chat_of(first, second)
    await chat(LOOK)
    await chat(LOOK)
    assert (len(first.sent), len(second.sent)) == (1, 2)


# ---------------------------------------------------------------- refusals


def refusal() -> AdapterReply:
    return answer("I will not.", finish_reason=FinishReason.REFUSAL)


async def test_a_refusal_is_an_answer_by_default() -> None:
    first, second = ScriptedAdapter(refusal()), ScriptedAdapter()
    reply = await chat_of(first, second)("hi")
    assert (reply.finish_reason, second.sent) == (FinishReason.REFUSAL, [])


async def test_a_refusal_fails_over_where_the_caller_says_so() -> None:
    first, second = ScriptedAdapter(refusal()), ScriptedAdapter("with pleasure")
    assert (await chat_of(first, second)("hi", failover_on=["content_policy"])).text == "with pleasure"


async def test_a_policy_failure_is_raised_by_default() -> None:
    with pytest.raises(ContentPolicyError):
        await chat_of(ScriptedAdapter(fails(Kind.CONTENT_POLICY)), ScriptedAdapter())("hi")


# ---------------------------------------------------------------- places, in virtual time


class Slow(ScriptedAdapter):
    """Answers after a second, and knows how many it had at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.script = [self.slowly]  # type: ignore[list-item]

    async def slowly(self) -> AdapterReply:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        return answer()


def test_no_more_requests_are_under_way_than_allowed() -> None:
    slow = Slow()
    chat = FailoverChat([provider("a", slow, max_concurrency=2)], clock=DrillClock())

    async def many() -> float:
        await asyncio.gather(*(chat("hi") for _ in range(6)))
        return asyncio.get_running_loop().time()

    assert (run(many()), slow.most) == (3, 2)


def test_waiting_for_a_place_is_bounded_by_the_deadline() -> None:
    chat = FailoverChat([provider("a", Slow(), max_concurrency=1)], clock=DrillClock())

    async def two() -> object:
        first = asyncio.create_task(chat("hi"))
        await asyncio.sleep(0)
        try:
            await chat("hi", deadline=0.5)
        except DeadlineExceededError as error:
            await first
            return error.where, error.attempts
        return None

    assert run(two()) == ("local_queue", ())


def test_a_caller_who_leaves_the_queue_takes_no_place() -> None:
    slow = Slow()
    chat = FailoverChat([provider("a", slow, max_concurrency=1)], clock=DrillClock())

    async def three() -> int:
        first, second = asyncio.create_task(chat("hi")), asyncio.create_task(chat("hi"))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await chat("hi", deadline=5)
        return len(slow.sent)

    assert run(three()) == 2


# ---------------------------------------------------------------- event loops


def test_a_second_event_loop_may_use_it_after_the_first_and_what_is_known_stays() -> None:
    vendor = Vendor(openai_ok())
    chat = FailoverChat([vendor.openai("sk-key-a", "sk-key-b")], clock=ManualClock())

    async def once() -> ChatReply:
        return await chat("hi")

    assert [asyncio.run(once()).served_by.key_label for _ in range(3)] == ["openai#1", "openai#2", "openai#1"]


async def test_closing_closes_every_adapter_that_was_built() -> None:
    first, second = ScriptedAdapter(fails(Kind.AUTHENTICATION)), ScriptedAdapter()
    async with chat_of(first, second) as chat:
        await chat("hi")
    assert (first.closed, second.closed) == (1, 1)


async def test_a_policy_of_one_call_is_for_that_call() -> None:
    adapter = ScriptedAdapter(fails(Kind.SERVER_ERROR))
    chat = chat_of(adapter)
    for retry in (RetryPolicy(max_retries=0), None):
        with pytest.raises(ServerError):
            await chat("hi", retry=retry)
    assert len(adapter.sent) == 1 + 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["content_polcy"], r"must hold kinds of failure \(content_policy\), and 'content_polcy' is none"),
        ("content_policy", "must hold kinds of failure, in a list, got 'content_policy'"),
    ],
)
async def test_a_slip_in_failover_on_is_told_with_what_was_meant(given: list[str] | str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        await FailoverChat([provider("a", ScriptedAdapter())])("hi", failover_on=given)


@pytest.mark.parametrize("name", ["limits", "retry", "timeouts"])
def test_settings_of_a_provider_have_their_type(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} of provider 'openai' must be \w+\(\.\.\.\), got int"):
        Provider.openai(models=["m"], keys=["k"], **{name: 3})  # type: ignore[arg-type]
