"""LangChain's own standard unit tests. What they skip, they say why (`-ra` prints it)."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_tests", reason="the dependency group `integrations` is not installed")

from langchain_core.language_models import BaseChatModel
from langchain_tests.unit_tests import ChatModelUnitTests

from reliable_llm import FailoverChat, Provider
from reliable_llm.integrations.langchain import ReliableChatModel
from tests.support import CLAUDE, GPT


class TestReliableChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ReliableChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        openai = Provider.openai(keys=["sk-a"], models=[GPT])
        return {"chat": FailoverChat([openai, Provider.anthropic(keys=["sk-b"], models=[CLAUDE])])}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environ = {"OPENAI_API_KEY": "sk-env", "RELIABLE_LLM_MODELS": f"openai/{GPT}"}
        return environ, {}, {"model": None}

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return CLAUDE

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_urls(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_json_mode(self) -> bool:
        return True
