"""Names and formats of figures where people read them: panel, lines and summary."""

from collections.abc import Sequence
from typing import Any

from algorithms.figures import Figure

NONE = "–"

# Printed after the first update; benchmarks wait for these words.
FIRST_UPDATE = "First update"
ACTORS = "actors (emulation + inference)"
LEARNER = "learner"
TEAM = "other learners"
BALANCED = "balanced"

# If their fractions of waiting differ by no more, neither learner nor actors are the bottleneck.
BALANCED_WITHIN = 0.15

Figures = dict[str, Any]


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return NONE if value is None else f"{value:,.0f}"


def number(value: float | None) -> str:
    """A number with about four digits."""
    if value is None:
        return NONE
    size = abs(value)
    if size == 0 or 0.001 <= size < 10:
        return f"{value:.3f}"
    if size < 0.001 or size >= 1e7:
        return f"{value:.1e}"
    return f"{value:.1f}" if size < 1000 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A fraction as a percentage."""
    return NONE if value is None else f"{100 * value:.0f}%"


def progress(value: float | None) -> str:
    """How much of the run is done; 100% only when all of it is."""
    return NONE if value is None else f"{min(100.0, int(1000 * value) / 10):.1f}%"


def duration(seconds: float | None) -> str:
    """A span of time in its two largest units."""
    if seconds is None:
        return NONE
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days} d {hours_left:02d} h"
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def limited_by(figures: Figures) -> str:
    """The bottleneck, from the fractions of time that learner and actors waited for each other."""
    learner, actors = figures.get("learner_wait_share"), figures.get("actor_wait_share")
    if learner is None or actors is None:
        return NONE
    if figures.get("team_wait_share", 0.0) > learner + BALANCED_WITHIN:
        return TEAM
    if abs(learner - actors) <= BALANCED_WITHIN:
        return BALANCED
    return ACTORS if learner > actors else LEARNER


def by_level(figures: Figures) -> dict[str, float | None]:
    """The mean raw return of each level, where a run has several."""
    prefix = "mean_episode_return/"
    return {
        name.removeprefix(prefix): value
        for name, value in figures.items()
        if name.startswith(prefix)
    }


def among_learners(figures: Figures) -> list[tuple[str, str]]:
    """What learners that exchange gradients report of each other."""
    if not figures.get("learners_reached"):
        return []
    return [
        ("learners", count(figures["learners_reached"])),
        ("apart", percent(figures.get("learners_apart"))),
        ("gradients not sent", count(figures.get("gradients_not_sent"))),
    ]


def line(figures: Figures, total_frames: int, reported: Sequence[Figure]) -> str:
    """A report as one line, with the same column widths in every report."""
    frames = figures.get("environment_frames", 0)
    columns = [
        ("frames", count(frames), len(count(total_frames))),
        ("of all", progress(frames / total_frames), 6),
        ("frames/s", count(figures.get("frames_per_second")), 7),
        ("agent steps/s", count(figures.get("steps_per_second")), 7),
        ("time left", duration(figures.get("time_left")), 11),
        ("mean raw return", number(figures.get("mean_episode_return")), 7),
        ("episodes", count(figures.get("episodes")), 7),
        ("policy lag", number(figures.get("policy_lag")), 6),
        ("learner waits", percent(figures.get("learner_wait_share")), 4),
        ("actors wait", percent(figures.get("actor_wait_share")), 4),
        ("total loss", number(figures.get("total_loss")), 8),
        *((one.label, number(figures.get(one.name)), 6) for one in reported if one.in_line),
        ("gradient norm", number(figures.get("gradient_norm")), 6),
    ]
    parts = [f"{name} {text:>{width}}" for name, text, width in columns]
    parts += [f"{level} {number(value)}" for level, value in by_level(figures).items()]
    parts += [f"{name} {text}" for name, text in among_learners(figures)]
    if figures.get("skipped_updates"):
        parts.append(f"skipped updates {count(figures['skipped_updates'])}")
    parts.append(f"limited by: {limited_by(figures)}")
    return "  ".join(parts)
