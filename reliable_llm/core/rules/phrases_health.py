"""Sentences about the vendor's load, allowances per minute, and what breaks on the way. Tried for every vendor."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.errors import Kind, Scope

_LOAD_AT: Final = (400, 403, 429, 498, 500, 503, 529, NO_STATUS)

TOO_LARGE: Final = (
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="phrase.larger_than_the_rate",
        statuses=(400, 413, 429, NO_STATUS),
        codes=("trait:larger_than_limit",),
        reason="asks for more than a whole minute's allowance: no wait helps, another provider or tier may",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="phrase.request_too_large_for",
        statuses=(400, 413, 429, NO_STATUS),
        pattern=r"^request too large for\b",
        reason="OpenAI, Groq: larger than the allowance per minute",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="phrase.page_at_413",
        statuses=(413,),
        codes=("trait:html", "trait:wordless"),
        failover=False,
        reason="the server in front counts bytes; the next vendor's ceiling is much the same",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="phrase.bytes",
        statuses=(400, 413, NO_STATUS),
        pattern=r"\b(?:request|payload|body|content|entity)(?: body| size|"
        r" entity)?\b.{0,20}\b(?:exceeds? the (?:maximum|max|limit|size)|"
        r"(?:is )?too large)|\bexceeds the maximum (?:request|body|payload|allowed) size|\bmaximum (?:request|"
        r"body|payload) size",
        failover=False,
        reason="a ceiling in bytes; the next vendor's is much the same",
    ),
)

PER_MINUTE: Final = (
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.tokens_per_minute",
        statuses=(NO_STATUS,),
        pattern=r"\bper[- ](?:minute|min|second) (?:token |request )?rate limit|"
        r"\brate limit (?:of|for)\b.{0,80}\bper (?:minute|min|second)\b|"
        r"\b(?:tokens?|requests?) per (?:minute|min|second)\b",
        reason="counts tokens, and by the minute: that is no word on the window",
    ),
)

BUSY: Final = (
    r"\b(?:currently |temporarily |is |are |been |server |engine |model |service |system |upstream |we're |)"
    r"overloaded\b|"
    r"\bhigh (?:demand|load|traffic|volume)\b|"
    r"\b(?:at|over|out of|insufficient|no|exceeded|limited) (?:maximum |max |full )?capacity\b|"
    r"\bcapacity (?:is |has been |was |temporarily )*(?:exceeded|exhausted|full|reached|constraints?|"
    r"limits?|unavailable)|"
    r"\b(?:server|service|engine|model|system|api|worker|node|gpu|upstream|channel|backend|instance)s? "
    r"(?:is |are )?(?:currently |temporarily |too |very |"
    r"so )*busy\b|\btoo busy\b|"
    r"\bqueue (?:is )?(?:full|exceeded)|\bserver_busy\b|\bno (?:available|free|idle) (?:workers?|"
    r"instances?|gpus?|slots?|servers?)|"
    r"\bmaximum pending requests|\btemporarily out of\b|\btry again when .{0,20}load|"
    r"\btemporarily limiting requests\b|\bcurrently processing too many requests\b"
)
"""What vendors say of their own load, whatever the status."""

LOAD: Final = (
    Rule(
        kind=Kind.OVERLOADED,
        name="phrase.no_deployment",
        statuses=(400, 429, 500, 503, NO_STATUS),
        pattern=r"^no deployments available|\bno healthy deployments?\b",
        scope=Scope.MODEL,
        reason="LiteLLM: the proxy's own cooldown, whatever its cause",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="phrase.no_channel",
        statuses=(429, 500, 502, 503, NO_STATUS),
        pattern=r"^no available (?:channel|account)s?\b",
        scope=Scope.MODEL,
        reason="new-api, sub2api: nothing upstream serves it now",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="phrase.worker_is_full",
        statuses=(429, 500, 502, 503, NO_STATUS),
        pattern=r"\bworker\b.{0,40}\b(?:limit reached|is full|exhausted)",
        scope=Scope.MODEL,
        reason="NVIDIA, Triton: the slots of one worker are taken",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="litellm.upstream_rate",
        vendors=("litellm",),
        statuses=(429,),
        codes=("ratelimiterror", "throttling_error"),
        scope=Scope.MODEL,
        rotate_key=False,
        reason="the proxy's upstream limits the proxy: our keys to it share that",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="phrase.model_is_loading",
        statuses=(*_LOAD_AT, 502, 404),
        pattern=r"^(?:failed to load|loading) model|"
        r"\bmodel .{0,80}\bis (?:currently |still )?(?:loading|being loaded|warming up|"
        r"starting|not ready)|"
        r"\bmodel is (?:currently )?not ready|\bno healthy (?:upstream|deployment)|^llm server loading model|"
        r"^(?:the )?model (?:was |is |has |has been )?unloaded\b",
        scope=Scope.MODEL,
        reason="not ready yet",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="phrase.overloaded",
        statuses=_LOAD_AT,
        pattern=BUSY,
        reason="the vendor is out of capacity; the key is not to blame",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="phrase.unavailable",
        statuses=(429, 503, 529, NO_STATUS),
        pattern=r"\b(?:service|server|model|engine) (?:is )?(?:temporarily |currently )?unavailable|"
        r"\btemporarily unavailable",
        reason="the vendor is out of capacity",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.upstream_rate",
        statuses=(429, NO_STATUS),
        pattern=r"\brate[- ]limited upstream|\bupstream rate[- ]limit",
        scope=Scope.MODEL,
        rotate_key=False,
        reason="the relay's upstream limits the relay, not our key",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.rate",
        statuses=(400, 403, 429, 500, 503, NO_STATUS),
        pattern=r"\brate[ _-]?limit(?:s|ed|ing)?\b.{0,40}\b(?:reached|exceeded|hit|error|quota)|"
        r"\b(?:exceed(?:ed|s|ing)?|hit|reached|over)\b.{0,60}"
        r"\brate[ -]?limit|^rate[- ]?limit|\btoo many (?:concurrent |simultaneous )?(?:requests|connections|calls)|"
        r"\bconcurrency (?:limit|quota)|\bconcurrent requests?\b.{0,30}\b(?:limit|exceed)|\b(?:requests?|"
        r"tokens?|queries|calls) per (?:minute|second|hour|min|sec)\b|"
        r"\bthrottl(?:ed|ing)|\brequests? rate\b|\bslow down\b|\brate increased too quickly|"
        r"\btoo many tokens, please wait|^error code: 1015\b|"
        r"\bexceed(?:s|ed)? (?:the |your )?(?:service )?quota for your account",
        reason="an allowance per minute, or for calls at a time",
    ),
    Rule(
        kind=Kind.TIMEOUT,
        name="phrase.timeout",
        statuses=(400, 408, 500, 502, 503, 504, NO_STATUS),
        pattern=r"^(?:the |your |gateway |upstream )*(?:request|operation|connection|read|model|inference|"
        r"upstream|gateway|response)? ?"
        r"(?:has |was |is )?time(?:d)?[ -]?out\b|\bdeadline exceeded|\btimed out (?:while|waiting|after)|"
        r"\brequest timeout\b|\bupstream (?:request )?timeout|\bi/o timeout\b",
        reason="the vendor took too long",
    ),
)

BROKEN_STREAM: Final = (
    Rule(
        kind=Kind.STREAM_INTERRUPTED,
        name="phrase.broke_while_writing",
        statuses=(NO_STATUS, 500, 502, 503),
        codes=("trait:frame",),
        pattern=r"\bdisconnect(?:ed|ion)?\b|\bmid[- ](?:generation|stream|response)|\bcrashed\b|\bdied\b|"
        r"\bterminated\b|\binterrupted\b|"
        r"\bwhile (?:running|generating|streaming|reading)\b|\bduring (?:processing|generation|"
        r"streaming|sampling)\b|\bconnection (?:was |has been )?"
        r"(?:lost|closed|reset|error)|\bstream (?:was |has been )?(?:closed|ended|aborted|error|failed)|"
        r"\bnetwork (?:connection )?(?:lost|error)|"
        r"\bpeer closed\b|\bincomplete (?:chunked|response|stream)|\bunexpected(?:ly)? (?:eof|end|closed|"
        r"ended)|\bsocket hang up|\baborted\b",
        reason="it broke while the model was writing",
    ),
)
