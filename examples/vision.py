"""A picture in the question: it goes only to models that can see, in each vendor's own form.

python examples/vision.py [PICTURE]
"""

from __future__ import annotations

import base64
import mimetypes
import sys
from pathlib import Path

from vendors import run

from reliable_llm import Conversation, FailoverChat, Image, Text
from reliable_llm.testing import error, ok

# A red dot, for those who have no picture at hand.
DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5E"
    "rkJggg=="
)


def picture() -> Image:
    if len(sys.argv) < 2:
        return Image(data=base64.b64decode(DOT), media_type="image/png")
    path = Path(sys.argv[1])
    return Image(data=path.read_bytes(), media_type=mimetypes.guess_type(path)[0] or "image/png")


async def main(chat: FailoverChat) -> None:
    conversation = Conversation().user([Text("What is in this picture? One sentence."), picture()])
    print(chat.plan(conversation), end="\n\n")
    reply = await chat(conversation, max_tokens=200, deadline=60)
    print(f"{reply.served_by}: {reply.text}")
    for attempt in reply.attempts:
        print(f"  {attempt}")


SIMULATED = {
    "openai": [error(400, error_type="invalid_request_error", message="model does not support image input")],
    "anthropic": [ok("A small red dot on a white ground.")],
}

if __name__ == "__main__":
    run(main, SIMULATED)
