"""A web page that shows an answer as it comes, whichever vendor gives it (needs `fastapi`; to serve it: `uvicorn`).

    uvicorn fastapi_app:app --app-dir examples     # then open http://127.0.0.1:8000
    python examples/fastapi_app.py                 # asks the app once, without a server

One coordinator serves the whole app: what a request learns about a key, the next one knows. A reader who leaves ends
the vendor's stream, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from vendors import real_providers, simulated_providers

from reliable_llm import FailoverChat, Provider, ReliableLLMError, Restarted, TextDelta
from reliable_llm.testing import Drill, out_of_quota, stream

PAGE = """<!doctype html><title>Ask</title>
<form onsubmit="ask(q.value); return false"><input id="q" size="60" autofocus><button>Ask</button></form>
<p id="answer"></p><small id="by"></small>
<script>
let source;
function ask(question) {
  source?.close();
  answer.textContent = by.textContent = "";
  source = new EventSource("/ask?q=" + encodeURIComponent(question));
  source.addEventListener("text", event => answer.textContent += JSON.parse(event.data));
  source.addEventListener("restart", () => answer.textContent = "");
  source.addEventListener("end", event => { by.textContent = JSON.parse(event.data); source.close(); });
}
</script>"""


def providers() -> list[Provider]:
    """Return the vendors with a key in the environment; without any, simulated ones."""
    if real := real_providers():
        return real
    drill = Drill()
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", stream("The Rhine, ", "the Rhone ", "and the Po."))
    return simulated_providers(drill)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with FailoverChat(providers()) as chat:
        app.state.chat = chat
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE)


@app.get("/ask")
async def ask(request: Request, q: str) -> StreamingResponse:
    return StreamingResponse(events(request.app.state.chat, q), media_type="text/event-stream")


async def events(chat: FailoverChat, question: str) -> AsyncIterator[str]:
    """Yield the answer as server-sent events. A failure is the last one: the status has been sent by then."""
    try:
        async with chat.stream(question, deadline=60, on_interrupt="restart") as answer:
            async for event in answer:
                if isinstance(event, TextDelta):
                    yield sse("text", event.text)
                elif isinstance(event, Restarted):
                    yield sse("restart", "")
            yield sse("end", f"by {answer.served_by}")
    except ReliableLLMError as failure:
        yield sse("end", f"no answer ({failure.kind}); try again in {failure.retry_after or 30:.0f} s")


def sse(event: str, data: str) -> str:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


async def demonstrate() -> None:
    """Ask the app as a browser would, without a server."""
    transport = httpx2.ASGITransport(app=app)
    async with lifespan(app), httpx2.AsyncClient(transport=transport, base_url="http://app") as browser:
        answer = await browser.get("/ask", params={"q": "Name three rivers."})
        print(answer.text, end="")


if __name__ == "__main__":
    asyncio.run(demonstrate())
