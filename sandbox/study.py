"""The command line of a study: run its trainings, or only draw earlier ones.

    python -m sandbox.NAME [--seeds=1,2,3] [--until=4e6] [--out=…] [--smoke]
        [-- flags of experiment.py]

It writes OUT.csv with the reports, OUT.png with the curves and OUT.json with machine and commands,
and prints a table of results in Markdown. Stopped with Ctrl-C, the same command continues.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox import curves_with_spread
from sandbox.training_runs import (
    Training,
    curve_of,
    finished_training,
    run_all,
    write_csv,
    write_record,
)
from trainer.settings import config
from user_error import UserError

Variants = Mapping[str, Sequence[str]]


def main(
    description: str,
    variants: Variants,
    flags: Sequence[str],
    smoke: Sequence[str],
    out: str = "",
) -> int:
    """Runs a study with the flags of this process; returns the exit code.

    Args:
        description: the study in one line.
        variants: what is compared: a name and flags for each.
        flags: those of all trainings; those after ``--`` are added.
        smoke: further flags under which a training takes seconds.
        out: where results go unless ``--out`` says otherwise.
    """
    own, added = split(sys.argv[1:])
    try:
        given = _parser(description, out).parse_args(own)
        trainings = _trainings(given, variants, [*flags, *(smoke if given.smoke else []), *added])
        _study(given, trainings)
    except UserError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """A study's own arguments, and those of experiment.py, which stand behind ``--``."""
    arguments = list(arguments)
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _parser(description: str, out: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description,
        epilog="Behind -- may stand flags of experiment.py, for all trainings.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--out", default=out, required=not out, help="results: OUT.csv, .png, .json"
    )
    parser.add_argument("--seeds", default="1,2,3", help="a training each (default: 1,2,3)")
    parser.add_argument("--logs", default="", help="the trainings' folders; default: logs/studies")
    parser.add_argument("--title", default="", help="the picture's title; default: level, agent")
    parser.add_argument(
        "--until", type=float, metavar="FRAMES",
        help="stop each training there, with the schedule of --total_environment_frames; its "
        "checkpoint can be continued",
    )  # fmt: skip
    parser.add_argument("--reach", type=float, help="report when this mean return was reached")
    parser.add_argument("--smoke", action="store_true", help="only check that it works, in seconds")
    parser.add_argument(
        "--draw", default="", metavar="FOLDERS",
        help="train nothing; draw these folders of runs, separated by commas, "
        "each FOLDER or NAME=FOLDER",
    )  # fmt: skip
    return parser


def _trainings(
    given: argparse.Namespace, variants: Variants, flags: Sequence[str]
) -> list[Training]:
    if given.draw:
        return [_drawn(part, given.until) for part in given.draw.split(",")]
    try:
        seeds = [1] if given.smoke else [int(part) for part in given.seeds.split(",")]
    except ValueError:
        raise UserError(
            f"--seeds={given.seeds}: expected whole numbers, separated by commas."
        ) from None
    logs = Path(given.logs or Path("logs") / "studies" / Path(given.out).name)
    if given.until is not None and given.until <= 0:
        raise UserError(f"--until={given.until:g}: expected frames, more than 0.")
    return [
        _training(logs, variant, seed, [*flags, *more], given.until)
        for seed in seeds
        for variant, more in variants.items()
    ]


def _training(
    logs: Path, variant: str, seed: int, flags: list[str], until: float | None
) -> Training:
    safe = "".join(letter if letter.isalnum() else "-" for letter in variant)
    folder = logs / "-".join(filter(None, (safe, f"seed-{seed}")))
    flags = [*flags, f"--seed={seed}", f"--logdir={folder}"]
    config.parse(flags)  # reports errors before the first training
    return Training(variant, seed, folder, tuple(flags), until)


def _drawn(part: str, until: float | None) -> Training:
    name, equals, folder = part.rpartition("=")
    training = finished_training(Path(folder), name if equals else "")
    return dataclasses.replace(training, until=until)


def _study(given: argparse.Namespace, trainings: list[Training]) -> None:
    if not given.draw:
        run_all(trainings)
    curves = [curve_of(one) for one in trainings]
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_csv(Path(f"{out}.csv"), curves)
    write_record(Path(f"{out}.json"), trainings)
    title = given.title or _title(trainings[0])
    curves_with_spread.draw(Path(f"{out}.png"), curves, title)
    print(curves_with_spread.table(curves, given.reach))
    print(f"Written: {out}.csv, {out}.png, {out}.json")


def _title(training: Training) -> str:
    settings = config.parse(training.flags)
    return " · ".join(filter(None, (", ".join(settings.level.levels), settings.agent.agent_name)))
