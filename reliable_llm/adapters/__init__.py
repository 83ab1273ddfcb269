"""Adapters: one vendor each. Imported on demand, by the protocol that a provider speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliable_llm.adapters.base import Adapter, AdapterSettings

if TYPE_CHECKING:
    from reliable_llm.clock import Clock
    from reliable_llm.provider import Provider


def build_adapter(provider: Provider, clock: Clock) -> Adapter:
    """Return the adapter for what *provider* speaks."""
    settings = AdapterSettings(
        vendor=provider.vendor,
        base_url=provider.base_url,
        headers=provider.headers,
        timeouts=provider.timeouts,
        http_client=provider.http_client,
        transport=provider.transport,
        pool_limit=provider.pool_limit,
        rules=provider.classify,
        clients=provider.clients,
        clock=clock,
    )
    if provider.api == "messages" and provider.clients:
        from reliable_llm.adapters.anthropic_clients import AnthropicClientsAdapter

        return AnthropicClientsAdapter(settings)
    if provider.api == "messages":
        from reliable_llm.adapters.anthropic_messages import AnthropicAdapter

        return AnthropicAdapter(settings)
    if provider.api == "responses":
        from reliable_llm.adapters.openai_responses import OpenAIResponsesAdapter

        return OpenAIResponsesAdapter(settings)
    if provider.api == "gemini":
        from reliable_llm.adapters.gemini import GeminiAdapter

        return GeminiAdapter(settings)
    from reliable_llm.adapters.openai_chat import OpenAIChatAdapter

    return OpenAIChatAdapter(settings)
