"""How fast a provider's keys may be used: limits that the user knows, and limits learned from the vendor's headers.

An `Allowance` is one limit per minute. It allows at most that much within any minute (which no vendor's way of counting
refuses: fixed windows, sliding ones, buckets), and spreads what it allows: no more than ten seconds' worth at once, so
that callers who queue are served steadily instead of by the minute. Requests are counted when they start; tokens are
estimated then, and corrected when the usage is known.

A `Pace` is all of that for one provider. It is told the time and says when; it never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reliable_llm.policy import Limits

MINUTE: Final = 60.0

# Requests arrive a little later than they start, and not all equally late: this much longer is a minute of ours.
MARGIN: Final = 0.6

# How many seconds' worth may start at once.
BURST: Final = 10.0

# Sums of times and amounts are not exact: what lacks less than this lacks nothing.
_ROUNDING: Final = 1e-6

# A learned limit that resets later than this is not one per minute: with nothing left, nobody queues for its reset.
_SHORT: Final = 65.0


class Entry:
    """One use of an allowance."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: float) -> None:
        self.at = at
        self.amount = amount


class Allowance:
    """At most `per_minute` within any minute, and `per_minute / 6` at once."""

    __slots__ = ("_entries", "_filled_at", "_level", "_used", "per_minute")

    def __init__(self, per_minute: float, now: float, *, used: float = 0.0) -> None:
        self.per_minute = per_minute
        self._entries = deque([Entry(now, used)] if used > 0 else [])
        self._used = max(0.0, used)
        self._level = self._burst
        self._filled_at = now

    @property
    def _burst(self) -> float:
        return max(1.0, self.per_minute * BURST / MINUTE)

    def _fill(self, now: float) -> None:
        while self._entries and self._entries[0].at <= now - MINUTE - MARGIN + _ROUNDING:
            self._used -= self._entries.popleft().amount
        self._level = min(self._burst, self._level + max(0.0, now - self._filled_at) * self.per_minute / MINUTE)
        self._filled_at = max(now, self._filled_at)

    def ready_at(self, now: float, amount: float) -> float:
        """Return when *amount* may be used; what is more than the whole allowance may be when nothing else is."""
        self._fill(now)
        missing = min(amount, self._burst) - self._level
        spread = now if missing <= _ROUNDING else now + missing * MINUTE / self.per_minute
        return max(spread, self._window_at(now, min(amount, self.per_minute)))

    def _window_at(self, now: float, amount: float) -> float:
        """Return when enough of the last minute's use is past."""
        excess = self._used + amount - self.per_minute
        at = now
        for entry in self._entries:
            if excess <= _ROUNDING:
                break
            excess -= entry.amount
            at = entry.at + MINUTE + MARGIN
        return at

    def use(self, now: float, amount: float) -> Entry:
        """Count *amount* as used from now on."""
        self._fill(now)
        entry = Entry(now, amount)
        self._entries.append(entry)
        self._used += amount
        self._level = self._lowered(amount)
        return entry

    def correct(self, entry: Entry, amount: float) -> None:
        """Count *entry* as *amount* instead; nothing changes where it is past already."""
        if not self._entries or entry.at < self._entries[0].at:
            return
        change = amount - entry.amount
        entry.amount = amount
        self._used += change
        self._level = min(self._burst, self._lowered(change))

    def _lowered(self, amount: float) -> float:
        """Return the level less *amount*: never so low that a minute could not fill it, for by then all use is past."""
        return max(self._level - amount, min(self._level, self._burst - max(1.0, self.per_minute)))

    def move(self, entry: Entry, now: float) -> Entry:
        """Count what *entry* has used as used from now on."""
        amount = entry.amount
        self.correct(entry, 0.0)
        return self.use(now, amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a vendor's headers say about one limit. `of` is "requests" or "tokens", `reset` a number of seconds."""

    of: str
    limit: float | None
    remaining: float
    reset: float | None


class _Learned:
    """One limit of a key for a model as the vendor reports it."""

    __slots__ = ("allowance", "shut_until")

    def __init__(self) -> None:
        self.allowance: Allowance | None = None
        self.shut_until = 0.0

    def hear(self, reported: Reported, now: float, *, known: bool) -> float:
        """Take over a limit per minute, where the user has said none; with nothing left, wait for some to be back.

        Return for how many seconds nothing is left where that is too long to queue for, else 0.
        """
        short = reported.reset is None or reported.reset <= _SHORT
        if reported.limit is not None and reported.limit >= 1 and short and not known:
            if self.allowance is None:
                self.allowance = Allowance(reported.limit, now, used=reported.limit - reported.remaining)
            self.allowance.per_minute = reported.limit
        if reported.remaining >= 1 or reported.reset is None:
            return 0.0
        if not short:
            return reported.reset
        back = MINUTE / reported.limit if reported.limit else reported.reset
        self.shut_until = max(self.shut_until, now + min(back, reported.reset))
        return 0.0


class Ticket:
    """What one attempt with the key at `place` uses of which allowance, until it is settled."""

    __slots__ = ("place", "settled", "uses")

    def __init__(self, place: int, uses: Sequence[tuple[Allowance, Entry, bool]]) -> None:
        self.place = place
        self.uses = uses
        self.settled = False


class Demand:
    """What one call wants: about `tokens`, higher priorities first. `turn` is set when it is its turn."""

    __slots__ = ("priority", "tokens", "turn")

    def __init__(self, tokens: float, priority: int) -> None:
        self.tokens = tokens
        self.priority = priority
        self.turn = False


class _Key:
    """One key: requests, tokens, attempts under way, and what is learned by model."""

    __slots__ = ("busy", "learned", "requests", "tokens")

    def __init__(self, limits: Limits, now: float) -> None:
        self.requests = None if limits.requests_per_minute is None else Allowance(limits.requests_per_minute, now)
        self.tokens = None if limits.tokens_per_minute is None else Allowance(limits.tokens_per_minute, now)
        self.busy = 0
        self.learned: dict[tuple[str, str], _Learned] = {}

    def allowances(self, model: str, tokens: float) -> Iterable[tuple[Allowance, float, bool]]:
        """Yield each limit with what an attempt uses of it, and whether that is an estimate."""
        for of, own, amount in (("requests", self.requests, 1.0), ("tokens", self.tokens, tokens)):
            learned = self.learned.get((model, of))
            for allowance in (own, learned.allowance if learned else None):
                if allowance is not None:
                    yield allowance, amount, of == "tokens"

    def rate(self, model: str, tokens: float) -> float:
        """Return how many attempts a minute the key allows; 0 where nothing says so."""
        rates = [each.per_minute / amount for each, amount, _ in self.allowances(model, tokens) if amount > 0]
        return min(rates, default=0.0)

    def shut_until(self, model: str) -> float:
        return max((each.shut_until for (name, _), each in self.learned.items() if name == model), default=0.0)


class Pace:
    """How fast one provider's keys may be used. `waiting` is how many calls queue for it, and is kept by the queue."""

    __slots__ = ("_keys", "limits", "waiting")

    def __init__(self, limits: Limits, keys: int, now: float) -> None:
        self.limits = limits
        self._keys = [_Key(limits, now) for _ in range(keys)]
        self.waiting = 0

    def ready_at(self, place: int, model: str, now: float, tokens: float) -> float | None:
        """Return when the key at *place* may be used; None while that hangs on an attempt under way."""
        key = self._keys[place]
        if self.limits.max_concurrency is not None and key.busy >= self.limits.max_concurrency:
            return None
        times = [each.ready_at(now, amount) for each, amount, _ in key.allowances(model, tokens)]
        return max([now, key.shut_until(model), *times])

    def backlog(self, model: str, tokens: float) -> float:
        """Return about how many seconds those who queue will take, if all want as much as this one."""
        rates = [key.rate(model, tokens) for key in self._keys]
        return MINUTE * self.waiting / sum(rates) if any(rates) else 0.0

    def under_way(self, place: int) -> int:
        """Return how many attempts with the key at *place* have started and are not over."""
        return self._keys[place].busy

    def unready(self, model: str, now: float, tokens: float) -> set[int]:
        """Return the places of the keys that may not be used now."""
        times = ((place, self.ready_at(place, model, now, tokens)) for place in range(len(self._keys)))
        return {place for place, at in times if at is None or at > now}

    def take(self, place: int, model: str, now: float, tokens: float) -> Ticket:
        """Count an attempt that starts now."""
        key = self._keys[place]
        key.busy += 1
        demands = tuple(key.allowances(model, tokens))
        uses = [(each, each.use(now, amount), estimated) for each, amount, estimated in demands]
        return Ticket(place, uses)

    def begin(self, ticket: Ticket, now: float) -> None:
        """Count an attempt from *now* on: after its turn had come, it had to wait for something else."""
        ticket.uses = [(each, each.move(entry, now), estimated) for each, entry, estimated in ticket.uses]

    def settle(self, ticket: Ticket, tokens: float | None, *, sent: bool = True) -> None:
        """Correct what an attempt has used, now that it is over, once; *tokens* None where nobody has said."""
        if ticket.settled:
            return
        ticket.settled = True
        self._keys[ticket.place].busy -= 1
        for allowance, entry, estimated in ticket.uses:
            if not sent:
                allowance.correct(entry, 0.0)
            elif estimated and tokens is not None:
                allowance.correct(entry, tokens)

    def hear(self, place: int, model: str, reported: Sequence[Reported], now: float) -> float:
        """Learn from the headers of an answer; return for how many seconds the key is spent, 0 where it is not."""
        key, spent = self._keys[place], 0.0
        for each in reported:
            known = (key.requests if each.of == "requests" else key.tokens) is not None
            learned = key.learned.setdefault((model, each.of), _Learned())
            spent = max(spent, learned.hear(each, now, known=known))
        return spent
