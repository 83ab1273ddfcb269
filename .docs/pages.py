"""Pages that are made while the documentation is built: the README as the first one, and the settings from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reliable_llm.commands.settings import settings_of, summary_of
from reliable_llm.policy import BudgetPolicy, HedgePolicy, Limits, RecoveryPolicy, RetryPolicy, Timeouts

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT: Final = Path(__file__).parent.parent
SETTINGS: Final = (
    (RetryPolicy, "FailoverChat(retry=...), chat(retry=...)", "[retry], or retry of a provider"),
    (RecoveryPolicy, "FailoverChat(recovery=...)", "[recovery]"),
    (Timeouts, "Provider.openai(timeouts=...)", "[timeouts], or timeouts of a provider"),
    (Limits, "Provider.openai(limits=...)", "limits of a provider"),
    (HedgePolicy, "FailoverChat(hedge=...)", ""),
    (BudgetPolicy, "FailoverChat(budget=...)", ""),
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated."""
    from mkdocs.structure.files import File

    picture = (ROOT / ".github" / "timeline.svg").read_text(encoding="utf-8")
    made = {"index.md": first_page(), "settings.md": "\n".join(settings_page()), "timeline.svg": picture}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def first_page() -> str:
    """Return the README; what it links to in the repository is named instead."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](.github/timeline.svg)", "](timeline.svg)")
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?://|timeline\.svg)[^)]+\)", r"`\1`", text)


def settings_page() -> Iterator[str]:
    """Yield the page of all settings with their defaults."""
    yield "# Settings\n\nMade from the code while this page was built. All durations are seconds."
    yield "`reliable-llm init` writes a file with them, `reliable-llm check` says what a file does.\n"
    for policy, code, table in SETTINGS:
        yield f"## {policy.__name__}\n\n{summary_of(policy)}\n\nIn code: `{code}`." + (
            f" In a file: `{table}`." if table else ""
        )
        yield "\n| field | default | what it is |\n|---|---|---|"
        for setting in settings_of(policy):
            default = setting.toml or "not set"
            yield f"| `{setting.name}` | `{default}` | {setting.says} |"
        yield ""
