"""Western vendors and relays whose codes or sentences mean something of their own.

Sources: the vendors' error pages (Azure OpenAI, Gemini troubleshooting, Bedrock and AWS common errors, OpenRouter
"Errors and debugging", Groq, Mistral, Together, Fireworks, Cerebras, xAI, Hugging Face, Perplexity, Cloudflare,
Databricks, GitHub Models) and the sources of LiteLLM, vLLM, llama.cpp, Ollama, new-api.
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule, words
from reliable_llm.errors import Kind, Scope

GOOGLE: Final = (
    Rule(kind=Kind.AUTHENTICATION, name="google.key", vendors=("gemini",),
         codes=words("api_key_invalid api_key_expired consumer_suspended consumer_invalid"),
         reason="details[].reason beats the text: a bad key is a 400 here"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="google.no_quota", vendors=("gemini",), codes=("trait:quota_of_zero",),
         statuses=(429, NO_STATUS), scope=Scope.MODEL, reason="`limit: 0`: this project was never given any"),
    Rule(kind=Kind.AUTHENTICATION, name="google.no_key", vendors=("gemini",), statuses=(401, 403),
         pattern=r"\bunregistered callers\b", reason="no key came with the request"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="google.capacity_of_the_plan", vendors=("gemini",), statuses=(429,),
         codes=("trait:long_wait",), pattern=r"^you have exhausted your capacity on this model", scope=Scope.MODEL,
         reason="Code Assist: the plan's share of one model, for hours"),
    Rule(kind=Kind.OVERLOADED, name="google.capacity", vendors=("gemini",),
         codes=words("model_capacity_exhausted ratelimitexceeded"), statuses=(429, 503, NO_STATUS),
         pattern=r"capacity|^resource exhausted\. please try again later",
         reason="shared capacity, not this project's quota"),
    Rule(kind=Kind.OVERLOADED, name="google.shared_capacity", vendors=("gemini",), statuses=(429, NO_STATUS),
         pattern=r"^resource exhausted[.,] please try again later|error-code-429",
         reason="Vertex dynamic shared quota"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="google.per_day", vendors=("gemini",), codes=("trait:per_day",),
         statuses=(429, NO_STATUS), scope=Scope.MODEL, reason="the quota id names a day"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="google.money", vendors=("gemini",), statuses=(400, 403, 429),
         pattern=r"\b(?:prepay\w*|prepaid) credits? (?:are|is|have been) (?:depleted|exhausted)|"
                 r"\b(?:monthly )?spend(?:ing)? cap\b|\bbilling (?:account )?(?:is |has been )?(?:disabled|"
                 r"not enabled|closed)|"
                 r"requires billing to be enabled",
         reason="AI Studio: prepaid credit or spend cap"),
    Rule(kind=Kind.RATE_LIMITED, name="google.per_minute", vendors=("gemini",), statuses=(429, NO_STATUS),
         pattern=r"^you exceeded your current quota|^quota exceeded\b|^resource has been exhausted",
         scope=Scope.MODEL, reason="OpenAI's sentence on spent money means per minute here"),
    Rule(kind=Kind.PERMISSION, name="google.location", vendors=("gemini",), scope=Scope.PROVIDER, rotate_key=False,
         pattern=r"^user location is not supported", reason="the country of this machine is not served"),
    Rule(kind=Kind.PERMISSION, name="google.service_disabled", vendors=("gemini",), codes=("service_disabled",),
         reason="the API is not switched on for this project"),
)  # fmt: skip

AZURE: Final = (
    Rule(kind=Kind.OVERLOADED, name="azure.high_demand", vendors=("azure",), statuses=(429, 503),
         pattern=r"\bexperiencing high demand|\bserver is busy|\bno capacity\b|\bengine is currently overloaded",
         reason="429 for the vendor's own load"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="azure.per_day", vendors=("azure",), statuses=(429,), scope=Scope.MODEL,
         pattern=r"ByDay\b|\bper 86400s\b", reason="GitHub Models: the daily count of one model"),
    Rule(kind=Kind.RATE_LIMITED, name="azure.deployment_of_a_region", vendors=("azure",), statuses=(429,),
         pattern=r"^your requests to .{1,120} have exceeded (?:the )?(?:token|call) rate limit|"
                  r"\brate limit of your deployment", scope=Scope.MODEL,
         rotate_key=False, reason="names deployment and region: all keys of the resource share it"),
    Rule(kind=Kind.RATE_LIMITED, name="azure.deployment", vendors=("azure",), statuses=(429,), scope=Scope.MODEL,
         pattern=r"exceeded (?:the )?(?:token|call|request)s? rate limit|\brate limit is exceeded|"
                  r"rate limit of your current",
         reason="the limit is the deployment's"),
    Rule(kind=Kind.PERMISSION, name="azure.resource_blocked", vendors=("azure",), statuses=(400, 403), rotate_key=False,
         scope=Scope.PROVIDER, pattern=r"\bresource\b.{0,80}\btemporarily blocked|temporarily blocked because",
         reason="abuse monitoring blocked the resource"),
    Rule(kind=Kind.PERMISSION, name="azure.network", vendors=("azure",), statuses=(403,), rotate_key=False,
         scope=Scope.PROVIDER, pattern=r"virtual network|firewall rules|public access is disabled|private endpoint",
         reason="the resource does not admit this network"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="azure.operation", vendors=("azure",), codes=("operationnotsupported",),
         reason="the deployment's model does not do this"),
    Rule(kind=Kind.INVALID_REQUEST, name="azure.wrong_path", vendors=("azure",), statuses=(404,),
         pattern=r"^resource not found", reason="the path or the API version is wrong"),
    Rule(kind=Kind.AUTHENTICATION, name="azure.key", vendors=("azure",), statuses=(401,),
         pattern=r"^access denied due to invalid subscription key|invalid subscription key or wrong api endpoint",
         reason="the key is not this resource's"),
    Rule(kind=Kind.PERMISSION, name="azure.principal", vendors=("azure",), statuses=(401, 403),
         pattern=r"^the principal .{0,120}lacks the required|does not have (?:permission|access) to",
         reason="the role is missing"),
)  # fmt: skip

BEDROCK: Final = (
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="bedrock.per_day", vendors=("bedrock",), statuses=(400, 429, NO_STATUS),
         codes=("trait:per_day",), scope=Scope.MODEL, reason="two words part the daily quota from the throttle"),
    Rule(kind=Kind.OVERLOADED, name="bedrock.not_ready", vendors=("bedrock",), scope=Scope.MODEL,
         codes=words("modelnotreadyexception serviceunavailableexception"), reason="the model is being made ready"),
    Rule(kind=Kind.RATE_LIMITED, name="bedrock.throttle", vendors=("bedrock",), scope=Scope.MODEL,
         codes=words("throttlingexception servicequotaexceededexception toomanyrequestsexception throttling"),
         reason="\"Too many tokens, please wait\" is a rate"),
    Rule(kind=Kind.PERMISSION, name="bedrock.use_case", vendors=("bedrock",), scope=Scope.PROVIDER,
         codes=("resourcenotfoundexception",), pattern=r"\buse case details have not been submitted|use case form",
         reason="a form is missing, not the model"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="bedrock.inference_profile", vendors=("bedrock",),
         pattern=r"on-demand throughput isn.t supported|^the provided model identifier is invalid|"
                 r"marked by provider as legacy|reached the end of its life",
         reason="the id must be an inference profile's, or has had its day"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="bedrock.model", vendors=("bedrock",), codes=("resourcenotfoundexception",),
         reason="no such model in this region"),
    Rule(kind=Kind.PERMISSION, name="bedrock.access", vendors=("bedrock",), codes=("accessdeniedexception",),
         scope=Scope.MODEL, reason="model access was not granted"),
    Rule(kind=Kind.AUTHENTICATION, name="bedrock.key", vendors=("bedrock",),
         codes=words("unrecognizedclientexception invalidsignatureexception expiredtokenexception incompletesignature "
                     "invalidclienttokenid missingauthenticationtoken expiredtoken requestexpired optinrequired"),
         reason="AWS common errors: the signature or the key"),
    Rule(kind=Kind.TIMEOUT, name="bedrock.timeout", vendors=("bedrock",), codes=("modeltimeoutexception",),
         reason="the model took too long"),
    Rule(kind=Kind.STREAM_INTERRUPTED, name="bedrock.stream", vendors=("bedrock",), statuses=(NO_STATUS,),
         codes=words("internalserverexception modelstreamerrorexception"), reason="a fault while it was writing"),
    Rule(kind=Kind.STREAM_INTERRUPTED, name="bedrock.stream_text", vendors=("bedrock",), statuses=(NO_STATUS,),
         pattern=r"^bad response code, expected 200", reason="botocore's words for a fault inside the stream"),
    Rule(kind=Kind.SERVER_ERROR, name="bedrock.trouble", vendors=("bedrock",),
         codes=words("internalserverexception modelerrorexception internalfailure"), reason="the vendor failed"),
)  # fmt: skip

RELAYS: Final = (
    Rule(kind=Kind.OVERLOADED, name="openrouter.no_route", vendors=("openrouter",), statuses=(503,), retry_same=False,
         scope=Scope.MODEL, pattern=r"^there is no available model provider|^no (?:available|allowed) providers?",
         reason="the routing options exclude everybody for now"),
    Rule(kind=Kind.RATE_LIMITED, name="openrouter.in_flight", vendors=("openrouter",), statuses=(402,),
         rotate_key=False,
         pattern=r"\bin[- ]flight|\breconcil|\brolling window|\bpending requests?\b",
         reason="the budget is held by running calls"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="openrouter.free_models", pattern=r"\bfree-models-per-day",
         statuses=(402, 403, 429, NO_STATUS), reason="OpenRouter and its resellers: the daily count of free models"),
    Rule(kind=Kind.RATE_LIMITED, name="openrouter.free_models_per_minute", pattern=r"\bfree-models-per-min",
         statuses=(429, NO_STATUS), reason="OpenRouter and its resellers: the count of free models per minute"),
    Rule(kind=Kind.RATE_LIMITED, name="openrouter.upstream", vendors=("openrouter",), statuses=(429,), rotate_key=False,
         scope=Scope.MODEL, pattern=r"^provider returned error|rate-limited upstream|rate limited upstream",
         reason="the upstream limits OpenRouter, not our key"),
    Rule(kind=Kind.SERVER_ERROR, name="openrouter.provider_failed", vendors=("openrouter",), scope=Scope.MODEL,
         statuses=(500, 502), pattern=r"^provider returned error", reason="the chosen upstream failed"),
    Rule(kind=Kind.CONTENT_POLICY, name="openrouter.moderation", vendors=("openrouter",), statuses=(403,),
         pattern=r"\brequires moderation\b|\bwas flagged\b|\bflagged for\b|^content (?:was )?blocked",
         reason="403 for a moderated prompt"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="openrouter.budget", vendors=("openrouter",), statuses=(403, 429),
         pattern=r"\bkey limit exceeded|\b(?:workspace|guardrail|organization|key) .{0,40}\b(?:budget|"
                  r"limit) (?:exceeded|reached)|\bbudget\b",
         reason="403 for a key's or a workspace's limit"),
    Rule(kind=Kind.OVERLOADED, name="relay.upstream_is_broke", vendors=("modelscope", "opencode-go", "opencode", "poe"),
         codes=("insufficient_balance_error",), scope=Scope.MODEL, retry_same=False,
         reason="the relay's own upstream account is empty; our key is fine"),
    Rule(kind=Kind.AUTHENTICATION, name="litellm.key", vendors=("litellm",),
         codes=words("token_not_found_in_db expired_key"),
         reason="the proxy does not know the key"),
)  # fmt: skip

HOSTS: Final = (
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="fireworks.suspended", vendors=("fireworks",), statuses=(412,),
         reason="412: the account is suspended over money"),
    Rule(kind=Kind.OVERLOADED, name="groq.flex", vendors=("groq",), statuses=(498,), reason="498: flex capacity"),
    Rule(kind=Kind.REQUEST_TOO_LARGE, name="groq.too_large", vendors=("groq",), statuses=(413,), failover=True,
         reason="413: larger than the tokens per minute of this tier"),
    Rule(kind=Kind.AUTHENTICATION, name="xai.key", vendors=("xai",), statuses=(400, 401, 403),
         pattern=r"^incorrect api key provided|^invalid (?:or missing )?api key|^no api key",
         reason="a bad key is a 400 here"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="xai.money", vendors=("xai",), statuses=(402, 403, 429),
         pattern=r"\b(?:used all (?:of )?(?:the )?available credits|reached (?:its|your) monthly spending limit|"
                 r"(?:purchase|add) more credits|doesn.t have any credits|no credits)",
         reason="money is a 429 or a 403 here"),
    Rule(kind=Kind.RATE_LIMITED, name="cerebras.rate", vendors=("cerebras",), statuses=(429,),
         codes=words("request_quota_exceeded token_quota_exceeded"), reason="\"quota\" means per minute here",
         pattern=r"\bper (?:minute|second|hour)\b"),
    Rule(kind=Kind.OVERLOADED, name="cerebras.queue", vendors=("cerebras",),
         codes=words("queue_exceeded too_many_requests_error"),
         pattern=r"high traffic|queue", reason="the queue is full"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="cerebras.per_day", vendors=("cerebras",), codes=("trait:per_day",),
         statuses=(429,), reason="tokens per day"),
    Rule(kind=Kind.RATE_LIMITED, name="cerebras.quota", vendors=("cerebras",), statuses=(429,),
         codes=words("request_quota_exceeded token_quota_exceeded"), reason="per minute unless a day is named"),
    Rule(kind=Kind.OVERLOADED, name="mistral.capacity", vendors=("mistral",),
         codes=words("3505 service_tier_capacity_exceeded"),
         scope=Scope.MODEL, reason="3505: capacity of this tier and model"),
    Rule(kind=Kind.CONTEXT_WINDOW, name="mistral.context", vendors=("mistral",), codes=("3051",),
         reason="3051: too many tokens"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="mistral.model", vendors=("mistral",), codes=("1500",),
         reason="1500: invalid model"),
    Rule(kind=Kind.RATE_LIMITED, name="databricks.rate", vendors=("databricks",), codes=("request_limit_exceeded",),
         rotate_key=False, scope=Scope.MODEL, reason="workspace-wide: its other tokens share the limit"),
    Rule(kind=Kind.OVERLOADED, name="databricks.busy", vendors=("databricks",), codes=("temporarily_unavailable",),
         reason="out of capacity"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="cloudflare.allocation", vendors=("cloudflare",), codes=words("3036 4006"),
         reason="Workers AI: the daily free allocation"),
    Rule(kind=Kind.OVERLOADED, name="cloudflare.capacity", vendors=("cloudflare",), codes=words("3040 3039"),
         reason="Workers AI: out of capacity"),
    Rule(kind=Kind.TIMEOUT, name="cloudflare.timeout", vendors=("cloudflare",), codes=("3007",),
         reason="Workers AI: timeout"),
    Rule(kind=Kind.MODEL_NOT_FOUND, name="cloudflare.model", vendors=("cloudflare",), codes=words("5007 3042"),
         reason="Workers AI: no such model"),
    Rule(kind=Kind.QUOTA_EXHAUSTED, name="openai.credit", vendors=("openai",), statuses=(400, 402, 403, 429),
         pattern=r"^you exceeded your current quota|^billing hard limit has been reached|"
                  r"^your account is not active, please check",
         reason="the sentence of the years before the codes"),
    Rule(kind=Kind.PERMISSION, name="together.model", vendors=("together",), statuses=(400, 403),
         pattern=r"^unable to access (?:non-serverless )?model", scope=Scope.MODEL, reason="dedicated endpoint needed"),
)  # fmt: skip

TABLE: Final = (*GOOGLE, *AZURE, *BEDROCK, *RELAYS, *HOSTS)
