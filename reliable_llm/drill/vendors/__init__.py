"""Simulated vendors: both wire formats behind an `httpx2` transport, so that the real SDKs run against them."""
