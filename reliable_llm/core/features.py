"""Features by name: what a request needs, what a candidate lacks, and what an adapter can do in another form.

A parameter that the caller sets is a feature, too (`parameter:temperature`): where it was refused, requests that set it
go elsewhere; it is never left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reliable_llm.errors import Kind, ReliableLLMError
from reliable_llm.types import ChatRequest

# Features that a candidate may lack and still serve: the adapter can do without them in another form.
# `stream_options` asks for usage in a stream; it is our own wish, not the caller's.
EMULATED: Final = frozenset({"structured_output", "reasoning_history", "streaming", "parameter:stream_options"})

# Kinds of failure that can name a feature: the same request passes without it, or at another candidate.
NAMING: Final = frozenset({Kind.UNSUPPORTED, Kind.INVALID_REQUEST})

# What a refusal says about one request, not about the candidate: nothing to remember.
OF_THE_REQUEST: Final = frozenset({"reasoning_history", "max_output"})

# Two spellings of one limit: a candidate that refuses one of them is asked with the other.
SPELLINGS: Final = frozenset({"parameter:max_tokens", "parameter:max_completion_tokens"})

# The vendors' own names for what the caller asks for in neutral words.
_NEUTRAL: Final = {
    "reasoning_effort": "reasoning",
    "reasoning.effort": "reasoning",
    "output_config.effort": "reasoning",
    "effort": "reasoning",
    "thinking": "reasoning",
    "thinking_config": "reasoning",
    "stop_sequences": "stop",
    "parallel_tool_use": "parallel_tool_calls",
    "tool_choice.disable_parallel_tool_use": "parallel_tool_calls",
}


def parameter(name: str) -> str:
    """Return the feature that stands for a parameter, under whichever vendor's name."""
    return f"parameter:{_NEUTRAL.get(name, name)}"


def refused_feature(error: ReliableLLMError) -> str | None:
    """Return the feature that the candidate refused, under its one name; None where the failure is another one."""
    feature = error.verdict.feature
    return _one_name(feature) if error.kind in NAMING and feature else None


def _one_name(feature: str) -> str:
    prefix, _, name = feature.partition(":")
    return parameter(name) if prefix == "parameter" and name else feature


def sets_parameters(request: ChatRequest) -> bool:
    """Tell whether *request* sets any parameter. Asked once per call, so that a plain one pays for nothing else."""
    return (
        request.max_tokens is not None
        or request.temperature is not None
        or request.top_p is not None
        or bool(request.stop)
        or request.reasoning is not None
        or request.parallel_tool_calls is not None
    )


def parameters_of(request: ChatRequest) -> Iterator[str]:
    """Yield what *request* sets, as features; the output limit in every spelling."""
    if request.max_tokens is not None:
        yield from SPELLINGS
        yield "parameter:max_output_tokens"
        yield f"max_output:{request.max_tokens}"
    if request.temperature is not None:
        yield "parameter:temperature"
    if request.top_p is not None:
        yield "parameter:top_p"
    if request.stop:
        yield "parameter:stop"
    if request.reasoning is not None:
        yield "parameter:reasoning"
    if request.parallel_tool_calls is not None:
        yield "parameter:parallel_tool_calls"


def can_do_without(feature: str, *, without: frozenset[str], needs: frozenset[str], prompt_tools: bool) -> bool:
    """Tell whether the candidate that has just refused *feature* can be asked again in another form.

    *without* is what has been done without so far.
    """
    if feature in without:
        return False
    if feature == "tools":
        # A structured answer may have been asked for as a tool; without tools, it is asked for in words.
        return prompt_tools or ("structured_output" in without and "tools" not in needs)
    return feature in EMULATED or (feature in SPELLINGS and without.isdisjoint(SPELLINGS))


def done_without(missing: frozenset[str], needs: frozenset[str], lacked: frozenset[str]) -> frozenset[str]:
    """Return all that an attempt has to do without: what is *missing*, and what goes with it.

    *lacked* is what the candidate lacks, needed or not. A structured answer stands in a tool unless there are none;
    calls described in the prompt are read from the whole answer, not from a stream.
    """
    found = missing
    if "structured_output" in missing and "tools" in lacked:
        found |= {"tools"}
    if "tools" in missing and "tools" in needs and "streaming" in needs:
        found |= {"streaming"}
    return found
