"""Sentences about money, keys and rights: they split one status, and are tried for every vendor.

Each is a turn of phrase that several vendors share; none is a bare word or a number. Sources: the vendors' documented
messages, and public reports of what they send.
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule
from reliable_llm.errors import Kind, Scope

_MONEY_AT: Final = (400, 401, 402, 403, 404, 412, 429, 434, 500, 503, NO_STATUS)
_KEY_AT: Final = (400, 401, 403, 404, 429, 434, 500, NO_STATUS)
_RIGHT_AT: Final = (400, 401, 403, 404, 429, 434, NO_STATUS)

MONEY: Final = (
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.long_context_costs_extra",
        statuses=(400, 403, 429, NO_STATUS),
        pattern=r"^extra usage is required for long context|^the long context beta is not (?:yet )?available",
        scope=Scope.REQUEST,
        reason="Anthropic: this account may not send so long a prompt; a shorter one passes",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.grows_too_fast",
        statuses=(429,),
        pattern=r"\bmaximum usage increase rate\b|\bacceleration limit\b",
        rotate_key=False,
        reason="Anthropic: usage of the organization grows too fast; its other keys share the limit",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.per_minute",
        statuses=(429,),
        pattern=r"\bper[- ]?(?:minute|second|min|sec)\b|\breset hourly\b|/ ?min(?:ute)?\b",
        reason="an allowance per minute, whatever else the sentence speaks of",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.budget_in_flight",
        statuses=(402, 429),
        pattern=r"\bin[- ]flight (?:requests?|budget)|\breconcil(?:ing|iation)|\brolling[- ]window",
        rotate_key=False,
        reason="the credit is held by running calls and comes back by itself",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="phrase.day_rolls",
        statuses=(429,),
        codes=("trait:day_rolls",),
        pattern=r"^(?!.*\b(?:spend\w*|budget|credits?|billing cycle|quota|plan)\b).*\brate limit",
        reason="a count per day that frees up within the hour: the stated wait beats the day",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="phrase.credit",
        statuses=_MONEY_AT,
        pattern=r"\bcredit balance (?:is |has been )?(?:too low|insufficient|exhausted|depleted|used)|"
        r"\binsufficient (?:account |credit |wallet |user |usd |prepaid )*(?:balance|credits?|funds|quota)|"
        r"\b(?:balance|credits?|funds|quota)\b(?: in your account)? (?:is|are|has been|have been) "
        r"(?:insufficient|not enough|exhausted|depleted|used up|too low|negative|overdue|empty)|"
        r"\b(?:extra|additional) usage\b.{0,60}\badd more\b|\bout of (?:extra |included |your )?usage\b|"
        r"\b(?:not enough|out of|run out of|no (?:more|remaining|usable|available)|lack of|doesn't have any) "
        r"(?:account )?(?:balance|credits?|funds|quota)\b|\bquota is not enough|"
        r"\brequires? more credits\b|\bcan only afford \d|\baffordable with\b|\bcredits? (?:covers|exhausted|"
        r"depleted)\b|"
        r"\b(?:exceeded|used up|used all|exhausted|consumed)\b.{0,40}\bcredits?\b|\bcredit (?:limit|"
        r"grant)s? (?:exceeded|expired|reached)|"
        r"\bprepaid (?:credit|balance)",
        reason="the credit is spent",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="phrase.spend_limit",
        statuses=_MONEY_AT,
        pattern=r"\b(?:reached|hit|exceeded|over|exhausted)\b.{0,50}\b(?:spend(?:ing)?|usage|budget|billing|"
        r"hard) (?:limit|cap)s?\b|"
        r"\b(?:spend(?:ing)?|usage|budget|billing|hard) (?:limit|cap)s?\b.{0,40}\b(?:reached|exceeded|"
        r"exhausted|hit)\b|"
        r"\b(?:monthly|weekly|daily|5[- ]?hour|session)(?: \w+)? (?:limit|cap|quota|usage)s?\b.{0,30}"
        r"\b(?:reached|exceeded|exhausted|hit|used up)\b|"
        r"\b(?:reached|hit|exceeded|exhausted|used up)\b.{0,30}\b(?:monthly|weekly|daily|5[- ]?hour|"
        r"session)\b.{0,20}"
        r"\b(?:limit|cap|quota|usage|allowance)\b|"
        r"\bhit your (?:\w+ ){0,2}limit\b.{0,10}\bresets\b|"
        r"\bexceeded your (?:\w+ ){0,3}(?:usage|allowance)\b|\bkey limit exceeded|\bbudget (?:has been |"
        r"was )?(?:exceeded|exhausted|spent)|"
        r"\bexceeded (?:\w+ )?budget\b|"
        r"\bover (?:its |the |your )?budget\b|\bspend(?:ing)? limit\b.{0,20}\bper (?:day|month)",
        reason="a cap on spending, or on a plan's use, is reached",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="phrase.billing",
        statuses=_MONEY_AT,
        pattern=r"\bexceeded (?:your |the )?current quota\b|\bexceeded current quota\b|"
        r"\b(?:account|billing) (?:[\w<>@.-]+ ){0,3}is (?:not active|inactive|suspended|past due|overdue|"
        r"in arrears)\b.{0,80}"
        r"\b(?:billing|balance|pay|recharge|arrears|invoice)|\boverdue (?:balance|payment|invoice|bill)|"
        r"\bin arrears\b|\barrearage\b|"
        r"\baccount is in good standing|\bsuspended\b.{0,80}\b(?:spending limit|invoices?|payment|balance|billing)|"
        r"\bpayment (?:is )?required\b|\b(?:no|missing|without a?) ?(?:valid )?payment method\b|"
        r"\bpayment method\b.{0,30}\b(?:required|declined|failed|missing)|"
        r"\bplease (?:recharge|top up|add (?:more )?(?:credits?|funds))|\b(?:purchase|buy|add) (?:more )?credits\b|"
        r"\bcredit card on file\b|\bout of call volume quota\b|"
        r"\bno available package|\bpackage (?:is )?not active|\bpurchase (?:a )?package|\bno resource package|"
        r"\bsubscription (?:has |is )?(?:expired|inactive|cancell?ed|not active|ended)|"
        r"\bno active (?:subscription|plan)\b|"
        r"\bplan (?:has |is )expired|\bverify your membership|\bmembership (?:has )?expired",
        reason="billing stands in the way",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="phrase.free_tier",
        statuses=_MONEY_AT,
        pattern=r"\bfree (?:quota|tier|trial|credits?|usage|plan|allocated quota|requests?)\b.{0,40}"
        r"\b(?:exhausted|used up|expired|exceeded|ended|reached|depleted)|\bexceeded (?:the |your )?free\b|"
        r"\btrial (?:has |is )?(?:expired|ended|over)\b|\bquota (?:has been )?(?:exhausted|used up|depleted)|"
        r"\bquota exhausted",
        reason="the free allowance is used up",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="phrase.day_is_spent",
        statuses=(429, 403, NO_STATUS),
        codes=("trait:day_is_spent",),
        reason="a count per day or month, and no short wait stated",
    ),
)

RIGHTS: Final = (
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.region",
        statuses=(400, 403, 451, NO_STATUS),
        pattern=r"\b(?:country|region|territory|location)\b.{0,40}\b(?:not|isn't|un)\s?(?:supported|available|"
        r"allowed|permitted)|"
        r"\bnot (?:available|supported|allowed) in your (?:country|region|territory|location)|"
        r"\bunsupported (?:countr|region|territor|location)|"
        r"^request not allowed\b(?!.*\bip\b)|^sorry, you have been blocked|^error code: 10(?:0[5-9]|1[0-3]|20)\b|"
        r"\bblocked by (?:cloudflare|our firewall|the firewall|waf)|^access denied \| |\bcheck your network settings",
        scope=Scope.PROVIDER,
        rotate_key=False,
        reason="this machine, its address or its country is refused: no key changes that",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.firewall",
        statuses=(403, 451),
        codes=("trait:html",),
        scope=Scope.PROVIDER,
        rotate_key=False,
        reason="a page instead of an answer: a firewall in front of the vendor",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.client",
        statuses=(400, 401, 403, NO_STATUS),
        pattern=r"\bonly (?:available|supported|allowed|authorized)\b.{0,20}\b(?:for|with|in|via)\b.{0,40}"
        r"\b(?:agents?|clients?|cli|apps?|ide|code)\b|\bthird[- ]party (?:apps?|clients?)\b.{0,40}\bnot\b|"
        r"\bonly authorized for use with\b",
        scope=Scope.PROVIDER,
        rotate_key=False,
        reason="this client is not admitted: trying other keys puts them at risk",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.access_or_no_model",
        statuses=(401, 403),
        pattern=r"\bnot (?:authorized|allowed) to access model\b.{0,120}\bor model does not exist",
        scope=Scope.MODEL,
        rotate_key=False,
        reason="a gateway that does not tell the two apart",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.model_access",
        statuses=_RIGHT_AT,
        pattern=r"\b(?:does not|do not|doesn't|don't) have (?:access|permission)\b.{0,40}\bmodel|"
        r"\bno (?:access|permission) to (?:use |access )?(?:the |this )?model|\baccess to (?:the |"
        r"this )?model\b.{0,60}\bdenied|"
        r"\bmodel access is denied|\bnot allowed to (?:access|use|call) (?:the |this |publisher )*model|"
        r"\bkey not allowed to access model|"
        r"\bmodel\b.{0,80}\b(?:not|isn't) (?:included|available|enabled|allowed|supported|accessible)\b.{0,20}"
        r"\b(?:in|for|on|with|under|by) (?:your|this|the)(?: \w+){0,3} (?:plan|subscription|"
        r"tier|account|organization|project|team|key)|"
        r"\bplan (?:does not|doesn't)(?: yet)? include|\bnot (?:included )?in your (?:plan|subscription)|"
        r"\b(?:model|service) (?:has |is )?not (?:been )?(?:activated|opened|enabled|open)\b|"
        r"\bhas not activated the model|"
        r"\bis not available (?:on|in|with) (?:the|your)(?: \w+){0,3} (?:tier|plan|subscription)\b|"
        r"\bterms\b.{0,30}\b(?:accept|acceptance)\b|"
        r"\brequires terms acceptance|"
        r"\bgated (?:repo|model)",
        scope=Scope.MODEL,
        reason="this key has no right to this model",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.permission",
        statuses=_RIGHT_AT,
        pattern=r"\bmissing scopes?\b|\binsufficient (?:permissions?|authentication scopes?|scopes?|"
        r"privileges|access)|"
        r"\bip (?:address )?(?:is )?not (?:authorized|allowed|whitelisted|in)|\bnot in the ip allow ?list|"
        r"\b(?:organization|account|identity) must be verified|\bverify (?:your )?(?:organization|identity|phone)|"
        r"\bmust be a member of|\b(?:model )?use case details have not been submitted|"
        r"\bdata policy|\bguardrail restrictions|\bdoes not have permission|\bpermission(?: was)? denied|"
        r"\bno permission\b|"
        r"\bnot authorized to (?:perform|access|use|invoke|call)|\b(?:not|isn't) (?:enabled|allowed|permitted|"
        r"authorized) for "
        r"(?:this|your) (?:organization|project|account|workspace|team|key|user)|\baccess (?:is )?(?:denied|"
        r"forbidden)\b|"
        r"\bapi has not been used in project|\bit is disabled\. enable it|\bis not (?:subscribed|entitled)|"
        r"^operation not allowed|\bpermissions? (?:is|are) required\b|\brequires? the .{1,60} permission\b|"
        r"\bhas not been granted|\bbeing subscribed to this model",
        reason="the key is good, but not for this",
    ),
)

KEYS: Final = (
    Rule(
        kind=Kind.AUTHENTICATION,
        name="phrase.key",
        statuses=_KEY_AT,
        pattern=r"\b(?:incorrect|invalid|wrong|bad|missing|malformed|expired|revoked|disabled|unknown|"
        r"no) (?:x-)?(?:api|access|secret|auth|authentication)[ _-]?(?:key|token)|"
        r"\b(?:api|access|auth|oauth|bearer)[ _-]?(?:key|token)\b.{0,40}\b(?:is |was |has been |"
        r"are )?(?:not valid|invalid|incorrect|expired|not found|missing|revoked|"
        r"not set|disabled|deactivated|deleted|required|not provided|does not exist|"
        r"has been reported as leaked|reported as leaked)|"
        r"\binvalid (?:authentication|credentials?|bearer|authorization|token|user token)|"
        r"\bauthentication (?:fails|failed|failure|error|is required|parameter)|"
        r"\b(?:could not|cannot|unable to|failed to) (?:be )?(?:authenticate|validate (?:your |"
        r"the )?(?:credentials|api|token))|"
        r"\bauth failed\b|\bauthorization (?:failed|failure|header)|^unauthori[sz]ed\b|"
        r"\bsecurity token\b.{0,40}\b(?:invalid|expired)|\b401 unauthorized\b|"
        r"\blogin fail|\btoken (?:has |is )?expired|"
        r"\bno (?:auth(?:entication)? )?credentials (?:found|provided)|\bcredentials? (?:were )?not (?:found|"
        r"provided)|"
        r"\bno such organi[sz]ation\b|"
        r"\bno cookie auth|^user not found|\bkey .{0,20}\bnot found in db|\binvalid proxy server token",
        reason="the key is refused",
    ),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="phrase.account_closed",
        statuses=_KEY_AT,
        pattern=r"\b(?:organi[sz]ation|account|workspace|user|consumer|project)\b.{0,60}\b(?:has been|is|was) "
        r"(?:disabled|restricted|deactivated|banned|locked|terminated|suspended|on hold|blocked|closed)",
        reason="the account is closed: a person must act",
    ),
)
