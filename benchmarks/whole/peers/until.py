"""Time to a return, this trainer beside peers: ``python -m benchmarks peers --until=475``.

  python -m benchmarks peers --until=475 --level_name=CartPole-v1 --algorithm=ppo
  python -m benchmarks peers --until=200 --level_name=LunarLander-v3 --preset=dqn_lunarlander
  python -m benchmarks peers --until=18 --level_name=PongNoFrameskip-v4 --algorithm=impala \\
    --peer_algorithm=ppo --tune_s=120

Seconds from the launch (of this trainer to its end, with checkpoint and picture) until the mean
raw return of the last 100 training episodes reaches --until, exploration included: of this trainer
by its defaults or a preset, and of its peers with the settings that they publish for the level
(Stable-Baselines3 in its zoo, for Pong also Sample Factory), in turn, with as many seeds as
--repeats. Before that, a peer's threads and processes are searched once a machine for the most
steps a second. A peer is cut off after --times as long as this trainer took, and at --most_s.
"""

import dataclasses
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools import common
from benchmarks.tools.common import Options, spread
from benchmarks.tools.report import Column, Report
from benchmarks.whole.peers import running
from benchmarks.whole.peers.installing import installed
from benchmarks.whole.peers.known import NEAREST, UNTIL_PEERS, Peer, chosen
from benchmarks.whole.peers.running import Failed
from benchmarks.whole.peers.tuning import fastest, in_words
from flags import setting
from trainer.machine.launching import PROJECT
from trainer.settings import config
from trainer.storage.records import read_metrics
from user_error import UserError

COLUMNS = (
    Column("trainer", 30),
    Column("settings", 34),
    Column("seconds to it", 26, ",.0f"),
    Column("steps to it", 30, ",.0f"),
    Column("reached", 20),
    Column("this / ours", 20, ".2f"),
)
OURS = "this trainer"


@dataclasses.dataclass(frozen=True)
class Own(Options):
    until: float = setting(0.0, "Measuring", "the mean raw return of 100 training episodes")
    repeats: int = setting(3, "Measuring", "turns, each with a seed of its own", least=1)
    peers: str = setting(
        "",
        "Measuring",
        "with commas between, or none; default: all that publish settings for the level",
    )
    level_name: str = setting("", "Measuring", "the level; default: the preset's, or CartPole-v1")
    algorithm: str = setting("", "Measuring", "of this trainer; default: the preset's, or ppo")
    peer_algorithm: str = setting(
        "",
        "Measuring",
        "of the peers, which have ppo, a2c and dqn; default: the same, or the nearest to it",
    )
    preset: str = setting("", "Measuring", "of this trainer; default: its defaults")
    most_s: float = setting(3600.0, "Measuring", "seconds after which a run is cut off", above=0)
    times: float = setting(
        10.0, "Measuring", "a peer is cut off at so many times our seconds", above=0
    )
    tune_s: float = setting(
        40.0, "Measuring", "seconds of each way in the search for a peer's threads", above=0
    )


@dataclasses.dataclass(frozen=True)
class Run:
    """How far a run came."""

    seconds: float
    steps: float
    reached: bool


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "peers", __doc__, arguments)
    own = _with_algorithms(own)
    peers = [(peer, *_ready(own, peer)) for peer in chosen(own.peers, UNTIL_PEERS)]
    what = f"{own.level_name} to {own.until:g}"
    report = Report("peers-until", COLUMNS, own, "precision auto here", what)
    how = {OURS: own.preset or f"{own.algorithm}, defaults"}
    how |= {peer.name: f"{own.peer_algorithm}, {in_words(way)}" for peer, _, way in peers}
    turns: dict[str, list[Run]] = {name: [] for name in how}
    with common.whole_turns(turns, lambda whole: _write(report, how, whole)):
        for turn in range(own.repeats):
            try:
                runs = _turn(own, turn, peers)
            except UserError as error:
                before = f"turn {turn + 1} failed, the table has those before: " if turn else ""
                raise UserError(f"{before}{error}") from None
            for name, run in zip(turns, runs, strict=True):
                turns[name].append(run)


def _with_algorithms(own: Own) -> Own:
    """With the level, both sides' algorithms and the peers that have settings for theirs.

    Refuses before a peer is installed or anything is searched.
    """
    settings = config.parse([*_flags(own), f"--stop_at_return={own.until}"])
    own = dataclasses.replace(own, level_name=settings.level.level_name)
    ours = settings.program.algorithm
    theirs = own.peer_algorithm or NEAREST.get(ours, ours)
    work = theirs, own.level_name
    able = tuple(peer for peer in UNTIL_PEERS if work in peer.works)
    asked = chosen(own.peers, UNTIL_PEERS) if own.peers else able or UNTIL_PEERS
    unable = [peer for peer in asked if work not in peer.works]
    if unable:
        works = {work for peer in asked for work in peer.works}
        names = sorted(name for name, level in works if level == own.level_name)
        levels = sorted({level for _, level in works})
        raise UserError(
            f"--peer_algorithm={theirs} --level_name={own.level_name}: {unable[0].name} has no "
            f"settings for it. Known are {', '.join(names or levels)}."
        )
    peers = own.peers or ",".join(peer.key for peer in asked)
    return dataclasses.replace(own, algorithm=ours, peer_algorithm=theirs, peers=peers)


def _flags(own: Own) -> list[str]:
    """What this trainer is given."""
    usual = {} if own.preset else {"level_name": "CartPole-v1", "algorithm": "ppo"}
    given = {name: getattr(own, name) for name in ("preset", "level_name", "algorithm")}
    chosen = usual | {name: value for name, value in given.items() if value}
    return [f"--{name}={value}" for name, value in chosen.items()]


def _write(report: Report, how: dict[str, str], turns: dict[str, list[Run]]) -> None:
    for name, runs in turns.items():
        _row(report, name, how[name], runs, turns[OURS])
    report.finish("seconds to it")


def _turn(own: Own, turn: int, peers: Sequence[tuple[Peer, Path, dict[str, Any]]]) -> list[Run]:
    """This trainer, then each peer, with one seed."""
    seed = own.seed + turn
    said = f"turn {turn + 1} of {own.repeats}"
    common.progress(f"{said}: {OURS}, seed {seed}")
    runs = [_ours(own, seed)]
    # Where this trainer did not get there, nothing is known of how long it may take.
    limit = min(own.most_s, own.times * runs[0].seconds) if runs[0].reached else own.most_s
    for peer, python, way in peers:
        common.progress(
            f"{said}: {OURS} took {runs[0].seconds:.0f} s; {peer.name} has {limit:.0f} s"
        )
        runs.append(_of_peer(own, peer, python, way, seed, limit))
    return runs


def _row(report: Report, name: str, how: str, runs: list[Run], ours: list[Run]) -> None:
    """A trainer's row; a ratio with a run that was cut off is a lower bound.

    There is none for turns in which this trainer was cut off itself.
    """
    reached = sum(run.reached for run in runs)
    pairs = zip(runs, ours, strict=True)
    against = [run.seconds / mine.seconds for run, mine in pairs if mine.reached]
    is_bound = runs is not ours and reached < len(runs) and bool(against)
    report.row(
        name,
        how,
        spread([run.seconds for run in runs]),
        spread([run.steps for run in runs]),
        f"{reached} of {len(runs)}" + (", ratio at least" if is_bound else ""),
        spread(against) if against and runs is not ours else None,
    )


def _ours(own: Own, seed: int) -> Run:
    """A run of this trainer as its user would start it."""
    with tempfile.TemporaryDirectory(prefix="impala-benchmark-") as folder:
        flags = [*_flags(own), f"--logdir={folder}/run", f"--seed={seed}"]
        flags += [f"--stop_at_return={own.until}", f"--stop_after_s={own.most_s}"]
        launched = time.monotonic()
        with_parent = ["setpriv", "--pdeathsig", "TERM"]
        done = subprocess.run(
            [*with_parent, sys.executable, "experiment.py", *flags],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - launched
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise UserError(f"this trainer ended with exit code {done.returncode}: {reason}")
        reports = read_metrics(Path(folder) / "run")
        if not reports:  # it was cut off before the first
            return Run(seconds, 0, False)
        reached = "Ended: the mean return is" in done.stdout
        return Run(seconds, reports[-1]["agent_steps"], reached)


def _of_peer(
    own: Own, peer: Peer, python: Path, way: dict[str, Any], seed: int, limit: float
) -> Run:
    log = Path(own.results) / f"peers-until-{peer.key}.log"
    try:
        points = running.watch(peer, python, _work(own, seed) | way, limit, log, own.until)
    except Failed as error:
        raise UserError(f"{peer.name}: {error}") from None
    last = points[-1]
    return Run(last.seconds, last.steps, last.mean is not None and last.mean >= own.until)


def _work(own: Own, seed: int) -> dict[str, Any]:
    return {"level": own.level_name, "algorithm": own.peer_algorithm, "seed": seed}


def _ready(own: Own, peer: Peer) -> tuple[Path, dict[str, Any]]:
    """A peer's Python, and its fastest way to do this work on this machine."""
    python, log = installed(peer), Path(own.results) / f"peers-until-{peer.key}.log"
    try:
        return python, fastest(peer, python, _work(own, own.seed), own.tune_s, log)
    except Failed as error:
        raise UserError(f"{peer.name}: {error}") from None
