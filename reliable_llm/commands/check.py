"""`reliable-llm check`: is a configuration right, and what will it do? With `--call`, does each candidate answer?"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from reliable_llm.commands.remedies import advice_for, remedy_for
from reliable_llm.config import Settings, from_env, load
from reliable_llm.errors import Kind, ReliableLLMError, default_verdict
from reliable_llm.events import ConfigWarning
from reliable_llm.policy import Limits, RetryPolicy
from reliable_llm.types import Attempt, Candidate

if TYPE_CHECKING:
    from reliable_llm.chat import FailoverChat
    from reliable_llm.events import Event
    from reliable_llm.provider import Provider

PROMPT: Final = "Answer with one word: ready"

# What a vendor's side can do to a call; the rest is the caller's own (deadline, cancelled, closed, ...).
_FAILURES: Final = (
    Kind.RATE_LIMITED,
    Kind.QUOTA_EXHAUSTED,
    Kind.OVERLOADED,
    Kind.SERVER_ERROR,
    Kind.CONNECTION,
    Kind.MALFORMED_RESPONSE,
    Kind.EMPTY_RESPONSE,
    Kind.TIMEOUT,
    Kind.AUTHENTICATION,
    Kind.PERMISSION,
    Kind.MODEL_NOT_FOUND,
    Kind.UNSUPPORTED,
    Kind.CONTEXT_WINDOW,
    Kind.REQUEST_TOO_LARGE,
    Kind.CONTENT_POLICY,
    Kind.INVALID_REQUEST,
)
_REMEMBERED: Final = {Kind.PERMISSION, Kind.MODEL_NOT_FOUND, Kind.UNSUPPORTED}


def run(file: str | None, *, call: bool, deadline: float) -> int:
    """Check *file* (None: the environment) and print what it does; *call* makes one request per candidate.

    Returns 0 when all is well, 1 when a candidate failed, 2 when it failed for something that must be changed. Raises
    `ConfigurationError` where the configuration itself is wrong.
    """
    from reliable_llm.chat import FailoverChat

    settings = from_env() if file is None else load(file)
    warnings: list[str] = []

    def note(event: Event, _tags: Mapping[str, str], /) -> None:
        if isinstance(event, ConfigWarning):
            warnings.append(f"warning: {event.provider}: {event.reason}")

    chat = FailoverChat.from_settings(settings, listeners=[note])
    print(f"{file or 'the environment'}: right\n")
    print(*_candidates(chat, settings), "", *_reactions(settings, chat), *warnings, sep="\n")
    if not call:
        print("\nNothing was sent. One short request to each candidate: --call")
        return 0
    print("\none request to each candidate")
    return asyncio.run(_call_all(chat, deadline))


# ---------------------------------------------------------------- what it will do


def _candidates(chat: FailoverChat, settings: Settings) -> Iterator[str]:
    providers = {provider.name: provider for provider in settings.providers}
    yield "candidates, in the order they are tried"
    for number, candidate in enumerate(chat.route, 1):
        provider = providers[candidate.provider]
        where = "the address of its own client" if provider.base_url is None else provider.endpoint
        keys = ", ".join(key.label for key in provider.keys) or "no key: never tried"
        yield f"  {number}. {candidate}{_id(provider, candidate)} at {where}, keys {keys}"
        own = "" if provider.retry is None else f", {_more(provider.retry)} whatever [retry] says"
        yield f"     an attempt takes at most {provider.timeouts.attempt:g} s{own}"
        if provider.limits is not None:
            yield f"     each key: {_pace(provider.limits)}; further calls queue, at most {provider.limits.queue}"
    used = {candidate.provider for candidate in chat.route}
    yield from (f"  {name} is in no candidate: add it to route" for name in providers if name not in used)


def _pace(limits: Limits) -> str:
    known = (
        (limits.requests_per_minute, "requests a minute"),
        (limits.tokens_per_minute, "tokens a minute"),
        (limits.max_concurrency, "requests at once"),
    )
    told = [f"{most:,.12g} {what}" for most, what in known if most is not None]
    return f"at most {', '.join(told)}" if told else "as fast as the vendor's headers say"


def _id(provider: Provider, candidate: Candidate) -> str:
    model_id = provider.models[candidate.model]
    return "" if model_id == candidate.model else f" (there {model_id})"


def _reactions(settings: Settings, chat: FailoverChat) -> Iterator[str]:
    yield "what a failure does"
    several_keys = any(len(provider.keys) > 1 for provider in settings.providers)
    alike: dict[str, list[str]] = {}
    for kind in _FAILURES:
        does = reaction(kind, settings, several_keys=several_keys, several_candidates=len(chat.route) > 1)
        alike.setdefault(does, []).append(str(kind).replace("_", " "))
    for does, kinds in alike.items():
        yield f"  {', '.join(kinds)}:"
        yield from textwrap.wrap(does, width=100, initial_indent="      ", subsequent_indent="      ")


def reaction(kind: Kind, settings: Settings, *, several_keys: bool, several_candidates: bool) -> str:
    """Return what a failure of *kind* does, in the order in which it is tried, and what is remembered of it."""
    verdict, retry = default_verdict(kind), settings.retry
    steps = ["the next key at once"] if verdict.rotate_key and several_keys else []
    if kind is Kind.RATE_LIMITED:
        steps.append(f"a wait of up to {retry.patience if several_candidates else retry.cap:g} s")
    elif verdict.retry_same and (kind is not Kind.TIMEOUT or retry.retry_timeouts or not several_candidates):
        steps += [f"{_more(retry)} from {retry.backoff:g} s"] if retry.max_retries else []
    if kind is Kind.CONTEXT_WINDOW and several_candidates:
        steps.append("a candidate known to have a larger window")
    elif (verdict.failover or kind in retry.failover_on) and several_candidates:
        steps.append("the next candidate")
    afterwards = _afterwards(kind, settings, several_candidates=several_candidates)
    steps.append("else it is raised" if steps else "raised at once")
    return ", then ".join(steps[:-1]) + (", " if len(steps) > 1 else "") + steps[-1] + afterwards


def _more(retry: RetryPolicy) -> str:
    return "1 retry" if retry.max_retries == 1 else f"{retry.max_retries} retries"


def _afterwards(kind: Kind, settings: Settings, *, several_candidates: bool) -> str:
    recovery = settings.recovery
    if kind is Kind.QUOTA_EXHAUSTED:
        return f"; the key rests {recovery.quota:g} s, or until the reset that the vendor names; then one call tries it"
    if kind is Kind.AUTHENTICATION:
        return "; the key is out until reset()"
    if kind in _REMEMBERED and recovery.memory:
        return f"; remembered for {recovery.memory:g} s"
    rest = recovery.breaker.get(kind)
    return f"; the candidate rests {rest:g} s" if rest and several_candidates else ""


# ---------------------------------------------------------------- does it answer?


async def _call_all(chat: FailoverChat, deadline: float) -> int:
    async with chat:
        return max([await _call(chat, candidate, deadline) for candidate in chat.route])


async def _call(chat: FailoverChat, candidate: Candidate, deadline: float) -> int:
    retry = RetryPolicy(max_retries=0, wait_for_cooldown=False)
    try:
        reply = await chat(PROMPT, route=[candidate], retry=retry, deadline=deadline)
    except ReliableLLMError as error:
        print(f"  {candidate}: {error}")
        _tell(error.attempts, failed=True)
        advice = advice_for(error)
        if advice:
            print(f"    {advice}")
        return 1 if remedy_for(error) is None else 2
    took = sum(attempt.elapsed for attempt in reply.attempts)
    print(f"  {candidate}: answered in {took:.2f} s on {reply.served_by.key_label}, {_spent(reply.usage)}")
    _tell(reply.attempts, failed=False)
    return 0


def _tell(attempts: tuple[Attempt, ...], *, failed: bool) -> None:
    """Print what else was tried: keys that were passed over are worth knowing even where another one answered."""
    for attempt in attempts if not failed or len(attempts) > 1 else ():
        if attempt.kind is not None:
            print(f"    {attempt}")


def _spent(usage: object) -> str:
    return "no usage told" if usage is None else str(usage)
