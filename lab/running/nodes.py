"""Places sessions on the machines of a Ray cluster, wherever their cores and memory are free.

Ray only chooses the machine. What a session is, how far it is and how it ended stands in its
folder, which all machines see under the same path. A session whose machine is lost fails as a task
of Ray; the runner finds it unfinished in its folder, and starts it again elsewhere.
"""

import logging
import math
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from checkout import setup_command
from lab.specs.meta import Meta, Resources
from lab.trials.sessions import Session
from trainer.machine.launching import beside_python
from user_error import UserError

GIB = 2**30
ANSWER_WITHIN_S = 5.0
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Nodes:
    """Starts sessions on the nodes of a Ray cluster."""

    def __init__(self, address: str, resources: Resources, most_cores: int):
        self._ray = _connected(address)
        self._resources, self._most_cores = resources, most_cores
        if not self.count():
            largest = max((_cores(node) for node in self._alive()), default=0)
            memory = max((_memory(node) for node in self._alive()), default=0.0)
            raise UserError(
                f"meta.resources: found {resources.cores} core(s) with {resources.memory_gb:g} GB; "
                f"expected what a node of the Ray cluster has. The largest have {largest} core(s) "
                f"and {memory:.1f} GB."
            )

    def count(self) -> int:
        """How many sessions there is room for, on the nodes that are alive now."""
        cores, memory = self._resources.cores, self._resources.memory_gb
        room = sum(
            min(_cores(node) // cores, math.floor(_memory(node) / memory)) for node in self._alive()
        )
        return min(room, self._most_cores // cores) if self._most_cores else room

    def start(self, session: Session, slot: int, meta: Meta) -> None:
        """Starts a session on any node."""
        limits = meta.session_timeout_s, meta.silent_timeout_s
        session.start(self._resources.cores, *limits, self._launch)

    def of(self, session: Session) -> int | None:
        """None: all places are alike, and sessions end with the lab that has started them."""
        return None

    def _launch(self, words: list[str], environment: Mapping[str, str]) -> "Placed":
        remote = self._ray.remote(
            num_cpus=self._resources.cores,
            memory=int(self._resources.memory_gb * GIB),
            max_retries=0,  # the runner looks into the session's folder first
        )(_keeping())
        return Placed(self._ray, remote.remote(words, dict(environment), os.getcwd()))

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]


class Placed:
    """A keeper that runs as a task of Ray."""

    def __init__(self, ray: Any, task: Any):
        self._ray, self._task = ray, task

    def poll(self) -> int | None:
        """0 once it has ended, or its machine is lost."""
        done, _ = self._ray.wait([self._task], timeout=0)
        return 0 if done else None

    @property
    def problem(self) -> str:
        """How it has ended, in a line: with the keeper's code, or without it."""
        try:
            return f"its keeper ended with {self._ray.get(self._task)}"
        except Exception as error:  # of the task, or of Ray in its place
            cause = getattr(error, "cause", None) or error
            return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"

    def terminate(self) -> None:
        """Asks it to end the session with a checkpoint."""
        self._ray.cancel(self._task)


def _keeping() -> Callable[[list[str], dict[str, str], str], int]:
    """What runs on a node. A function inside another travels as it is: nodes import nothing."""

    def keep(words: list[str], environment: dict[str, str], folder: str) -> int:
        import os
        import subprocess
        import time

        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=folder,
            env={**os.environ, **environment},
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)  # a wait without an end could not be cancelled
        finally:
            process.terminate()
            process.wait()
        return process.returncode

    return keep


def _connected(address: str) -> Any:
    """Ray, connected to a cluster that is running."""
    address = address or os.environ.get("RAY_ADDRESS", "")
    if address and address != "auto":
        _reach(address)
        if address.rpartition(":")[0] in LOOPBACK:  # which Ray replaces otherwise
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise UserError(f"--engine=ray needs Ray: run {setup_command('ray')}.") from None
    try:
        ray.init(
            address=address or "auto",
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            ignore_reinit_error=True,  # one connection for all experiments of a list
        )
    except ConnectionError:
        raise UserError(
            "--engine=ray: found no Ray cluster on this machine; expected one. Start it with "
            f"{beside_python('ray')} start --head, or give --ray_address=HOST:PORT."
        ) from None
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--ray_address={address}: Ray refuses it: {reason}") from None
    return ray


def _reach(address: str) -> None:
    """Refuses an address that does not answer; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"--ray_address={address}: expected HOST:PORT, such as 10.0.0.1:6379.")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"--ray_address={address}: found nothing that answers there ({reason}); expected the "
            "head of a Ray cluster."
        ) from None


def _cores(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))


def _memory(node: Mapping[str, Any]) -> float:
    """The memory of a node in GiB."""
    return float(node["Resources"].get("memory", 0)) / GIB
