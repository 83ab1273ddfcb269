"""A coordinator over two vendors behind their real SDKs, in time that only sleeps move."""

from __future__ import annotations

from typing import Any

from reliable_llm.chat import FailoverChat
from reliable_llm.errors import ReliableLLMError
from reliable_llm.policy import RecoveryPolicy, RetryPolicy
from reliable_llm.types import ChatReply
from tests.support import STEADY, Listening, ManualClock, Response, Vendor, anthropic_ok, openai_ok


class Pair:
    """OpenAI first, Anthropic second: what each got, what was slept, what was told."""

    def __init__(
        self,
        *primary: Response,
        keys: tuple[str, ...] = ("sk-openai-a",),
        fallback: Response | None = None,
        alone: bool = False,
        retry: RetryPolicy = STEADY,
        recovery: RecoveryPolicy | None = None,
        **openai: Any,
    ) -> None:
        self.clock = ManualClock()
        self.heard = Listening()
        self.primary = Vendor(*(primary or (openai_ok(),)))
        self.fallback = Vendor(fallback or anthropic_ok())
        providers = [self.primary.openai(*keys, **openai)]
        if not alone:
            providers.append(self.fallback.anthropic())
        self.chat = FailoverChat(providers, retry=retry, recovery=recovery, clock=self.clock, listeners=[self.heard])

    async def ask(self, prompt: str = "hi", **asked: Any) -> ChatReply:
        return await self.chat(prompt, **asked)

    async def fail(self, prompt: str = "hi", **asked: Any) -> ReliableLLMError:
        """Ask, and return the error that it ends with."""
        try:
            await self.chat(prompt, **asked)
        except ReliableLLMError as error:
            return error
        raise AssertionError("the call answered")

    @property
    def calls(self) -> tuple[int, int]:
        """How many requests primary and fallback got."""
        return len(self.primary.arrivals), len(self.fallback.arrivals)

    @property
    def slept(self) -> list[float]:
        return self.clock.slept
