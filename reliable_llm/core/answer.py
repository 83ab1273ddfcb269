"""Tell an answer from what only looks like one. Pure."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.unwrap import mapping, text

_REFUSED: Final = ("content_filter", "refusal", "safety", "error")


def is_answer(body: object) -> bool:
    """Tell whether *body*, which came under a 2xx, is an answer: whatever words are in it, then it is no failure."""
    answer = mapping(body)
    return any(map(_is_choice, _items(answer.get("choices")))) or (
        answer.get("stop_reason") != "refusal"
        and (any(map(_is_block, _items(answer.get("content")))) or bool(_items(answer.get("output"))))
        and not answer.get("error")
    )


def _items(value: object) -> list[object]:
    return value[:64] if isinstance(value, list) else []


def _is_choice(choice: object) -> bool:
    message = mapping(mapping(choice).get("message"))
    reason = text(mapping(choice).get("finish_reason")).lower()
    return bool(message.get("content") or message.get("tool_calls")) and not reason.startswith(_REFUSED)


def _is_block(block: object) -> bool:
    return bool(mapping(block).get("text") or mapping(block).get("type") == "tool_use")
