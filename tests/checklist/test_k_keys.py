"""Group K: several keys per provider, taken in turn, on the wire, and never shown."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter

import pytest

from reliable_llm.chat import FailoverChat
from reliable_llm.core.keyring import KeyRing
from reliable_llm.errors import AuthenticationError, RateLimitedError
from tests.checklist.pairs import Pair
from tests.support import STEADY, ManualClock, Vendor, openai_error, openai_ok, out_of_quota, rate_limited

A, B, C = "sk-proj-AAAAaaaa1111", "sk-proj-BBBBbbbb2222", "sk-proj-CCCCcccc3333"


async def test_k1_keys_take_turns_on_success_too() -> None:
    pair = Pair(keys=(A, B, C))
    for _ in range(5):
        await pair.ask()
    assert pair.primary.keys == [A, B, C, A, B]


def test_k1_a_ring_without_keys_gives_none() -> None:
    assert KeyRing([]).pick(0, "m1") is None


async def test_k2_the_rotated_key_is_on_the_wire() -> None:
    pair = Pair(keys=(A, B))
    pair.primary.on(A, rate_limited(retry_after="20"))
    await pair.ask()
    assert pair.primary.keys == [A, B]


async def test_k2_every_key_is_tried_once_before_the_candidate_is_left() -> None:
    pair = Pair(rate_limited(retry_after="20"), keys=(A, B, C))
    reply = await pair.ask()
    assert (pair.primary.keys, reply.served_by.provider) == ([A, B, C], "anthropic")


async def test_k3_rotation_costs_no_retry_and_no_sleep() -> None:
    pair = Pair(keys=(A, B, C), retry=STEADY.__class__(max_retries=0))
    pair.primary.on(A, rate_limited(retry_after="20")).on(B, rate_limited(retry_after="20"))
    reply = await pair.ask()
    assert (reply.served_by.key_label, pair.slept) == ("openai#3", [])


async def test_k3_a_refused_key_is_not_used_again() -> None:
    pair = Pair(keys=(A, B))
    pair.primary.on(A, openai_error(401))
    for _ in range(3):
        await pair.ask()
    assert pair.primary.keys == [A, B, B, B]


async def test_k3_a_server_error_does_not_rest_a_key() -> None:
    pair = Pair(openai_error(500), openai_ok(), keys=(A, B))
    await pair.ask()
    assert all(key.health.state == "ready" for key in pair.chat.status().providers[0].keys)


async def test_k4_a_key_never_goes_to_another_vendor() -> None:
    pair = Pair(out_of_quota(), keys=(A, B))
    await pair.ask()
    assert pair.primary.keys == [A, B]
    assert pair.fallback.keys == ["sk-ant-a"]


async def test_k5_with_every_key_parked_the_next_call_uses_none_of_them() -> None:
    pair = Pair(out_of_quota(), keys=(A, B))
    await pair.ask()
    await pair.ask()
    assert (pair.primary.keys, len(pair.fallback.arrivals)) == ([A, B], 2)


async def test_k5_with_every_key_parked_and_nothing_else_the_call_fails_without_a_request() -> None:
    pair = Pair(rate_limited(retry_after="200"), keys=(A, B), alone=True)
    await pair.fail()
    error = await pair.fail()
    assert isinstance(error, RateLimitedError)
    assert pair.primary.keys == [A, B]


def pieces(key: str) -> set[str]:
    """Return every run of four characters that only the secret part of *key* has."""
    secret = key.removeprefix("sk-proj-")
    return {secret[n : n + 4] for n in range(len(secret) - 3)}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
async def test_k6_no_piece_of_a_key_is_shown(status: int, capsys: pytest.CaptureFixture[str]) -> None:
    message = f"Incorrect API key provided: {A}. You can find yours at ..."
    pair = Pair(openai_error(status, message), keys=(A, B), alone=True)
    error = await pair.fail()
    printed = capsys.readouterr()
    shown = [str(error), repr(error), str(pickle.dumps(error)), repr(error.attempts), str(error.attempts)]
    shown += [repr(pair.chat), str(pair.chat.status()), repr(pair.chat.status()), printed.out, printed.err]
    shown += [repr(event) for event in pair.heard.of()]
    assert not [piece for text in shown for piece in pieces(A) | pieces(B) if piece in text]


async def test_k6_labels_tell_keys_apart() -> None:
    pair = Pair(openai_error(401), keys=(A, B), alone=True)
    error = await pair.fail()
    assert isinstance(error, AuthenticationError)
    assert [attempt.key_label for attempt in error.attempts] == ["openai#1", "openai#2"]


async def test_k7_many_callers_at_once_lose_no_turn() -> None:
    vendor = Vendor(openai_ok())
    chat = FailoverChat([vendor.openai(A, B, C)], clock=ManualClock())
    await asyncio.gather(*(chat("hi") for _ in range(30)))
    assert Counter(vendor.keys) == {A: 10, B: 10, C: 10}
