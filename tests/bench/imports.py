"""What an import costs: time, memory, modules; and what the installed closure weighs.

    python -m tests.bench.imports [--rounds 7]

Prints Markdown. Every import runs in a process of its own, compiled and with a warm page cache; medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from importlib import metadata
from typing import Final

TARGETS: Final = (
    "asyncio, json",
    "reliable_llm",
    "reliable_llm.chat",
    "httpx2",
    "openai",
    "anthropic",
    "openai, anthropic",
)

_PROBE: Final = """
import json, resource, sys, time
began = time.perf_counter()
import {names}
took = time.perf_counter() - began
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(sys.modules)]))
"""


def measured(names: str, rounds: int) -> tuple[float, float, int]:
    """Return the median seconds, MiB of memory and modules after importing *names*."""
    rows = []
    for _ in range(rounds + 1):
        command = [sys.executable, "-c", _PROBE.format(names=names)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout))
    took, memory, modules = zip(*rows[1:], strict=True)  # the first one compiles
    return statistics.median(took), statistics.median(memory), int(statistics.median(modules))


def closure(package: str) -> set[str]:
    """Return the names of what *package* needs at run time, itself included."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [need.split(";")[0].split("[")[0].split("<")[0].split(">")[0].split("=")[0].split("!")[0].strip()
                    for need in needs if "extra ==" not in need]  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print("| import | ms | MiB | modules |\n| --- | ---: | ---: | ---: |")
    for names in TARGETS:
        took, memory, modules = measured(names, options.rounds)
        print(f"| {names} | {took * 1e3:.0f} | {memory:.1f} | {modules} |")
    print(f"\nclosure: {len(closure('reliable-llm'))} packages; openai and anthropic alone: ", end="")
    print(len(closure("openai") | closure("anthropic")))


if __name__ == "__main__":
    main()
