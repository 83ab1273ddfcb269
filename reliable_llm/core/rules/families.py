"""Vendors that speak alike: the codes of the one are the codes of the other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zai": "zhipu",
        "z.ai": "zhipu",
        "bigmodel": "zhipu",
        "glm": "zhipu",
        "kimi": "moonshot",
        "kimi-code": "moonshot",
        "alibaba": "dashscope",
        "bailian": "dashscope",
        "qwen": "dashscope",
        "google": "gemini",
        "google-ai-studio": "gemini",
        "gemini-cli": "gemini",
        "vertex": "gemini",
        "vertex-gemini": "gemini",
        "vertex-anthropic": "gemini",
        "vertex_ai": "gemini",
        "azure-openai": "azure",
        "azure_openai": "azure",
        "azure-ai": "azure",
        "foundry": "azure",
        "github-models": "azure",
        "github": "azure",
        "bedrock-mantle": "bedrock",
        "aws": "bedrock",
        "aws-bedrock": "bedrock",
        "openai-codex": "openai",
        "codex": "openai",
        "claude": "anthropic",
        "x.ai": "xai",
        "grok": "xai",
        "doubao": "volcengine",
        "ark": "volcengine",
        "byteplus": "volcengine",
        "litellm_proxy": "litellm",
        "litellm-proxy": "litellm",
        "hf": "huggingface",
        "nvidia-nim": "nvidia",
        "nim": "nvidia",
        "llama.cpp": "llamacpp",
        "llama-server": "llamacpp",
        "lm-studio": "lmstudio",
        "ollama-cloud": "ollama",
        "vertex-ai": "gemini",
    }
)


def names_of(vendor: str) -> tuple[str, ...]:
    """Return the names under which rules may list *vendor*: its own, and its family's."""
    name = vendor.strip().lower()
    family = FAMILIES.get(name, name)
    return (name,) if family == name else (name, family)
