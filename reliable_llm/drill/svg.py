"""The timeline of one drill as a picture that stands alone, light and dark: for a README or a slide."""

from __future__ import annotations

import html
from importlib import resources
from typing import Final

from reliable_llm.drill.html import LEGEND, class_of, picture_of, timeline
from reliable_llm.drill.picture import Picture
from reliable_llm.drill.runner import Report

_HEAD: Final = 34.0
_FOOT: Final = 30.0
_LEFT: Final = 20.0


def svg(report: Report) -> str:
    """Return the picture of *report*; the same drill with the same seed gives the same bytes."""
    picture = picture_of(report)
    width, height, marks = timeline(picture)
    title = html.escape(report.scenario.title or report.scenario.id)
    size = f"{width:.0f} {height + _HEAD + _FOOT:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" aria-label="{title}">\n'
        f"<style>{_style()}.title {{ fill: var(--ink); font-size: 15px; font-weight: 600; }}\n"
        f".said {{ fill: var(--soft); }}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="var(--card)"/>\n'
        f'<text class="title" x="{_LEFT}" y="24">{title}</text>\n'
        f'<g transform="translate(0 {_HEAD:.0f})">{marks}</g>\n'
        f'<g transform="translate({_LEFT} {height + _HEAD + 12:.0f})">{_legend(picture)}</g>\n</svg>\n'
    )


def _style() -> str:
    """Return the report's own colours, so that both look alike."""
    page = resources.files("reliable_llm.drill").joinpath("report.html").read_text(encoding="utf-8")
    return page.split("<style>")[1].split("</style>")[0]


def _legend(picture: Picture) -> str:
    seen = {class_of(each) for each in [*(bar.kind for bar in picture.bars), *(band.reason for band in picture.bands)]}
    drawn, x = [], 0.0
    for name, said in (*LEGEND, ("band", "a band: left alone")):
        if name in seen or name == "band":
            colour = "left" if name == "band" else name
            drawn.append(
                f'<rect class="{"band" if name == "band" else "bar"} {colour}" x="{x:.0f}" width="10" height="10"/>'
            )
            drawn.append(f'<text class="said" x="{x + 15:.0f}" y="9">{said}</text>')
            x += 40 + 6.2 * len(said)
    return "".join(drawn)
