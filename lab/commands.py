"""The command line of the lab."""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flags
from checkout import import_from_here, is_checkout
from trainer.machine.launching import script_name
from user_error import UserError, exit_code

DESCRIPTION = """\
Runs experiments that are written down in a file: trains with several seeds, searches settings,
compares algorithms. Stop it at any time; the same command goes on."""

EXAMPLES = """\
A spec, in cartpole.yaml:

  cartpole:
    level: CartPole-v1
    algorithm: ppo
    settings: {total_environment_frames: 60_000, learning_rate: 0.001}
    meta: {sessions: 2, trials: 16}
    search:
      settings: {learning_rate__loguniform: [0.0001, 0.01], epochs__choice: [2, 4, 8]}

  bin/lab check cartpole.yaml      is it right?
  bin/lab dev cartpole.yaml        does it work? some seconds
  bin/lab train cartpole.yaml      one trial: a training for each seed
  bin/lab search cartpole.yaml     16 trials, then the best again with new seeds
  bin/lab status                   how far is it?
  bin/lab enjoy cartpole.yaml      play with the best

Results are in data/NAME_DATE/; open its index.html. bin/lab COMMAND --help says more.
"""
# What each command is given, for its own --help.
USES = {
    "check": "cartpole.yaml",
    "dev": "cartpole.yaml",
    "train": "cartpole.yaml --cores=2",
    "search": "cartpole.yaml --detach",
    "benchmark": "lab/examples/algorithms.yaml --levels=classic",
    "run": "lab/examples/experiments.json",
    "status": "data/cartpole_DATE",
    "graph": "data/cartpole_DATE",
    "stop": "cartpole.yaml",
    "retry": "data/cartpole_DATE t3",
    "enjoy": "cartpole.yaml -- --video=best.gif",
    "compare": "data/ONE_DATE data/OTHER_DATE --reach=475 --out=data/both",
    "watch": "HOST:impala/data data/HOST",
    "clear": "data/cartpole_DATE",
}
SPEC = "SPEC[:NAME]: a file of specs and the name of one; or the folder of an experiment"
ENGINES = ("local", "ray")
FOLDER = "folder of an experiment, or SPEC[:NAME] for its newest"

# Adds a command: its name, its line in --help, and what its own --help says at the end.
Command = Callable[..., argparse.ArgumentParser]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    import_from_here()
    return exit_code("lab", lambda: _run(parse(arguments)))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command and its options; a ``UserError`` says what is wrong."""
    own, passed_on = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        own, passed_on = arguments[:at], arguments[at + 1 :]
    parsed = _parser().parse_args(own)
    if passed_on and parsed.command != "enjoy":
        raise UserError(
            f"-- {' '.join(passed_on)}: only enjoy passes flags on; write settings into a spec."
        )
    parsed.flags = passed_on
    return parsed


class _Parser(flags.Parser):
    def error(self, message: str) -> Any:
        raise UserError(f"{message}. {self.prog} --help shows how it is used.")


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    lab = script_name("bin/lab")
    examples = EXAMPLES.replace("bin/lab", lab)
    parser = _Parser(prog=lab, description=DESCRIPTION, epilog=examples, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, more: str = "") -> argparse.ArgumentParser:
        about, example = f"{text[0].upper()}{text[1:]}.", f"Example: {lab} {name} {USES[name]}"
        end = f"{more}\n{example}" if more else example
        return commands.add_parser(
            name, help=text, description=about, epilog=end, formatter_class=raw, allow_abbrev=False
        )

    _add_starting(command)
    _add_looking(command)
    _add_folders(command)
    return parser


def _add_starting(command: Command) -> None:
    """Commands that read what somebody wrote down, and most of which start it."""
    command("check", "read a spec and report the first mistake", _meta()).add_argument(
        "spec", help=SPEC
    )
    _starts(command("dev", "run a spec for some seconds, to see whether it works"))
    _starts(command("train", "one trial: a training for each seed; a frozen spec.json repeats it"))
    _starts(
        command("search", "trials with settings that Optuna proposes, then the best again", _meta())
    )
    benchmark = command("benchmark", "run all specs of a file, or one, over a set of levels")
    benchmark.add_argument(
        "--levels",
        default="",
        help="classic, atari8, atari26, mujoco5, or levels with commas between",
    )
    _starts(benchmark)
    many = command(
        "run",
        'run many: a file {"specs.yaml": {"name": "train"}}',
        "Modes: dev, train, search, benchmark with its levels, as in "
        '{"specs.yaml": "benchmark classic"}.',
    )
    _starts(many, "file that names spec files, specs and modes")


def _add_looking(command: Command) -> None:
    """Commands for an experiment that has been started, or has ended."""
    for name, text in (
        ("status", "show each trial: its state, its figures"),
        ("graph", "write tables, graphs and the page anew"),
    ):
        _looks(command(name, text))
    stop = command("stop", "stop an experiment and its sessions; it can go on later")
    _looks(stop, usual="the newest that runs")
    again = command("retry", "let failed trials run again, with the next start")
    _looks(again, usual="")
    again.add_argument(
        "trials", nargs="*", default=[], help="such as t3 t7; default: all that failed"
    )
    _looks(command("enjoy", "play with the best checkpoint of the best trial",
                   f"After -- come flags of {script_name('bin/train')}."))  # fmt: skip


def _add_folders(command: Command) -> None:
    """Commands that compare folders of experiments, copy them, or remove one."""
    compare = command(
        "compare",
        "one table and graph: the best trials of several experiments, or all of one that came to "
        "their end; the graph has the ten best of them",
    )
    compare.add_argument("folders", nargs="+", help="folders of experiments")
    compare.add_argument("--reach", type=float, help="say when this mean return was reached")
    compare.add_argument(
        "--out", type=Path, default=Path("data/compared"),
        help="writes OUT.csv and OUT.png; default: data/compared",
    )  # fmt: skip
    watch = command("watch", "copy results to a folder as they come, from other hosts, too")
    watch.add_argument("source", help="folder, or HOST:FOLDER over SSH")
    watch.add_argument("target", type=Path, help="folder to copy to")
    watch.add_argument(
        "--every_s", type=float, default=10.0, help="seconds between looks; default: 10"
    )
    watch.add_argument("--once", action="store_true", help="copy what is there and end")
    clear = command("clear", "remove the folder of an experiment, after asking")
    clear.add_argument("folder", help="folder of an experiment")
    clear.add_argument("--yes", action="store_true", help="do not ask")


def _starts(parser: argparse.ArgumentParser, text: str = SPEC) -> None:
    parser.add_argument("spec", help=text)
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="where folders are made; default: data"
    )
    parser.add_argument("--cores", type=int, default=0, help="use only so many cores; default: all")
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0],
                        help="where sessions run; local: here, ray: on the nodes of a Ray "
                        "cluster that see the same folders as this one")  # fmt: skip
    parser.add_argument("--ray_address", default="", metavar="HOST:PORT",
                        help="cluster of --engine=ray; default: that of this machine")  # fmt: skip
    parser.add_argument("--new", action="store_true", help="do not go on with an earlier start")
    parser.add_argument("--detach", action="store_true", help="run in the background")


def _looks(parser: argparse.ArgumentParser, usual: str = "the newest of all") -> None:
    """Adds the folder, which is to be given where there is no usual one."""
    text = f"{FOLDER}; default: {usual}" if usual else FOLDER
    parser.add_argument("folder", nargs="?" if usual else None, default="", help=text)
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="where folders are; default: data"
    )


def _meta() -> str:
    from lab.specs import meta

    return f"Keys of meta:\n{meta.describe()}"


def _check_installed() -> None:
    """Refuses to start without what only the lab needs."""
    if importlib.util.find_spec("optuna") is None:
        remedy = "run bin/lab, which installs it"
        if not is_checkout():
            remedy = "run pip install '.[lab]' in the project's folder"
        raise UserError(f"there is no Optuna here, which the lab needs: {remedy}.")


def _run(given: argparse.Namespace) -> int:
    """Imports what a command needs, and does it."""
    _check_installed()
    if given.command in ("dev", "train", "search", "benchmark", "check", "run"):
        from lab.actions import listed, starting

        if given.command == "check":
            return starting.check(given.spec)
        if given.command == "run":
            return listed.run_many(given.spec, given)
        levels = given.levels if given.command == "benchmark" else ""
        return starting.start(given.command, given.spec, given, levels)
    if given.command in ("status", "graph", "enjoy"):
        from lab.actions import looking

        if given.command == "enjoy":
            return looking.enjoy(given.folder, given.data, given.flags)
        return {"status": looking.status, "graph": looking.graph}[given.command](
            given.folder, given.data
        )
    if given.command == "compare":
        from lab.results import compare

        return compare.compare(given.folders, given.out, given.reach)
    if given.command == "watch":
        from lab.actions import watching

        return watching.watch(given.source, given.target, given.every_s, given.once)
    from lab.actions import ending

    if given.command == "stop":
        return ending.stop(given.folder, given.data)
    if given.command == "retry":
        return ending.retry(given.folder, given.trials, given.data)
    return ending.clear(given.folder, given.yes)
