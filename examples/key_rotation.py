"""Three keys take turns; one is limited and one is spent: the third goes on, and the others are left alone.

python examples/key_rotation.py          # real keys: OPENAI_API_KEYS=sk-a,sk-b,sk-c
"""

from __future__ import annotations

from vendors import run

from reliable_llm import FailoverChat
from reliable_llm.testing import ok, out_of_quota, rate_limited


async def main(chat: FailoverChat) -> None:
    for number in range(1, 5):
        reply = await chat("Name a river.", deadline=30)
        print(f"call {number}: {', then '.join(str(attempt) for attempt in reply.attempts)}")
    print(f"\n{chat.status()}")


SIMULATED = {
    "openai/k1": [rate_limited(retry_after=20)],
    "openai/k2": [out_of_quota()],
    "openai/k3": [ok("The Po.")],
    "anthropic": [ok("The Rhone.")],
}

if __name__ == "__main__":
    run(main, SIMULATED)
