"""`reliable-llm completion`: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
from typing import Final

from reliable_llm.errors import ConfigurationError

SHELLS: Final = ("bash", "zsh", "tcsh")

# What shtab calls "complete with the names of files"; set here, so that only this command needs shtab.
_FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}


def names_a_file(argument: argparse.Action) -> None:
    """Let shells complete *argument* with the names of files."""
    vars(argument)["complete"] = _FILES


def run(shell: str, parser: argparse.ArgumentParser) -> int:
    """Print the script of *shell* for *parser*."""
    try:
        import shtab
    except ImportError:
        raise ConfigurationError(
            "completion needs shtab, to print the script only: python -m pip install 'reliable-llm[completion]'"
        ) from None
    print(shtab.complete(parser, shell=shell))
    return 0
