"""A neutral request as the body of `POST /v1/messages`. Pure, and done once per candidate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from reliable_llm.adapters.anthropic_blocks import Block
from reliable_llm.adapters.anthropic_format import Rendered, is_anthropic_reasoning, render, unsupported
from reliable_llm.adapters.anthropic_tools import Draft, write_output, write_tools
from reliable_llm.adapters.base import Prepared, Target
from reliable_llm.adapters.overrides import applied, extra_fields, merged, removed, with_overrides
from reliable_llm.errors import InvalidRequestError
from reliable_llm.types import ChatRequest, Reasoning

# `max_tokens` is required. 8,192 is the lowest ceiling in the SDK's own table of models (the first Claude 4), so every
# model still served takes it, and it is far below the 21,333 above which a plain call may outlast its ten minutes.
DEFAULT_MAX_TOKENS: Final = 8_192

# The last API version that takes temperature, top_p and top_k. From 2026-10-21 on they are refused at any value.
SAMPLING_VERSION: Final = "2023-06-01"

_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})

# What a neutral name stands for in the body, where `without` asks to leave a parameter out.
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "reasoning": ("output_config.effort", "thinking"),
    "reasoning_effort": ("output_config.effort", "thinking"),
    "effort": ("output_config.effort",),
    "stop": ("stop_sequences",),
    "parallel_tool_calls": ("tool_choice.disable_parallel_tool_use",),
}


def prepare(
    request: ChatRequest,
    target: Target,
    *,
    stream: bool,
    without: frozenset[str],
    names: Iterable[str],
    version: str | None,
) -> Prepared:
    """Return *request* in Anthropic's terms.

    *names* are the keys of `extra` that mean this adapter, *version* the API version of the provider's own headers.
    In `extra`, `anthropic_version` and `anthropic_beta` become headers; the rest is merged into the body. Sampling
    parameters are dropped, unless the version asked for is the one that still took them.
    """
    whole = request
    request, fields = with_overrides(request, target.candidate)
    extra = merged(extra_fields(request, (*names, target.candidate.provider)), fields)
    headers = _headers(extra)
    draft = Draft(request, target, without)
    _write_conversation(draft)
    write_tools(draft)
    write_output(draft)
    _write_limits(draft, extra)
    _write_sampling(draft, headers.get("anthropic-version", version))
    body = applied(draft.body, extra)
    for name in without:
        if name.startswith("parameter:"):
            body = _without_parameter(body, name.removeprefix("parameter:"))
    if stream:
        body["stream"] = True
    return Prepared(
        target=target,
        body=body,
        stream=stream,
        dropped=tuple(sorted(draft.dropped)),
        headers=headers or None,
        request=whole,
        answer_tool=draft.answer_tool,
        content=_encoded(body),
    )


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _encoded(body: Block) -> bytes:
    """Return *body* as it goes out, written down once for all retries and keys."""
    try:
        return _encode(body).encode()
    except (TypeError, ValueError, RecursionError):
        # Python's own message quotes what it could not encode: a prompt.
        raise InvalidRequestError("the request holds something that JSON cannot express") from None


def _headers(extra: Block) -> dict[str, str]:
    """Take out of *extra* what belongs in headers."""
    headers: dict[str, str] = {}
    version, beta = extra.pop("anthropic_version", None), extra.pop("anthropic_beta", None)
    if version is not None:
        headers["anthropic-version"] = str(version)
    if beta:
        headers["anthropic-beta"] = beta if isinstance(beta, str) else ",".join(str(each) for each in _items(beta))
    return headers


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, Iterable) else (value,)


def _without_parameter(body: Block, name: str) -> Block:
    for path in _PATHS.get(name, (name,)):
        if path not in ("model", "messages", "max_tokens"):  # required: without them there is no request
            body = removed(body, path)
    return body


# ---------------------------------------------------------------- the conversation


def _write_conversation(draft: Draft) -> None:
    rendered = render(draft.request.messages, lambda part: _goes_back(part, draft))
    _check(rendered)
    draft.dropped |= rendered.dropped
    draft.body["model"] = draft.target.model_id
    draft.body["messages"] = rendered.messages
    if rendered.system is not None:
        draft.body["system"] = rendered.system


def _goes_back(part: Reasoning, draft: Draft) -> bool:
    """Reasoning returns to its issuer only: with a foreign signature in it, the whole conversation is refused."""
    if "reasoning_history" in draft.without:
        return False
    if part.issuer is None:
        return is_anthropic_reasoning(part)
    return part.issuer == draft.target.candidate and bool(part.text or is_anthropic_reasoning(part))


def _check(rendered: Rendered) -> None:
    messages = rendered.messages
    if not messages and rendered.system is not None:
        raise unsupported("system_only", "Anthropic needs a message besides the system prompt")
    if not messages:
        raise InvalidRequestError("there is nothing to answer: no message has any content")
    calls: list[str] = []
    for message in messages:
        content = message["content"]
        if message["role"] == "system" or (isinstance(content, str) and not calls):
            continue
        blocks = content if isinstance(content, list) else []
        _check_results(calls, _named_by(blocks, "tool_result", "tool_use_id"))
        _check_media(message["role"], blocks)
        calls = _named_by(blocks, "tool_use", "id")
    _check_results(calls, [])
    _trim_end(messages[-1])


def _named_by(blocks: list[Block], kind: str, name: str) -> list[str]:
    return [str(block.get(name)) for block in blocks if block.get("type") == kind]


def _check_results(calls: list[str], results: list[str]) -> None:
    if orphans := set(results) - set(calls):
        raise InvalidRequestError(f"tool results without a call in the turn before: {_ids(orphans)}")
    if orphans := set(calls) - set(results):
        raise InvalidRequestError(f"tool calls without a result in the turn after: {_ids(orphans)}")
    if len(set(results)) != len(results):
        raise InvalidRequestError("a tool call has more than one result")


def _ids(orphans: set[str]) -> str:
    return ", ".join(sorted(orphans)[:5])


def _check_media(role: object, blocks: list[Block]) -> None:
    if role == "assistant" and any(block.get("type") in ("image", "document") for block in blocks):
        raise unsupported("assistant_media", "Anthropic takes no pictures or documents in assistant messages")


def _trim_end(last: Block) -> None:
    """Cut the white space at the very end of a prefill, which is refused."""
    content = last["content"]
    if last["role"] != "assistant":
        return
    if isinstance(content, str):
        last["content"] = content.rstrip()
    elif isinstance(content, list) and content[-1].get("type") == "text":
        content[-1] = {**content[-1], "text": str(content[-1]["text"]).rstrip()}


# ---------------------------------------------------------------- parameters


def _write_limits(draft: Draft, extra: Block) -> None:
    request, body = draft.request, draft.body
    _write_effort(draft)
    body["max_tokens"] = _default_limit(draft, extra) if request.max_tokens is None else request.max_tokens
    # A stop sequence of white space is refused, and would stop nearly any answer.
    stops = [stop for stop in request.stop if stop.strip()]
    if len(stops) < len(request.stop):
        draft.dropped.add("stop")
    if stops:
        body["stop_sequences"] = stops


def _write_effort(draft: Draft) -> None:
    effort = draft.request.reasoning
    if effort in _EFFORTS:
        draft.body["output_config"] = {**_mapping(draft.body.get("output_config")), "effort": effort}
    elif effort is not None:
        # No word for none and minimal: models that can go without thinking do so unless asked.
        draft.dropped.add("reasoning")


def _default_limit(draft: Draft, extra: Block) -> int:
    """Thinking counts as output, so it comes on top of what is left for the answer."""
    budget = _mapping(extra.get("thinking")).get("budget_tokens")
    if isinstance(budget, int):
        return DEFAULT_MAX_TOKENS + budget
    thinks = draft.request.reasoning in _EFFORTS or "thinking" in extra
    return 2 * DEFAULT_MAX_TOKENS if thinks else DEFAULT_MAX_TOKENS


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _write_sampling(draft: Draft, version: str | None) -> None:
    for name in ("temperature", "top_p"):
        value = getattr(draft.request, name)
        if value is None:
            continue
        if version == SAMPLING_VERSION:
            draft.body[name] = value
        else:
            draft.dropped.add(name)
