"""``python -m benchmarks hosts``; see the package."""

import contextlib
import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.tools import common
from benchmarks.whole import hosts as package
from benchmarks.whole.hosts import fleet, frontend, report
from benchmarks.whole.hosts.fleet import Fleet
from benchmarks.whole.hosts.report import Run
from cluster.record import counted
from cluster.ssh.descriptors import make_room
from flags import setting
from trainer.machine import provenance
from user_error import UserError

# Hosts that share two cores are slow, all the more when most of them do the same at once.
PATIENCE = ("--patience_s=600", "--connect_timeout_s=60", "--start_timeout_s=600")
MOST_HOSTS = 253  # addresses of the bridge


@dataclasses.dataclass(frozen=True)
class Options(common.Options):
    """The benchmark's flags."""

    hosts: str = setting("8,16,32,64", "Measuring", "numbers of hosts, with commas between")
    repeats: int = setting(1, "Measuring", "runs of each number", least=1)
    real: int = setting(
        8, "Measuring", "actors that play, in one more run of the largest number; 0: no such run",
        least=0,
    )  # fmt: skip
    cut_s: float = setting(
        0.0, "Measuring", "in one more run, seconds for which a link is cut during the start",
        least=0,
    )  # fmt: skip
    level_name: str = setting("CartPole-v1", "Measuring", "the level of the actors that play")


def measure(arguments: list[str]) -> None:
    """Prints the table; writes it, and a picture."""
    options, _ = common.parse(Options, "hosts", package.__doc__, arguments)
    numbers = sorted(common.numbers("hosts", options.hosts))
    why = fleet.missing()
    if why:
        raise UserError(f"no hosts can be made on this machine: {why}.")
    if numbers[-1] > MOST_HOSTS:
        raise UserError(f"--hosts={options.hosts}: at most {MOST_HOSTS} can be made here.")
    make_room(numbers[-1])
    given = [one for one in arguments if not one.startswith("--results")]
    about = {
        "machine": f"{provenance.machine()}; load {os.getloadavg()[0]:.0f} at the start",
        "what": " ".join(["python -m benchmarks hosts", *given]),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    print("\n".join(about.values()) + "\n", flush=True)
    runs: list[Run] = []
    out = Path(options.results)
    try:
        with tempfile.TemporaryDirectory(prefix="imphosts") as folder, Fleet(Path(folder)) as hosts:
            for count, real, cut_s in _cases(numbers, options):
                hosts.grow(count)
                runs.append(measured(hosts, count, real, cut_s, options))
                print(report.table(runs[-1:]), flush=True)
                # A later run may fail where the machine carries no more.
                report.write_json(out / "hosts.json", runs, about)
    finally:  # also where it is stopped
        if runs:
            print(f"\n{report.table(runs)}")
            report.draw(out / "hosts.png", runs, f"{about['what']}\n{about['machine']}")
            print(f"\n{out}/hosts.json and hosts.png written")


def _cases(numbers: list[int], options: Options) -> Iterator[tuple[int, int, float]]:
    for count in numbers:
        for _ in range(options.repeats):
            yield count, 0, 0.0
    if options.cut_s:
        yield numbers[-1], 0, options.cut_s
    if options.real:
        yield numbers[-1], options.real, 0.0


def measured(hosts: Fleet, count: int, real: int, cut_s: float, options: Options) -> Run:
    """One run on so many hosts: started, looked at, stopped."""
    hosts.write_csv(count, real)
    training = [f"--level_name={options.level_name}", f"--seed={options.seed}", *PATIENCE]
    training += ["--notensorboard", "--tmux_sess="]
    with contextlib.ExitStack() as undone:
        cutting = _cutting(hosts, count, cut_s, undone)
        undone.callback(_stop, hosts)
        start, _ = frontend.run(hosts, "--workers_csv_path=hosts.csv", *training, meanwhile=cutting)
        status, text = frontend.run(hosts, "--action=status", "--json", "--connect_timeout_s=60")
        if frontend.running(text) != count + 1:
            raise UserError(f"not all of {count + 1} processes are running:\n{text}")
        stop, said = frontend.run(hosts, "--action=stop", "--connect_timeout_s=60")
        if said != f"Stopped {counted({'learner': 1, 'actor': count})}.\n":
            raise UserError(f"not all was stopped: {said}")
        undone.pop_all()
    return Run(count, real, cut_s, {"start": start, "status": status, "stop": stop})


def _stop(hosts: Fleet) -> None:
    with contextlib.suppress(UserError):
        frontend.run(hosts, "--action=stop", "--stop_grace_s=1")


def _cutting(
    hosts: Fleet, count: int, cut_s: float, undone: contextlib.ExitStack
) -> Callable[[float], None]:
    """Cuts the last host's link once the run's record is written; puts it back after a while."""
    host, record = hosts.bridge.hosts[count - 1], hosts.folder / "me/logs/run/cluster/run.json"
    since: list[float] = []
    record.unlink(missing_ok=True)  # of the run before
    undone.callback(host.plug)

    def meanwhile(seconds: float) -> None:
        if cut_s and not since and record.exists():
            since.append(seconds)
            host.unplug()
        elif len(since) == 1 and seconds >= since[0] + cut_s:
            since.append(seconds)
            host.plug()

    return meanwhile


if __name__ == "__main__":
    sys.exit(common.run("hosts", measure))
