"""The few lines at the end of a run: what was trained, how well, how fast and what next."""

import math
import shlex
from pathlib import Path
from typing import Any

from impala import wording
from impala.wording import count, duration, number, share

# Busier than idle by less than this, the learner tells nothing about how much it could carry.
LEAST_BUSY = 0.02


def summary(figures: dict[str, Any], reason: str, folder: Path) -> str:
    """The end of a run in words.

    ``figures`` are the last report's, with rates and shares of waiting of the whole run, and,
    where known, ``level_name``, ``agent_name``, ``num_actors`` and ``best_return``.
    """
    what = " on ".join(figures[key] for key in ("agent_name", "level_name") if key in figures)
    lines = [
        f"Ended: {reason}.",
        _row("trained", what) if what else "",
        _row("frames", f"{count(figures['environment_frames'])} in {_time(figures)}"),
        _row("mean raw return", _returns(figures)),
        *[_row("", f"{level} {number(value)}") for level, value in _levels(figures)],
        _row(
            "speed",
            f"{count(figures.get('frames_per_second'))} frames/s, "
            f"{count(figures.get('steps_per_second'))} agent steps/s",
        ),
        _row("limited by", _limit(figures)),
        _row("", carried(figures)),
        _row("in", str(folder)),
        _row("look", f"tensorboard --logdir {shlex.quote(str(folder))}"),
        _row("play", f"python experiment.py --mode=test {_flags(figures, folder)}"),
    ]
    return "\n".join(line for line in lines if line)


def carried(figures: dict[str, Any]) -> str:
    """How many actors the learner could carry, as far as this run can tell."""
    actors = figures.get("num_actors")
    learner, waited = figures.get("learner_wait_share"), figures.get("actor_wait_share")
    if actors is None or learner is None or waited is None:
        return ""
    busy = 1.0 - learner
    if busy < LEAST_BUSY:
        return "the learner was hardly busy: it could carry many times as many actors"
    many = max(1, math.floor(actors * (1.0 - waited) / busy + 0.5))
    one = "1 actor" if many == 1 else f"about {count(many)} actors"
    return (
        f"the learner was busy {share(busy)} of the time with {actors} actor"
        f"{'' if actors == 1 else 's'}: it could carry {one} like these, "
        "if each had cores of its own"
    )


def _row(name: str, text: str) -> str:
    return f"  {name:<16} {text}" if text else ""


def _time(figures: dict[str, Any]) -> str:
    return duration(figures.get("wall_time"))


def _returns(figures: dict[str, Any]) -> str:
    text = number(figures.get("mean_episode_return"))
    best = figures.get("best_return")
    return text if best is None else f"{text}, at best {number(best)}"


def _levels(figures: dict[str, Any]) -> list[tuple[str, float | None]]:
    return list(wording.by_level(figures).items())


def _limit(figures: dict[str, Any]) -> str:
    waits = (
        f"learner waits {share(figures.get('learner_wait_share'))}, "
        f"actors wait {share(figures.get('actor_wait_share'))}"
    )
    return f"{wording.limited_by(figures)} ({waits})"


def _flags(figures: dict[str, Any], folder: Path) -> str:
    flags = [f"--logdir={folder}"]
    if "level_name" in figures:
        flags.append(f"--level_name={figures['level_name']}")
    return shlex.join(flags)
