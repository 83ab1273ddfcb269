"""The rules, held against everything that is told, sent and answered. The first objection ends a run."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reliable_llm import events
from reliable_llm.errors import Kind, ReliableLLMError, Scope
from reliable_llm.types import Attempt, Candidate, ChatReply
from tests.simulation.book import UNDECIDED, Book
from tests.simulation.world import KEY, PROMPT, Ask, Deed, World

if TYPE_CHECKING:
    from reliable_llm.policy import RetryPolicy

EPSILON = 1e-6
MOST_REQUESTS = 150
MOST_SLEEPS = 400
FLOOR = 0.05

# The kinds with which vendors behind the real SDKs send a hint, as a header.
TELL_A_HINT = (Kind.RATE_LIMITED, Kind.SERVER_ERROR, Kind.OVERLOADED)

# Raised where they are met, whatever else could serve.
FINAL = {
    Kind.INVALID_REQUEST,
    Kind.CONTENT_POLICY,
    Kind.CONTEXT_WINDOW,
    Kind.DEADLINE,
    Kind.INVALID_OUTPUT,
    Kind.OUTPUT_TRUNCATED,
    Kind.REQUEST_TOO_LARGE,
    Kind.STREAM_INTERRUPTED,
    Kind.CONFIGURATION,
    Kind.CLOSED,
}


class ViolationError(BaseException):
    """A rule is broken, and going on makes no sense. Not an `Exception`: nothing under test may swallow it."""


@dataclass(slots=True, eq=False)
class Request:
    """One attempt: announced by the product, then seen at the vendor. `left`: its connection is given back."""

    number: int
    call: str
    candidate: Candidate
    key: str
    at: float
    probe: bool
    deed: Deed = field(default_factory=Deed)
    said: str = ""
    arrived: bool = False
    left: bool = False
    told: str = ""
    result: str = ""
    rotate: bool | None = None
    scope: Scope | None = None
    epochs: dict[str, int] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return self.candidate.model

    @property
    def place(self) -> tuple[str, str, str]:
        return self.candidate.provider, self.candidate.model, self.key

    def __str__(self) -> str:
        return f"request {self.number} of {self.call} ({self.candidate} with {self.key}: {self.deed})"


@dataclass(slots=True)
class Log:
    """One call as it went."""

    ask: Ask
    began: float
    route: tuple[Candidate, ...]
    retry: RetryPolicy
    requests: list[Request] = field(default_factory=list)
    sleeps: int = 0
    cancelled: float | None = None
    ended: bool = False
    broken: Counter[Candidate] = field(default_factory=Counter)
    hints: dict[tuple[object, ...], float] = field(default_factory=dict)
    dead: set[tuple[Candidate, str]] = field(default_factory=set)
    skipped: set[Candidate] = field(default_factory=set)

    @property
    def deadline(self) -> float | None:
        return None if self.ask.deadline is None else self.began + self.ask.deadline


class Watch:
    """Sees all. `objections` holds the broken rules, first one first."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.objections: list[tuple[str, str]] = []
        self.calls: dict[str, Log] = {}
        self.book = Book(
            quota=world.recovery.quota,
            max_reset=world.recovery.max_reset,
            memory=world.recovery.memory,
            cooldowns=world.recovery.cooldowns,
        )
        self.keys = {site.name: [f"{site.name}#{n + 1}" for n in range(site.keys)] for site in world.sites}
        self.limits = {site.name: site.max_concurrency for site in world.sites}
        self.deeds = {site.name: list(reversed(site.deeds)) for site in world.sites}
        self.paces = {site.name: site.limits for site in world.sites if site.limits is not None}
        self.open: Counter[str] = Counter()
        self.under_way: dict[str, list[Request]] = {}
        self.started_at: dict[str, list[float]] = {}
        self.paused: list[tuple[float, float]] = []
        self.outcomes: Counter[str] = Counter()
        self.requests = 0
        self.answers = 0
        self._trace = hashlib.sha256()
        self._slowest_close = max(site.slow_to_close for site in world.sites)

    # ---------------------------------------------------------------- small things

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def digest(self) -> str:
        """The same for two runs that did the same at the same times."""
        return self._trace.hexdigest()[:16]

    def object(self, rule: str, what: str) -> None:
        self.objections.append((rule, f"t={self.now:g}: {what}"))

    def secret(self, where: str, text: str) -> None:
        if PROMPT in text or KEY in text:
            self.object("a secret shows", f"in {where}: {text[:300]}")

    def note(self, *facts: object) -> None:
        self._trace.update(repr((round(self.now, 6), *facts)).encode())

    # ---------------------------------------------------------------- what the product tells

    def event(self, event: events.Event, tags: Mapping[str, str]) -> None:
        self.secret("an event", repr(event))
        self.note(event)
        log = self.calls.get(tags.get("call", ""))
        if isinstance(event, events.AttemptStarted):
            self._started(event, log)
        elif isinstance(event, events.AttemptFailed):
            self._failed(event, log)
        elif isinstance(event, events.AttemptSucceeded):
            self._succeeded(event, log)
        elif isinstance(event, events.CandidateSkipped) and log is not None:
            log.skipped.add(Candidate(event.provider, event.model))
        elif isinstance(event, events.CandidateParked) and event.reason in UNDECIDED:
            self.book.parked(f"{event.provider}/{event.model}", self.now + event.seconds)

    def _started(self, event: events.AttemptStarted, log: Log | None) -> None:
        candidate = Candidate(event.provider, event.model)
        if log is None:
            self.object("an attempt for nobody", str(event))
            return
        self.requests += 1
        request = Request(self.requests, log.ask.name, candidate, event.key, self.now, event.probe)
        self._check_start(request, log)
        log.requests.append(request)
        self._check_pace(request)
        nowhere_else = self.world.hedge is not None or all(r.candidate == candidate for r in log.requests)
        for rule, what in self.book.start(request, self.now, nowhere_else=nowhere_else):
            self.object(rule, f"{request}: {what}")
        if len(log.requests) > MOST_REQUESTS:
            self.object("a call without end", f"{log.ask.name} has made {MOST_REQUESTS} attempts")
            raise ViolationError

    def _check_start(self, request: Request, log: Log) -> None:
        now = self.now
        if log.ended:
            self.object("an attempt after the end", str(request))
        if log.deadline is not None and now >= log.deadline:
            self.object("an attempt past the deadline", f"{request}, deadline {log.deadline:g}")
        if request.candidate not in log.route:
            self.object("a candidate nobody asked for", str(request))
        if self.world.hedge is not None:
            return
        if log.cancelled is not None:
            self.object("an attempt after cancel", str(request))
        if (request.candidate, request.key) in log.dead:
            self.object("a key that failed is used again", str(request))
        if log.broken[request.candidate] > log.retry.max_retries:
            self.object("too many retries", str(request))
        for place in ((request.candidate,), (request.candidate, request.key)):
            if now < log.hints.get(place, 0.0) - EPSILON:
                self.object("a wait under the server's hint", f"{request}, not before {log.hints[place]:g}")

    def _check_pace(self, request: Request) -> None:
        """Whatever way a vendor counts, no minute may hold more than it allows."""
        pace = self.paces.get(request.candidate.provider)
        if pace is None or pace.requests_per_minute is None:
            return
        times = self.started_at.setdefault(request.key, [])
        times.append(self.now)
        if sum(at > self.now - 60.0 + EPSILON for at in times) > pace.requests_per_minute:
            self.object("more in a minute than allowed", f"{request}: {pace}")

    def _find(self, log: Log | None, event: events.AttemptFailed | events.AttemptSucceeded) -> Request | None:
        place = event.provider, event.model, event.key
        meant = str(event.kind) if isinstance(event, events.AttemptFailed) else "answered"
        open_ones = [r for r in (log.requests if log else ()) if r.place == place and not r.told]
        # With hedging two attempts of one call may be under way at one place: the vendor knows which one it was.
        open_ones.sort(key=lambda request: request.result != meant)
        if open_ones:
            return open_ones[0]
        self.object("an outcome of no attempt", str(event))
        return None

    def _failed(self, event: events.AttemptFailed, log: Log | None) -> None:
        request = self._find(log, event)
        if request is None or log is None:
            return
        request.told = str(event.kind)
        if not request.arrived:
            self.object("the ledger tells of a request that nobody got", str(request))
        expected = request.deed.kind
        if request.deed.what == "fails" and event.kind is not expected and event.kind not in UNDECIDED:
            self.object("a failure taken for another", f"{request} is told as {event.kind}")
        if request.deed.what == "fails" and event.kind is expected:
            self._check_hint(request, event)
        self.book.failed(request, event.kind, event.retry_after, self.now)
        self._remember(request, log, event)

    def _check_hint(self, request: Request, event: events.AttemptFailed) -> None:
        said, heard = request.deed.hint, event.retry_after
        if self.world.wired and event.kind not in TELL_A_HINT:
            said = None
        if (said is None) != (heard is None) or abs((said or 0.0) - (heard or 0.0)) > EPSILON:
            self.object("a hint misheard", f"{request} said {said}, and {heard} is told")

    def _remember(self, request: Request, log: Log, event: events.AttemptFailed) -> None:
        """What the same call must heed from now on."""
        here, key = request.candidate, request.key
        hint = event.retry_after or 0.0
        if event.kind is Kind.INVALID_OUTPUT:
            log.broken.clear()
        if event.kind is Kind.RATE_LIMITED:
            log.hints[(here, key) if request.rotate is not False else (here,)] = self.now + hint
        elif event.kind in (Kind.QUOTA_EXHAUSTED, Kind.AUTHENTICATION, Kind.PERMISSION):
            log.dead.add((here, key))
        elif event.kind in UNDECIDED:
            log.broken[here] += 1
            least = max(FLOOR, log.retry.backoff * (1 - log.retry.jitter), hint)
            log.hints[here,] = self.now + min(least, max(log.retry.cap, FLOOR))

    def _succeeded(self, event: events.AttemptSucceeded, log: Log | None) -> None:
        request = self._find(log, event)
        if request is not None:
            request.told = "answered"
            self.book.succeeded(request)

    # ---------------------------------------------------------------- what vendors see

    def arrived(self, call: str, provider: str, key: str, model: str) -> Request:
        """A request has come: return it, with what the vendor does about it."""
        log = self.calls[call]
        waiting = [r for r in log.requests if r.place == (provider, model, key) and not r.arrived]
        if not waiting:
            self.object("a request that no attempt stands for", f"{call} at {provider}/{model} with {key}")
            raise ViolationError
        request = waiting[-1]
        request.arrived = True
        deeds = self.deeds[provider]
        request.deed = deeds.pop() if deeds else Deed()
        request.said = f"[{request.number}] {call}"
        if not self.world.wired:
            request.rotate, request.scope = request.deed.rotate, request.deed.scope
        self.open[provider] += 1
        self._check_crowd(request)
        limit = self.limits[provider]
        if limit is not None and self.open[provider] > limit:
            self.object("more at once than max_concurrency", f"{request}: {self.open[provider]} of {limit}")
        return request

    def _check_crowd(self, request: Request) -> None:
        # Who has said its last word is done, though the reader may not have left yet.
        busy = [each for each in self.under_way.get(request.key, ()) if not each.left and not each.told]
        self.under_way[request.key] = [*busy, request]
        pace = self.paces.get(request.candidate.provider)
        if pace is not None and pace.max_concurrency is not None and len(busy) >= pace.max_concurrency:
            self.object("more at once than the key's max_concurrency", f"{request}, and {len(busy)} others")

    def left(self, request: Request, *, gave_up: bool) -> None:
        """The connection of *request* is given back."""
        if not request.left:
            request.left = True
            self.open[request.candidate.provider] -= 1
        if gave_up and not request.told:
            self.book.release(request)

    def slept(self, call: str | None, seconds: float) -> None:
        log = self.calls.get(call or "")
        if log is None:
            self.object("a sleep for nobody", f"{seconds:g} s")
            return
        log.sleeps += 1
        if log.sleeps > MOST_SLEEPS:
            self.object("a call without end", f"{log.ask.name} has slept {MOST_SLEEPS} times")
            raise ViolationError
        if seconds > max(log.retry.cap, log.retry.patience, 1.0) + 5.0 + EPSILON:
            self.object("a sleep above the cap", f"{log.ask.name} sleeps {seconds:g} s")
        if log.deadline is not None and self.now + seconds >= log.deadline + EPSILON:
            self.object("a sleep past the deadline", f"{log.ask.name} sleeps {seconds:g} s")

    # ---------------------------------------------------------------- what callers get

    def begin(self, ask: Ask) -> Log:
        route = ask.route or self.world.route()
        route = route if ask.failover else route[:1]
        log = self.calls[ask.name] = Log(ask, self.now, route, ask.retry or self.world.retry)
        return log

    def answered(self, log: Log, reply: ChatReply, text: str | None = None) -> None:
        """Hold an answer against what the vendor said; *text* is what a stream's reader saw."""
        self.answers += 1
        self.secret("the repr of a reply", repr(reply))
        # Two attempts of a hedged call may be at one place: which of them was told to have answered is anybody's guess.
        served = [r for r in log.requests if r.told == "answered" or self.world.hedge is not None]
        place = (reply.served_by.provider, reply.served_by.model, reply.served_by.key_label)
        right = [r for r in served if r.place == place and r.said and self._ends_right(r, reply, text)]
        if not right:
            self.object("a wrong answer", f"{log.ask.name} got {reply.text!r} from {reply.served_by}")
        if text is not None and text != reply.text:
            self.object("a wrong answer", f"{log.ask.name} read {text!r}, and the reply says {reply.text!r}")
        self._check_ledger(log, reply.attempts)

    def _ends_right(self, request: Request, reply: ChatReply, text: str | None) -> bool:
        if text is not None and self.calls[request.call].ask.on_interrupt == "continue":
            return request.said in reply.text
        if self.calls[request.call].ask.structured:
            return reply.parsed == {"who": request.said}
        return reply.text == request.said

    def failed(self, log: Log, error: BaseException, text: str | None = None) -> None:
        self.outcomes[str(error.kind) if isinstance(error, ReliableLLMError) else type(error).__name__] += 1
        if not isinstance(error, ReliableLLMError):
            return
        self.secret("an error", f"{error!s} {error!r}")
        self.secret("a pickled error", pickle.dumps(error).decode("latin-1"))
        self._check_ledger(log, error.attempts)
        partial = getattr(error, "partial_text", "")
        void = partial == "" and log.ask.on_interrupt == "restart"  # what was read is void: a restart had begun
        broke = error.kind in (Kind.STREAM_INTERRUPTED, Kind.DEADLINE)
        # What was held back to be compared with what came before it is in the error, though nobody has read it.
        if text is not None and not partial.startswith(text) and broke and not void:
            self.object("a wrong partial text", f"{log.ask.name} read {text!r}, and the error says {partial!r}")
        if error.kind in FINAL or text or self.world.budget is not None or self.world.hedge is not None:
            return
        self._check_untried(log, error)
        told = [r.told for r in log.requests if r.candidate == log.route[0]]
        # Its last word may be that the queue of this process is full.
        if told and error.kind not in (told[-1], Kind.QUEUE_FULL):
            self.object("not the primary's error", f"{log.ask.name} got {error.kind}, the primary said {told[-1]}")

    def _check_untried(self, log: Log, error: ReliableLLMError) -> None:
        tried = {request.candidate for request in log.requests} | log.skipped
        for candidate in log.route:
            ready = self.book.surely_ready(str(candidate), candidate.model, self.keys[candidate.provider])
            # Where the pace is limited, a place in the queue is not the book's to tell.
            if candidate not in tried and ready and candidate.provider not in self.paces:
                self.object("given up with somebody ready", f"{log.ask.name}: {candidate} was not tried ({error.kind})")

    def _check_ledger(self, log: Log, attempts: Sequence[Attempt]) -> None:
        ledger = [(a.provider, a.model, a.key_label) for a in attempts]
        wire = [request.place for request in log.requests if request.arrived]
        if self.world.hedge is not None:
            ledger.sort()
            wire.sort()
        if ledger != wire:
            self.object("the ledger is not what vendors saw", f"{log.ask.name}: ledger {ledger}, wire {wire}")
        told = [r.told or "cancelled" for r in log.requests]
        kinds = [str(a.kind or "answered") for a in attempts]
        if self.world.hedge is None and kinds != told:
            self.object("the ledger is not what was told", f"{log.ask.name}: ledger {kinds}, told {told}")

    def end(self, log: Log, how: str) -> None:
        log.ended = True
        for request in log.requests:
            if not request.told:
                self.book.release(request)
        self.note(log.ask.name, how)
        self.outcomes["calls"] += 1
        patience = self._slowest_close * 2 + (1.0 if self.world.hedge else 0.0) + EPSILON
        if self.paused or log.ask.dawdle:
            return
        if log.cancelled is not None and self.now > log.cancelled + patience:
            self.object("cancelled and still there", f"{log.ask.name} went {self.now - log.cancelled:g} s later")
        if log.deadline is not None and self.now > log.deadline + patience:
            self.object("past the deadline and still there", f"{log.ask.name} went at {self.now - log.deadline:+g} s")

    # ---------------------------------------------------------------- the end of it all

    def check_nothing_is_left(self) -> None:
        for provider, count in self.open.items():
            if count:
                self.object("a response left open", f"{count} at {provider}")
        if len(left := asyncio.all_tasks()) > 1:
            self.object("a task left behind", ", ".join(str(task) for task in left)[:500])
        for log in self.calls.values():
            for request in log.requests:
                if not request.arrived:
                    self.object("an attempt that nobody got", str(request))

    def check_everybody_is_back(self, states: Iterator[tuple[str, str]]) -> None:
        """Long after everything, nothing may rest or be probed but what is out for good."""
        for name, state in states:
            if state in ("resting", "probing"):
                self.object("a permit lost", f"{name} is {state} for ever")
