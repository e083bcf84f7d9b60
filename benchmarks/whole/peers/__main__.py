"""The trainer compared with alternatives, on the same work and in turn.

  python -m benchmarks peers
  python -m benchmarks peers --agent_name=ResNetAgent --repeats=3
  python -m benchmarks peers --peers=none              only this trainer
  python -m benchmarks peers --until=475 --help        time to a return instead

Every one trains the same network on the same Atari game, with unrolls and batches of the same
size, on the cores that this process may use: this trainer with the arithmetic that it chooses by
itself and with float32, the others with float32, their only one on a CPU. They take turns,
and a ratio compares what was measured in one turn.

The others are installed into environments of their own from PyPI, in ~/.cache/impala/peers, at
the versions in the lists beside this file. That is done once and takes several GB. If one fails,
its reason is printed, its log is kept in --results, and the others continue.

  Sample Factory   APPO with V-trace over envpool; two lines of its learner that fail with V-trace
                   are patched as it starts. The threads of its learner, one by default, and its
                   workers are searched
  RLlib            IMPALA of the new API, the learner in the driver's process; of the rows that it
                   counts, those it adds itself are left out. Its runners are searched

A search is for the most steps a second, once a machine and network; what it has found is in the
table. Each worker, runner and actor plays as many environments: --peer_envs, --envs_per_actor.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import common
from benchmarks.tools.common import Options, spread
from benchmarks.tools.report import Column, Report
from benchmarks.tools.trainer import Trainer, steady_rate
from benchmarks.whole.peers import until
from benchmarks.whole.peers.installing import installed
from benchmarks.whole.peers.known import NETWORKS, PEERS, Peer, chosen, each_once
from benchmarks.whole.peers.running import Failed, Reached, Work, run
from benchmarks.whole.peers.tuning import fastest, in_words
from environments.names import AtariLevel, find
from flags import setting
from trainer.settings import checks
from trainer.settings.config import Settings
from user_error import UserError

COLUMNS = (
    Column("network", 20),
    Column("trainer", 30),
    Column("precision", 10),
    Column("settings", 20),
    Column("agent steps/s", 24, ",.0f"),
    Column("first update, s", 16, ".1f"),
    Column("ours / this", 20, ".2f"),
    Column("ours in float32 / this", 23, ".2f"),
)
OURS, BEST, FLOAT32 = "this trainer", "auto", "float32"
# How many times the best peer this trainer is, as README.md and docs/performance.md say; and the
# flags whose defaults that is of.
UPHELD = {
    ("SimpleConvNetAgent", BEST): "2.2 to 2.5",
    ("ResNetAgent", BEST): "4.7",
}
OF_UPHELD = ("peers", "level_name", "unroll_length", "batch_size", "peer_envs", "envs_per_actor")


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(2, "Measuring", "turns", least=1)
    peers: str = setting(
        ",".join(peer.key for peer in PEERS), "Measuring", "with commas between, or none"
    )
    agent_name: str = setting(
        "SimpleConvNetAgent,ResNetAgent", "Measuring", "networks, with commas between"
    )
    precision: str = setting(
        f"{BEST},{FLOAT32}", "Measuring", "this trainer's, with commas between"
    )
    level_name: str = setting("PongNoFrameskip-v4", "Measuring", "an Atari game")
    unroll_length: int = setting(20, "Measuring", "agent steps in an unroll", least=2)
    batch_size: int = setting(32, "Measuring", "unrolls in an update", least=1)
    peer_envs: int = setting(
        32, "Measuring", "environments of each of a peer's workers or runners", least=1
    )
    envs_per_actor: int = setting(
        32, "Measuring", "environments of each of this trainer's actors", least=1
    )
    warm_up_s: float = setting(20.0, "Measuring", "left out of each run", least=0)
    seconds: float = setting(40.0, "Measuring", "measured of each run", above=0)
    tune_s: float = setting(
        40.0, "Measuring", "seconds of each way in the search for a peer's fastest", above=0
    )


Key = tuple[str, str]  # a trainer or network, and a precision


class Contender(NamedTuple):
    """Who takes turns."""

    name: str
    precision: str
    run: Callable[[str], Reached]  # with the agent of this name
    tune: Callable[[str], str] = lambda network: ""  # before its first run; its settings in words


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    if any(argument.partition("=")[0] == "--until" for argument in arguments):
        until.measure(arguments)
        return
    own, settings = common.parse(Own, "peers", __doc__, arguments, trainer=True)
    settings = settings.replace(
        level_name=own.level_name,
        unroll_length=own.unroll_length,
        batch_size=own.batch_size,
        envs_per_actor=own.envs_per_actor,
    )
    networks = each_once(own.agent_name, "--agent_name")
    for network in networks:
        for precision in each_once(own.precision, "--precision"):
            checks.check(settings.replace(agent_name=network, precision=precision))
    peers = chosen(own.peers)
    if peers:
        _check_for_peers(own, networks)
    contenders, missing = [*ours(own, settings)], {}
    for peer in peers:
        try:
            contenders.append(theirs(own, peer))
        except UserError as error:
            missing[peer.name] = str(error)
    what = f"{own.level_name}, unroll {own.unroll_length}, batch {own.batch_size}"
    report = Report("peers", COLUMNS, own, f"precision {own.precision} here", what, settings)
    ratios: dict[Key, common.Spread] = {}
    absent: dict[str, list[str]] = {}
    try:
        for network in networks:
            absent[network] = []
            compare(report, own, network, contenders, missing, ratios, absent[network])
    finally:  # also where it is stopped
        is_usual = all(getattr(own, name) == getattr(Own(), name) for name in OF_UPHELD)
        print_ratios(ratios, absent, UPHELD if is_usual else {})
        named = {" ".join(key): ratio for key, ratio in ratios.items()}
        report.finish("agent steps/s", ratios=named, absent=absent)


def _check_for_peers(own: Own, networks: Sequence[str]) -> None:
    """Refuses what the peers' drivers do not know, before one is installed."""
    if not isinstance(find(own.level_name), AtariLevel):
        raise UserError(
            f"--level_name={own.level_name}: the peers' drivers know only Atari games; "
            "--peers=none measures any level."
        )
    for network in networks:
        if network not in NETWORKS:
            raise UserError(
                f"--agent_name={network}: the peers have {' and '.join(NETWORKS)}, written so; "
                "--peers=none measures any agent."
            )


def ours(own: Own, settings: Settings) -> list[Contender]:
    """This trainer in each precision."""

    def contender(precision: str) -> Contender:
        def train(network: str) -> Reached:
            chosen = settings.replace(agent_name=network, precision=precision)
            with Trainer(chosen, report_every_s=min(10.0, own.seconds / 4)) as trainer:
                first_update_s = trainer.wait_for_update()
                trainer.run_for(own.warm_up_s)
                before = trainer.next_report()
                trainer.run_for(own.seconds)
                return Reached(first_update_s, steady_rate(before, trainer.next_report()))

        return Contender(OURS, precision, train)

    return [contender(precision) for precision in own.precision.split(",")]


def theirs(own: Own, peer: Peer) -> Contender:
    """A peer, installed."""
    level = find(own.level_name)
    assert isinstance(level, AtariLevel)
    python, log = installed(peer), Path(own.results) / f"peers-{peer.key}.log"

    ways: dict[str, dict[str, Any]] = {}

    def work(network: str) -> dict[str, Any]:
        sizes = own.unroll_length, own.batch_size, own.peer_envs
        return Work(level.rom, network, *sizes, own.seed)._asdict()

    def tune(network: str) -> str:
        ways[network] = fastest(peer, python, work(network), own.tune_s, log)
        return in_words(ways[network])

    def train(network: str) -> Reached:
        return run(peer, python, work(network) | ways[network], own.warm_up_s, own.seconds, log)

    return Contender(peer.name, FLOAT32, train, tune)


def compare(
    report: Report,
    own: Own,
    network: str,
    contenders: list[Contender],
    missing: dict[str, str],
    ratios: dict[Key, common.Spread],
    absent: list[str],
) -> None:
    """A network's rows; adds how many times the best peer this trainer is, in each precision.

    ``absent`` gets the names of those that failed, with which it is not compared.
    """

    def failed(name: str, reason: str) -> None:
        absent.append(name)
        report.row(network, name, f"failed: {reason}", "", None, None, None, None)

    for name, reason in missing.items():
        failed(name, reason)
    turns: dict[Key, list[Reached]] = {}
    how: dict[Key, str] = {}
    for one in contenders:
        try:
            how[one.name, one.precision] = one.tune(network)
            turns[one.name, one.precision] = []
        except Failed as error:
            failed(one.name, str(error))
    with common.whole_turns(turns, lambda whole: _write(report, network, whole, how, ratios)):
        for turn in range(own.repeats):
            for one in [one for one in contenders if (one.name, one.precision) in turns]:
                common.progress(
                    f"turn {turn + 1} of {own.repeats}: {network}, {one.name}, {one.precision}"
                )
                try:
                    turns[one.name, one.precision].append(one.run(network))
                except Failed as error:
                    failed(one.name, str(error))
                    del turns[one.name, one.precision]


def _write(
    report: Report,
    network: str,
    turns: Mapping[Key, list[Reached]],
    how: Mapping[Key, str],
    ratios: dict[Key, common.Spread],
) -> None:
    rates = {key: [one.steps_per_second for one in reached] for key, reached in turns.items()}
    for (name, precision), values in rates.items():
        firsts = spread([reached.first_update_s for reached in turns[name, precision]])
        against = [_ratio(rates.get((OURS, kind)), values) for kind in (BEST, FLOAT32)]
        settings = how[name, precision]
        report.row(network, name, precision, settings, spread(values), firsts.median, *against)
    peers = [values for (name, _), values in rates.items() if name != OURS]
    best = [max(turn) for turn in zip(*peers, strict=True)]
    for (name, precision), values in rates.items():
        ratio = _ratio(values, best)
        if name == OURS and ratio:
            ratios[network, precision] = ratio


def _ratio(mine: list[float] | None, others: list[float]) -> common.Spread | None:
    """Turn by turn."""
    if not mine or not others:
        return None
    return spread([one / other for one, other in zip(mine, others, strict=True)])


def print_ratios(
    ratios: Mapping[Key, common.Spread],
    absent: Mapping[str, list[str]],
    upheld: Mapping[Key, str] = UPHELD,
) -> None:
    """Prints the ratios, beside those ``upheld`` by the guide, and which peers are missing."""
    for (network, precision), ratio in ratios.items():
        told = upheld.get((network, precision))
        beside = f"; docs/performance.md: {told}" if told else ""
        without = f", without {', '.join(absent[network])}," if absent.get(network) else ""
        print(f"\n{network}, {precision}: {ratio.median:.2f} times the best peer{without} "
              f"({ratio.least:.2f}–{ratio.most:.2f}){beside}")  # fmt: skip


if __name__ == "__main__":
    sys.exit(common.run("peers", measure))
