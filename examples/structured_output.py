"""A pydantic model in, an instance out: whichever vendor answers, and whatever it takes to get it right.

python examples/structured_output.py
"""

from __future__ import annotations

from pydantic import BaseModel, Field
from vendors import run

from reliable_llm import FailoverChat, InvalidOutputError
from reliable_llm.testing import ok

TEXT = "Ada Lovelace, born in London in 1815, wrote the first published program. She was 36 when she died."


class Person(BaseModel):
    name: str
    born: int = Field(description="year of birth")
    city: str = Field(description="where the person was born")


async def main(chat: FailoverChat) -> None:
    try:
        reply = await chat(f"Who is this about?\n\n{TEXT}", output=Person, deadline=60)
    except InvalidOutputError as failure:
        print(f"no valid answer: {failure.problems}\n{failure.text}")
        return
    print(f"{reply.served_by}: {reply.parsed!r}")
    for attempt in reply.attempts:
        print(f"  {attempt}")
    print(f"  {reply.usage}")


SIMULATED = {
    "openai": [
        ok('{"name": "Ada Lovelace", "born": "in 1815"}', usage=(80, 12)),  # sent back with a word about what is wrong
        ok('{"name": "Ada Lovelace", "born": 1815, "city": "London"}', usage=(130, 18)),
    ]
}

if __name__ == "__main__":
    run(main, SIMULATED)
