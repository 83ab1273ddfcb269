"""The same faults against this library and its peers, side by side, on one loopback server in real time.

    python tests/bench/faults.py            # ours; a peer joins when it is installed
    python tests/bench/faults.py --quick    # fewer calls, shorter waits

Peers: LiteLLM Router, LangChain with_fallbacks, Pydantic AI FallbackModel, each with its defaults and a fallback.
Each row tells the time to answer, the requests to the primary and what the caller got; then come our own figures on
larger loads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import structlog

from reliable_llm import FailoverChat, Provider, ReliableLLMError, StreamInterruptedError, Timeouts

Ask = Callable[[], Awaitable[str]]
PATIENCE_S = 45.0


# ---------------------------------------------------------------- the server


@dataclass
class Answer:
    """What the server does with one request.

    `status` 0 means that it never answers, and `length` above that of the body that the connection is cut in it.
    """

    status: int = 200
    body: str = ""
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


def chat_body(text: str | None, reason: str = "stop") -> str:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": [choice], "usage": usage})


def error(status: int, kind: str, code: str | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps({"error": {"message": "m", "type": kind, "code": code}}), headers=named)


def stream(*frames: str, cut: bool = False) -> Answer:
    """Two pieces of text, then *frames*."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [{"index": 0, "delta": {"content": text}, "finish_reason": None} for text in ("half ", "a ")]
    texts = [json.dumps({**head, "choices": [delta]}) for delta in deltas]
    body = "".join(f"data: {frame}\n\n" for frame in (*texts, *frames))
    return Answer(body=body, kind="text/event-stream", length=len(body) + 100 if cut else None)


OK = Answer(body=chat_body("primary"))
FALLBACK = Answer(body=chat_body("fallback"))


class Server:
    """Speaks OpenAI's chat completions on loopback: the primary under /p, the fallback under /f."""

    def __init__(self) -> None:
        self.primary: Callable[[str, int], Answer] = lambda _key, _number: OK
        self.seen: Counter[str] = Counter()
        self.times: list[float] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def url(self, side: str) -> str:
        return f"http://127.0.0.1:{self.port}/{side}"

    def play(self, primary: Callable[[str, int], Answer]) -> None:
        self.primary = primary
        self.seen.clear()
        self.times.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        await reader.readexactly(int(fields.get("content-length", 0)))
        answer = self._answer(head.split(" ", 2)[1], fields.get("authorization", "").removeprefix("bearer "))
        if answer.status == 0:
            await reader.read()
            return False
        writer.write(_response(answer))
        await writer.drain()
        return answer.length is None

    def _answer(self, path: str, key: str) -> Answer:
        side = path[1]
        self.seen[side] += 1
        if side == "f":
            return FALLBACK
        self.times.append(time.perf_counter())
        return self.primary(key, self.seen["p"])


def _response(answer: Answer) -> bytes:
    body = answer.body.encode()
    length = len(body) if answer.length is None else answer.length
    headers = {"content-type": answer.kind, "content-length": str(length), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# ---------------------------------------------------------------- the contenders


def ours(
    server: Server, *, timeout: float = 3.0, keys: tuple[str, ...] = ("k1",), fallback: bool = True
) -> FailoverChat:
    timeouts = Timeouts(attempt=timeout, first_byte=timeout)
    providers = [Provider.openai(name="primary", keys=keys, models=["m"], base_url=server.url("p"), timeouts=timeouts)]
    if fallback:
        providers.append(Provider.openai(name="fallback", keys=["f1"], models=["m"], base_url=server.url("f")))
    return FailoverChat(providers)


def reliable_llm(server: Server) -> Ask:
    chat = ours(server)

    async def ask() -> str:
        return (await chat("hi")).text

    return ask


def litellm(server: Server) -> Ask:
    import litellm as peer

    peer.suppress_debug_info = True

    def model(name: str, side: str) -> dict[str, object]:
        return {
            "model_name": name,
            "litellm_params": {"model": "openai/m", "api_base": server.url(side), "api_key": "k1"},
        }

    router = peer.Router(
        [model("primary", "p"), model("fallback", "f")], fallbacks=[{"primary": ["fallback"]}], timeout=3
    )

    async def ask() -> str:
        reply = await router.acompletion("primary", messages=[{"role": "user", "content": "hi"}])
        return str(reply.choices[0].message.content)

    return ask


def langchain(server: Server) -> Ask:
    from langchain_openai import ChatOpenAI

    def model(side: str) -> ChatOpenAI:
        return ChatOpenAI(model="m", base_url=server.url(side), api_key="k1", timeout=3)

    chain = model("p").with_fallbacks([model("f")])

    async def ask() -> str:
        return str((await chain.ainvoke("hi")).content)

    return ask


def pydantic_ai(server: Server) -> Ask:
    import openai
    from pydantic_ai import Agent
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def model(side: str) -> OpenAIChatModel:
        client = openai.AsyncOpenAI(base_url=server.url(side), api_key="k1", timeout=3)
        return OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))

    agent = Agent(FallbackModel(model("p"), model("f")))

    async def ask() -> str:
        return str((await agent.run("hi")).output)

    return ask


CONTENDERS: dict[str, Callable[[Server], Ask]] = {
    "reliable_llm": reliable_llm,
    "LiteLLM": litellm,
    "LangChain": langchain,
    "Pydantic AI": pydantic_ai,
}

FAULTS: dict[str, Answer] = {
    "429, Retry-After 2": error(429, "requests", "rate_limit_exceeded", retry_after="2"),
    "429, Retry-After 30": error(429, "requests", "rate_limit_exceeded", retry_after="30"),
    "429 insufficient_quota": error(429, "insufficient_quota", "insufficient_quota"),
    "500": error(500, "server_error"),
    "401": error(401, "invalid_request_error", "invalid_api_key"),
    "400 invalid request": error(400, "invalid_request_error", "invalid_value"),
    "hang, 3 s timeout": Answer(status=0),
    "200 with HTML": Answer(body="<html>hello</html>", kind="text/html"),
    "200 empty choices": Answer(body=chat_body("x").replace('"choices": [', '"choices": [], "x": [')),
    "200 null content": Answer(body=chat_body(None)),
    "200 with error body": Answer(body=json.dumps({"error": {"message": "m", "code": 500}})),
}


async def side_by_side(server: Server) -> None:
    names = [name for name, make in CONTENDERS.items() if _installed(name, make, server)]
    print(f"\nTime to answer (s) / requests to the primary / who answered, patience {PATIENCE_S:.0f} s")
    print(f"{'fault':<24}" + "".join(f"{name:>30}" for name in names))
    for fault, answer in FAULTS.items():
        cells = [await _measured(server, CONTENDERS[name](server), answer) for name in names]
        print(f"{fault:<24}" + "".join(f"{cell:>30}" for cell in cells), flush=True)


def _installed(name: str, make: Callable[[Server], Ask], server: Server) -> bool:
    try:
        make(server)
    except ImportError:
        print(f"{name}: not installed")
        return False
    return True


async def _measured(server: Server, ask: Ask, answer: Answer) -> str:
    server.play(lambda _key, _number: OK)
    await ask()
    server.play(lambda _key, _number: answer)
    started = time.perf_counter()
    try:
        got = await asyncio.wait_for(ask(), PATIENCE_S)
    except Exception as exc:  # noqa: BLE001 - what the caller got is the figure
        got = type(exc).__name__
    return f"{time.perf_counter() - started:.2f} / {server.seen['p']} / {got[:16] or 'nothing'}"


# ---------------------------------------------------------------- our own figures


async def three_of_ten_keys_limited(server: Server, calls: int) -> str:
    hinted = await _three_limited(server, calls, error(429, "requests", "rate_limit_exceeded", retry_after="60"))
    bare = await _three_limited(server, calls, error(429, "requests", "rate_limit_exceeded"))
    return f"{hinted} (at most 1.01 at 1,000 calls); with no hint: {bare}"


async def _three_limited(server: Server, calls: int, busy: Answer) -> str:
    limited = {"k1", "k4", "k7"}
    chat = ours(server, keys=tuple(f"k{n}" for n in range(10)), fallback=False)
    server.play(lambda key, _number: busy if key in limited else OK)
    answered = await _at_once(chat, calls, width=16)
    return f"{answered / calls:.1%} answered, {server.seen['p'] / answered:.3f} requests per answer"


async def quota_gone(server: Server, calls: int) -> str:
    alone = FailoverChat([Provider.openai(name="fallback", keys=["f1"], models=["m"], base_url=server.url("f"))])
    chat = ours(server)
    server.play(lambda _key, _number: FAULTS["429 insufficient_quota"])
    await alone("hi")
    await chat("hi")
    took: dict[str, list[float]] = {"alone": [], "ours": []}
    for _ in range(calls):
        for name, each in (("alone", alone), ("ours", chat)):
            started = time.perf_counter()
            await each("hi")
            took[name].append(time.perf_counter() - started)
    ratio = statistics.median(took["ours"]) / statistics.median(took["alone"])
    return (
        f"{server.seen['p']} primary requests per {calls} calls (at most 2), median {ratio:.3f} of the fallback alone"
    )


async def a_fifth_fails(server: Server, calls: int) -> str:
    chat = ours(server)
    server.play(lambda _key, number: FAULTS["500"] if number % 5 == 0 else OK)
    answers = await _at_once(chat, calls, width=32)
    return f"{answers / calls:.1%} answered, {server.seen['p'] / calls:.3f} requests per call (at most 1.27)"


async def _at_once(chat: FailoverChat, calls: int, width: int) -> int:
    gate = asyncio.Semaphore(width)

    async def one() -> bool:
        async with gate:
            with suppress(ReliableLLMError):
                return bool((await chat("hi")).text)
            return False

    return sum(await asyncio.gather(*(one() for _ in range(calls))))


async def a_hint_is_shared(server: Server, _calls: int) -> str:
    chat = ours(server, fallback=False)
    server.play(lambda _key, _number: OK)
    await chat("hi")
    limit = error(429, "requests", "rate_limit_exceeded", retry_after="2")
    server.play(lambda _key, number: limit if number == 1 else OK)
    first = asyncio.create_task(chat("hi"))
    await asyncio.sleep(0.2)
    await asyncio.gather(first, *(chat("hi") for _ in range(9)))
    waited = [at - server.times[0] for at in server.times[1:]]
    span = f"{min(waited):.3f} to {max(waited):.3f} s"
    return f"{len(server.times)} requests for 10 callers, the others {span} after a hint of 2 s (2 %: 2.040)"


async def broken_streams(server: Server, _calls: int) -> str:
    broken = {
        "cut": stream(cut=True),
        "error frame": stream(json.dumps({"error": {"message": "m", "type": "server_error"}})),
        "clean end": stream(),
    }
    return ", ".join([f"{name}: {await _told(server, answer)}" for name, answer in broken.items()])


async def _told(server: Server, answer: Answer) -> str:
    chat = ours(server)
    server.play(lambda _key, _number: answer)
    try:
        async with chat.stream("hi") as answering:
            await answering.reply()
    except StreamInterruptedError as interrupted:
        return f"told, with {interrupted.partial_text!r}"
    return "NOT DETECTED"


async def a_stall_is_left(server: Server, _calls: int) -> str:
    return await _stalled(server, Timeouts(attempt=1, first_byte=1), "with a timeout of 1 s (at most 1.05)")


async def a_stall_is_left_by_default(server: Server, _calls: int) -> str:
    return await _stalled(server, Timeouts(), "with the defaults (60, and what a request takes)")


async def _stalled(server: Server, timeouts: Timeouts, said: str) -> str:
    chat = FailoverChat(
        [
            Provider.openai(name="primary", keys=["k1"], models=["m"], base_url=server.url("p"), timeouts=timeouts),
            Provider.openai(name="fallback", keys=["f1"], models=["m"], base_url=server.url("f")),
        ]
    )
    await chat.warmup()
    server.play(lambda _key, _number: Answer(status=0))
    started = time.perf_counter()
    reply = await chat("hi")
    return f"{reply.text} answered after {time.perf_counter() - started:.3f} s {said}"


ROWS = (three_of_ten_keys_limited, quota_gone, a_fifth_fails, a_hint_is_shared, broken_streams, a_stall_is_left)


async def main(*, quick: bool) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    calls = 100 if quick else 1000
    async with Server() as server:
        for row in ROWS if quick else (*ROWS, a_stall_is_left_by_default):
            print(f"{row.__name__.replace('_', ' ')}: {await row(server, calls)}", flush=True)
        await side_by_side(server)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 calls instead of 1,000, and no wait of a minute")
    asyncio.run(main(quick=parser.parse_args().quick))
