"""The OpenAI-compatible and Anthropic-compatible hosts that people use: where they are, and how they are spoken to.

Data, not policy: `vendor` decides how failures are read, and everything here can be overridden on the `Provider`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorPreset:
    """One vendor. `base_url` is None where it depends on the account; `key_variable` is the usual environment variable.

    `hosts` are suffixes of host names by which a base URL is recognised.
    """

    name: str
    sdk: Literal["openai", "anthropic"] = "openai"
    api: Literal["chat", "responses", "messages"] = "chat"
    base_url: str | None = None
    key_variable: str | None = None
    needs_key: bool = True
    hosts: tuple[str, ...] = ()


_PRESETS: Final = (
    VendorPreset(
        name="openai",
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        hosts=("api.openai.com", "openai.com"),
    ),
    VendorPreset(
        name="anthropic",
        sdk="anthropic",
        api="messages",
        base_url="https://api.anthropic.com",
        key_variable="ANTHROPIC_API_KEY",
        hosts=("api.anthropic.com",),
    ),
    VendorPreset(
        name="azure",
        key_variable="AZURE_OPENAI_API_KEY",
        hosts=("openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com", "inference.ai.azure.com"),
    ),
    VendorPreset(
        name="bedrock",
        sdk="anthropic",
        api="messages",
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        hosts=("amazonaws.com", "amazonaws.com.cn", "api.aws"),
    ),
    VendorPreset(
        name="vertex",
        sdk="anthropic",
        api="messages",
        hosts=("aiplatform.googleapis.com", "aiplatform.us.rep.googleapis.com", "aiplatform.eu.rep.googleapis.com"),
    ),
    VendorPreset(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
        key_variable="GEMINI_API_KEY",
        hosts=("generativelanguage.googleapis.com",),
    ),
    VendorPreset(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        hosts=("openrouter.ai",),
    ),
    VendorPreset(
        name="groq", base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY", hosts=("api.groq.com",)
    ),
    VendorPreset(
        name="mistral", base_url="https://api.mistral.ai/v1", key_variable="MISTRAL_API_KEY", hosts=("mistral.ai",)
    ),
    VendorPreset(
        name="deepseek", base_url="https://api.deepseek.com", key_variable="DEEPSEEK_API_KEY", hosts=("deepseek.com",)
    ),
    VendorPreset(
        name="together",
        base_url="https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        hosts=("together.xyz", "together.ai"),
    ),
    VendorPreset(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        hosts=("fireworks.ai",),
    ),
    VendorPreset(
        name="cerebras", base_url="https://api.cerebras.ai/v1", key_variable="CEREBRAS_API_KEY", hosts=("cerebras.ai",)
    ),
    VendorPreset(name="xai", base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY", hosts=("api.x.ai",)),
    VendorPreset(
        name="moonshot",
        base_url="https://api.moonshot.ai/v1",
        key_variable="MOONSHOT_API_KEY",
        hosts=("moonshot.ai", "moonshot.cn", "kimi.com"),
    ),
    VendorPreset(
        name="zhipu",
        base_url="https://open.bigmodel.cn/api/paas/v4",
        key_variable="ZHIPUAI_API_KEY",
        hosts=("bigmodel.cn", "z.ai"),
    ),
    VendorPreset(
        name="dashscope",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_variable="DASHSCOPE_API_KEY",
        hosts=("aliyuncs.com",),
    ),
    VendorPreset(
        name="minimax",
        base_url="https://api.minimax.io/v1",
        key_variable="MINIMAX_API_KEY",
        hosts=("minimax.io", "minimaxi.com", "minimax.chat"),
    ),
    VendorPreset(
        name="siliconflow",
        base_url="https://api.siliconflow.cn/v1",
        key_variable="SILICONFLOW_API_KEY",
        hosts=("siliconflow.cn", "siliconflow.com"),
    ),
    VendorPreset(
        name="volcengine",
        base_url="https://ark.cn-beijing.volces.com/api/v3",
        key_variable="ARK_API_KEY",
        hosts=("volces.com", "bytepluses.com"),
    ),
    VendorPreset(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        key_variable="PERPLEXITY_API_KEY",
        hosts=("perplexity.ai",),
    ),
    VendorPreset(
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        key_variable="HF_TOKEN",
        hosts=("huggingface.co",),
    ),
    VendorPreset(
        name="nvidia",
        base_url="https://integrate.api.nvidia.com/v1",
        key_variable="NVIDIA_API_KEY",
        hosts=("api.nvidia.com",),
    ),
    VendorPreset(
        name="github-models",
        base_url="https://models.github.ai/inference",
        key_variable="GITHUB_TOKEN",
        hosts=("models.github.ai",),
    ),
    VendorPreset(name="databricks", key_variable="DATABRICKS_TOKEN", hosts=("databricks.com", "azuredatabricks.net")),
    VendorPreset(
        name="cloudflare",
        key_variable="CLOUDFLARE_API_TOKEN",
        hosts=("api.cloudflare.com", "gateway.ai.cloudflare.com"),
    ),
    VendorPreset(name="ollama", base_url="http://localhost:11434/v1", key_variable="OLLAMA_API_KEY", needs_key=False),
    VendorPreset(name="vllm", base_url="http://localhost:8000/v1", key_variable="VLLM_API_KEY", needs_key=False),
    VendorPreset(name="llamacpp", base_url="http://localhost:8080/v1", key_variable="LLAMA_API_KEY", needs_key=False),
    VendorPreset(name="lmstudio", base_url="http://localhost:1234/v1", key_variable="LM_API_TOKEN", needs_key=False),
    VendorPreset(name="litellm", base_url="http://localhost:4000", key_variable="LITELLM_API_KEY", needs_key=False),
)

VENDORS: Final[Mapping[str, VendorPreset]] = MappingProxyType({preset.name: preset for preset in _PRESETS})

# The default port of a server on this machine tells which one it is; anything else there is unknown.
_LOCAL_PORTS: Final = {11434: "ollama", 1234: "lmstudio", 8080: "llamacpp", 8000: "vllm", 4000: "litellm"}
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})


def vendor_from_base_url(url: str) -> str:
    """Return the vendor that *url*'s host belongs to, as a default for `vendor`; "unknown" where it is none we know."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "unknown"
    if host in _LOCAL_HOSTS:
        return _LOCAL_PORTS.get(port or 0, "unknown")
    for preset in _PRESETS:
        # Vertex puts its region in front of the host with a hyphen.
        ends = (".", "-") if preset.name == "vertex" else (".",)
        if any(host == suffix or host.endswith(tuple(end + suffix for end in ends)) for suffix in preset.hosts):
            return preset.name
    return "unknown"
