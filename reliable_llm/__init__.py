"""LLM calls that keep answering, on the official vendor clients. All durations are seconds."""
