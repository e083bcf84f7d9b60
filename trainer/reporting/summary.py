"""The summary at the end of a run: what was trained, how well, how fast, and what to do next."""

import math
import shlex
from pathlib import Path
from typing import Any

from trainer.machine.launching import beside_python, script_command
from trainer.reporting import wording
from trainer.reporting.wording import count, duration, number, percent
from trainer.storage.checkpoints import Store, folder_of

# A learner that was busy for less of the time allows no estimate of its capacity.
LEAST_BUSY = 0.02
# At or above this, nothing is gained by keeping the cores busier.
ALL_BUSY = 0.9


def summary(figures: dict[str, Any], reason: str, folder: Path) -> str:
    """The summary of a run, several lines.

    ``figures`` are the last report's, with rates and waiting times of the whole run, and,
    if known, ``level_name``, ``agent_name``, ``job_name``, ``num_actors`` and ``best_return``.
    """
    what = " on ".join(figures[key] for key in ("agent_name", "level_name") if key in figures)
    lines = [
        f"Ended: {reason}.",
        _row("trained", what) if what else "",
        _row(
            "frames",
            f"{count(figures['environment_frames'])} in {duration(figures.get('wall_time'))}",
        ),
        _row("mean raw return", _returns(figures)),
        *[
            _row("", f"{level} {number(value)}")
            for level, value in wording.by_level(figures).items()
        ],
        _row(
            "speed",
            f"{count(figures.get('frames_per_second'))} frames/s, "
            f"{count(figures.get('steps_per_second'))} agent steps/s",
        ),
        _row("limited by", _limit(figures)),
        _row("", advice(figures)),
        _row("", actors_handled(figures)),
        _row("in", str(folder)),
        _row("look", shlex.join([beside_python("tensorboard"), "--logdir", str(folder)])),
        _row(
            "play",
            shlex.join([*script_command("experiment.py"), "--mode=test", *_flags(figures, folder)]),
        )
        if figures.get("updates", 1) or Store(folder_of(folder), 1).numbered()
        else _row("", "there was no update, so there is no checkpoint"),
    ]
    return "\n".join(line for line in lines if line)


def actors_handled(figures: dict[str, Any]) -> str:
    """An estimate of how many actors the learner could handle."""
    actors = figures.get("num_actors")
    learner, waited = figures.get("learner_wait_share"), figures.get("actor_wait_share")
    if not actors or learner is None or waited is None:
        return ""
    busy = 1.0 - learner
    if busy < LEAST_BUSY:
        return "the learner was hardly busy: it could handle many times as many actors"
    many = max(1, math.floor(actors * (1.0 - waited) / busy + 0.5))
    one = "1 actor" if many == 1 else f"about {count(many)} actors"
    name = "the first learner" if "team_wait_share" in figures else "the learner"
    played = "1 actor" if round(actors, 1) == 1 else f"{round(actors, 1):g} actors"
    return (
        f"{name} was busy {percent(busy)} of the time with {played}: it could handle {one} like "
        "these, if each had cores of its own"
    )


def advice(figures: dict[str, Any]) -> str:
    """What would make such a run faster; see docs/performance.md."""
    limit, cores = wording.limited_by(figures), figures.get("cores_busy_share")
    local = figures.get("job_name") == "local"
    if limit == wording.NONE or cores is None:
        return ""
    if cores >= ALL_BUSY:
        return "all cores are busy: cheaper steps or more cores would help, more threads would not"
    if limit == wording.ACTORS:
        more = "more --env_threads, --num_actors or --envs_per_actor" if local else "more actors"
        return f"cores are idle: {more} would make it faster"
    if limit == wording.LEARNER:
        faster = "a cheaper update, or a GPU where there is none,"
        return f"{faster} would make it faster; more actors would not"
    if limit == wording.TEAM:
        return "learners wait for the slowest one, or for the network between them"
    return "neither side waits much for the other: both have to get faster"


def _row(name: str, text: str) -> str:
    return f"  {name:<16} {text}" if text else ""


def _returns(figures: dict[str, Any]) -> str:
    text = number(figures.get("mean_episode_return"))
    best = figures.get("best_return")
    return text if best is None else f"{text}, at best {number(best)}"


def _limit(figures: dict[str, Any]) -> str:
    fractions = {
        "learner waits": figures.get("learner_wait_share"),
        "actors wait": figures.get("actor_wait_share"),
        "waits for other learners": figures.get("team_wait_share"),
        "cores busy": figures.get("cores_busy_share"),
    }
    known = [f"{name} {percent(value)}" for name, value in fractions.items() if value is not None]
    limit = wording.limited_by(figures)
    return f"{limit} ({', '.join(known)})" if known else limit


def _flags(figures: dict[str, Any], folder: Path) -> list[str]:
    flags = [f"--logdir={folder}"]
    if "level_name" in figures:
        flags.append(f"--level_name={figures['level_name']}")
    return flags
