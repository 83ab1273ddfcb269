"""A conversation stays on its key while that is well, for the sake of the vendor's prompt cache."""

from __future__ import annotations

from reliable_llm import FailoverChat
from reliable_llm.errors import Kind
from tests.support import STEADY, ManualClock, ScriptedAdapter, fails, provider


def chat_of(adapter: ScriptedAdapter, clock: ManualClock | None = None) -> FailoverChat:
    return FailoverChat([provider("main", adapter, keys=5)], clock=clock or ManualClock(), retry=STEADY)


async def test_calls_of_one_conversation_use_one_key() -> None:
    adapter = ScriptedAdapter()
    chat = chat_of(adapter)

    for _ in range(10):
        await chat("hi", affinity="conversation-1")

    assert len(set(adapter.keys)) == 1


async def test_conversations_spread_over_the_keys() -> None:
    adapter = ScriptedAdapter()
    chat = chat_of(adapter)

    for number in range(200):
        await chat("hi", affinity=f"conversation-{number}")

    assert all(adapter.keys.count(f"main#{number}") > 10 for number in range(1, 6))


async def test_another_process_picks_the_same_key() -> None:
    one, other = ScriptedAdapter(), ScriptedAdapter()
    await chat_of(one)("hi", affinity="conversation-1")
    await chat_of(other)("warm-up")

    await chat_of(other)("hi", affinity="conversation-1")

    assert one.keys == other.keys[1:]


async def test_a_conversation_leaves_a_spent_key_and_returns_to_it() -> None:
    clock = ManualClock()
    adapter = ScriptedAdapter("hello", fails(Kind.QUOTA_EXHAUSTED), "hello")
    chat = chat_of(adapter, clock)
    for _ in range(3):
        await chat("hi", affinity="conversation-1")
    clock.advance(301)

    await chat("hi", affinity="conversation-1")

    home, left, stand_in, again, back = adapter.keys
    assert home == left == back
    assert stand_in == again != home


async def test_conversations_do_not_disturb_the_round_robin_of_others() -> None:
    adapter = ScriptedAdapter()
    chat = chat_of(adapter)

    for _ in range(5):
        await chat("hi")
        await chat("hi", affinity="conversation-1")

    assert adapter.keys[::2] == [f"main#{number}" for number in range(1, 6)]
