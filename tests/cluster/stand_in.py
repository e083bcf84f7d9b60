"""Stands in for experiment.py: the same flags and ports, and nothing learned, so it is quick.

What it does besides: --level_name=Fails ends an actor at once, --level_name=Trained a learner;
--level_name=Stubborn ignores TERM; --level_name=Slow takes its time to save, and a second TERM ends
it before; --level_name=Late takes its time to listen.
"""

import os
import signal
import socket
import sys
import time


def ends(*_: object) -> None:
    if "--level_name=Slow" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as a learner: a second one ends it at once
        time.sleep(4)
        print("all is saved", flush=True)
    sys.exit(0)


def main() -> int:
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[1:])
    level = flags.get("level_name", "")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if level == "Stubborn" else ends)
    host, _, port = flags["learner_host"].rpartition(":")
    name = f"{flags['job_name']} {flags['task']}"
    if flags["job_name"] == "learner" and level == "Trained":
        print("all frames are played")
        return 0
    if flags["job_name"] == "learner":
        time.sleep(12 if level == "Late" else 0)
        listener = socket.create_server(("", int(port)))
        rank = os.environ.get("OMPI_COMM_WORLD_RANK", "-")
        size = os.environ.get("OMPI_COMM_WORLD_SIZE", "-")
        print(f"learner at {host}:{port} is rank {rank} of {size}", flush=True)
        os.makedirs(flags["logdir"], exist_ok=True)
        with open(
            "/dev/null" if rank not in "0-" else f"{flags['logdir']}/metrics.jsonl", "w"
        ) as f:
            f.write('{"environment_frames": 12345, "frames_per_second": 678.0}\n')
        while True:
            peer, _ = listener.accept()
            peer.close()
    if level == "Fails":
        print(f"{name} has nothing to play")
        return 3
    count = 0
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            count += 1
            print(f"{name}: {1000 + count:,} frames/s")
            print(f"{name} reached {host}:{port} {count} times", flush=True)
        except OSError as error:
            print(f"{name} waits for {host}:{port}: {error}", flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
