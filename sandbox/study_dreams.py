"""Learning in a world model beside learning from real steps alone, with as many real steps.

    python -m sandbox.study_dreams [--level=KungFuMasterNoFrameskip-v4] [--seeds=1,2,3]
        [--games=30] [--logdir=logs/dreams] [--out=docs/studies/dreams] [--smoke]

One training after the other, each in LOGDIR/WAY-SEED: the preset simple_cpu, and with the real
steps that it takes PPO as in its dreams, PPO as usual for Atari, and IMPALA. Each policy then plays
so many whole games. What has been trained and played is kept: the same command goes on where it
was.

What it writes: OUT.csv with a row for each policy, OUT.json with machine, command and all curves,
OUT.png. The table is printed in Markdown.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flags
from benchmarks.tools import common
from lab.results import tables
from sandbox import studies
from trainer.machine.launching import PROJECT
from trainer.machine.provenance import machine, versions
from trainer.settings import config
from trainer.storage.records import SETTINGS, read_metrics
from user_error import UserError, exit_code
from world_models import schedule

MODEL = "simple_cpu"
WAYS: Mapping[str, Sequence[str]] = {
    MODEL: ["--preset=simple_cpu"],
    "ppo_as_in_dreams": [
        *("--algorithm=ppo", "--agent_name=SimpleConvNetAgent", "--epochs=3", "--minibatches=4"),
        *("--width=42", "--height=42", "--frame_stack=4", "--learning_rate=0.0005"),
        *("--num_actors=1", "--envs_per_actor=16", "--unroll_length=15", "--batch_size=16"),
        *("--entropy_cost=0.01", "--report_every_s=1"),
    ],
    "ppo": ["--preset=ppo_atari", "--report_every_s=1"],
    "impala": ["--report_every_s=1"],
}
SMOKE = {
    "level": "Catch-v0",
    "seeds": "1",
    "games": 4,
    "logdir": "logs/dreams-smoke",
    "out": "logs/dreams-smoke/dreams",
}
SMOKE_MODEL = ["--preset=rlmb_tiny"]
SMOKE_SIZE = ["--width=42", "--height=42"]  # as of that model: whole pictures take long to learn


class Training(NamedTuple):
    """One way with one seed, in a folder of its own."""

    way: str
    seed: int
    flags: Sequence[str]
    folder: Path

    def play(self, level: str, games: int) -> dict[str, Any]:
        """What the trained policy gets in whole games; trains and plays if that is not done."""
        done = self._policy / "evaluation.json"
        if not done.exists():
            _experiment(*self.flags, f"--seed={self.seed}", f"--logdir={self.folder}")
            self._check_end()
            self._play_games(level, games)
        played = self._played(level)
        if played["episodes"] < games:  # as an earlier call has asked for
            self._play_games(level, games)
        return self._played(level)

    def reports(self) -> list[dict[str, Any]]:
        """What the training has reported."""
        return read_metrics(self.folder)

    def _play_games(self, level: str, games: int) -> None:
        _experiment(
            *("--mode=test", f"--test_num_episodes={games}"),
            *(f"--logdir={self._policy}", f"--level_name={level}"),
        )

    def _played(self, level: str) -> dict[str, Any]:
        done = self._policy / "evaluation.json"
        levels: dict[str, dict[str, Any]] = json.loads(done.read_text())["levels"]
        if level not in levels:
            raise UserError(
                f"--level={level}: {done} is of {', '.join(levels)}. Give that level, or another "
                "--logdir."
            )
        return levels[level]

    @property
    def _policy(self) -> Path:
        """The folder of the policy's training."""
        return self.folder / "policy" if self.way == MODEL else self.folder

    def _check_end(self) -> None:
        """Refuses a training that was stopped from outside: it ends with code 0, too."""
        settings = config.from_record(json.loads((self.folder / SETTINGS).read_text()))
        if self.way == MODEL:
            totals = schedule.totals(settings.algorithm)
            ends = [
                (self.folder, "real_steps", totals["collect"]),
                (self._policy, "agent_steps", totals["policy"]),
            ]
        else:
            frames = settings.learning.total_environment_frames
            ends = [(self.folder, "environment_frames", frames)]
        for folder, name, total in ends:
            reports = read_metrics(folder)
            done = reports[-1].get(name, 0) if reports else 0
            if done < total:
                raise UserError(
                    f"the training above was stopped: {folder} has {name} {done:,} of {total:,}; "
                    "the same command goes on."
                )


def _experiment(*flags: str) -> None:
    command = [sys.executable, str(PROJECT / "experiment.py"), *flags]
    print(f"== {shlex.join(command[1:])}", flush=True)
    # Ctrl-C is for this process, which passes it on once: a second signal would end it unsaved.
    with_parent = ["setpriv", "--pdeathsig", "TERM"]  # however this one ends
    with subprocess.Popen([*with_parent, *command], process_group=0) as training:
        try:
            code = training.wait()
        except BaseException:
            training.terminate()
            training.wait()
            raise
    if code:
        raise UserError(f"the training above ended with code {code}; the same command goes on.")


def by_real_steps(reports: Sequence[Mapping[str, Any]], every: int) -> list[tuple[int, float]]:
    """Real agent steps, and the mean return of the games that ended in the ``every`` before them.

    Those reports count that are of a hundred games at most, so that sums of returns can be told.
    """
    points, seen, summed, border = [], 0, 0.0, every
    for report in reports:
        steps, games = report["agent_steps"], report["episodes"]
        if steps < border or games > report["recent_episodes"]:
            continue
        border += every
        if games > seen:
            total = report["mean_episode_return"] * games
            points.append((steps, (total - summed) / (games - seen)))
            seen, summed = games, total
    return points


def curve_of(way: str, reports: Sequence[Mapping[str, Any]], every: int) -> list[tuple[int, float]]:
    """The curve of a run over its real steps."""
    if way != MODEL:
        return by_real_steps(reports, every)
    returns = [(row["real_steps"], row.get("mean_episode_return")) for row in reports]
    return [(steps, value) for steps, value in returns if value is not None]


def minutes_of(way: str, reports: Sequence[Mapping[str, Any]]) -> float:
    """How long a run took; of the one with a model, what it learned: real play takes seconds."""
    if way != MODEL:
        return float(reports[-1]["wall_time"]) / 60
    parts = ("model_seconds", "policy_seconds")
    return float(sum(row.get(part, 0) for row in reports for part in parts)) / 60


def study(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains and plays; returns a row for each policy."""
    rows: list[dict[str, Any]] = []
    for seed in map(int, given.seeds.split(",")):
        frames = steps = every = 0
        for way, settings in WAYS.items():
            chosen = SMOKE_MODEL if given.smoke and way == MODEL else settings
            flags = [*chosen, f"--level_name={given.level}"]
            if way != MODEL:
                flags.append(f"--total_environment_frames={frames}")
                flags.extend(SMOKE_SIZE if given.smoke else ())
            training = Training(way, seed, flags, Path(given.logdir) / f"{way}-{seed}")
            played = training.play(given.level, given.games)
            reports = training.reports()
            if way == MODEL:
                frames = reports[-1]["environment_frames"]
                steps, every = reports[-1]["real_steps"], reports[0]["real_steps"]
            rows.append(
                {
                    "way": way,
                    "seed": seed,
                    "real_steps": reports[-1].get("agent_steps", steps),
                    "minutes": round(minutes_of(way, reports), 1),
                    "games": played["episodes"],
                    "mean_return": played["mean"],
                    "low": played["interval_of_mean"][0],
                    "high": played["interval_of_mean"][1],
                    "curve": curve_of(way, reports, every),
                }
            )
    return rows


def draw(rows: Sequence[Mapping[str, Any]], level: str) -> Any:
    """A line for each training, and at the end what its policy got in whole games."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    last = max(row["real_steps"] for row in rows)
    for at, way in enumerate(WAYS):
        own = [row for row in rows if row["way"] == way]
        for number, row in enumerate(own):
            color = f"C{at}"
            if row["curve"]:
                axes.plot(*zip(*row["curve"], strict=True), color=color, alpha=0.55, marker=".")
            mean = row["mean_return"]
            axes.errorbar(
                last * (1.03 + 0.07 * at + 0.018 * number),
                mean,
                [[mean - row["low"]], [row["high"] - mean]],
                color=color,
                marker="o",
                capsize=3,
                label=way if not number else None,
            )
    axes.set(
        title=f"{level}: games while learning; at the right, {rows[0]['games']} with the policy",
        xlabel="real agent steps",
        ylabel="mean return of games",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def write(out: Path, given: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes all files, prints the table."""
    short = [{name: one for name, one in row.items() if name != "curve"} for row in rows]
    columns = list(short[0])
    command = shlex.join(["python", "-m", "sandbox.study_dreams", *sys.argv[1:]])
    about = {"command": command, "machine": machine(), "versions": versions(), "rows": rows}
    cells = [list(row.values()) for row in short]
    studies.write(out, about, columns, cells, lambda: draw(rows, given.level))
    print(tables.markdown(columns, short))
    print(f"Written: {out}.csv, {out}.png, {out}.json")


def main() -> int:
    """Runs the study; returns the exit code."""
    common.unwind_when_stopped()
    return exit_code("study_dreams", _study)


def _study() -> None:
    parser = flags.empty_parser("python -m sandbox.study_dreams", __doc__ or "")
    parser.add_argument(
        "--level", default="KungFuMasterNoFrameskip-v4", help="an Atari game (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", default="1,2,3", help="with commas between (default: %(default)s)"
    )
    parser.add_argument("--games", type=int, default=30, help="of each policy (default: 30)")
    parser.add_argument("--logdir", default="logs/dreams",
                        help="where trainings are kept (default: %(default)s)")  # fmt: skip
    parser.add_argument("--out", default="docs/studies/dreams",
                        help="OUT.csv, .json, .png (default: %(default)s)")  # fmt: skip
    parser.add_argument("--smoke", action="store_true", help="only see that it works, in a minute")
    if "--smoke" in sys.argv[1:]:
        parser.set_defaults(**SMOKE)
    given = parser.parse_args()
    if not all(seed.isdecimal() for seed in given.seeds.split(",")):
        parser.error(f"--seeds={given.seeds}: give numbers with commas between, as in 1,2,3")
    if given.games < 2:
        parser.error(f"--games={given.games}: give 2 or more: one game shows no spread")
    out = studies.place(given.out)
    rows = study(given)
    write(out, given, rows)


if __name__ == "__main__":
    sys.exit(main())
