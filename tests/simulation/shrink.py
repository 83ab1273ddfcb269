"""Takes a failing world apart until every piece left is needed to fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.simulation.run import simulate
from tests.simulation.world import Deed, Site, World

T = TypeVar("T")

MOST_RUNS = 400


def shrunk(world: World, rule: str) -> World:
    """Return a smaller world that breaks *rule* too: fewer callers, meddlings and deeds."""
    left = MOST_RUNS

    def fails(smaller: World) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and simulate(smaller).rule == rule

    before = None
    while world != before and left > 0:
        before = world
        world = replace(world, asks=_fewer(world.asks, lambda asks, w=world: fails(replace(w, asks=asks))))
        world = replace(world, meddlings=_fewer(world.meddlings, lambda m, w=world: fails(replace(w, meddlings=m))))
        for index, site in enumerate(world.sites):
            world = _simpler_site(world, index, site, fails)
    return world


def _simpler_site(world: World, index: int, site: Site, fails: Callable[[World], bool]) -> World:
    def with_deeds(deeds: tuple[Deed, ...]) -> World:
        sites = list(world.sites)
        sites[index] = replace(site, deeds=deeds)
        return replace(world, sites=tuple(sites))

    return with_deeds(_fewer(site.deeds, lambda deeds: fails(with_deeds(deeds))))


def _fewer(items: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Drop runs of items, long ones first, while it still fails."""
    size = len(items)
    while size:
        at = 0
        while at < len(items):
            rest = items[:at] + items[at + size :]
            if fails(rest):
                items = rest
            else:
                at += size
        size //= 2
    return items


def story(world: World) -> str:
    """Return the world in words, for somebody who has to find out why."""
    retry, recovery = world.retry, world.recovery
    lines = [
        f"seed {world.seed}, {'real SDKs' if world.wired else 'scripted adapters'}",
        f"  {retry}",
        f"  {recovery}",
        *([f"  {world.budget}"] if world.budget else []),
        *([f"  {world.hedge}"] if world.hedge else []),
    ]
    lines += [line for site in world.sites for line in _of_site(site)]
    lines += [f"  t={each.at:g}: {each.what} {each.provider or 'all'} {each.seconds:g}" for each in world.meddlings]
    lines += [f"  {_words(ask)}" for ask in world.asks]
    return "\n".join(lines)


def _of_site(site: Site) -> Sequence[str]:
    head = f"  {site.name} ({site.protocol}): {site.keys} keys, models {', '.join(site.models)}"
    head += f", max_concurrency {site.max_concurrency}" if site.max_concurrency else ""
    return [head, *(f"    {number}. {deed}" for number, deed in enumerate(site.deeds, 1))]


def _words(ask: object) -> str:
    told = {name: getattr(ask, name) for name in ask.__slots__}  # type: ignore[attr-defined]
    usual = {"failover": True, "on_interrupt": "raise"}
    return ", ".join(f"{k}={v!s}" for k, v in told.items() if v not in (None, False, 0.0, ()) and usual.get(k) != v)
