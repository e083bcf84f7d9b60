"""One cluster: reads a CSV of hosts; starts a run on them, shows it, stops it."""

import sys

from cluster import frontend
from user_error import UserError


def main(arguments: list[str]) -> int:
    """Does what ``--action`` says; returns the exit code."""
    try:
        return frontend.run(arguments)
    except UserError as error:
        print(f"run_experiment_mm_raw.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
