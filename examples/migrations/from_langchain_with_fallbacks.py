"""From LangChain's `with_fallbacks`: their configuration first, ours beside it line by line. Runs without a key.

python examples/migrations/from_langchain_with_fallbacks.py

LangChain's core is needed (`langchain-core`); its vendors' packages are imported only if they are installed.

| LangChain                                        | here                                                    |
|--------------------------------------------------|---------------------------------------------------------|
| `ChatOpenAI(...)`, `ChatAnthropic(...)`          | `Provider.openai(...)`, `Provider.anthropic(...)`       |
| `primary.with_fallbacks([spare])`                | `ReliableChatModel(chat=FailoverChat([...]))`           |
| `exceptions_to_handle=(RateLimitError, ...)`     | by kind of failure; a bad request is raised, not spread |
| `max_retries=2` of each client, multiplied       | `RetryPolicy(max_retries=2)`: one owner                 |
| the first error only                             | the first candidate's error, with every attempt in it   |
| each call tries the dead primary again           | it is remembered, and one call tries it when time is up |
| a stream that broke is over, whatever was missing| raised, or restarted or continued where you opt in      |
"""

from __future__ import annotations

from importlib.util import find_spec

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from reliable_llm import FailoverChat, Provider
from reliable_llm.integrations import ReliableChatModel
from reliable_llm.testing import Drill, error, ok


def theirs() -> Runnable[LanguageModelInput, BaseMessage]:
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI

    primary = ChatOpenAI(model="gpt-5.1", api_key="sk-a", max_retries=2)
    return primary.with_fallbacks([ChatAnthropic(model="claude-sonnet-4-5", api_key="sk-b", max_retries=2)])


def ours(*providers: Provider, **simulated: object) -> Runnable[LanguageModelInput, BaseMessage]:
    return ReliableChatModel(chat=FailoverChat(providers, **simulated))  # type: ignore[arg-type]  # the simulator's clock


def main() -> None:
    if find_spec("langchain_openai") is None or find_spec("langchain_anthropic") is None:
        print("langchain-openai and langchain-anthropic are not installed: their side is shown, not run")
    else:
        print(f"theirs: {type(theirs()).__name__} built")
    # In your application: Provider.openai(keys=["sk-a"], models=["gpt-5.1"]) and
    # Provider.anthropic(keys=["sk-b"], models=["claude-sonnet-4-5"]).
    drill = Drill()
    drill.answers("openai", error(503))
    drill.answers("anthropic", ok("hello from the spare"))
    model = ours(drill.openai(models=["gpt-5.1"]), drill.anthropic(models=["claude-sonnet-4-5"]), clock=drill.clock)
    message = drill.run(model.ainvoke("hello"))
    print(f"ours: {message.text!r} by {message.response_metadata['served_by']}")
    print(*message.response_metadata["attempts"], sep="\n")


if __name__ == "__main__":
    main()
