"""The simulation by hand.

    python -m tests.simulation                          1,000 seeds of 100 calls; a table
    python -m tests.simulation --seeds 200 --from 5000  other seeds; --calls N, --jobs N
    python -m tests.simulation --seed 17                one seed; a failing one is shrunk and told
    python -m tests.simulation --forever                until one fails
    python -m tests.simulation --mutants                each rule broken on purpose, and how it was noticed

Exit status 1 when a rule is broken (or a mutant is not noticed).
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.mutants import MUTANTS, described
from tests.simulation.run import Outcome, simulate
from tests.simulation.shrink import shrunk, story
from tests.simulation.world import world

SEEDS_FOR_A_MUTANT = 60
PATIENCE_WITH_A_MUTANT = 240


def main() -> int:
    args = _arguments()
    if args.mutant:
        return _run_mutant(args.mutant)
    if args.mutants:
        return _mutants(args.jobs)
    if args.seed is not None:
        return _one(args.seed, args.calls)
    seeds: Iterable[int] = range(args.start, args.start + args.seeds)
    return _many(itertools.count(args.start) if args.forever else seeds, args.calls, args.jobs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--forever", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    return parser.parse_args()


def _one(seed: int, calls: int) -> int:
    outcome = simulate(world(seed, calls))
    if not outcome.objections:
        print(f"seed {seed}: {outcome.calls} calls, {outcome.requests} requests, no rule broken ({outcome.digest})")
        return 0
    _tell(outcome, calls)
    return 1


def _tell(outcome: Outcome, calls: int) -> None:
    print(f"\nseed {outcome.seed} breaks a rule: {outcome.rule}\n  {outcome.objections[0][1]}")
    print("shrinking ...", flush=True)
    smaller = shrunk(world(outcome.seed, calls), outcome.rule or "")
    print(story(smaller))
    print(f"  -> {simulate(smaller).objections[0][1]}")


def _simulate(seed: int, calls: int) -> Outcome:
    return simulate(world(seed, calls))


def _outcomes(seeds: Iterable[int], calls: int, jobs: int) -> Iterator[Outcome]:
    with ProcessPoolExecutor(jobs) as pool:
        seeds = iter(seeds)
        while batch := list(itertools.islice(seeds, jobs * 20)):
            yield from pool.map(_simulate, batch, itertools.repeat(calls), chunksize=5)


def _many(seeds: Iterable[int], calls: int, jobs: int) -> int:
    began = time.monotonic()
    total: Counter[str] = Counter()
    failed: list[Outcome] = []
    for outcome in _outcomes(seeds, calls, jobs):
        total.update(outcome.outcomes)
        total.update(seeds=1, requests=outcome.requests, answers=outcome.answers, wired=outcome.wired)
        if outcome.objections:
            failed.append(outcome)
            if len(failed) == 5:
                break
    _table(total, time.monotonic() - began, jobs, len(failed))
    for outcome in failed:
        _tell(outcome, calls)
    return 1 if failed else 0


def _table(total: Counter[str], seconds: float, jobs: int, failed: int) -> None:
    heads = ("seeds", "wired", "calls", "requests", "answers", "cancelled", "left early")
    rows = [(name, total.pop(name)) for name in heads]
    rows += [(f"failed: {name}", count) for name, count in total.most_common()]
    rows += [("seeds that broke a rule", failed)]
    print("| what | count |\n| --- | ---: |")
    for name, count in rows:
        print(f"| {'seeds through the real SDKs' if name == 'wired' else name} | {count:,} |")
    print(f"\n{seconds:.0f} s on {jobs} processes")


def _run_mutant(name: str) -> int:
    """Break one rule in this process; say how soon it was noticed."""
    MUTANTS[name]()
    for seed in range(SEEDS_FOR_A_MUTANT):
        outcome = simulate(world(seed, 60))
        if outcome.objections:
            print(f"{seed}|{outcome.rule}")
            return 0
    return 1


def _mutants(jobs: int) -> int:
    names = dict(described())
    with ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(_noticed, names))
    print("| mutant | what it breaks | seed | noticed as |\n| --- | --- | ---: | --- |")
    for (name, what), noticed in zip(names.items(), found, strict=True):
        seed, _, rule = (noticed or "|NOT NOTICED").partition("|")
        print(f"| {name} | {what} | {seed} | {rule} |")
    missed = found.count(None)
    print(f"\n{len(found) - missed} of {len(found)} noticed")
    return 1 if missed else 0


def _noticed(name: str) -> str | None:
    command = [sys.executable, "-m", "tests.simulation", "--mutant", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_WITH_A_MUTANT, check=False)
    except subprocess.TimeoutExpired:
        return "|a call that never ends (stopped by the clock)"
    if done.returncode == 0:
        return done.stdout.strip().splitlines()[-1]
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return None if not last or last.startswith("LookupError") else f"|{last}"


if __name__ == "__main__":
    raise SystemExit(main())
