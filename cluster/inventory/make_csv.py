"""Makes a CSV for run_experiment_mm_raw.py from a list of hosts of Ansible or a cloud."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file: Python then looks for modules only beside it
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cluster.inventory import ansible, clouds, hosts_csv
from cluster.inventory.machines import Machine, Wanted, to_csv
from flags import Parser
from user_error import UserError, exit_code

EXAMPLES = """examples:
  python3 cluster/inventory/make_csv.py ansible hosts.ini --learners=gpu > hosts.csv
  ansible-inventory -i hosts.yml --list | \\
    python3 cluster/inventory/make_csv.py ansible - --learners=gpu
  aws ec2 describe-instances | \\
    python3 cluster/inventory/make_csv.py aws - --learners=role=learner \\
    --actors=role=actor --actors_per_host=4 --ssh_username=admin
  gcloud compute instances list --format=json | python3 cluster/inventory/make_csv.py gcloud - \\
    --learners='learner-*' --ssh_key=~/.ssh/google_compute_engine
"""


def main(arguments: Sequence[str]) -> int:
    """Prints the CSV; returns the exit code."""

    def run() -> None:
        flags = vars(make_parser().parse_args(arguments))
        machines, notes = _read(flags.pop("kind"), flags.pop("file"), flags["address"] == "public")
        text = to_csv(machines, Wanted(**flags))
        hosts_csv.parse(text.encode(), "the resulting CSV")
        for note in notes:
            print(f"make_csv.py: {note}", file=sys.stderr)
        sys.stdout.write(text)

    return exit_code("make_csv.py", run)


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="make_csv.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=("ansible", "aws", "gcloud"), help="where the list is from")
    parser.add_argument("file", help="the list; - for standard input")
    parser.add_argument(
        "--learners",
        required=True,
        type=_patterns,
        help="which hosts learn: names, groups or KEY=VALUE, with * and ?, separated by commas",
    )
    parser.add_argument(
        "--actors", default=(), type=_patterns, help="which act (default: all that do not learn)"
    )
    for name, default, what in (
        ("learners_per_host", 1, "learners on each, the first on GPU 0, the second on GPU 1"),
        ("actors_per_host", 1, "actors on each"),
        ("learner_port", 8001, "first port of learners"),
        ("actor_port", 9001, "first port of actors"),
    ):
        text = f"{what} (default: {default})"
        parser.add_argument(f"--{name}", type=_count, default=default, metavar="N", help=text)
    parser.add_argument(
        "--address",
        default="private",
        choices=("private", "public"),
        help="which address of a cloud's machine to use, for logins and for other hosts",
    )
    for name in ("ssh_port", "ssh_username", "ssh_key", "remote_dir"):
        parser.add_argument(f"--{name}", default="", help="for hosts without one in the list")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 65535")
    return int(text)


def _patterns(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _read(kind: str, file: str, public: bool) -> tuple[list[Machine], list[str]]:
    name = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"{name} cannot be read: {reason}.") from None
    text = text.removeprefix("\ufeff")
    try:
        if kind == "ansible":
            return ansible.read(text)
        return clouds.aws(text, public) if kind == "aws" else clouds.gcloud(text, public)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UserError(f"{name}: does not have the form of a list of {kind} ({what}).") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
