"""Which candidates, in which order, and which of them can serve a request.

The computed order is the model chain outside, the provider chain inside: every provider of the first model, then every
provider of the second, and so on. An explicit route replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from reliable_llm.core.features import EMULATED, SPELLINGS, parameters_of, sets_parameters
from reliable_llm.core.health import ProviderHealth
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import RetryPolicy
from reliable_llm.types import (
    Candidate,
    Capabilities,
    ChatRequest,
    Document,
    Image,
    Message,
    Reasoning,
    Tool,
    ToolResult,
)

_NOTHING: Final[frozenset[str]] = frozenset()
_WITH_DETAIL: Final = ("hosted_tool:", "max_output:")

# What `Capabilities` can say about a candidate, as features.
_DECLARED: Final = ("tools", "vision", "documents", "structured_output", "streaming")


class Needs(Protocol):
    """What a request needs. `hosted` tells whether it wants tools that only one vendor runs."""

    @property
    def hosted(self) -> bool: ...

    def at(self, stop: Stop) -> frozenset[str]:
        """Return the features that the request needs of this candidate (`needs_of`)."""
        ...


class Stop:
    """One candidate on the route, with what is known about it. Made once, and shared by all calls.

    `retry` is the provider's own policy, None where that of the call counts.
    """

    __slots__ = (
        "_has_all",
        "absent",
        "candidate",
        "capabilities",
        "health",
        "model",
        "model_id",
        "provider",
        "retry",
        "vendor",
    )

    def __init__(
        self,
        *,
        candidate: Candidate,
        health: ProviderHealth,
        model_id: str,
        vendor: str,
        capabilities: Capabilities | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.retry = retry
        self.candidate = candidate
        self.provider = candidate.provider
        self.model = candidate.model
        self.health = health
        self.model_id = model_id
        self.vendor = vendor
        self.capabilities = capabilities or Capabilities()
        declared = (
            self.capabilities.tools,
            self.capabilities.vision,
            self.capabilities.documents,
            self.capabilities.structured_output,
            self.capabilities.streaming,
        )
        self.absent = frozenset(name for name, has in zip(_DECLARED, declared, strict=True) if has is False)
        self._has_all = not self.absent and self.capabilities.max_output is None

    def without_policy(self) -> Stop:
        """Return the same candidate, at which the call's policy counts."""
        return Stop(
            candidate=self.candidate,
            health=self.health,
            model_id=self.model_id,
            vendor=self.vendor,
            capabilities=self.capabilities,
        )

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is known that the candidate lacks, apart from what only other vendors run."""
        return self._has_all and self.model not in self.health.learned

    def lacks(self, now: float) -> frozenset[str]:
        """Return what the candidate is declared, or has turned out, not to have."""
        learned = self.health.lacks(self.model, now)
        return self.absent | learned if learned else self.absent


def computed_order(models_by_provider: Mapping[str, Iterable[str]]) -> tuple[Candidate, ...]:
    """Return every (provider, model), models in order of first mention, providers as listed."""
    listed = {provider: tuple(models) for provider, models in models_by_provider.items()}
    chain = dict.fromkeys(model for models in listed.values() for model in models)
    return tuple(
        Candidate(provider, model) for model in chain for provider, models in listed.items() if model in models
    )


def checked_route(
    route: Iterable[Candidate | Sequence[str] | str], known: Mapping[str, Iterable[str]]
) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """Return *route* without repetitions, and the repetitions; raise `ConfigurationError` for what nobody serves."""
    seen: dict[Candidate, None] = {}
    repeated: list[Candidate] = []
    for entry in route:
        candidate = as_candidate(entry)
        _check_known(candidate, known)
        if candidate in seen:
            repeated.append(candidate)
        seen[candidate] = None
    if not seen:
        raise ConfigurationError("route is empty: name at least one (provider, model)")
    return tuple(seen), tuple(repeated)


def as_candidate(entry: Candidate | Sequence[str] | str) -> Candidate:
    """Return the candidate that a route's entry names; raise `ConfigurationError` for what is none."""
    if isinstance(entry, Candidate):
        return entry
    pair = tuple(entry.split("/", 1)) if isinstance(entry, str) else tuple(entry)
    names: tuple[object, ...] = pair
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"route entries are (provider, model) pairs or 'provider/model', got {entry!r}")
    return Candidate(pair[0], pair[1])


def _check_known(candidate: Candidate, known: Mapping[str, Iterable[str]]) -> None:
    if candidate.provider not in known:
        raise ConfigurationError(
            f"route names provider {candidate.provider!r}; configured are {', '.join(known) or 'none'}"
        )
    models = tuple(known[candidate.provider])
    if candidate.model not in models:
        raise ConfigurationError(
            f"route names {candidate}; models of provider {candidate.provider!r} are {', '.join(models) or 'none'}"
        )


def chain_from(order: Sequence[Candidate], model: str, fallbacks: Mapping[str, Sequence[str]]) -> tuple[Candidate, ...]:
    """Return the part of *order* that a call for *model* may use: that model first, then its fallbacks in turn.

    Without an entry in *fallbacks*, the models after it in the order are its fallbacks.
    """
    models = list(dict.fromkeys(candidate.model for candidate in order))
    if model not in models:
        raise ConfigurationError(f"no provider serves model {model!r}; known are {', '.join(models)}")
    chain = [model, *fallbacks[model]] if model in fallbacks else models[models.index(model) :]
    return tuple(candidate for name in chain for candidate in order if candidate.model == name)


def needs_of(request: ChatRequest, *, stream: bool = False) -> frozenset[str]:
    """Return the features that a candidate must have to serve *request*."""
    needs: set[str] = {"streaming", "parameter:stream_options"} if stream else set()
    for tool in request.tools:
        needs.add("tools" if isinstance(tool, Tool) else f"hosted_tool:{tool.vendor}")
    if request.output is not None:
        needs.add("structured_output")
    for message in request.messages:
        if not isinstance(message.content, str):
            needs |= _needs_of_parts(message)
    if sets_parameters(request):
        needs.update(parameters_of(request))
    return frozenset(needs) if needs else _NOTHING


def _needs_of_parts(message: Message) -> set[str]:
    needs: set[str] = set()
    for part in message.content:
        inner = part.content if isinstance(part, ToolResult) and not isinstance(part.content, str) else (part,)
        for each in inner:
            if isinstance(each, Image):
                needs.add("vision")
            elif isinstance(each, Document):
                needs.add("documents")
            elif isinstance(each, Reasoning):
                needs.add("reasoning_history")
    return needs


def lacking(stop: Stop, needs: frozenset[str], now: float) -> frozenset[str]:
    """Return those of *needs* that the candidate is declared, or has turned out, not to have."""
    missing = needs & stop.lacks(now)
    for need in needs:
        if need.startswith(_WITH_DETAIL) and _out_of_reach(stop, need):
            missing |= {need}
    return missing


def _out_of_reach(stop: Stop, need: str) -> bool:
    kind, _, detail = need.partition(":")
    if kind == "hosted_tool":
        return detail != stop.vendor
    limit = stop.capabilities.max_output
    return kind == "max_output" and limit is not None and int(detail) > limit


def obstacle(stop: Stop, missing: frozenset[str]) -> str | None:
    """Return the feature for want of which the candidate cannot serve, or None where it can do without."""
    for feature in sorted(missing):
        if feature == "tools" and stop.capabilities.prompt_tools:
            continue
        if feature in SPELLINGS and not missing >= SPELLINGS:
            continue
        if feature not in EMULATED:
            return feature
    return None
