"""Vendors' clients that the user built: for clouds where a request is signed, addressed or decoded in another way.

    from anthropic import AsyncAnthropicBedrock

    Provider.anthropic(
        models={"claude-sonnet-4-5": "anthropic.claude-sonnet-4-5-20250929-v1:0"},
        clients=[AsyncAnthropicBedrock(aws_region="us-east-1"), AsyncAnthropicBedrock(aws_region="us-west-2")],
    )

A client stands where a key stands elsewhere: it has a label, it rotates, cools and is parked. It is used as it is and
never closed. In place of a client, a function may be given that builds one over the `httpx2.AsyncClient` it gets: it is
called once per event loop, and the connections are then kept and closed with all others. `bedrock()` and `vertex()`
return such functions.
"""

from __future__ import annotations

from reliable_llm.adapters.clients import bedrock, vertex

__all__ = ["bedrock", "vertex"]
