"""A vendor on loopback, in a process of its own: the cheapest server that both SDKs take for theirs.

Answers are built beforehand and written in one piece, so that the client is what a benchmark measures. The path
chooses: `/v1/chat/completions` and `/v1/messages`, streamed when the body says so. Use it as a context manager:

    with vendor_server() as base: AsyncOpenAI(base_url=base + "/v1", ...)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

CHUNKS: Final = 200
WORDS: Final = "the quick brown fox jumps over the lazy dog " * 4

_LIMITS: Final = (
    "x-ratelimit-limit-requests: 10000\r\nx-ratelimit-remaining-requests: 9999\r\nx-ratelimit-reset-requests: 6ms\r\n"
    "x-request-id: req_1\r\nrequest-id: req_1\r\n"
)


def _http(body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{_LIMITS}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _events(*events: dict[str, Any]) -> bytes:
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    return b"".join(f"{name}data: {json.dumps(event)}\n\n".encode() for name, event in zip(named, events, strict=True))


def chat_answer() -> tuple[bytes, bytes]:
    """A chat completion, whole and streamed."""
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt"}
    usage = {"prompt_tokens": 500, "completion_tokens": 40, "total_tokens": 540}
    message = {"role": "assistant", "content": WORDS, "refusal": None}
    whole = {**head, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    part = {**head, "object": "chat.completion.chunk", "system_fingerprint": "fp"}
    chunk = {**part, "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}]}
    end = {**part, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    stream = _events(*[chunk] * CHUNKS, end, {**part, "choices": [], "usage": usage}) + b"data: [DONE]\n\n"
    return json.dumps(whole).encode(), stream


def messages_answer() -> tuple[bytes, bytes]:
    """An Anthropic message, whole and streamed."""
    usage = {"input_tokens": 500, "output_tokens": 40}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
    text = [{"type": "text", "text": WORDS}]
    whole = {**head, "content": text, "stop_reason": "end_turn", "usage": usage}
    start = {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}}
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}}
    closed = {"type": "content_block_stop", "index": 0}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}}
    stream = _events(start, opened, *[delta] * CHUNKS, closed, ended, {"type": "message_stop"})
    return json.dumps(whole).encode(), stream


class _Vendor(asyncio.Protocol):
    """Reads requests that may share a packet, and answers each after `delay` seconds."""

    answers: dict[tuple[bool, bool], bytes]
    delay: float

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            streamed = b'"stream":true' in body or b'"stream": true' in body
            self._answer(self.answers[b"/messages" in head.split(b"\r\n")[0], streamed])

    def _answer(self, answer: bytes) -> None:
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, answer)  # type: ignore[attr-defined]
        else:
            self.transport.write(answer)  # type: ignore[attr-defined]


def _serve(pipe: Connection, delay: float) -> None:
    async def main() -> None:
        chat, messages = chat_answer(), messages_answer()
        _Vendor.delay = delay
        _Vendor.answers = {
            (False, False): _http(chat[0], "application/json"),
            (False, True): _http(chat[1], "text/event-stream"),
            (True, False): _http(messages[0], "application/json"),
            (True, True): _http(messages[1], "text/event-stream"),
        }
        server = await asyncio.get_running_loop().create_server(_Vendor, "127.0.0.1", 0, backlog=16_384)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextlib.contextmanager
def vendor_server(delay: float = 0.0) -> Iterator[str]:
    """Yield the base URL of a vendor that answers after *delay* seconds."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(there, delay), daemon=True)
    process.start()
    try:
        if not here.poll(30):
            raise RuntimeError("the vendor's process did not start within 30 s")
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.kill()
        process.join()
