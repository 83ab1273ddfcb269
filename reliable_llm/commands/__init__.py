"""The commands of `reliable-llm` that are more than a line in `cli.py`."""
