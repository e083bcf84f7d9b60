"""Requests to hosts: all at once, and a host that fails does not affect the others."""

import functools
import json
import shlex
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from cluster import on_host
from cluster.model import Place
from cluster.on_host import checks
from cluster.on_host.answers import STARTS_WITHIN_S, answer
from cluster.record import Part, Record
from cluster.ssh.descriptors import make_room
from cluster.ssh.failures import HostFailed
from cluster.ssh.session import Ended
from cluster.ssh.ssh import Connections

AT_ONCE = 64
AGAIN_S = 2.0
# Requests that change nothing.
ONLY_LOOK = ("status", "tail", "results", "piece", "digest")
# Those about processes, whose ids mean nothing on another machine that sees the same files.
OF_PROCESSES = ("status", "stop", "end")
ANSWERS_WITHIN_S = 30.0
ON_HOST = (
    "processes",
    "states",
    "log_file",
    "windows",
    "keeper",
    "checks",
    "reaching",
    "ending",
    "results",
    "answers",
)
# Whatever a login shell's start-up files print comes before this.
REPLY = "impala-reply:"
# The project's own Python if it is there, else the host's; on_host needs nothing but Python.
COMMAND = (
    'unset CDPATH; cd; cd "$0" 2>/dev/null; '
    'command -v "$1" >/dev/null 2>&1 || set -- python3 "$2"; exec "$1" -I -c "$2"'
)
# Reads the program, then the program reads requests; what it starts reads nothing of them.
LOADER = (
    "import os, zlib; lines = os.fdopen(os.dup(0), 'rb'); "
    "exec(zlib.decompress(lines.read(int(lines.readline()))))"
)
PROGRAM = """
import json, os, signal, sys, types
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for name, source in {sources!r}.items():
    module = sys.modules["cluster.on_host" + name] = types.ModuleType("cluster.on_host" + name)
    if name:
        setattr(sys.modules["cluster.on_host"], name[1:], module)
    exec(compile(source, name, "exec"), module.__dict__)
answer = sys.modules["cluster.on_host.answers"].answer
signal.alarm({kept_s})
for line in lines:
    signal.alarm(0)
    try:
        reply = answer(json.loads(line))
    except Exception as error:
        reply = {{"error": type(error).__name__ + ": " + str(error)}}
    print({mark!r} + json.dumps(reply), flush=True)
    signal.alarm({kept_s})
"""
# For so long it waits for more; its frontend may have gone without a word.
KEPT_S = 600
Key = TypeVar("Key", bound=Hashable)


class Hosts:
    """Sends requests to hosts, this one or others over SSH."""

    def __init__(self, connections: Connections):
        self._connections = connections

    def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        """One request; ``HostFailed`` says why there is no answer."""
        if request.get("elsewhere"):
            raise HostFailed(request["elsewhere"])
        reply = _here(request) if place.host.is_local else self._there(place, request)
        if "error" in reply:
            raise HostFailed(reply["error"])
        return reply

    def ask_all(
        self, requests: Mapping[Place, dict[str, Any]], patience_s: float = 0.0
    ) -> dict[Place, dict[str, Any] | HostFailed]:
        """A request to each place; a failure stands in the place of its answer."""
        lasting = any(request["do"] not in ONLY_LOOK for request in requests.values())
        return patiently(
            lambda place: self.ask(place, requests[place]), requests, patience_s, lasting
        )

    def _there(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        command = f"exec sh -c {shlex.join([COMMAND, place.folder, place.python, LOADER])}"
        try:
            reply = self._connections.ask(
                place.host, command, _program(), REPLY, json.dumps(request), _within_s(request)
            )
        except Ended as error:
            last = (error.errors.strip().splitlines() or ["no output"])[-1]
            raise HostFailed(
                f"Python cannot be run there (exit code {error.code}: {last[:200]})",
                "--action=sync installs it, as root or with sudo that asks for no password",
            ) from None
        try:
            return json.loads(reply)
        except ValueError:
            raise HostFailed(f"its answer is broken: {reply[:200]!r}") from None


def _within_s(request: dict[str, Any]) -> float:
    """How long a host may take for its answer."""
    own = {"start": STARTS_WITHIN_S, "check": sum(checks.WITHIN_S.values())}
    more = request.get("grace_s", 0.0) + request.get("takes_s", 0.0)
    return ANSWERS_WITHIN_S + own.get(request["do"], 0.0) + more


def _here(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return answer(json.loads(json.dumps(request)))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


@functools.cache
def _program() -> bytes:
    """``on_host`` as one program, for a host that may not have the project yet, and its length."""
    folder = Path(on_host.__file__).parent
    sources = {"": ""} | {f".{name}": (folder / f"{name}.py").read_text() for name in ON_HOST}
    packed = zlib.compress(
        PROGRAM.format(sources=sources, mark=REPLY, kept_s=KEPT_S).encode(), level=9
    )
    return f"{len(packed)}\n".encode() + packed


def at_once(
    work: Callable[[Key], dict[str, Any]],
    keys: Iterable[Key],
    most: int = AT_ONCE,
    lasting: bool = True,
) -> dict[Key, dict[str, Any] | HostFailed]:
    """The result of each key's work, done side by side, ``most`` at a time.

    After Ctrl-C, work that is ``lasting`` is waited for; what only looks is not, as a host may be
    frozen.
    """

    def one(key: Key) -> dict[str, Any] | HostFailed:
        try:
            return work(key)
        except HostFailed as error:
            return error

    listed = list(keys)
    make_room(len(listed))
    pool = ThreadPoolExecutor(min(most, len(listed) or 1))
    try:
        replies = dict(zip(listed, pool.map(one, listed), strict=True))
    except BaseException:
        pool.shutdown(wait=lasting, cancel_futures=True)
        raise
    pool.shutdown()
    return replies


def patiently(
    work: Callable[[Place], dict[str, Any]],
    asked: Iterable[Place],
    seconds: float,
    lasting: bool = True,
) -> dict[Place, dict[str, Any] | HostFailed]:
    """``at_once``, and again for so long where a failure may pass, such as a cut link."""
    end = time.monotonic() + seconds
    replies = at_once(work, asked, lasting=lasting)
    announced: set[Place] = set()
    while again := [one for one, reply in replies.items() if _may_pass(reply)]:
        if time.monotonic() >= end:
            break
        for place in again:
            if place not in announced:
                print(f"{place.host}: {replies[place]} Asking again for {seconds:g} s.", flush=True)
        announced.update(again)
        time.sleep(AGAIN_S)
        replies |= at_once(work, again, lasting=lasting)
    return replies


def _may_pass(reply: dict[str, Any] | HostFailed) -> bool:
    return isinstance(reply, HostFailed) and reply.passing


def places(record: Record) -> dict[Place, list[Part]]:
    """The processes of a run by the place of their keepers, and the places of all learners."""
    found: dict[Place, list[Part]] = {}
    for part in record.parts:
        found.setdefault(part.place, []).append(part)
    for listener in record.listeners:  # under a mpirun elsewhere
        found.setdefault(listener.place, [])
    return found


def request(record: Record, do: str, place: Place, parts: list[Part], **more: Any) -> dict:
    """The fields of every request about a run, and ``more``."""
    if place.host.is_local and do in OF_PROCESSES and record.is_elsewhere:
        more["elsewhere"] = f"this was started on {record.machine}: give the command there"
    return {
        "do": do,
        "run_id": record.run_id,
        "tmux": record.tmux,
        "logdir": record.logdir,
        "folder": place.folder,
        "names": [part.name for part in parts],
        **more,
    }
