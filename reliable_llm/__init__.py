"""LLM calls that keep answering, on the official vendor clients. All durations are seconds.

    from reliable_llm import FailoverChat, Provider

    chat = FailoverChat([Provider.openai(models=["gpt-5.1"]), Provider.anthropic(models=["claude-sonnet-4-5"])])
    reply = await chat("Name three rivers.", deadline=30)

Importing this package loads nothing else: each name is loaded when first used, a vendor's SDK with its first call.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reliable_llm.chat import FailoverChat
    from reliable_llm.clock import Clock, SystemClock
    from reliable_llm.conversation import Conversation
    from reliable_llm.core.classify import Rule
    from reliable_llm.diagnosis import diagnose
    from reliable_llm.errors import (
        AttemptTimeoutError,
        AuthenticationError,
        ClosedError,
        ConfigurationError,
        ConnectionFailedError,
        ContentPolicyError,
        ContextWindowError,
        CredentialError,
        DeadlineExceededError,
        EmptyResponseError,
        InvalidOutputError,
        InvalidRequestError,
        Kind,
        MalformedResponseError,
        ModelNotFoundError,
        OutputTruncatedError,
        OverloadedError,
        PermissionDeniedError,
        QueueFullError,
        QuotaExhaustedError,
        RateLimitedError,
        ReliableLLMError,
        RequestError,
        RequestTooLargeError,
        Scope,
        ServerError,
        StreamInterruptedError,
        ToolArgumentsError,
        TransientError,
        UnsupportedFeatureError,
        Verdict,
    )
    from reliable_llm.events import Event, Listener
    from reliable_llm.plan import Plan, PlannedCandidate
    from reliable_llm.policy import BudgetPolicy, HedgePolicy, Limits, RecoveryPolicy, RetryPolicy, Timeouts
    from reliable_llm.provider import Provider
    from reliable_llm.status import Status
    from reliable_llm.stream import ChatStream
    from reliable_llm.tools import FunctionTool, run_tools, tool
    from reliable_llm.types import (
        Attempt,
        Candidate,
        Capabilities,
        ChatReply,
        ChatRequest,
        Continued,
        Document,
        Finished,
        FinishReason,
        HostedTool,
        Image,
        Message,
        Opaque,
        OutputSchema,
        Reasoning,
        ReasoningDelta,
        Restarted,
        ServedBy,
        Started,
        Text,
        TextDelta,
        Tool,
        ToolCall,
        ToolCallDelta,
        ToolCallEnded,
        ToolCallStarted,
        ToolName,
        ToolResult,
        Usage,
        UsageUpdate,
    )

    __version__: str

__all__ = [
    "Attempt",
    "AttemptTimeoutError",
    "AuthenticationError",
    "BudgetPolicy",
    "Candidate",
    "Capabilities",
    "ChatReply",
    "ChatRequest",
    "ChatStream",
    "Clock",
    "ClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "ContentPolicyError",
    "ContextWindowError",
    "Continued",
    "Conversation",
    "CredentialError",
    "DeadlineExceededError",
    "Document",
    "EmptyResponseError",
    "Event",
    "FailoverChat",
    "FinishReason",
    "Finished",
    "FunctionTool",
    "HedgePolicy",
    "HostedTool",
    "Image",
    "InvalidOutputError",
    "InvalidRequestError",
    "Kind",
    "Limits",
    "Listener",
    "MalformedResponseError",
    "Message",
    "ModelNotFoundError",
    "Opaque",
    "OutputSchema",
    "OutputTruncatedError",
    "OverloadedError",
    "PermissionDeniedError",
    "Plan",
    "PlannedCandidate",
    "Provider",
    "QueueFullError",
    "QuotaExhaustedError",
    "RateLimitedError",
    "Reasoning",
    "ReasoningDelta",
    "RecoveryPolicy",
    "ReliableLLMError",
    "RequestError",
    "RequestTooLargeError",
    "Restarted",
    "RetryPolicy",
    "Rule",
    "Scope",
    "ServedBy",
    "ServerError",
    "Started",
    "Status",
    "StreamInterruptedError",
    "SystemClock",
    "Text",
    "TextDelta",
    "Timeouts",
    "Tool",
    "ToolArgumentsError",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolName",
    "ToolResult",
    "TransientError",
    "UnsupportedFeatureError",
    "Usage",
    "UsageUpdate",
    "Verdict",
    "__version__",
    "diagnose",
    "run_tools",
    "tool",
]

# Where a name stands. Whatever is not listed is plain data, looked for in these modules in turn.
_HOMES = {
    "ChatStream": "stream",
    "Clock": "clock",
    "Conversation": "conversation",
    "Event": "events",
    "FailoverChat": "chat",
    "FunctionTool": "tools",
    "Listener": "events",
    "Plan": "plan",
    "PlannedCandidate": "plan",
    "Provider": "provider",
    "Rule": "core.classify",
    "Status": "status",
    "SystemClock": "clock",
    "diagnose": "diagnosis",
    "run_tools": "tools",
    "tool": "tools",
}
_PLAIN = ("errors", "policy", "types")


if not TYPE_CHECKING:  # a type checker that saw this would take any misspelt name for an object

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = _version() if name == "__version__" else _found(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _found(name: str) -> object:
    from importlib import import_module

    homes = (_HOMES[name],) if name in _HOMES else _PLAIN
    modules = (import_module(f"{__name__}.{home}") for home in homes)
    return next(vars(module)[name] for module in modules if name in vars(module))


def _version() -> str:
    from importlib.metadata import version

    return version("reliable-llm")
