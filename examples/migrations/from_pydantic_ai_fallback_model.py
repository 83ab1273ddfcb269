"""From Pydantic AI's FallbackModel: their configuration first, ours beside it line by line. Runs without a key.

python examples/migrations/from_pydantic_ai_fallback_model.py

Pydantic AI is needed (`pydantic-ai-slim`); its models of the two vendors are built only if their clients are installed.

| Pydantic AI                                      | here                                                    |
|--------------------------------------------------|---------------------------------------------------------|
| `OpenAIChatModel("gpt-5.1")`, `AnthropicModel()` | `Provider.openai(...)`, `Provider.anthropic(...)`       |
| `FallbackModel(first, second)`                   | `ReliableModel(FailoverChat([...]))`                    |
| `fallback_on=(ModelAPIError, ...)`               | by kind of failure; `failover_on=` adds kinds           |
| set the clients' own retries to 0 yourself       | they are 0: one owner of retries, with backoff          |
| an exception group of all errors                 | the first candidate's error; every attempt in its body  |
| no key rotation, no memory of an outage          | `keys=[...]`, parked keys, one probe at the recovery    |
| both can be had                                  | `FallbackModel(ReliableModel(chat), another_model)`     |
"""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.models import Model

from reliable_llm import FailoverChat, Provider
from reliable_llm.integrations import ReliableModel
from reliable_llm.testing import Drill, ok, out_of_quota


def theirs() -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    first = OpenAIChatModel("gpt-5.1", provider=OpenAIProvider(api_key="sk-a"))
    return FallbackModel(first, AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="sk-b")))


def ours(*providers: Provider, **simulated: object) -> Model:
    return ReliableModel(FailoverChat(providers, **simulated))  # type: ignore[arg-type]  # the simulator's clock


def main() -> None:
    try:
        print(f"theirs: {theirs().model_name} built")
    except ImportError:
        print("Pydantic AI's models of the two vendors are not installed: their side is shown, not run")
    # In your application: Provider.openai(keys=["sk-a"], models=["gpt-5.1"]) and
    # Provider.anthropic(keys=["sk-b"], models=["claude-sonnet-4-5"]).
    drill = Drill()
    drill.answers("openai", out_of_quota())
    drill.answers("anthropic", ok("hello from the spare"))
    model = ours(drill.openai(models=["gpt-5.1"]), drill.anthropic(models=["claude-sonnet-4-5"]), clock=drill.clock)
    result = drill.run(Agent(model).run("hello"))
    details = result.response.provider_details or {}
    print(f"ours: {result.output!r} by {details['served_by']}")
    print(*details["attempts"], sep="\n")


if __name__ == "__main__":
    main()
