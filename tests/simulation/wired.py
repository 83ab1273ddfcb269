"""Vendors behind the real SDKs: the drill's transport, and what it does decided request by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2

from reliable_llm.drill.scenario import SHAPES, Act
from reliable_llm.drill.vendors import wire
from reliable_llm.drill.vendors.observed import Arrival, Observed
from reliable_llm.drill.vendors.shapes import Incoming
from reliable_llm.errors import Kind
from reliable_llm.provider import Provider
from tests.simulation.scripted import pieces
from tests.simulation.watch import TELL_A_HINT, Request, Watch
from tests.simulation.world import KEY, PROMPT, Deed, Site

WORDS = f"you wrote {PROMPT!r} with {KEY}-1"

# Kind -> status, error type, code.
_ERRORS: Mapping[Kind, tuple[int, str, str | None]] = {
    Kind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    Kind.QUOTA_EXHAUSTED: (429, "insufficient_quota", "insufficient_quota"),
    Kind.SERVER_ERROR: (500, "api_error", None),
    Kind.OVERLOADED: (529, "overloaded_error", None),
    Kind.AUTHENTICATION: (401, "authentication_error", "invalid_api_key"),
    Kind.PERMISSION: (403, "permission_error", None),
    Kind.MODEL_NOT_FOUND: (404, "not_found_error", "model_not_found"),
    Kind.INVALID_REQUEST: (400, "invalid_request_error", None),
    Kind.REQUEST_TOO_LARGE: (413, "request_too_large", None),
}
_ACTS: Mapping[str, dict[str, Any]] = {
    "hangs": {"act": "hang", "phase": "headers"},
    "stalls": {"act": "hang", "phase": "body"},
    "raises": {"act": "ok", "raise": "RuntimeError('a bug')"},
    str(Kind.TIMEOUT): {"act": "hang", "phase": "headers"},
    str(Kind.CONNECTION): {"act": "refuse"},
    str(Kind.MALFORMED_RESPONSE): {"act": "raw", "status": 200, "content_type": "text/html", "body": "<html>no</html>"},
}
_EMPTY = [{"act": "empty", "shape": shape} for shape in SHAPES if shape != "no_fields"]
_BREAKS = [{"act": "reset", "phase": "body"}, {"act": "reset", "phase": "headers"}, {"act": "raw", "body": '{"id": '}]
# Vendors say these each in its own way: here they are one more bad request.
_SAID_ALIKE = {Kind.CONTENT_POLICY, Kind.UNSUPPORTED}
# What a stream may end with instead of its terminal event.
_ENDS: Mapping[str, list[dict[str, Any]]] = {
    "stalls": [{"end": "stall"}, {"end": "stall", "preamble": False}],
    "breaks": [
        {"end": "cut"},
        {"end": "reset"},
        {"end": "error_frame", "error": {"type": "overloaded_error", "message": WORDS}},
        {"end": "error_frame", "error": {"type": "api_error", "message": WORDS}, "preamble": True},
        {"end": "done", "bad_json_after": 9},
    ],
    "ends": [{"end": "eof"}, {"end": "eof", "preamble": True}, {"end": "zero_bytes"}],
}
# What an answer may have beside its text.
_BESIDE: list[dict[str, Any]] = [
    {},
    {},
    {"thinking": "let me see"},
    {"act": "stream_tool", "id": "call_1", "name": "lookup", "arg_deltas": ['{"q": ', '"a"}']},
]


class WiredVendors(wire.Vendors):
    """The drill's vendors, with acts from the watch instead of a script."""

    def __init__(self, watch: Watch) -> None:
        super().__init__((), Observed(self._noticed))
        self._watch = watch
        self._requests: dict[int, Request] = {}

    def act_for(self, arrival: Arrival, request: Incoming, site: wire.Site) -> Act:
        came = self._watch.arrived(arrival.call or "", arrival.provider, arrival.key, arrival.model)
        self._requests[arrival.number] = came
        if came.deed.kind in _SAID_ALIKE:
            came.deed = replace(came.deed, kind=Kind.INVALID_REQUEST)
        came.result = "answered" if came.deed.what == "answers" else str(came.deed.kind)
        structured = "response_format" in request.body or "output_config" in request.body or "tools" in request.body
        return act(came, streamed=arrival.streamed, structured=structured)

    def _noticed(self, arrival: Arrival) -> None:
        if arrival.outcome:
            self._watch.left(self._requests[arrival.number], gave_up=arrival.outcome in ("gave up", "closed"))


def act(request: Request, *, streamed: bool, structured: bool) -> Act:
    """Return what the drill's vendor does for this deed."""
    deed = request.deed
    if deed.what == "answers":
        return _answer(request, streamed=streamed, structured=structured)
    if streamed and deed.what in _ENDS:
        chunks = pieces(request.said, deed.chunks, whole=False)
        spoken = {"act": "stream", "chunks": chunks, "gap_s": deed.gap, "delay_s": deed.delay}
        return Act.model_validate(spoken | _one_of(request, _ENDS[deed.what]))
    if deed.what == "fails" and deed.kind in _ERRORS:
        return _error(deed, deed.kind)
    fields = _acts(request)[str(deed.kind) if deed.what == "fails" else deed.what]
    return Act.model_validate({**fields, "delay_s": deed.delay})


def _acts(request: Request) -> Mapping[str, dict[str, Any]]:
    empty = _one_of(request, _EMPTY)
    return {**_ACTS, "breaks": _one_of(request, _BREAKS), "ends": empty, str(Kind.EMPTY_RESPONSE): empty}


def _one_of(request: Request, ways: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one of several ways to do the same, another one each time."""
    return ways[request.number % len(ways)]


def _answer(request: Request, *, streamed: bool, structured: bool) -> Act:
    deed = request.deed
    if structured:
        return Act(act="ok_json", obj={"who": request.said}, delay_s=deed.delay)
    beside = _one_of(request, _BESIDE)
    chunks = pieces(request.said, deed.chunks, whole=True)
    if streamed or "name" in beside:
        spoken = {"act": "stream", "chunks": chunks, "gap_s": deed.gap if streamed else 0.0, "delay_s": deed.delay}
        return Act.model_validate(spoken | beside)
    return Act.model_validate({"act": "ok", "text": request.said, "delay_s": deed.delay} | beside)


def _error(deed: Deed, kind: Kind) -> Act:
    status, name, code = _ERRORS[kind]
    hint = deed.hint if kind in TELL_A_HINT else None
    error: dict[str, object] = {"type": name, "message": WORDS} | ({"code": code} if code else {})
    headers = {} if hint is None else {"retry-after": f"{hint:g}"}
    return Act(act="error", status=status, error=error, headers=headers, delay_s=deed.delay)


def provider(site: Site, watch: Watch, vendors: WiredVendors) -> Provider:
    secrets = [f"{KEY}-{site.name}-{n}" for n in range(site.keys)]
    labels = dict(zip(secrets, watch.keys[site.name], strict=True))
    transport = vendors.transport(wire.Site(name=site.name, keys=labels))
    make = Provider.openai if site.protocol == "openai" else Provider.anthropic
    return make(
        name=site.name,
        models=site.models,
        keys=secrets,
        vendor=site.protocol,
        base_url=f"https://{site.name}.example/v1",
        timeouts=watch.world.timeouts,
        http_client=httpx2.AsyncClient(transport=transport, trust_env=False),
        max_concurrency=site.max_concurrency,
        limits=site.limits,
    )
