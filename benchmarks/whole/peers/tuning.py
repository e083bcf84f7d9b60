"""A peer's fastest way to do a work on this machine: searched once, and kept."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools import common
from benchmarks.whole.peers import running
from benchmarks.whole.peers.installing import folder_for
from benchmarks.whole.peers.known import Peer
from benchmarks.whole.peers.running import Progress
from trainer.machine import provenance
from trainer.storage.records import write_whole

LEAST_ROUNDS = 3  # ends of rounds, with two rounds between


def fastest(
    peer: Peer, python: Path, work: Mapping[str, Any], tune_s: float, log: Path
) -> dict[str, Any]:
    """The way with the most steps a second, each tried for ``tune_s``; ``Failed`` if one fails."""
    if not peer.ways:
        return {}
    kept = folder_for(peer) / "fastest.json"
    try:
        known = json.loads(kept.read_text())
    except (OSError, ValueError):
        known = {}
    asked = [provenance.machine(), tune_s, dict(peer.ways), {**work, "seed": 0}]
    key = json.dumps(asked, sort_keys=True)
    if key not in known:
        known[key] = _searched(peer, python, work, tune_s, log)
        try:
            write_whole(kept, json.dumps(known, indent=1).encode())
        except OSError as error:
            common.progress(
                f"{kept} cannot be written ({error.strerror}); the next run searches again"
            )
    return known[key]


def in_words(way: Mapping[str, Any]) -> str:
    """A way as a table shows it."""
    return " ".join(f"{name}={value}" for name, value in way.items())


def _steady(points: Sequence[Progress]) -> Sequence[Progress]:
    """Ends of updates from the middle on, as a start takes a while; of rounds, if there are some.

    A round is of playing and learning: a piece of one may hold less of the one than of the other.
    """
    updates = [one for before, one in itertools.pairwise(points) if one.steps > before.steps]
    rounds = [point for point in points if point.is_round]
    found, later = (some[len(some) // 2 :] for some in (updates, rounds))
    return later if len(later) >= LEAST_ROUNDS else found


def _searched(
    peer: Peer, python: Path, work: Mapping[str, Any], tune_s: float, log: Path
) -> dict[str, Any]:
    rates: dict[tuple[Any, ...], float] = {}
    for values in itertools.product(*peer.ways.values()):
        way = dict(zip(peer.ways, values, strict=True))
        points = running.watch(peer, python, {**work, **way}, tune_s, log)
        half = _steady(points)
        passed = half[-1].seconds - half[0].seconds if half else 0.0
        rates[values] = (half[-1].steps - half[0].steps) / passed if passed else 0.0
        told = f"{rates[values]:,.0f} steps/s" if passed else f"not two updates in {tune_s:g} s"
        common.progress(f"{peer.name}, {in_words(way)}: {told}")
    best = max(rates, key=rates.__getitem__)
    if not rates[best]:
        raise running.Failed(f"no way made two updates within --tune_s={tune_s:g}; give it longer")
    return dict(zip(peer.ways, best, strict=True))
