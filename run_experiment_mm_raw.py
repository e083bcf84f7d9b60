"""One cluster: reads a CSV of hosts; starts a run on them, shows it, stops it."""

import io
import os
import sys

from checkout import import_from_here
from cluster import frontend
from trainer.machine.launching import script_name
from user_error import STOPPED, exit_code


def main(arguments: list[str] | None = None) -> int:
    """Does what ``--action`` says; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    import_from_here()
    for stream in (sys.stdout, sys.stderr):
        # What processes say may have letters that a terminal has not.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = exit_code(script_name("run_experiment_mm_raw.py"), lambda: frontend.run(arguments))
    if code == STOPPED:
        os._exit(code)  # Python would wait for threads that wait for hosts
    return code


if __name__ == "__main__":
    sys.exit(main())
