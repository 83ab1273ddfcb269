"""A stream that breaks in the middle: announced, and told anew by another vendor.

python examples/streaming.py

Before the first output a stream fails over by itself. After it, `on_interrupt` decides: "raise" (the default) raises
`StreamInterruptedError` with the text so far, "restart" begins again elsewhere, "continue" goes on where it broke.
"""

from __future__ import annotations

from vendors import run

from reliable_llm import FailoverChat, Restarted, TextDelta
from reliable_llm.testing import stream


async def main(chat: FailoverChat) -> None:
    async with chat.stream("Tell me about the Rhine.", deadline=60, on_interrupt="restart") as answer:
        async for event in answer:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
            elif isinstance(event, Restarted):
                print(f"  [broke: {event.cause}; what was shown is void]")
    reply = await answer.reply()
    print(f"\n\n{reply.served_by} finished with {reply.finish_reason}")


SIMULATED = {
    "openai": [stream("The Rhine rises in the Alps. ", "It ", end="cut")],
    "anthropic": [stream("The Rhine rises in Graubünden, ", "and meets the sea ", "near Rotterdam.")],
}

if __name__ == "__main__":
    run(main, SIMULATED)
