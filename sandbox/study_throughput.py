"""How fast one learner trains with more and more actors, each a process of its own here.

    python -m sandbox.study_throughput [--actors=1,2,3,4] [--seconds=60] [-- flags of experiment.py]

Writes OUT.csv, a row for each number of actors, and OUT.png. On one machine actors take cores
from the learner and from each other; on many, `run_experiment_mm_raw.py` starts the same
processes, and `metrics.jsonl` in the run's folder holds the same figures.
"""

import argparse
import contextlib
import csv
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from impala import config, curve, wording
from impala.records import read_metrics, write_whole
from sandbox.study import split
from sandbox.training_runs import PROJECT
from user_error import UserError

REPORT_EVERY_S = 2.0
STARTS_WITHIN_S = 300.0
LEAVES_WITHIN_S = 60.0
COLUMNS = (
    "actors",
    "steps_per_second",
    "learner_wait_share",
    "actor_wait_share",
    "policy_lag",
    "limited_by",
)
Row = dict[str, Any]


@contextlib.contextmanager
def cluster(logdir: Path, actors: int, flags: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A learner, which is given, and its actors; all have ended after the ``with`` block."""
    common = [sys.executable, str(PROJECT / "experiment.py"), *flags]
    common += [f"--learner_host=localhost:{free_port()}", f"--logdir={logdir}"]
    roles = ["--job_name=learner", *(f"--task={task}" for task in range(actors))]
    started = []
    try:
        for role in roles:
            own = [role] if role == "--job_name=learner" else ["--job_name=actor", role]
            with open(logdir / f"{own[-1].strip('-')}.log", "wb") as log:
                started.append(
                    subprocess.Popen([*common, *own], stdout=log, stderr=subprocess.STDOUT)
                )
        yield started[0]
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LEAVES_WITHIN_S)
            process.kill()
            process.wait()


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def measure(
    logdir: Path, actors: int, flags: Sequence[str], warm_up_s: float, seconds: float
) -> Row:
    """The figures of a span of ``seconds`` after the warm-up, by the learner's own reports."""
    logdir.mkdir(parents=True)
    with cluster(logdir, actors, flags) as learner:
        start = _reports(logdir, learner, 0.0)[0]["wall_time"] + warm_up_s
        first = _reports(logdir, learner, start)[-1]
        rows = _reports(logdir, learner, first["wall_time"] + seconds)
    return summed_up(actors, [row for row in rows if row["wall_time"] >= first["wall_time"]])


def _reports(logdir: Path, learner: subprocess.Popen[bytes], until: float) -> list[Row]:
    """All reports, once there is one of at least so many seconds of training."""
    patience = time.monotonic() + STARTS_WITHIN_S
    seen = 0
    while True:
        rows = read_metrics(logdir)
        if rows and rows[-1]["wall_time"] >= until:
            return rows
        if len(rows) > seen:
            seen, patience = len(rows), time.monotonic() + STARTS_WITHIN_S
        if learner.poll() is not None or time.monotonic() > patience:
            raise UserError(f"the learner does not train. Look at the logs in {logdir}.")
        time.sleep(0.2)


def summed_up(actors: int, rows: Sequence[Row]) -> Row:
    """Of the first report on: the rate, and the mean of what the other reports say."""
    first, last = rows[0], rows[-1]
    steps = last["agent_steps"] - first["agent_steps"]
    figures = {
        name: sum(row[name] for row in rows[1:]) / len(rows[1:])
        for name in ("learner_wait_share", "actor_wait_share", "policy_lag")
    }
    return {
        "actors": actors,
        "steps_per_second": steps / (last["wall_time"] - first["wall_time"]),
        **figures,
        "limited_by": wording.limited_by(figures),
    }


def write(out: Path, rows: Sequence[Row], title: str) -> None:
    """The CSV and the picture."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with open(f"{out}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({n: f"{v:.4g}" if isinstance(v, float) else v for n, v in row.items()})
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot(
        [row["actors"] for row in rows], [row["steps_per_second"] for row in rows], marker="o"
    )
    axes.set(xlabel="actors", ylabel="agent steps/s", title=title)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    write_whole(Path(f"{out}.png"), curve.png(figure))


def main() -> int:
    """Runs the study."""
    own, added = split(sys.argv[1:])
    parser = argparse.ArgumentParser(description="One learner with more and more actors.")
    parser.add_argument("--out", default="docs/studies/throughput", help="OUT.csv, OUT.png")
    parser.add_argument("--logs", default="logs/studies/throughput", help="the runs' folders")
    parser.add_argument("--actors", default="1,2,3,4", help="numbers of actors, one after another")
    parser.add_argument("--warm_up_s", type=float, default=20.0, help="seconds that do not count")
    parser.add_argument("--seconds", type=float, default=60.0, help="to measure each")
    given = parser.parse_args(own)
    endless = "--total_environment_frames=1000000000000"
    flags = [endless, f"--report_every_s={REPORT_EVERY_S}", *added]
    try:
        settings = config.parse([*flags, "--job_name=learner"])
        rows = []
        for actors in map(int, given.actors.split(",")):
            logdir = Path(given.logs) / f"{time.strftime('%Y%m%d-%H%M%S')}-actors-{actors}"
            rows.append(measure(logdir, actors, flags, given.warm_up_s, given.seconds))
            print(rows[-1], flush=True)
        Path(given.out).parent.mkdir(parents=True, exist_ok=True)
        write(Path(given.out), rows, f"{settings.level_name}, one learner")
    except (UserError, ValueError) as error:
        print(f"study_throughput.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
