"""Codes about the account and the vendor's health that mean the same wherever they are seen: they decide at once.

Sources: OpenAI "Error codes" guide; Anthropic "Errors" page and the `error_code` types in its SDK; Google
`google.rpc.Code` and `ErrorInfo` reasons; OpenRouter `ApiErrorType`; llama.cpp server; LiteLLM `ProxyErrorTypes`.
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import NO_STATUS, Rule, words
from reliable_llm.errors import Kind, Scope

ACCOUNT_CODES: Final = (
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="header.window_rejected",
        statuses=(429,),
        codes=("trait:window_rejected",),
        reason="Anthropic subscription: the five-hour or weekly window is used up",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="code.quota",
        codes=words(
            """
            insufficient_quota credit_balance_exhausted organization_spend_limit_exceeded
            project_spend_limit_exceeded organization_usage_limit_exceeded project_usage_limit_exceeded
            billing_hard_limit_reached billing_not_active billing_error usage_limit_reached usage_limit_exceeded
            usage_not_included quota_exhausted insufficient_balance insufficient_balance_error insufficient_credits
            insufficient_funds not_enough_balance insufficient_user_quota pre_consume_token_quota_failed
            account_deactivated_for_billing payment_required paymentrequired credit_limit credits_exhausted
            freeusagelimiterror free_tier_limit budget_exceeded budgetexceedederror budgetlimitexceeded
            membership_error user_weekly_rate_limited user_monthly_rate_limited exceeded_current_quota_error
            accountoverdueerror arrearage enforced_spend_limit_reached
            contract_spend_limit_reached linked_organization_billing_unavailable
            linked_organization_spend_limit_reached balance_depleted spend_limit_exceeded
            """
        ),
        reason="money or plan: a person must act, or a period must end",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="code.budget_caps_the_request",
        codes=("token_limit_exceeded",),
        vendors=("openrouter",),
        scope=Scope.REQUEST,
        reason="OpenRouter: the credit does not cover the output asked for",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="code.ramp_limit",
        codes=("ramp_limit_exceeded",),
        rotate_key=False,
        reason="Anthropic: usage of the organization grows too fast; its other keys share the limit",
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="code.slow_down",
        codes=("slow_down", "rate_limited"),
        statuses=(429, 503, NO_STATUS),
        reason="OpenAI: traffic grows too fast",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="code.overloaded",
        codes=words(
            """
            overloaded_error engine_overloaded engine_overloaded_error server_is_overloaded serveroverloaded
            server_overloaded model_overloaded provider_overloaded capacity_exceeded model_capacity_exhausted
            modelnotreadyexception serviceunavailableexception service_unavailable_error
            service_tier_capacity_exceeded over_capacity nocapacity
            """
        ),
        reason="the vendor is out of capacity; the key is not to blame",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="code.model_is_loading",
        codes=("unavailable_error", "model_loading", "model_not_ready"),
        scope=Scope.MODEL,
        reason="llama.cpp: the model is still being loaded",
    ),
    Rule(
        kind=Kind.SERVER_ERROR,
        name="code.customer_key_service",
        codes=("cmek_key_unreachable", "cmek_context_unavailable", "authorization_check_unavailable"),
        scope=Scope.KEY,
        rotate_key=True,
        reason="Anthropic: the customer's own key service does not answer; the vendor is healthy for everybody else",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="code.compaction",
        codes=("compaction_unavailable",),
        reason="Anthropic: a part of the vendor is out of capacity",
    ),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="code.authentication",
        codes=words(
            """
            invalid_api_key incorrect_api_key invalid_x_api_key api_key_invalid invalidapikey missing_api_key
            api_key_expired api_key_disabled api_key_revoked expired_api_key invalid_authentication
            invalid_authentication_error invalid_token invalid_auth_token token_expired expired_token token_revoked
            account_deactivated account_disabled account_suspended deactivated_workspace organization_restricted
            organization_deactivated organization_disabled organization_on_hold consumer_suspended
            access_token_expired account_state_invalid unrecognizedclientexception invalidsignatureexception
            expiredtokenexception incompletesignature invalidclienttokenid missingauthenticationtoken
            invalid_iam_token token_not_found_in_db expired_key no_api_key wrong_api_key
            """
        ),
        reason="the key is refused, or its account is closed",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="code.region",
        codes=(
            "unsupported_country_region_territory",
            "unsupported_country",
            "unsupported_region",
            "region_not_supported",
        ),
        scope=Scope.PROVIDER,
        rotate_key=False,
        reason="the country of this machine is not served: no key changes that",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="code.permission",
        codes=words(
            """
            ip_not_authorized insufficient_permissions insufficient_scope missing_scope
            access_token_scope_insufficient consumer_invalid api_key_scope_missing service_disabled
            api_key_service_blocked
            api_key_http_referrer_blocked api_key_ip_address_blocked consumer_blocked iam_permission_denied
            security_policy_violated must_be_verified organization_must_be_verified organization_not_verified
            team_model_access_denied key_model_access_denied user_model_access_denied org_model_access_denied
            model_access_denied user_profile_required user_profile_not_found user_profile_not_billable
            user_profile_billing_not_authorized sandbox_egress_restricted organization_type_not_supported
            parent_organization_required organization_not_eligible organization_not_enrolled_in_beta
            organization_level_scoped_api_key_required workspace_policy_violation claude_code_key_creator_not_member
            cmek_key_disabled cmek_key_network_blocked cmek_not_approved model_terms_required permissions_error
            """
        ),
        reason="the key is good, but not for this",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="code.wrong_client",
        codes=("access_terminated_error", "claude_code_version_too_old"),
        scope=Scope.PROVIDER,
        rotate_key=False,
        reason="this client is not admitted: trying other keys puts them at risk",
    ),
    Rule(
        kind=Kind.PERMISSION,
        name="code.model_needs_permission",
        codes=("model_not_found",),
        statuses=(401, 403),
        scope=Scope.MODEL,
        reason="OpenAI: the model exists, this project may not use it",
    ),
)
