"""Ending a run on one host: what it started there, and nothing else."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.on_host import states, windows
from cluster.on_host.processes import boot_id, is_alive, marked, send, topmost, wait_until
from cluster.on_host.states import write_whole

Process = tuple[int, int]  # its id and its start time


def stop(request: dict[str, Any]) -> dict[str, Any]:
    """Sends TERM, then KILL after the grace period, to recorded and to marked processes."""
    run_id, files = request["run_id"], _state_files(request)
    for records in {path.parent for path in files.values()} | {Path(request["records"])}:
        _forbid_more(records, run_id)
    recorded = {
        name: _recorded(states.read(path.parent, name, run_id)) for name, path in files.items()
    }
    known = {one for those in recorded.values() for one in those}
    ours = marked(run_id)
    # Processes without a keeper, such as learners under another host's mpirun. Only the topmost
    # get TERM and pass it on: a second TERM after 5 s would end a learner before it has saved.
    tops = topmost({pid for pid, _ in ours})
    strays = [one for one in ours if one[0] in tops and one not in known]
    asked = {one for one in [*known, *strays] if send(*one, signal.SIGTERM)}
    stopped = [name for name, those in recorded.items() if asked.intersection(those)]

    def left() -> list[Process]:
        alive = [one for one in known if is_alive(*one)]
        return list(dict.fromkeys([*alive, *marked(run_id)]))

    killed = _kill(left, request["grace_s"])
    windows.close(request["tmux"], run_id)
    for name, path in files.items():
        _write_stopped(path, name, run_id)
    return {
        "stopped": stopped,
        "strays": len(asked.intersection(strays)),
        "killed": killed,
        "left": [pid for pid, _ in left()],
    }


def end(request: dict[str, Any]) -> dict[str, Any]:
    """Ends these processes of a run, TERM before KILL, and nothing else of it."""
    run_id, files = request["run_id"], _state_files(request)
    recorded = {
        name: _recorded(states.read(path.parent, name, run_id)) for name, path in files.items()
    }
    known = [one for those in recorded.values() for one in those]

    def left() -> list[Process]:
        alive = [one for one in known if is_alive(*one)]
        # One scan for all names: there may be many, and it is repeated several times a second.
        return list(dict.fromkeys([*alive, *(marked(run_id, files) if files else [])]))

    for one in known:
        send(*one, signal.SIGTERM)
    killed = _kill(left, request["grace_s"])
    for name, path in files.items():
        windows.close(request["tmux"], run_id, name)
        _write_stopped(path, name, run_id)
    return {"killed": killed, "left": [pid for pid, _ in left()]}


def _kill(left: Callable[[], list[Process]], grace_s: float) -> int:
    """Waits for processes to end, then kills those that are left; returns how many it killed."""
    wait_until(lambda: not left(), grace_s, every=0.2)
    killed = 0
    for _ in range(5):  # a keeper may have been about to start its process again
        killed += sum(send(pid, started, signal.SIGKILL) for pid, started in left())
        if wait_until(lambda: not left(), 2.0):
            break
    return killed


def _state_files(request: dict[str, Any]) -> dict[str, Path]:
    """The file of each process: in the request's own folder, and in others of this host.

    One request for all of them, because each sends TERM to what it finds on the host.
    """
    home, logdir = Path(os.path.expanduser("~")), request["logdir"]
    folders = {Path(request["records"]): list(request["names"])}
    for folder, names in request.get("others", ()):  # the same one, of rows with another Python
        folders.setdefault(home / folder / logdir / "cluster", []).extend(names)
    return {name: path / f"{name}.json" for path, names in folders.items() for name in names}


def _forbid_more(records: Path, run_id: str) -> None:
    """Makes processes end at once that a start in progress still starts."""
    with contextlib.suppress(OSError):  # a full disk; running processes are ended anyway
        records.mkdir(parents=True, exist_ok=True)
        write_whole(records / states.STOPPED, run_id)


def _recorded(state: dict[str, Any]) -> list[Process]:
    """A keeper, which ends its process first; also its process if the keeper is gone."""
    if state.get("boot_id") != boot_id():
        return []  # after a reboot these ids belong to other processes
    keeper, child = state["keeper"], state.get("child")
    if is_alive(*keeper) or not child:
        return [tuple(keeper)]
    return [tuple(keeper), tuple(child)]


def _write_stopped(path: Path, name: str, run_id: str) -> None:
    """Writes the state for a keeper that was killed and could not."""
    state = states.read(path.parent, name, run_id)
    if state.get("state") not in (None, "ended", "stopped") and not is_alive(*state["keeper"]):
        with contextlib.suppress(OSError):  # a full disk; it is stopped anyway
            write_whole(path, json.dumps({**state, "state": "stopped", "since": time.time()}))
