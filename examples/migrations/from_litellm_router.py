"""From LiteLLM's Router: their configuration first, ours beside it line by line. Runs without a key.

python examples/migrations/from_litellm_router.py

LiteLLM is imported only if it is installed; its router is built then, and asked nothing.

| LiteLLM Router                                | here                                                        |
|-----------------------------------------------|-------------------------------------------------------------|
| one deployment per key in `model_list`        | `keys=[...]` of one provider                                |
| `model_name` groups, `fallbacks=[{a: [b]}]`   | the order of providers and models, or `route=`, `fallbacks=`|
| `context_window_fallbacks`                    | `Capabilities(context_window=...)`: larger windows are found|
| `content_policy_fallbacks`                    | `failover_on=["content_policy"]`                            |
| `num_retries=2`, `retry_after=0`              | `RetryPolicy(max_retries=2)`; per candidate, cap 30 s       |
| `cooldown_time=300`, `allowed_fails=1`        | `RecoveryPolicy(quota=300)`, `breaker={kind: seconds}`      |
| `timeout`, `stream_timeout`                   | `Timeouts(attempt=, first_token=, idle=)`, `deadline=`      |
| `router.acompletion(model=..., messages=...)` | `chat(messages, model=...)`; or `openai_client(chat)`       |
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from reliable_llm import FailoverChat, Provider, RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.testing import Drill, ok, out_of_quota, rate_limited


def theirs() -> object:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import goes to the network
    from litellm import Router

    return Router(
        model_list=[
            {"model_name": "main", "litellm_params": {"model": "openai/gpt-5.1", "api_key": "sk-a", "timeout": 60}},
            {"model_name": "main", "litellm_params": {"model": "openai/gpt-5.1", "api_key": "sk-b", "timeout": 60}},
            {"model_name": "spare", "litellm_params": {"model": "anthropic/claude-sonnet-4-5", "api_key": "sk-c"}},
        ],
        fallbacks=[{"main": ["spare"]}],
        num_retries=2,
        cooldown_time=300,
    )


def ours(openai: Provider, anthropic: Provider, **simulated: object) -> FailoverChat:
    return FailoverChat(
        [openai, anthropic],
        retry=RetryPolicy(max_retries=2),
        recovery=RecoveryPolicy(quota=300),
        **simulated,  # type: ignore[arg-type]  # the simulator's clock, in this example
    )


def main() -> None:
    if find_spec("litellm") is None:
        print("litellm is not installed: its side is shown, not run")
    else:
        print(f"theirs: {type(theirs()).__name__} built")
    # In your application: Provider.openai(keys=["sk-a", "sk-b"], models=["gpt-5.1"], timeouts=Timeouts(attempt=60))
    # and Provider.anthropic(keys=["sk-c"], models=["claude-sonnet-4-5"]).
    drill = Drill()
    drill.answers("openai", rate_limited(retry_after=60), key="sk-a")
    drill.answers("openai", out_of_quota(), key="sk-b")
    drill.answers("anthropic", ok("hello from the spare"))
    chat = ours(
        drill.openai(keys=["sk-a", "sk-b"], models=["gpt-5.1"], timeouts=Timeouts(attempt=60)),
        drill.anthropic(keys=["sk-c"], models=["claude-sonnet-4-5"]),
        clock=drill.clock,
    )
    reply = drill.run(chat([{"role": "user", "content": "hello"}]))
    print(f"ours: {reply.text!r} by {reply.served_by}")
    print(*reply.attempts, sep="\n")


if __name__ == "__main__":
    main()
