"""Use a coordinator without rewriting the application. Each part imports its own package, and only when it is used.

| name | for | extra |
|---|---|---|
| `openai_client(chat)` | everything built on `openai.AsyncOpenAI`: OpenAI Agents SDK, instructor, ... | |
| `anthropic_client(chat)` | everything built on `anthropic.AsyncAnthropic` | |
| `ReliableChatModel(chat=chat)` | LangChain, LangGraph | `langchain` |
| `ReliableModel(chat)` | Pydantic AI | `pydantic-ai` |
| `StrategyActorMixin` and friends | CleverAgents' StrategyActor, in `reliable_llm.integrations.strategy_actor` | |
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reliable_llm.integrations.anthropic_transport import anthropic_client
    from reliable_llm.integrations.langchain import ReliableChatModel
    from reliable_llm.integrations.openai_transport import openai_client
    from reliable_llm.integrations.pydantic_ai import ReliableModel

__all__ = ["ReliableChatModel", "ReliableModel", "anthropic_client", "openai_client"]

_HOMES = {
    "ReliableChatModel": "langchain",
    "ReliableModel": "pydantic_ai",
    "anthropic_client": "anthropic_transport",
    "openai_client": "openai_transport",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
