"""API keys: carried, never shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from reliable_llm.errors import ConfigurationError


class Credential:
    """One API key. Everything printable about it is its label, such as `openai#2`."""

    __slots__ = ("_secret", "index", "label")

    def __init__(self, secret: str, *, label: str, index: int = 0) -> None:
        self._secret = _checked(secret, label)
        self.label = label
        self.index = index

    def reveal(self) -> str:
        """Return the key itself, for the request's header and nothing else."""
        return self._secret

    def __repr__(self) -> str:
        return f"Credential({self.label})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"key {self.label} is not pickled: build the provider anew in the other process")


def _checked(secret: str, label: str) -> str:
    if not isinstance(secret, str):
        raise ConfigurationError(f"key {label} must be a string, got {type(secret).__name__}")
    stripped = secret.strip()
    if not stripped:
        raise ConfigurationError(f"key {label} is blank: remove it or fill it in")
    if not is_one_word(stripped):
        raise ConfigurationError(
            f"key {label} holds a space, a control or a non-ASCII character: copy it again, on one line"
        )
    return stripped


def is_one_word(text: str) -> bool:
    """Tell whether *text* is printable ASCII without a space: what a header's name and a key have to be."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def credentials(provider: str, secrets: Iterable[str]) -> tuple[Credential, ...]:
    """Return *secrets* as credentials labelled `provider#1`, `provider#2` and so on; duplicates are refused."""
    if isinstance(secrets, str):
        raise ConfigurationError(
            f"keys of provider {provider!r} must be a list of strings, not one string: write keys=[...]"
        )
    made = tuple(Credential(s, label=f"{provider}#{n + 1}", index=n) for n, s in enumerate(secrets))
    seen: dict[str, str] = {}
    for key in made:
        first = seen.setdefault(key.reveal(), key.label)
        if first != key.label:
            raise ConfigurationError(f"keys {first} and {key.label} are the same: list each key once")
    return made
