"""A learner or an actor on a node that nobody knows beforehand: they find each other by files.

    python -m cluster.on_host.member learner LOGDIR/cluster RUN PORTS NETWORK -- COMMAND
    python -m cluster.on_host.member actor LOGDIR/cluster RUN LEARNER KEEPER -- COMMAND

{address} in the command becomes a learner's host:port. A learner writes it to a file as soon as it
listens; an actor waits for that file, and starts again if its learner has moved to another node.
"""

import contextlib
import functools
import ipaddress
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cluster.on_host import states
from cluster.on_host.reaching import listens
from cluster.on_host.states import write_whole

ADDRESS = "{address}"
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
LOOK_EVERY_S = 0.5
ENDS_WITHIN_S = 15.0
# Of the ports that are tried for a learner; those that the system hands out by itself lie above.
FIRST, LAST = 12_000, 32_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def read_address(records: Path, name: str, run_id: str) -> str:
    """Where a learner of the run listens, or "" if it does not."""
    try:
        written = json.loads((records / f"{name}.address").read_text())
    except (OSError, ValueError):
        return ""
    return written["address"] if written["run_id"] == run_id else ""


class Child:
    """A process that gets the signals of this one."""

    def __init__(self, command: list[str], tag: bytes):
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if tag else None,
            stderr=subprocess.STDOUT,
        )
        self._tagging = threading.Thread(target=self._tag, args=(tag,), daemon=True)
        if tag:
            self._tagging.start()

    def _tag(self, tag: bytes) -> None:
        """Passes its lines on, each after the tag of its rank."""
        assert self._process.stdout
        for line in self._process.stdout:
            os.write(1, tag + line)

    def send(self, number: int) -> None:
        """Signals it."""
        with contextlib.suppress(OSError):
            self._process.send_signal(number)

    def end(self) -> None:
        """Asks it to end, and sees to it."""
        self.send(signal.SIGTERM)
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ended(self) -> int | None:
        """Its exit code once it has ended, as a shell would say it."""
        code = self._process.poll()
        if code is not None and self._tagging.is_alive():
            self._tagging.join(ENDS_WITHIN_S)
        return 128 - code if code is not None and code < 0 else code


class Member:
    """This process: whether it was asked to end, and its child."""

    def __init__(self) -> None:
        self.is_asked = False
        self.child: Child | None = None
        self._has_passed_on = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)

    def start(self, command: list[str], tag: bytes = b"") -> None:
        """Starts the child; a signal that came just before reaches it, too."""
        self.child = Child(command, tag)
        if self.is_asked and not self._has_passed_on:
            self.child.send(signal.SIGTERM)

    def end(self) -> None:
        """Ends the child."""
        assert self.child
        self.child.end()

    def _pass_on(self, number: int, _: object) -> None:
        self.is_asked = True
        if self.child:
            self._has_passed_on = True
            self.child.send(number)

    def wait(self, look: Callable[[], bool]) -> int | None:
        """Waits for the child's exit code; None once ``look`` says so."""
        assert self.child
        while (code := self.child.ended()) is None:
            if look():
                return None
            time.sleep(LOOK_EVERY_S)
        return code


def learn(records: Path, run_id: str, ports: str, network: str, command: list[str]) -> int:
    """Runs a learner and publishes its address; returns its exit code."""
    given = ports.split(",")
    rank = int(next(filter(None, map(os.environ.get, RANKS)), "0"))
    port = int(given[rank]) or _free_port()
    host = own_address(network)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    path = records / f"learner-{rank}.address"
    path.unlink(missing_ok=True)
    member = Member()
    tag = f"[1,{rank}]<stdout>:".encode() if len(given) > 1 else b""
    member.start([word.replace(ADDRESS, address) for word in command], tag)

    def publish() -> bool:
        if not path.exists() and listens(port):
            write_whole(path, json.dumps({"run_id": run_id, "address": address}))
        return False

    code = member.wait(publish)
    path.unlink(missing_ok=True)
    return code or 0


def act(records: Path, run_id: str, learner: str, keeper: str, command: list[str]) -> int:
    """Runs an actor wherever its learner is; returns its exit code."""
    member = Member()
    print(f"waiting for {learner}", flush=True)
    while not member.is_asked:
        # Asked first: a learner that was killed outright has left its address.
        if _have_ended(records, keeper, run_id):
            print("the learners have ended", flush=True)
            return 0
        address = read_address(records, learner, run_id)
        if not address:
            time.sleep(LOOK_EVERY_S)
            continue
        member.start([word.replace(ADDRESS, address) for word in command])
        where = functools.partial(read_address, records, learner, run_id)
        code = member.wait(functools.partial(_is_gone, where, address, records, keeper, run_id))
        if code is not None:
            return code
        if where() not in ("", address):
            print(f"{learner} has moved", flush=True)
        member.end()
    return 0


def _is_gone(
    where: Callable[[], str], before: str, records: Path, keeper: str, run_id: str
) -> bool:
    """Whether the learner is elsewhere now, or will be nowhere any more."""
    return where() not in ("", before) or _have_ended(records, keeper, run_id)


def _have_ended(records: Path, keeper: str, run_id: str) -> bool:
    """Whether the learners have ended by themselves; those that were stopped may come back."""
    return states.read(records, keeper, run_id).get("state") == "ended"


def own_address(network: str) -> str:
    """This node's address: in that network, or the one of its name, or the first there is."""
    own = _run("hostname", "-I").split()
    if network:
        inside = [
            one
            for one in own
            if ipaddress.ip_address(one) in ipaddress.ip_network(network, strict=False)
        ]
        if not inside:
            sys.exit(f"--mpirun_network={network}: this node has {' '.join(own) or 'no address'}.")
        return inside[0]
    for name in (os.environ.get("SLURMD_NODENAME"), socket.gethostname()):
        with contextlib.suppress(OSError):
            found = socket.gethostbyname(name) if name else ""
            if found in own:
                return found
    return own[0] if own else "127.0.0.1"


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _free_port() -> int:
    """A port at which nobody listens, for a learner that takes seconds until it does.

    The system hands out none of those tried by itself; where all are taken, one of its own.
    """
    try:
        end = int(EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        end = LAST
    end = end if end > FIRST + 1000 else LAST  # where it hands out nearly all, there is no choice
    for port in (*random.SystemRandom().sample(range(FIRST, end), 100), 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return probe.getsockname()[1]
    sys.exit("there is no free port on this node")


if __name__ == "__main__":
    job, folder, run, first, second, _, *rest = sys.argv[1:]
    sys.exit({"learner": learn, "actor": act}[job](Path(folder), run, first, second, rest))
