"""One call over two vendors: who answered, what it took, what was tried.

python examples/quickstart.py
"""

from __future__ import annotations

from vendors import run

from reliable_llm import FailoverChat, ReliableLLMError
from reliable_llm.testing import ok, out_of_quota


async def main(chat: FailoverChat) -> None:
    try:
        reply = await chat("Name three rivers.", system="Be brief.", deadline=30)
    except ReliableLLMError as failure:
        print(f"nobody answered: {failure}")
        return
    print(f"{reply.served_by}: {reply.text}")
    print(f"  {reply.usage}")
    for attempt in reply.attempts:
        print(f"  {attempt}")


SIMULATED = {"openai": [out_of_quota()], "anthropic": [ok("The Rhine, the Rhone and the Po.", usage=(14, 11))]}

if __name__ == "__main__":
    run(main, SIMULATED)
