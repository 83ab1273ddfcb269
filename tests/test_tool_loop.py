"""An agent's loop that changes its vendor at every turn, over real sockets, on the vendors' own clients.

Two servers play the vendors. Each checks every request strictly (the SDK's own types, calls and results in order, its
own signed thinking back untouched and no other's) and answers a broken one with 400. They take turns at being down.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest

from reliable_llm import Conversation, FailoverChat, Provider, RecoveryPolicy, RetryPolicy, run_tools, tool
from reliable_llm.types import ChatReply
from tests.wire_types import check_anthropic, check_openai

TURNS = 20
JSON = dict[str, Any]


@tool
async def add(total: int, number: int) -> int:
    """Add two numbers."""
    return total + number


class Server:
    """A vendor on loopback that is well in every other turn."""

    path = ""

    def __init__(self, *, well_in: int) -> None:
        self.well_in = well_in
        self.requests: list[JSON] = []
        self.refusals: list[str] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode().lower().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
                status, body = self.respond(json.loads(await reader.readexactly(length)))
                content = json.dumps(body).encode()
                writer.write(
                    b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                    % (status, len(content), content)
                )
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def respond(self, body: JSON) -> tuple[int, JSON]:
        try:
            self.check(body)
        except Exception as broken:  # noqa: BLE001 - whatever is wrong with a request is for the test to see
            self.refusals.append(repr(broken))
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "a broken request"}}
        turn, total = self.heard(body)
        if turn % 2 != self.well_in:
            return 503, {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}
        self.requests.append(body)
        return 200, self.ask(turn, total) if turn <= TURNS else self.tell(total)

    def check(self, body: JSON) -> None:
        raise NotImplementedError

    def heard(self, body: JSON) -> tuple[int, int]:
        """Return which turn this is, counted from 1, and the total so far."""
        results = self.results(body)
        return len(results) + 1, int(results[-1]) if results else 0

    def results(self, body: JSON) -> list[str]:
        raise NotImplementedError

    def ask(self, turn: int, total: int) -> JSON:
        raise NotImplementedError

    def tell(self, total: int) -> JSON:
        raise NotImplementedError


class OpenAI(Server):
    def check(self, body: JSON) -> None:
        check_openai(body["messages"])

    def results(self, body: JSON) -> list[str]:
        return [message["content"] for message in body["messages"] if message["role"] == "tool"]

    def ask(self, turn: int, total: int) -> JSON:
        arguments = json.dumps({"total": total, "number": turn})
        # An id as some hosts make them: longer than anybody takes back.
        call = {
            "id": f"call.{turn}|" + "9" * 90,
            "type": "function",
            "function": {"name": "add", "arguments": arguments},
        }
        return self._answer({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")

    def tell(self, total: int) -> JSON:
        return self._answer({"role": "assistant", "content": f"The sum is {total}."}, "stop")

    def _answer(self, message: JSON, finish: str) -> JSON:
        choice = {"index": 0, "finish_reason": finish, "message": message}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt", "choices": [choice]}


class Anthropic(Server):
    """Signs its thinking, and wants back all of its own and none of anybody else's."""

    def __init__(self, *, well_in: int) -> None:
        super().__init__(well_in=well_in)
        self.issued: list[JSON] = []

    def check(self, body: JSON) -> None:
        check_anthropic(body["messages"])
        blocks = [
            each for message in body["messages"] if isinstance(message["content"], list) for each in message["content"]
        ]
        assert [block for block in blocks if block["type"] == "thinking"] == self.issued

    def results(self, body: JSON) -> list[str]:
        blocks = [
            each for message in body["messages"] if isinstance(message["content"], list) for each in message["content"]
        ]
        return [block["content"] for block in blocks if block["type"] == "tool_result"]

    def ask(self, turn: int, total: int) -> JSON:
        thinking = {
            "type": "thinking",
            "thinking": f"{total} and {turn}",
            "signature": hashlib.sha256(b"%d" % turn).hexdigest(),
        }
        self.issued.append(thinking)
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "add", "input": {"total": total, "number": turn}}
        return self._answer([thinking, call], "tool_use")

    def tell(self, total: int) -> JSON:
        return self._answer([{"type": "text", "text": f"The sum is {total}."}], "end_turn")

    def _answer(self, content: list[JSON], stop: str) -> JSON:
        usage = {"input_tokens": 1, "output_tokens": 1}
        head = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
        return {**head, "content": content, "stop_reason": stop, "usage": usage}


@pytest.fixture
async def servers() -> AsyncIterator[tuple[OpenAI, Anthropic]]:
    async with OpenAI(well_in=1) as openai, Anthropic(well_in=0) as anthropic:
        yield openai, anthropic


async def loop(servers: tuple[OpenAI, Anthropic]) -> tuple[Conversation, list[ChatReply]]:
    openai, anthropic = servers
    conversation, replies = Conversation("Add 1 to 20, one by one.", system="Use the tool."), []
    chat = FailoverChat(
        [
            Provider.openai(models=["gpt"], keys=["k"], base_url=f"{openai.url}/v1", vendor="openai"),
            Provider.anthropic(models=["claude"], keys=["k"], base_url=anthropic.url, vendor="anthropic"),
        ],
        retry=RetryPolicy(max_retries=0),
        recovery=RecoveryPolicy(breaker={}),  # who was down a turn ago is well now
    )
    async with chat:
        for _ in range(TURNS + 1):
            reply = await chat(conversation, tools=[add])
            replies.append(reply)
            conversation.append(reply)
            if not reply.tool_calls:
                break
            conversation.add_results(await run_tools(reply.tool_calls, [add]))
    return conversation, replies


async def test_a_loop_of_twenty_turns_survives_a_change_of_vendor_at_every_turn(
    servers: tuple[OpenAI, Anthropic],
) -> None:
    conversation, replies = await loop(servers)

    assert servers[0].refusals + servers[1].refusals == []
    assert [reply.served_by.provider for reply in replies] == ["openai", "anthropic"] * (TURNS // 2) + ["openai"]
    assert conversation[-1].text == f"The sum is {sum(range(TURNS + 1))}."


async def test_an_id_is_the_same_in_every_later_request(servers: tuple[OpenAI, Anthropic]) -> None:
    await loop(servers)

    sent = [[call["id"] for m in body["messages"] for call in m.get("tool_calls", ())] for body in servers[0].requests]
    longest = sent[-1]
    assert len(longest) == TURNS
    assert all(ids == longest[: len(ids)] for ids in sent)
