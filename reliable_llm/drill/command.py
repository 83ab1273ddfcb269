"""`reliable-llm drill`: run scenario files or a built-in story, and report."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

import structlog

from reliable_llm.drill.load import ScenarioError, load
from reliable_llm.drill.report import Teller
from reliable_llm.drill.runner import Report, held, run_scenario
from reliable_llm.drill.scenario import Scenario
from reliable_llm.drill.setup import key_names
from reliable_llm.drill.story import DEFAULT, names, story

if TYPE_CHECKING:
    from reliable_llm.config import Settings

# A file that is wrong throughout is wrong for one reason: this many of its scenarios are named.
_TOLD: Final = 20


def run(args: argparse.Namespace) -> int:
    """Run what the command line asks for and return its exit status."""
    return drill(
        args.files,
        as_json=args.json,
        html=args.html,
        svg=args.svg,
        config=args.config,
        story_name=args.story,
        seed=args.seed,
    )


def drill(
    files: Sequence[str],
    *,
    as_json: bool = False,
    html: str | None = None,
    svg: str | None = None,
    config: str | None = None,
    story_name: str | None = None,
    seed: int = 0,
    out: TextIO | None = None,
) -> int:
    """Return 0 when every scenario holds, 1 when one does not; raise `ConfigurationError` for what must change first.

    *files* are scenario files; without one the story is told. *config* is a TOML file with the set-up to rehearse.
    """
    _quiet_logs()
    out = out or sys.stdout
    if files and story_name:
        raise ScenarioError("there are scenario files and a story to tell: give either FILE or --story NAME")
    read = [each for name in files for each in load(Path(name))] if files else [_story(story_name)]
    scenarios = [each for each in read if isinstance(each, Scenario)]
    broken = [each for each in read if isinstance(each, ScenarioError)]
    settings = _settings(config)
    if as_json:
        reports = [_as_line(run_scenario(each, seed=seed, settings=settings), out) for each in scenarios]
    elif len(read) == 1 and scenarios:
        reports = [_told(scenarios[0], seed, settings, out)]
    else:
        reports = [_summed_up(run_scenario(each, seed=seed, settings=settings), out) for each in scenarios]
        _totals(reports, len(broken), out)
    if html:
        from reliable_llm.drill.html import page

        _write(Path(html), page(reports))
    if svg:
        from reliable_llm.drill.svg import svg as drawn

        _write(Path(svg), drawn(_only(reports)))
    if broken:
        _complain(broken, out if as_json else None)
    return 0 if all(report.passed for report in reports) else 1


def _complain(broken: Sequence[ScenarioError], out: TextIO | None) -> NoReturn:
    """Name every scenario that could not be read, after the others have run."""
    for error in broken if out else ():
        unread: dict[str, object] = {
            "id": error.scenario,
            "passed": False,
            "unsupported": [str(error)],
            "mismatches": [],
            "observed": {},
        }
        print(json.dumps(unread, ensure_ascii=False), file=out)
    more = [f"... and {len(broken) - _TOLD} more"] if len(broken) > _TOLD else []
    raise ScenarioError("\n".join([*(str(error) for error in broken[:_TOLD]), *more]))


def _quiet_logs() -> None:
    # Here the command line is the application: the report says it all, and --json owns the standard output.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _settings(config: str | None) -> Settings | None:
    if config is None:
        return None
    from reliable_llm.config import load as load_settings

    return load_settings(config)


def _story(name: str | None) -> Scenario:
    return story(name or DEFAULT)


def _as_line(report: Report, out: TextIO) -> Report:
    print(json.dumps(report.as_json(), ensure_ascii=False, default=str), file=out)
    return report


def _told(scenario: Scenario, seed: int, settings: Settings | None, out: TextIO) -> Report:
    """Tell one scenario as it goes."""
    from reliable_llm.drill.html import picture_of

    teller = Teller(out, key_names(scenario.setup, settings))
    teller.line(scenario.title or scenario.id, "bold")
    if scenario.note:
        teller.line(scenario.note)
    teller.line()
    report = run_scenario(scenario, seed=seed, settings=settings, tell=teller.tell)
    if not report.unsupported:
        teller.line()
        teller.table(picture_of(report).calls)
        teller.line()
    _verdict(report, teller)
    if scenario.area == "story":
        teller.line(f"More stories: reliable-llm drill --story {'|'.join(names()[1:])}", "dim")
    return report


def _verdict(report: Report, teller: Teller) -> None:
    for said, notes in (
        ("cannot run", report.unsupported),
        ("differs", report.mismatches),
        ("unchecked", report.unchecked),
    ):
        for note in notes:
            teller.line(f"{said}: {note}", "bad")
    if report.passed:
        requests = sum(moment.what == "sent" for moment in report.moments)
        end = max((moment.at for moment in report.moments), default=0.0)
        outcome = "As expected" if report.compared else _answered(report)
        teller.line(f"{outcome}. {end:.0f} s of outage, {requests} requests, no network.", "good")


def _answered(report: Report) -> str:
    """Say how a set-up of the user's own came through: its figures are not the scenario's."""
    calls = [moment.what for moment in report.moments if moment.what in ("answered", "failed")]
    return f"{calls.count('answered')} of {len(calls)} calls were answered"


def _summed_up(report: Report, out: TextIO) -> Report:
    teller = Teller(out)
    state = "FAILS" if report.verdict == "fails" else report.verdict
    style = {"unsupported": "warn", "FAILS": "bad"}.get(state, "good")
    teller.line(f"{teller.styled(f'{state:<11}', style)} {report.scenario.id}  {report.scenario.title}")
    for note in [*report.unsupported, *report.mismatches, *report.unchecked]:
        teller.line(f"            {note}")
    return report


def _totals(reports: Sequence[Report], unread: int, out: TextIO) -> None:
    passed, unsupported = sum(r.passed for r in reports), sum(bool(r.unsupported) for r in reports)
    failed = len(reports) - passed - unsupported
    said = f"{passed} of {len(reports) + unread} {held(reports)}, {unsupported} unsupported, {failed} fail"
    Teller(out).line(f"{said}, {unread} cannot be read" if unread else said)


def _only(reports: Sequence[Report]) -> Report:
    if len(reports) == 1 and not reports[0].unsupported:
        return reports[0]
    raise ScenarioError(f"--svg draws one scenario that runs, got {len(reports)}: name one, or use --html for all")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ScenarioError(f"{path}: cannot be written ({exc.strerror}); choose another place") from exc
