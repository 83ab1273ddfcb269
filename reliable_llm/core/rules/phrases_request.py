"""Sentences about the request: its length, its content, the model it names and what that model cannot do."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.errors import Kind, Scope

_LENGTH_AT: Final = (400, 403, 404, 413, 422, 500, 502, NO_STATUS)
_POLICY_AT: Final = (400, 403, 404, 422, 451, 500, NO_STATUS)
_MODEL_AT: Final = (400, 404, 410, 422, NO_STATUS)
_FEATURE_AT: Final = (400, 404, 405, 415, 422, 500, 501, NO_STATUS)
_N: Final = r"\d[\d,]{0,14}"

FIRST: Final = (
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="phrase.image_size",
        statuses=(400, 413, 422, NO_STATUS),
        pattern=r"^(?!.*\btokens\b).*\bimage(?:s|'s| size| dimensions?|"
        r" file)?\b.{0,30}\bexceeds?\b.{0,40}\b(?:mb|maximum|max|"
        r"limit|pixels?|size)|\bimage (?:is |was )?too (?:large|big|small)|"
        r"\bimage dimensions\b.{0,60}\b(?:max|allowed|limit)",
        feature="image_size",
        reason="a limit of this vendor's, not of the request",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="phrase.too_many_parts",
        statuses=(400, 413, 422, NO_STATUS),
        pattern=r"\b(?:maximum|max|at most|more than|limit) (?:of |is )?\d{1,5} (?:pdf )?"
        r"(?:pages|images|documents|files)\b|\btoo many (?:images|pages|documents|files)\b",
        reason="a count that this vendor admits, not of the request",
    ),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="phrase.banned",
        statuses=(400, 401, 403, 429, NO_STATUS),
        pattern=r"\b(?:access|account|organi[sz]ation|user|api key|project)\b.{0,60}"
        r"\b(?:terminated|banned|deactivated|disabled|revoked|suspended|locked)\b.{0,60}"
        r"\b(?:violat\w+|breach\w*|abuse|polic(?:y|ies)|terms|safety)\b",
        reason="the account is closed over what it sent before, which is no word on this request",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="phrase.foreign_reasoning",
        statuses=(400, 422, NO_STATUS),
        pattern=r"\binvalid .?signature.? in .?thinking.? block|"
        r"\bthinking\b.{0,60}\bsignature\b.{0,40}\b(?:invalid|mismatch|could not|expired|verif)|"
        r"\bthinking.? (?:or .?redacted_thinking.? )?blocks\b.{0,80}\bcannot be modified|"
        r"\bencrypted content\b.{0,60}\b(?:could not|cannot|not) be (?:verified|decrypted)|"
        r"^invalid signature\b|\bcorrupted thought signature|\bthought[_ ]signature is (?:not valid|invalid)",
        feature="reasoning_history",
        reason="thinking of another issuer in the history: without it the same request passes",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="phrase.output_cap",
        statuses=(400, 422),
        pattern=r"^[`'\"]?max_(?:completion_|output_)?tokens[`'\"]?:? (?:\(?\d+\)? )?(?:must be (?:less|"
        r"at most|smaller|<)|exceeds the model's output)|"
        r"^max_(?:completion_|output_)?tokens: \d+ > \d+, which is the maximum allowed number of output|"
        r"^max_(?:completion_|output_)?tokens is too large: \d+\. this model supports at most",
        feature="max_output",
        reason="more output asked for than this model writes: trimming the prompt does nothing",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="phrase.service_tier",
        statuses=(400,),
        pattern=r"^invalid service_tier argument",
        reason="OpenAI documents it as the request's fault, though it speaks of the project",
    ),
)

LENGTH: Final = (
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="phrase.context_window",
        statuses=_LENGTH_AT,
        pattern=r"\b(?:maximum|max|available|configured|model'?s?) context (?:length|window|size)|"
        r"\bmax_model_len\b|\bmaximum model length|"
        r"\bcontext (?:length|window|size|limit)\b.{0,60}\b(?:exceed(?:s|ed)?|overflow|too (?:small|long)|"
        r"is only|of only|reached)|"
        r"\b(?:exceed(?:s|ed|ing)?|longer than|larger than|greater than|more than|less than|over|beyond|"
        r"too long for|too large for)\b.{0,60}\b"
        r"context(?:[ _-](?:length|window|size|limit))?\b|\bcontext the overflows\b|\btrying to keep the first\b|"
        rf"\b{_N} tokens? > {_N} maximum|\b{_N} \+ {_N} > {_N}",
        reason="longer than the model's window",
    ),
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="phrase.prompt_too_long",
        statuses=_LENGTH_AT,
        pattern=r"\b(?:prompt|input|conversation|messages?|request|text)s?\b(?: tokens?| length| is| are| was|"
        r" has been| size)* too (?:long|many tokens)\b|"
        r"\bprompt exceeds max(?:imum)? length|\b(?:input|prompt|total|request(?:ed)?) (?:token|"
        r"length)s?\b.{0,60}\b(?:exceed(?:s|ed)?|longer than|greater than|over)\b|"
        r"\b(?:prompt|input|request|messages?)\b.{0,20}\b(?:too many tokens\b|exceeds? the (?:length|size) limit)|"
        rf"\b(?:prompt|input|request|messages?) (?:has|have|contains?) {_N} (?:input )?tokens\b.{{0,40}}"
        r"\b(?:max|maximum|limit)\b|"
        r"\btoken count\b.{0,40}\bonly supports up to\b|"
        r"\btokens? in (?:the )?request more than\b|\btoken (?:limit|count)\b.{0,40}\bexceed(?:s|ed)?|"
        r"\bexceed(?:s|ed)?\b.{0,60}"
        r"\b(?:maximum|max|limit)\b.{0,40}\b(?:input|prompt|context) (?:tokens?|length)|\bexceed(?:s|"
        r"ed)?\b.{0,40}\b(?:maximum|max) (?:number of )?(?:input |message |total )?tokens|"
        r"\bexceeded (?:the |this |your )?model token limit|\bmaximum (?:prompt|input) length is\b|"
        r"\breduce the length of\b|\brange of input length should be\b|"
        rf"\bexpected maxlength: {_N}, actual: {_N}|\bmax_tokens must be at least 1, got -\d|"
        rf"\bmust have less than {_N} tokens|"
        r"\binputs?\W? tokens \+ \W?max_new_tokens|\bprompt_tokens\b.{0,30}\bmust be less than|"
        r"\bcontext shift is disabled\b|\btruncating input\b|\bslot context\b|"
        r"^too many (?:input )?tokens(?! per\b)(?!, please)|\btoken limit exceeded|"
        r"\bnumber of (?:input )?tokens\b.{0,40}\bexceed",
        reason="longer than the model's window",
    ),
)

POLICY: Final = (
    Rule(
        kind=Kind.CONTENT_POLICY,
        name="phrase.policy",
        statuses=_POLICY_AT,
        pattern=r"\bcontent (?:management|filter(?:ing)?|safety|moderation|security) (?:policy|policies|"
        r"system)|\bblocked by (?:the |our |an? )?(?:content|safety|moderation|guardrail)|"
        r"\b(?:was|were|been|being|is|are) flagged\b|^flagged\b|\b(?:usage|content|use|safety) polic(?:y|"
        r"ies)\b|\bviolat\w+\b.{0,60}\b(?:polic|guideline|terms|rules)|"
        r"\b(?:inappropriate|sensitive|harmful|prohibited|unsafe|illegal) (?:\w+ )?(?:content|information|"
        r"messages?|material|words?)|\bdata inspection|"
        r"\b(?:safety|moderation) (?:system|filter|reasons|check)|\bresponsible ai\b|\bprohibited_content\b|"
        r"\bnew_sensitive\b|\bcontent exists risk|\bconsidered high[- ]risk\b|"
        r"\brequest was rejected as a result of (?:the|our) safety|"
        r"\bcontent (?:was |has been |is )?(?:blocked|filtered|rejected|refused)|\boutput blocked\b",
        reason="the vendor's policy refused the content",
    ),
)

FEATURES: Final = (
    Rule(
        kind=Kind.UNSUPPORTED,
        name="phrase.no_vision",
        statuses=_FEATURE_AT,
        pattern=r"\b(?:not|n't|un)[ -]?support(?:s|ed|ing)?\b.{0,30}\b(?:image|vision|visual|multi-?modal)|"
        r"\b(?:image|vision|multi-?modal)(?:s|_url| input| inputs| content|_input)*\b.{0,40}"
        r"\b(?:not|n't|un)[ -]?(?:support|available|allowed|enabled)|\bsupport image input\b|"
        r"\bnot a (?:multi-?modal|vision) model|\bunknown variant .?image_url|\btext[- ]only model",
        feature="vision",
        reason="this model takes no images",
    ),
    Rule(
        kind=Kind.UNSUPPORTED,
        name="phrase.no_documents",
        statuses=_FEATURE_AT,
        pattern=r"\b(?:not|n't|un)[ -]?support(?:s|ed|ing)?\b.{0,30}\b(?:pdf|document|file)s?\b|\b(?:pdf|"
        r"document|file) (?:input|content|part|type)s?\b.{0,30}\b(?:not|n't|un)[ -]?support",
        feature="documents",
        reason="this model takes no documents",
    ),
    Rule(
        kind=Kind.UNSUPPORTED,
        name="phrase.no_structured_output",
        statuses=_FEATURE_AT,
        pattern=r"\bresponse_format\b.{0,60}\b(?:unavailable|not (?:supported|available|allowed)|unsupported|"
        r"not implemented)|\b(?:not|n't|un)[ -]?support(?:s|ed)?\b.{0,40}"
        r"\b(?:response_format|json_schema|json[ _]mode|structured outputs?|output_format|response schema)|"
        r"\b(?:json_schema|structured outputs?|json mode|guided decoding)\b.{0,40}\bnot (?:supported|"
        r"available|enabled)",
        feature="structured_output",
        reason="this model does not take a schema in this form",
    ),
    Rule(
        kind=Kind.UNSUPPORTED,
        name="phrase.no_tools",
        statuses=_FEATURE_AT,
        pattern=r"\b(?:not|n't|un)[ -]?support(?:s|ed|ing)?\b.{0,24}\b(?:tools?|tool[ _-](?:use|calls?|"
        r"calling|choice)|function[ -]?call\w*|functions)\b|\b(?:tools?|tool[ _-](?:use|calls?|"
        r"calling|choice)|"
        r"function[ -]?call\w*)\b.{0,24}\b(?:not|n't|un)[ -]?(?:support(?:ed)?|available|enabled)|"
        r"\bsupport tool use\b|\bauto.{0,3} tool choice requires",
        feature="tools",
        reason="this model takes no tools, or not so",
    ),
    Rule(
        kind=Kind.UNSUPPORTED,
        name="phrase.streaming",
        statuses=_FEATURE_AT,
        pattern=r"\bonly supports? stream(?:ing)?\b|\bstream(?:ing)? (?:mode )?is (?:not supported|required)|"
        r"\bonly support stream mode|\bdoes not support stream(?:ing)?",
        feature="streaming",
        reason="this model streams only, or never",
    ),
)

_NO_MODEL: Final = (
    r"\b(?:model|deployment|endpoint|inference profile)s?\b.{0,160}\b(?:does not exist|"
    r"doesn't exist|not exist|not found|was not found|is not found|not available|unavailable|"
    r"is not (?:a valid|supported|available|recogni[sz]ed|served|valid)|not supported|"
    r"has been (?:deprecated|retired|decommissioned|removed|deactivated|shut ?down|sunset|discontinued)|"
    r"(?:is|was) (?:deprecated|retired|decommissioned|removed|discontinued|no longer)|"
    r"no longer (?:available|supported|exists)|could not be found|cannot be found|is invalid)|"
    r"\b(?:invalid|unknown|unsupported|no such|unrecognized|nonexistent) model\b|^model: |"
    r"\bnot a valid model\b|\bno endpoints found for\b|\btry pulling it\b|\bno model named\b|"
    r"\bmodel is only supported in v1/|\bnot servable in region\b|\bprovide a valid model\b|"
    r"\bmodel_not_found\b|\bno provider (?:found )?for model|^not found the model\b|^llm provider not provided\b"
)

MODELS_AT_404: Final = (
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="phrase.model_at_404",
        statuses=(404, 410),
        pattern=_NO_MODEL,
        reason="a 404 that names the model; what it adds about rights is a guess of the vendor's",
    ),
)

MODELS: Final = (
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="phrase.model_under_another_status",
        statuses=(401, 403),
        pattern=r"^(?:the )?(?:requested )?model:? \S{1,80} (?:is |was )?not (?:supported|found|recognized)[.!]?$",
        reason="a relay that answers with the status of a refusal; the sentence says no more than the name",
    ),
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="phrase.model",
        statuses=_MODEL_AT,
        pattern=_NO_MODEL,
        reason="the provider does not serve this model",
    ),
)

WRONG_URL: Final = (
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="phrase.wrong_url",
        statuses=(404, 405),
        pattern=r"^(?:404:? ?)?(?:page |resource |url |path |route |endpoint )?not found[.!]?$|^invalid url\b|"
        r"^no route\b|^cannot (?:get|post)\b|\bunknown (?:request )?url|\bunrecognized request url|"
        r"^the requested url|^no static resource|^unexpected endpoint or method|^method not allowed|"
        r"^resource not found$|^no such (?:route|path|endpoint)",
        scope=Scope.PROVIDER,
        failover=True,
        reason="the base URL is wrong: trying the next model would burn the whole list",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="phrase.page_instead_of_api",
        statuses=(404, 405),
        codes=("trait:html", "trait:wordless"),
        scope=Scope.PROVIDER,
        failover=True,
        reason="a page, or nothing, where an API should be: the base URL is wrong",
    ),
)
