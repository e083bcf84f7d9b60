"""One cluster: reads a CSV of hosts; starts a run on them, shows it, stops it."""

import io
import os
import sys

from cluster import frontend
from trainer.machine.launching import import_from_here, script_name
from user_error import UserError


def main(arguments: list[str] | None = None) -> int:
    """Does what ``--action`` says; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    import_from_here()
    for stream in (sys.stdout, sys.stderr):
        # What processes say may have letters that a terminal has not.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    script = script_name("run_experiment_mm_raw.py")
    try:
        code = frontend.run(arguments)
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(130)  # Python would wait for threads that wait for hosts
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # such as a full disk
        about = f"{error.filename}: " if error.filename else ""
        print(f"{script}: {about}{error.strerror or error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
