"""Callers with a start of the chain of their own."""

from __future__ import annotations

import asyncio

import pytest

from reliable_llm import ConfigurationError, FailoverChat, Kind, RecoveryPolicy
from reliable_llm.types import Candidate, Finished, FinishReason, TextDelta
from reliable_llm.wishes import Wishes
from tests.support import STEADY, ManualClock, ScriptedAdapter, fails, provider


def three(
    *, cheap: ScriptedAdapter | None = None, dear: ScriptedAdapter | None = None, **fields: object
) -> FailoverChat:
    providers = [
        provider("a", cheap or ScriptedAdapter("cheap"), models=["cheap"]),
        provider("b", dear or ScriptedAdapter("dear"), models=["dear"]),
        provider("c", ScriptedAdapter("spare"), models=["dear", "spare"]),
    ]
    return FailoverChat(providers, clock=ManualClock(), retry=STEADY, **fields)  # type: ignore[arg-type]


async def test_a_caller_without_a_wish_gets_the_usual_chain() -> None:
    assert (await three().for_caller("ada")("hi")).text == "cheap"


async def test_a_callers_own_start_is_tried_first() -> None:
    chat = three()
    chat.for_caller("ada").prefer("dear")

    assert (await chat.for_caller("ada")("hi")).text == "dear"


async def test_other_callers_are_not_touched_by_a_wish() -> None:
    chat = three()
    chat.for_caller("ada").prefer("dear")

    assert (await chat.for_caller("bob")("hi")).text == "cheap"
    assert (await chat("hi")).text == "cheap"


async def test_after_the_own_start_comes_the_usual_chain() -> None:
    chat = three(dear=ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED)), route=["a/cheap"])
    chat.for_caller("ada").prefer("b/dear")

    reply = await chat.for_caller("ada")("hi")

    assert [(a.provider, a.model) for a in reply.attempts] == [("b", "dear"), ("a", "cheap")]


async def test_a_model_starts_at_every_provider_that_serves_it() -> None:
    chat = three(route=["a/cheap"])
    ada = chat.for_caller("ada")
    ada.prefer("dear")

    assert list(map(str, ada.preference or ())) == ["b/dear", "c/dear", "a/cheap"]


async def test_the_models_own_fallbacks_replace_the_usual_chain() -> None:
    ada = three(fallbacks={"dear": ["spare"]}).for_caller("ada")
    ada.prefer("dear")

    assert list(map(str, ada.preference or ())) == ["b/dear", "c/dear", "c/spare"]


@pytest.mark.parametrize("start", ["DEAR", "B/Dear", Candidate("b", "dear")])
async def test_a_wish_is_understood_whatever_its_case(start: str | Candidate) -> None:
    ada = three().for_caller("ada")
    ada.prefer(start)

    assert (await ada("hi")).text == "dear"


def test_a_wish_that_nobody_serves_is_refused_and_names_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match="a/cheap"):
        three().for_caller("ada").prefer("opus")


async def test_the_most_specific_wish_counts() -> None:
    chat = three()
    chat.for_caller("team").prefer("dear")
    chat.for_caller("team/ada").prefer("spare")

    answers = [(await chat.for_caller(key)("hi")).text for key in ("team/ada", "team/bob", "team", "other")]

    assert answers == ["spare", "dear", "dear", "cheap"]


async def test_a_prefix_ends_at_a_boundary() -> None:
    chat = three()
    chat.for_caller("team").prefer("dear")

    assert (await chat.for_caller("teams/ada")("hi")).text == "cheap"


async def test_a_key_may_be_a_path_of_parts_that_hold_slashes() -> None:
    chat = three()
    chat.for_caller(("chat", "a/b")).prefer("dear")

    assert (await chat.for_caller(("chat", "a/b", "thread"))("hi")).text == "dear"
    assert (await chat.for_caller("chat/a/b")("hi")).text == "cheap"


@pytest.mark.parametrize("key", ["", "a//b", (), ("a", "")])
def test_a_blank_key_is_refused(key: str | tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="key"):
        three().for_caller(key)


def test_setting_the_default_clears_the_wish() -> None:
    chat = three()
    ada = chat.for_caller("ada")
    ada.prefer("dear")
    ada.prefer("cheap")

    assert ada.preference is None
    assert len(chat._coordination.wishes) == 0


async def test_wanting_the_default_within_a_group_with_a_wish_is_a_wish() -> None:
    chat = three()
    chat.for_caller("team").prefer("dear")
    chat.for_caller("team/ada").prefer("cheap")

    assert (await chat.for_caller("team/ada")("hi")).text == "cheap"


async def test_a_forgotten_wish_leaves_that_of_the_group() -> None:
    chat = three()
    chat.for_caller("team").prefer("dear")
    ada = chat.for_caller("team/ada")
    ada.prefer("spare")
    ada.forget()

    assert (await ada("hi")).text == "dear"


async def test_a_fallback_never_overwrites_the_wish() -> None:
    failing_once = ScriptedAdapter(fails(Kind.SERVER_ERROR, retry_same=False), "dear")
    chat = three(dear=failing_once, recovery=RecoveryPolicy(breaker={}))
    ada = chat.for_caller("ada")
    ada.prefer("b/dear")

    first, second = await ada("hi"), await ada("hi")

    assert (first.text, second.text) == ("cheap", "dear")


async def test_concurrent_callers_do_not_see_each_others_wish() -> None:
    chat = three()
    names = [f"caller{n}" for n in range(40)]
    for name in names[::2]:
        chat.for_caller(name).prefer("dear")

    replies = await asyncio.gather(*(chat.for_caller(name)("hi") for name in names))

    assert [reply.text for reply in replies] == ["dear", "cheap"] * 20
    assert [str(reply.requested) for reply in replies] == ["b/dear", "a/cheap"] * 20


async def test_a_model_named_with_the_call_goes_before_the_wish() -> None:
    ada = three().for_caller("ada")
    ada.prefer("dear")

    assert (await ada("hi", model="spare")).text == "spare"
    assert (await ada("hi", route=["a/cheap"])).text == "cheap"


async def test_a_stream_starts_where_the_caller_wants() -> None:
    hello = [TextDelta("hello"), Finished(FinishReason.STOP, None)]
    ada = three(dear=ScriptedAdapter(streams=(hello,))).for_caller("ada")
    ada.prefer("b/dear")

    async with ada.stream("hi") as stream:
        reply = await stream.reply()

    assert (str(reply.requested), str(reply.served_by)) == ("b/dear", "b/dear")


async def test_a_view_made_before_the_wish_follows_it() -> None:
    chat = three()
    early = chat.for_caller("ada")
    chat.for_caller("ada").prefer("dear")

    assert (await early("hi")).text == "dear"


async def test_closing_a_callers_view_closes_nothing() -> None:
    chat = three()
    async with chat.for_caller("ada") as ada:
        await ada("hi")

    assert (await chat("hi")).text == "cheap"


async def test_a_view_of_a_closed_coordinator_is_closed() -> None:
    chat = three()
    ada = chat.for_caller("ada")
    await chat.aclose()

    with pytest.raises(RuntimeError, match="closed"):
        await ada("hi")


async def test_callers_share_what_is_known_about_keys() -> None:
    cheap = ScriptedAdapter(fails(Kind.QUOTA_EXHAUSTED), "cheap")
    chat = three(cheap=cheap)
    await chat.for_caller("ada")("hi")
    await chat.for_caller("bob")("hi")

    assert len(cheap.sent) == 1


def test_the_map_of_wishes_is_bounded_and_keeps_those_in_use() -> None:
    wishes = Wishes(limit=2)
    chain = (Candidate("a", "m"),)
    wishes.set(("one",), chain)
    wishes.set(("two",), chain)
    wishes.of(("one",))
    wishes.set(("three",), chain)

    assert [wishes.of((name,)) is not None for name in ("one", "two", "three")] == [True, False, True]


def test_callers_without_a_wish_take_no_room() -> None:
    chat = three()
    for n in range(100):
        chat.for_caller(f"caller{n}")

    assert len(chat._coordination.wishes) == 0


def test_a_callers_view_is_a_coordinator() -> None:
    assert isinstance(three().for_caller("ada"), FailoverChat)
