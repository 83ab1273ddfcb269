"""Vendors whose own numbers and names decide, most of whose texts hold no English word.

Sources: docs.bigmodel.cn and docs.z.ai "API code"; platform.minimax.io "Error codes"; help.aliyun.com Model Studio
"Error codes"; volcengine.com docs 82379 "Error codes"; platform.moonshot.ai "Errors";
docs.siliconflow.cn "Error handling".
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import Rule, words
from reliable_llm.errors import Kind, Scope

_ZHIPU = ("zhipu",)
_MINIMAX = ("minimax",)
_ALIBABA = ("dashscope",)
_ARK = ("volcengine",)
_SILICON = ("siliconflow",)

ZHIPU: Final = (
    Rule(kind=Kind.AUTHENTICATION, name="zhipu.token", vendors=_ZHIPU, codes=words("1000 1001 1002 1003 1004 1005"),
         reason="1000-1005: the token is missing, wrong or expired"),
    Rule(kind=Kind.AUTHENTICATION, name="zhipu.account", vendors=_ZHIPU, codes=words("1110 1111 1112 1121"),
         reason="1110-1112, 1121: the account is inactive, unknown or locked"),
    Rule(kind=Kind.SERVER_ERROR, name="zhipu.trouble", vendors=_ZHIPU, codes=words("500 1100 1120 1200 1230 1234"),
         reason="1100, 1120, 1200, 1230, 1234: the vendor failed"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="zhipu.money", vendors=_ZHIPU,
         codes=words("1113 1304 1308 1309 1310 1314 1316 1317 1318 1319 1320 1321"),
         reason="1113 arrears, 1304 daily count, 1308-1321 the windows of the coding plans"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="zhipu.fair_use", vendors=_ZHIPU, codes=("1313",),
         reason="1313: limited under the fair use policy until a person asks"),
    Rule(kind=Kind.RATE_LIMITED, name="zhipu.rate", vendors=_ZHIPU, codes=words("1302 1303"),
         reason="1302 concurrency, 1303 frequency"),
    Rule(kind=Kind.OVERLOADED, name="zhipu.busy", vendors=_ZHIPU, codes=words("1305 1312"), scope=Scope.MODEL,
         reason="1305, 1312: this model has too many visitors"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="zhipu.model", vendors=_ZHIPU, codes=words("1211 1212 1221 1222"),
         reason="1211 no such model, 1212 not callable so, 1221 and 1222 the API is gone"),
    Rule(kind=Kind.PERMISSION, name="zhipu.plan", vendors=_ZHIPU, codes=("1311",), scope=Scope.MODEL,
         reason="1311: the model is not in this plan"),
    Rule(kind=Kind.PERMISSION, name="zhipu.access", vendors=_ZHIPU, codes=words("1220 1315"),
         reason="1220 no right to the API, 1315 the key is for another product"),
    Rule(kind=Kind.CONTENT_POLICY, name="zhipu.policy", vendors=_ZHIPU, codes=words("1300 1301"),
         reason="1300, 1301: unsafe or sensitive content"),
    Rule(kind=Kind.CONTEXT_WINDOW, name="zhipu.context", vendors=_ZHIPU, codes=("1261",),
         reason="1261: prompt too long"),
)  # fmt: skip

MINIMAX: Final = (
    Rule(kind=Kind.SERVER_ERROR, name="minimax.trouble", vendors=_MINIMAX, codes=words("1000 1013 1024 1033"),
         reason="1000 unknown, 1013 and 1024 internal, 1033 system"),
    Rule(kind=Kind.TIMEOUT, name="minimax.timeout", vendors=_MINIMAX, codes=("1001",), reason="1001: request timeout"),
    Rule(kind=Kind.RATE_LIMITED, name="minimax.rate", vendors=_MINIMAX, codes=words("1002 1039 1041 2045"),
         reason="1002 requests, 1039 tokens per minute, 1041 connections, 2045 growth"),
    Rule(kind=Kind.AUTHENTICATION, name="minimax.key", vendors=_MINIMAX, codes=words("1004 2049"),
         reason="1004 login failed, 2049 invalid key"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="minimax.money", vendors=_MINIMAX, codes=words("1008 2056 2061"),
         reason="1008 balance, 2056 plan window, 2061 the plan has not got the model"),
    Rule(kind=Kind.CONTENT_POLICY, name="minimax.policy", vendors=_MINIMAX, codes=words("1026 1027 1042"),
         reason="1026 sensitive input, 1027 sensitive output, 1042 invisible characters"),
    Rule(kind=Kind.CONTEXT_WINDOW, name="minimax.context", vendors=_MINIMAX, codes=words("2013 1000 1004"),
         pattern=r"context (?:window|length)|token(?:s| count)? (?:exceed|over)", reason="2013 with a text on length"),
    Rule(kind=Kind.PERMISSION, name="minimax.access", vendors=_MINIMAX, codes=("2042",), reason="2042: no access"),
)  # fmt: skip

ALIBABA: Final = (
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="dashscope.free_quota", vendors=_ALIBABA,
         codes=words("allocationquota.freetieronly throttling.allocationquota insufficient_quota"),
         pattern=r"\bfree (?:allocated )?quota", scope=Scope.MODEL, reason="the free quota of one model is used up"),
    Rule(kind=Kind.RATE_LIMITED, name="dashscope.tokens_per_minute", vendors=_ALIBABA, scope=Scope.MODEL,
         codes=words("insufficient_quota throttling.allocationquota"), reason="tokens per minute in spite of its name"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="dashscope.free_tier", vendors=_ALIBABA, scope=Scope.MODEL,
         codes=("allocationquota.freetieronly",), reason="the free quota of one model is used up"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="dashscope.money", vendors=_ALIBABA,
         codes=words("arrearage prepaidbilloverdue postpaidbilloverdue commoditynotpurchased budgetlimitexceeded"),
         reason="the account is in arrears"),
    Rule(kind=Kind.OVERLOADED, name="dashscope.busy", vendors=_ALIBABA,
         codes=words("throttling.serviceoverloaded modelserviceunavailable serviceunavailable"),
         reason="out of capacity"),
    Rule(kind=Kind.RATE_LIMITED, name="dashscope.rate", vendors=_ALIBABA, scope=Scope.MODEL,
         codes=words("limit_requests limitrequests limit_burst_rate throttling throttling.ratequota "
                     "throttling.burstrate throttling.user throttling.api ratequota burstrate"),
         reason="requests per minute, or growth"),
    Rule(kind=Kind.CONTENT_POLICY, name="dashscope.policy", vendors=_ALIBABA,
         codes=words("data_inspection_failed datainspectionfailed apirisk ipinfringementsuspect custom_role_blocked"),
         reason="the content inspection refused it"),
    Rule(kind=Kind.PERMISSION, name="dashscope.access", vendors=_ALIBABA,
         codes=words("accessdenied access_denied accessdenied.unpurchased model.accessdenied app.accessdenied "
                     "workspace.accessdenied accessdenied.modelnotopen"),
         reason="the model or workspace is not open to this key"),
    Rule(kind=Kind.AUTHENTICATION, name="dashscope.key", vendors=_ALIBABA,
         codes=words("invalidapikey invalid_api_key notauthorized"), reason="the key is refused"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="dashscope.model", vendors=_ALIBABA,
         codes=words("modelnotfound model_not_found modelnotexist invalidmodel model_not_supported"),
         reason="no such model"),
    Rule(kind=Kind.TIMEOUT, name="dashscope.timeout", vendors=_ALIBABA,
         codes=words("requesttimeout responsetimeout internalerror.timeout"), reason="too slow"),
)  # fmt: skip

VOLCENGINE: Final = (
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="volcengine.cap", vendors=_ARK, scope=Scope.MODEL,
         codes=words("setlimitexceeded inferencelimitexceeded"), reason="a cap that the account set on one model"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="volcengine.money", vendors=_ARK,
         codes=words("accountoverdueerror operationdenied.serviceoverdue serviceoverdue quotaexceeded "
                     "quotaexceeded.agentplanquotaexceeded sessionquotaexceeded accountquotaexceeded "
                     "invalidsubscription"),
         reason="the account is overdue, or its quota is spent"),
    Rule(kind=Kind.RATE_LIMITED, name="volcengine.rate", vendors=_ARK, scope=Scope.MODEL,
         codes=words("""
            ratelimitexceeded.endpointrpmexceeded ratelimitexceeded.endpointtpmexceeded
            ratelimitexceeded.endpointflextpmexceeded ratelimitexceeded.foundationmodelrpmexceeded
            ratelimitexceeded.foundationmodeltpmexceeded modelaccountrpmratelimitexceeded
            modelaccounttpmratelimitexceeded modelaccountflextpmratelimitexceeded modelaccountipmratelimitexceeded
            apiaccountrpmratelimitexceeded accountratelimitexceeded endpointratelimitexceeded
            endpointaccountrpmratelimitexceeded endpointaccounttpmratelimitexceeded inflightbatchsizeexceeded
            requestbursttoofast
         """), reason="an allowance per minute"),
    Rule(kind=Kind.OVERLOADED, name="volcengine.busy", vendors=_ARK,
         codes=words("serveroverloaded modelloadingerror invalidendpoint.closedendpoint endpointisnotenable"),
         reason="out of capacity"),
    Rule(kind=Kind.CONTENT_POLICY, name="volcengine.policy", vendors=_ARK,
         codes=words("""
            sensitivecontentdetected sensitivecontentdetected.severeviolation sensitivecontentdetected.violence
            inputtextsensitivecontentdetected inputimagesensitivecontentdetected inputvideosensitivecontentdetected
            outputtextsensitivecontentdetected outputimagesensitivecontentdetected outputvideosensitivecontentdetected
            inputtextriskdetection inputimageriskdetection outputtextriskdetection outputimageriskdetection
            inputimagesensitivecontentdetected.privacyinformation contentsecuritydetectionerror
         """), reason="the content inspection refused it"),
    Rule(kind=Kind.PERMISSION, name="volcengine.access", vendors=_ARK,
         codes=words("accessdenied operationdenied.permissiondenied operationdenied.servicenotopen modelnotopen "
                     "servicenotopen invalidendpointormodel.modelidaccessdisabled"),
         reason="the model is not open to this account"),
    Rule(kind=Kind.AUTHENTICATION, name="volcengine.key", vendors=_ARK,
         codes=words("authenticationerror invalidaccountstatus invalidapikey"), reason="the key is refused"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="volcengine.model", vendors=_ARK,
         codes=words("invalidendpointormodel.notfound invalidendpoint.notfound invalidendpointormodel "
                     "unsupportedmodel"),
         reason="no such model or endpoint"),
    Rule(kind=Kind.TIMEOUT, name="volcengine.timeout", vendors=_ARK, codes=words("requesttimeout apitimeouterror"),
         reason="too slow"),
)  # fmt: skip

SILICONFLOW: Final = (
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="siliconflow.money", vendors=_SILICON, codes=words("30001 30002 30011"),
         reason="30001: the balance is insufficient"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="siliconflow.model", vendors=_SILICON, codes=("20012",),
         reason="20012: no such model"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="siliconflow.disabled", vendors=_SILICON, codes=("30003",),
         reason="30003: the model is switched off"),
    Rule(kind=Kind.RATE_LIMITED, name="siliconflow.rate_by_text", vendors=_SILICON, statuses=(429,), scope=Scope.MODEL,
         pattern=r"\brate limiting\b|\b[rt]pm limit", reason="506xx stands for the allowance and for the load"),
    Rule(kind=Kind.OVERLOADED, name="siliconflow.busy", vendors=_SILICON,
         codes=words("50501 50502 50503 50505 50508 50603"),
         reason="5050x: the model service is overloaded"),
    Rule(kind=Kind.RATE_LIMITED, name="siliconflow.rate", vendors=_SILICON, scope=Scope.MODEL,
         codes=words("50604 50609 60603"), reason="506xx: requests or tokens per minute"),
    Rule(kind=Kind.CONTEXT_WINDOW, name="siliconflow.context", vendors=_SILICON, codes=("20015",),
         pattern=r"\bprompt_tokens\b|\bmax_seq_len\b", reason="20015 with a text on length"),
)  # fmt: skip

MOONSHOT: Final = (
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="moonshot.money", vendors=("moonshot",),
         codes=("exceeded_current_quota_error",), reason="balance or plan"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="moonshot.usage", vendors=("moonshot",), codes=("access_terminated_error",),
         pattern=r"\busage limit|\bquota\b|\bbilling cycle", reason="Kimi Code: the same type for a used-up plan"),
)  # fmt: skip

# Asked after the phrases: these numbers stand for any fault of the request, too long a prompt among them.
WEAK: Final = (
    Rule(kind=Kind.INVALID_REQUEST, name="zhipu.parameters", vendors=_ZHIPU,
         codes=words("1210 1213 1214 1215 1231"), reason="1210-1215: wrong parameters; 1231: repeated request id"),
    Rule(kind=Kind.INVALID_REQUEST, name="minimax.parameters", vendors=_MINIMAX, codes=words("2013 20132"),
         reason="2013: invalid parameters"),
    Rule(kind=Kind.INVALID_REQUEST, name="siliconflow.parameters", vendors=_SILICON, codes=words("20015 20041"),
         reason="20015: a parameter is wrong"),
)  # fmt: skip

TABLE: Final = (*ZHIPU, *MINIMAX, *ALIBABA, *VOLCENGINE, *SILICONFLOW, *MOONSHOT)
