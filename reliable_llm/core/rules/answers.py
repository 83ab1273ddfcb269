"""What came under a success status and is no answer, and what only a bare text says."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule, words
from reliable_llm.errors import Kind

# An answer that says itself why it ended.
FINISHED: Final = (
    Rule(
        kind=Kind.CONTENT_POLICY,
        name="finish.refused",
        statuses=(NO_STATUS,),
        codes=words(
            """
            finish:content_filter finish:content-filter finish:refusal finish:safety finish:prohibited_content
            finish:blocklist finish:spii finish:recitation finish:sensitive finish:guardrail_intervened
            """
        ),
        reason="the vendor's policy ended the answer",
    ),
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="finish.window",
        statuses=(NO_STATUS,),
        codes=("finish:model_context_window_exceeded",),
        reason="the window was full",
    ),
)

PAGE: Final = Rule(
    kind=Kind.MALFORMED_RESPONSE,
    name="answer.page",
    retry_same=False,
    reason="a web page where an answer should be: a wrong base URL, or a network that wants a login",
)

NO_ANSWER: Final = Rule(
    kind=Kind.MALFORMED_RESPONSE, name="answer.unreadable", reason="a success status without an answer in it"
)

BROKEN_FRAME: Final = Rule(
    kind=Kind.STREAM_INTERRUPTED, name="frame.error", reason="an error inside a stream that says no more"
)

# The last resort for an exception without status, code or body: the substrings that the predecessors went by.
UNTYPED: Final = (
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="untyped.quota",
        codes=("trait:untyped",),
        pattern=r"insufficient[_ ]quota|quota",
    ),
    Rule(kind=Kind.RATE_LIMITED, name="untyped.rate", codes=("trait:untyped",), pattern=r"\b429\b|rate[_ ]?limit"),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="untyped.key",
        codes=("trait:untyped",),
        pattern=r"\bunauthorized\b|"
        r"\binvalid token\b",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="untyped.permission",
        codes=("trait:untyped",),
        pattern=r"\bforbidden\b|"
        r"\baccess denied\b",
    ),
    Rule(
        kind=Kind.CONNECTION,
        name="untyped.connection",
        codes=("trait:untyped",),
        pattern=r"\bconnection\b|\bconnect\b|\bsocket\b|\bECONN\w+|\bdns\b|getaddrinfo|name resolution",
    ),
    Rule(kind=Kind.TIMEOUT, name="untyped.timeout", codes=("trait:untyped",), pattern=r"time(?:d)? ?out"),
    Rule(
        kind=Kind.OVERLOADED,
        name="untyped.load",
        codes=("trait:untyped",),
        pattern=r"\b503\b|\bunavailable\b|\boverloaded\b",
    ),
)

UNKNOWN: Final = Rule(kind=Kind.SERVER_ERROR, name="untyped", reason="nothing is known: the next try may do")
