"""Stands in for experiment.py where nothing is to be played: a learner that only listens, an actor
that only waits."""

import signal
import socket
import sys


def main(arguments: list[str]) -> int:
    """Waits for a signal."""
    given = dict(one.removeprefix("--").split("=", 1) for one in arguments if "=" in one)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if given.get("job_name") == "learner":
        listener = socket.create_server(("", int(given["learner_host"].rpartition(":")[2])))
        while True:
            listener.accept()[0].close()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
