"""How lag costs a player: Catch over VNC, with lag added, beside what the games have seen.

    python -m sandbox.study_lag [--lags=0,40,150] [--seconds=150] [--remotes=8]
        [--out=docs/studies/lag] [--smoke]

The player follows the ball: without lag it catches almost every one. So what it loses, it loses to
lag. After each lag the study writes OUT.json, OUT.csv and OUT.png, and prints a line. Lags that are
in OUT.json already are not played again: the same command goes on where it was.

The truth comes from the remotes: each notes when it drew a picture, when a key arrived and how an
episode ended. The only thing that is taken from the client is which picture it acted on.
"""

import collections
import contextlib
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import flags
from benchmarks.tools import common
from environments import View
from environments.realtime import environment as realtime
from environments.realtime import levels, stamp
from environments.realtime.keeping import StartedHere
from environments.realtime.link import Link
from environments.realtime.seat import Row, Seat, observation_lag
from sandbox import studies
from user_error import EndedOutside, UserError, exit_code

LEVEL, FPS = "vnc:Catch-v0", 10
COLUMNS = (
    *("lag_ms", "episodes", "mean_return", "return_error", "reaction_ms", "true_reaction_ms"),
    *("observation_lag_ms", "thinking_ms", "action_lag_ms", "keys", "wrong_episodes"),
    "one_sided_episodes",
)
SMOKE = {"lags": "40", "seconds": "8", "remotes": 2, "out": "logs/studies/lag-smoke"}


class Watched:
    """What the client did, noted beside its own code."""

    def __init__(self) -> None:
        self.acted_on: dict[Link, float] = {}
        self.pressed: dict[tuple[Link, float], float] = {}
        self.keys: dict[Link, list[float]] = collections.defaultdict(list)
        self.returns: dict[str, float] = collections.defaultdict(float)
        self.over: set[str] = set()

    def __enter__(self) -> "Watched":
        self._kept: Any = (Link.press, Link._key, Seat._play, realtime.observation_lag)
        press, key, play, _ = self._kept

        def watched_press(link: Link, action: Any, sent_at: float) -> None:
            # The keys themselves may leave several ticks later.
            self.pressed[link, sent_at] = self.acted_on.get(link, float("nan"))
            press(link, action, sent_at)

        def watched_key(link: Link, name: str, down: bool, sent_at: float) -> None:
            self.keys[link].append(self.pressed[link, sent_at])
            key(link, name, down, sent_at)

        def watched_play(seat: Seat, snapshot: Any, now: float) -> Row:
            row: Row = play(seat, snapshot, now)
            self.returns[seat._episode] += row.reward
            if row.over:
                self.over.add(seat._episode)
                # Keys are released then, which answers no picture.
                self.acted_on[seat.link] = float("nan")  # type: ignore[index]
            return row

        def watched_age(snapshot: Any, link: Link, now: float) -> float:
            self.acted_on[link] = float("nan") if snapshot.drawn is None else snapshot.drawn
            return observation_lag(snapshot, link, now)

        for owner, name, new in (
            (Link, "press", watched_press),
            (Link, "_key", watched_key),
            (Seat, "_play", watched_play),
            (realtime, "observation_lag", watched_age),
        ):
            setattr(owner, name, new)
        return self

    def __exit__(self, *_: object) -> None:
        Link.press, Link._key, Seat._play, realtime.observation_lag = self._kept  # type: ignore[method-assign]


def follow(pictures: np.ndarray) -> np.ndarray:
    """The actions that move each paddle towards its ball; pictures are [N, 10, 10, 1]."""
    actions = []
    for picture in pictures[..., 0]:
        paddle, ball = (np.flatnonzero((picture == shade).any(axis=0)) for shade in (160, 255))
        known = len(paddle) and len(ball)
        actions.append(1 + int(np.sign(ball[0] - paddle[0])) if known else 1)
    return np.array(actions)


def play(lag_ms: float, seconds: float, remotes: int) -> dict[str, Any]:
    """Plays for a while with so much lag; returns a row of the table."""
    view = View(width=10, height=10, fps=FPS)
    with tempfile.TemporaryDirectory() as folder, Watched() as watched:
        records = [Path(folder) / f"{index}" for index in range(remotes)]
        flags = ["--level_name=Catch-v0", f"--fps={FPS}"]
        sources = [
            StartedHere([*flags, f"--seed={seed}", f"--record={record}"])
            for seed, record in enumerate(records)
        ]
        level = levels.RealTimeLevel("Catch-v0")
        env = realtime.RealTimeEnvironment(
            levels.spec(level, LEVEL, view),
            levels.game(level, view).actions,
            view,
            FPS,
            sources,
            lag_ms,
            0,
            print,
        )
        with contextlib.closing(env):
            figures, episodes, links = _played(env, seconds)
        true = [_reactions(*pair, watched) for pair in zip(records, links, strict=True)]
        wrong, one_sided = _differing(records, watched)
    returns = [episode.raw_return for episode in episodes]
    if len(returns) < 2:
        raise UserError(f"--seconds={seconds:g}: too short, only {len(returns)} episodes ended.")
    mean = {name: float(np.nanmean(values)) for name, values in figures.items()}
    return {
        "lag_ms": lag_ms,
        "episodes": len(returns),
        "mean_return": statistics.mean(returns),
        "return_error": statistics.stdev(returns) / len(returns) ** 0.5,
        "reaction_ms": mean["reaction_time"],
        # Each remote counts alike, as in reaction_ms: the later one is seen, the more keys it gets.
        "true_reaction_ms": float(np.nanmean([np.nanmean(ones) for ones in true if ones])),
        "observation_lag_ms": mean["observation_lag"],
        "thinking_ms": mean["thinking_time"],
        "action_lag_ms": mean["action_lag"],
        "keys": sum(map(len, true)),
        "wrong_episodes": wrong,
        "one_sided_episodes": one_sided,
    }


def _played(
    env: realtime.RealTimeEnvironment, seconds: float
) -> tuple[dict[str, list[float]], list[Any], list[Link]]:
    """The figures of each tick, the episodes that ended, and the links to the remotes."""
    step = env.reset()
    links = [seat.link for seat in env._seats if seat.link]
    figures: dict[str, list[float]] = collections.defaultdict(list)
    episodes: list[Any] = []
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        step = env.step(follow(step.observation))
        # Another one notes in the same record: its keys are not those of the first one's link.
        if links != [seat.link for seat in env._seats]:
            raise EndedOutside(
                "a remote was lost while it was measured; the same command plays this lag again."
            )
        episodes += env.episodes()
        for name, values in env.figures().items():
            figures[name] += values.tolist()
    return figures, episodes, links


def _lines(record: Path, what: str) -> list[dict[str, Any]]:
    lines = map(json.loads, record.read_text().split("\n")[:-1])
    return [line for line in lines if line["what"] == what]


def _reactions(record: Path, link: Link, watched: Watched) -> list[float]:
    """From the picture that was acted on to the key's arrival, by the remote's clock alone."""
    keys = [line["at"] for line in _lines(record, "key")]
    # Both in order; at the end, a key may not have arrived, or not have been noted.
    pairs = zip(keys, watched.keys[link], strict=False)
    return [stamp.since(at, drawn) for at, drawn in pairs][5:]


def _differing(records: Sequence[Path], watched: Watched) -> tuple[int, int]:
    """Episodes whose return differs between client and remotes; those that one side saw end.

    A remote plays before the first and after the last one that the client takes part in.
    """
    over: dict[str, float] = {}
    for record in records:
        lines = _lines(record, "over")
        seen = [index for index, line in enumerate(lines) if line["episode"] in watched.over]
        lines = lines[seen[0] : seen[-1] + 1] if seen else lines
        over |= {line["episode"]: line["raw_return"] for line in lines}
    wrong = sum(over[one] != watched.returns[one] for one in over.keys() & watched.over)
    return wrong, len(over.keys() ^ watched.over)


def main() -> int:
    """Runs the study; returns the exit code."""
    common.unwind_when_stopped()
    return exit_code("study_lag", _study)


def _study() -> None:
    parser = flags.empty_parser("python -m sandbox.study_lag", __doc__ or "")
    parser.add_argument(
        "--lags", default="0,40,150", help="milliseconds, with commas between (default: 0,40,150)"
    )
    parser.add_argument(
        "--seconds", default="150", help="for each lag, or one number for each (default: 150)"
    )
    parser.add_argument("--remotes", type=int, default=8, help="desktops (default: 8)")
    parser.add_argument(
        "--out", default="docs/studies/lag", help="OUT.csv, .json, .png (default: docs/studies/lag)"
    )
    parser.add_argument("--smoke", action="store_true", help="only check that it works, in seconds")
    if "--smoke" in sys.argv[1:]:
        parser.set_defaults(**SMOKE)
    given = parser.parse_args()
    lags, seconds = _numbers("--lags", given.lags), _numbers("--seconds", given.seconds)
    if given.remotes < 1:
        raise UserError(f"--remotes={given.remotes}: must be 1 or more.")
    out = studies.place(given.out)
    if len(seconds) not in (1, len(lags)):
        raise UserError(
            f"--seconds={given.seconds}: {len(seconds)} numbers for {len(lags)} lags; expected one "
            "for all, or one for each."
        )
    rows, commands = ([], []) if given.smoke else _played_before(out, given.remotes)
    known = {row["lag_ms"] for row in rows}
    longs = seconds * (len(lags) if len(seconds) == 1 else 1)
    left = [(lag, long) for lag, long in zip(lags, longs, strict=True) if lag not in known]
    if known.intersection(lags):
        there = ", ".join(f"{lag:g}" for lag in lags if lag in known)
        print(f"{out}.json has lags of {there} ms; another --out plays them again")
    if not left:
        if not studies.file(out, "png").exists():  # there was no room for all files
            _write(out, given.remotes, rows, commands)
        return
    commands.append(" ".join(sys.argv[1:]))
    for lag, long in left:
        rows.append(play(lag, long, given.remotes))
        print("  ".join(f"{name} {rows[-1][name]:.4g}" for name in COLUMNS), flush=True)
        _write(out, given.remotes, rows, commands)


def _played_before(out: Path, remotes: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows that are in OUT.json already, and the commands that they are of."""
    path = studies.file(out, "json")
    if not path.exists():
        return [], []
    try:
        about = json.loads(path.read_text())
        rows, commands, was = about["rows"], about["command"], (about["remotes"], about["fps"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"--out={out}: {path} is not of this study; give another.") from None
    if was != (remotes, FPS):
        raise UserError(
            f"--remotes={remotes}: {path} was played with {was[0]} at {was[1]} frames a "
            f"second, now {FPS}. Give these, or another --out."
        )
    return rows, [commands] if isinstance(commands, str) else commands


def _write(out: Path, remotes: int, rows: list[dict[str, Any]], commands: list[str]) -> None:
    rows = sorted(rows, key=lambda row: row["lag_ms"])
    about = {"command": commands, "remotes": remotes, "fps": FPS, "rows": rows}
    cells = [[row.get(name, "") for name in COLUMNS] for row in rows]  # older ones have fewer
    studies.write(out, about, COLUMNS, cells, lambda: _draw(rows))


def _numbers(flag: str, given: str) -> list[float]:
    try:
        found = [float(one) for one in given.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 <= one < math.inf for one in found):
        raise UserError(
            f"{flag}={given}: expected numbers from 0 with commas between, as in 0,40,150."
        )
    return found


def _draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    xs = [row["reaction_ms"] for row in rows]
    errors = [2 * row["return_error"] for row in rows]
    axes.errorbar(xs, [row["mean_return"] for row in rows], errors, marker="o", capsize=3)
    for row, x in zip(rows, xs, strict=True):
        axes.annotate(
            f"+{row['lag_ms']:g} ms", (x, row["mean_return"]), (4, 6), textcoords="offset points"
        )
    axes.margins(x=0.15)
    axes.set(xlabel="reaction_time (ms)", ylabel="mean return", ylim=(-1.05, 1.15))
    axes.grid(alpha=0.3)
    return figure


if __name__ == "__main__":
    sys.exit(main())
