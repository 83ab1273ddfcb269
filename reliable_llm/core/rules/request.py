"""Codes about the request and the model that mean the same wherever they are seen: they decide at once.

Sources: as in `account.py`.
"""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.anthropic_admin import BY_STATUS_ONLY
from reliable_llm.core.rules.rule import NO_STATUS, Rule, words
from reliable_llm.errors import Kind, Scope

NOT_WHAT_IT_SAYS: Final = (
    Rule(
        kind=Kind.PERMISSION,
        name="phrase.verification",
        statuses=(400, 401, 403, 404),
        pattern=r"^your organization must be verified\b",
        scope=Scope.MODEL,
        reason="OpenAI: an account's right under codes that speak of a parameter or a model",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="code.foreign_reasoning",
        codes=("invalid_encrypted_content", "thinking_signature_invalid", "invalid_thinking_signature"),
        feature="reasoning_history",
        reason="reasoning of another issuer in the history: without it the same request passes",
    ),
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="code.too_large_for_the_window",
        codes=("request_too_large",),
        pattern=r"\bprompt is too long\b|\bcontext window\b",
        reason="Anthropic, Vertex: the code of a ceiling in bytes on a prompt longer than the window",
    ),
    Rule(
        kind=Kind.MALFORMED_RESPONSE,
        name="code.tool_use_failed",
        codes=("tool_use_failed",),
        scope=Scope.MODEL,
        reason="Groq: what the model wrote was no call of a tool; the next try may do",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="code.other_thing_not_found",
        statuses=(400, 404),
        codes=words(
            """
            previous_response_not_found response_not_found file_not_found conversation_not_found item_not_found
            assistant_not_found vector_store_not_found image_not_found image_download_failed
            """
        ),
        reason="what is missing is something that the request names, not the model",
    ),
    Rule(
        kind=Kind.INVALID_REQUEST,
        name="code.by_status_only",
        statuses=(400, 409, 412),
        codes=tuple(sorted(BY_STATUS_ONLY)),
        reason="Anthropic documents the code, and it says no more than the request must change",
    ),
)

REQUEST_CODES: Final = (
    Rule(
        kind=Kind.UNSUPPORTED,
        name="code.unsupported_image",
        codes=("unsupported_image_format", "model_not_supported"),
        pattern=r"\bimage",
        feature="vision",
        reason="this model takes no such image",
    ),
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="code.model_not_found",
        codes=words(
            """
            model_not_found modelnotfound model_not_exist model_does_not_exist invalid_model unknown_model
            unsupported_model unsupportedmodel model_decommissioned model_deactivated model_deprecated model_retired
            model_not_available model_not_supported deploymentnotfound publisher_model_not_found unavailable_model
            endpoint_not_found
            """
        ),
        reason="the provider does not serve this model",
    ),
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="code.context_window",
        codes=words(
            """
            context_length_exceeded context_window_exceeded model_context_window_exceeded contextwindowexceedederror
            exceed_context_size_error context_too_long tokens_too_long prompt_too_long input_too_long
            max_context_length_exceeded compaction_too_many_tool_references
            """
        ),
        reason="longer than the model's window",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="code.image_size",
        codes=("image_dimensions_too_large", "image_too_large", "image_too_small"),
        feature="image_size",
        reason="a limit of this vendor's, not of the request",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="code.request_too_large",
        codes=words(
            """
            request_too_large request_body_too_large_after_decoding payload_too_large request_entity_too_large
            requestbodytoolarge entity_too_large
            """
        ),
        failover=False,
        reason="a ceiling in bytes; the next vendor's is much the same",
    ),
    Rule(
        kind=Kind.REQUEST_TOO_LARGE,
        name="code.larger_than_the_rate",
        codes=("string_above_max_length", "string_too_long", "tokens_limit_reached"),
        reason="a field is longer than this vendor admits",
    ),
    Rule(
        kind=Kind.CONTENT_POLICY,
        name="code.content_policy",
        codes=words(
            """
            content_filter content_filtered content_policy_violation contentpolicyviolationerror
            responsibleaipolicyviolation moderation_blocked content_blocked invalid_prompt safety_violation
            data_inspection_failed datainspectionfailed sensitive_content sensitive_check_error prohibited_content
            public_error_unsafe_generation bio_policy cyber_policy cyber_policy_violation refusal
            image_content_policy_violation guardrail_intervened guardrail_violation
            """
        ),
        reason="the vendor's policy refused the content",
    ),
    Rule(
        kind=Kind.TIMEOUT,
        name="code.timeout",
        codes=words(
            """
            timeout_error request_timeout gateway_timeout deadline_exceeded modeltimeoutexception
            """
        ),
        statuses=(NO_STATUS, 400, 408, 500, 502, 503, 504, 524),
        reason="the vendor took too long",
    ),
    Rule(
        kind=Kind.TIMEOUT,
        name="code.body_timeout",
        codes=("request_body_timeout",),
        reason="Anthropic: the request came in too slowly",
    ),
    Rule(
        kind=Kind.STREAM_INTERRUPTED,
        name="code.stream_broke",
        codes=("modelstreamerrorexception", "stream_error", "stream_interrupted"),
        reason="Bedrock: the model failed while it was writing",
    ),
)
