"""Outages in your own test suite: scripted vendors, virtual time, counts from the wire. No network, no waiting.

    from reliable_llm import FailoverChat
    from reliable_llm.testing import Drill, ok, rate_limited

    def test_a_limited_key_sends_us_to_claude(reliable_llm_drill: Drill) -> None:
        drill = reliable_llm_drill
        drill.answers("openai", rate_limited(retry_after=60))
        drill.answers("anthropic", ok("hello"))
        chat = FailoverChat([drill.openai(models=["m1"]), drill.anthropic(models=["m2"])], clock=drill.clock)
        assert drill.run(chat("hi")).text == "hello"
        drill.assert_requests({"openai/k1/m1": 1, "anthropic/k1/m2": 1})

The vendors answer the real SDKs, byte for byte. `reliable_llm_drill` is a pytest fixture; without pytest, make a
`Drill()`. All durations are seconds.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Required, TypedDict, TypeVar, Unpack

import httpx2

from reliable_llm.drill import loop
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.scenario import Act, Upstream
from reliable_llm.drill.vendors.observed import Arrival
from reliable_llm.drill.vendors.wire import Site, Vendors
from reliable_llm.policy import Limits, RetryPolicy, Timeouts
from reliable_llm.provider import Provider
from reliable_llm.types import Capabilities

__all__ = [
    "Act",
    "Arrival",
    "Drill",
    "DrillClock",
    "Simulated",
    "act",
    "connection_refused",
    "error",
    "hang",
    "html",
    "ok",
    "out_of_quota",
    "overloaded",
    "rate_limited",
    "stream",
]

T = TypeVar("T")


class Simulated(TypedDict, total=False):
    """What a simulated provider may be given: as for `Provider.openai`, but that it has one key, `k1`, by default."""

    models: Required[Sequence[str]]
    keys: Sequence[str]
    timeouts: Timeouts | None
    capabilities: Capabilities | None
    limits: Limits | None
    retry: RetryPolicy | None


class Drill:
    """Simulated vendors and the time they live in. Providers are named as in the chain; keys stand for themselves."""

    def __init__(self, *, seed: int = 0) -> None:
        self._vendors = Vendors(())
        self.slept: list[float] = []
        self.clock = DrillClock(seed=seed, slept=self.slept.append)

    # ---------------------------------------------------------------- setting up

    def answers(self, provider: str, *acts: Act, key: str = "*", model: str = "*", forever: bool = True) -> None:
        """Let *provider* answer with *acts*, one request each; the last one again and again, unless *forever* is false.

        Said again for the same provider, key and model, the later script counts.
        """
        script = [*acts[:-1], acts[-1].model_copy(update={"repeat": True})] if forever else list(acts)
        self._vendors.add(Upstream(match=f"{provider}/{key}/{model}", script=script))

    def http_client(self, provider: str, *, pool_limit: int | None = None) -> httpx2.AsyncClient:
        """Return a client whose requests all end at *provider*, for `Provider.openai(http_client=...)`."""
        transport = self._vendors.transport(Site(name=provider, pool_limit=pool_limit))
        return httpx2.AsyncClient(transport=transport, trust_env=False)

    def openai(self, name: str = "openai", **given: Unpack[Simulated]) -> Provider:
        """Return a provider that speaks OpenAI's protocol to the simulated vendor *name*."""
        given.setdefault("keys", ("k1",))
        client, url = self.http_client(name), "https://openai.example/v1"
        return Provider.openai(name=name, vendor="openai", base_url=url, http_client=client, **given)

    def anthropic(self, name: str = "anthropic", **given: Unpack[Simulated]) -> Provider:
        """Return a provider that speaks Anthropic's protocol to the simulated vendor *name*."""
        given.setdefault("keys", ("k1",))
        client, url = self.http_client(name), "https://anthropic.example"
        return Provider.anthropic(name=name, vendor="anthropic", base_url=url, http_client=client, **given)

    # ---------------------------------------------------------------- running

    def run(self, main: Coroutine[object, object, T]) -> T:
        """Run *main* to its end in virtual time. A further run goes on where the last one ended."""
        return loop.run(self._timed(main), start=self.clock.at_rest)

    async def _timed(self, main: Coroutine[object, object, T]) -> T:
        try:
            return await main
        finally:
            self.clock.at_rest = self.clock.monotonic()

    def pass_time(self, seconds: float) -> None:
        """Let *seconds* go by between two runs."""
        self.clock.at_rest += seconds

    @property
    def now(self) -> float:
        """The second at which the last run ended."""
        return self.clock.at_rest

    # ---------------------------------------------------------------- what was seen on the wire

    @property
    def arrivals(self) -> list[Arrival]:
        """Every request, in order: where it went, when, its decoded body, how it ended."""
        return self._vendors.observed.arrivals

    def requests(self) -> dict[str, int]:
        """Return how many requests came, by `provider/key/model`."""
        return self._vendors.observed.requests()

    def order(self) -> list[str]:
        """Return where the requests went, in order."""
        return self._vendors.observed.order()

    def assert_requests(self, expected: Mapping[str, int]) -> None:
        """Raise `AssertionError` unless exactly these requests came; what is not listed must be none."""
        seen = self.requests()
        wrong = [
            f"{where}: expected {expected.get(where, 0)}, got {seen.get(where, 0)}"
            for where in sorted({*expected, *seen})
            if expected.get(where, 0) != seen.get(where, 0)
        ]
        if wrong:
            raise AssertionError("requests on the wire differ\n  " + "\n  ".join(wrong))

    def assert_all_closed(self) -> None:
        """Raise `AssertionError` if a response was left open: that is a leaked connection."""
        if left := self._vendors.observed.open():
            raise AssertionError(f"left open: {', '.join(f'request {a.number} to {a.where}' for a in left)}")


# ---------------------------------------------------------------- what a vendor can do


def act(fields: Mapping[str, object]) -> Act:
    """Return any act of the scenario format, such as `{"act": "ok_tool", "calls": [...]}`."""
    return Act.model_validate(fields)


def ok(text: str, *, usage: tuple[int, int] | None = None, after: float = 0.0) -> Act:
    """Answer with *text*; *usage* is (input, output) tokens."""
    return Act(act="ok", text=text, usage=list(usage) if usage else None, delay_s=after)


def error(
    status: int,
    *,
    error_type: str = "api_error",
    code: str | None = None,
    message: str = "simulated failure",
    headers: Mapping[str, str] | None = None,
) -> Act:
    """Answer with *status* and an error body in the vendor's own form."""
    body: dict[str, object] = {"type": error_type, "message": message}
    return Act(act="error", status=status, headers=dict(headers or {}), error=body | ({"code": code} if code else {}))


def rate_limited(*, retry_after: float | None = None) -> Act:
    """429: over the allowance for the moment."""
    hint = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return error(429, error_type="rate_limit_error", code="rate_limit_exceeded", headers=hint)


def out_of_quota() -> Act:
    """429 as OpenAI says it when the account has run dry."""
    return error(429, error_type="insufficient_quota", code="insufficient_quota")


def overloaded() -> Act:
    """529 as Anthropic says it."""
    return error(529, error_type="overloaded_error")


def html(status: int = 502, body: str = "<html><h1>Bad gateway</h1></html>") -> Act:
    """Answer with a page instead of JSON."""
    return Act(act="raw", status=status, content_type="text/html", body=body)


def connection_refused() -> Act:
    """Nobody listens."""
    return Act(act="refuse")


def hang(phase: str = "headers") -> Act:
    """Never answer: from the connection on (`connect`), before the headers, or in the `body`."""
    return Act(act="hang", phase=phase)


def stream(*chunks: str, end: str = "done", gap: float = 0.0, usage: tuple[int, int] | None = None) -> Act:
    """Stream *chunks*, *gap* seconds apart. *end*: done, eof, cut, stall, error_frame or zero_bytes."""
    return Act(act="stream", chunks=list(chunks), end=end, gap_s=gap, usage=list(usage) if usage else None)
