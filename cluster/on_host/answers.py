"""A host's answers to the requests of a frontend: start, status, logs, stop and others."""

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

from cluster.on_host import checks, states, windows
from cluster.on_host.checks import check, program
from cluster.on_host.ending import end, stop
from cluster.on_host.log_file import LogFile
from cluster.on_host.processes import boot_id, wait_until
from cluster.on_host.reaching import listen, listens, reach
from cluster.on_host.results import digest, piece, results
from cluster.on_host.states import write_whole

STARTS_WITHIN_S = 60.0
MOST_AT_ONCE = 1 << 20
LAST_BYTES = 16384


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """One reply to one request; both are JSON. ``folder`` is below the home unless absolute."""
    request["folder"] = os.path.join(os.path.expanduser("~"), request["folder"])
    request["records"] = os.path.join(request["folder"], request["logdir"], "cluster")
    return ANSWERS[request["do"]](request)


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Starts a keeper for each process and waits until all have written their state."""
    records = Path(request["records"])
    records.mkdir(parents=True, exist_ok=True)
    # A request that is sent again, because a reply was lost, waits for the first one.
    with states.alone(records / ".starts.lock"):
        return _start(request, records)


def _start(request: dict[str, Any], records: Path) -> dict[str, Any]:
    in_the_way = windows.clear(request["tmux"], request["run_id"])
    if in_the_way:
        return {"error": in_the_way}
    names = [process["name"] for process in request["processes"]]
    others = states.of_other_runs(records, [request["run_id"]])
    if both := sorted(others.keys() & set(names)):
        return {"error": checks.of_another_run(both[0], others[both[0]], records)}
    home = os.path.join(request["folder"], request["project"])
    for process in request["processes"]:
        if _is_started(records, process["name"], request):
            continue
        spec_path = records / f"{process['name']}.spec.json"
        state_path = records / f"{process['name']}.json"
        state_path.unlink(missing_ok=True)
        spec = {
            **process,
            "run_id": request["run_id"],
            "attempt": request["attempt"],
            "folder": request["folder"],
            "state": str(state_path),
            "log": str(records / f"{process['name']}.log"),
        }
        spec_path.touch(mode=0o600)
        spec_path.write_text(json.dumps(spec))
        python = program(request["folder"], process["python"])
        argv = [python, "-m", "cluster.on_host.keeper", str(spec_path)]
        # One whose process has ended stays to be read, and may have the same name.
        windows.close(request["tmux"], request["run_id"], process["name"])
        windows.open_window(request["tmux"], process["name"], argv, home, request["run_id"])
    wait_until(
        lambda: all(states.read(records, name, request["run_id"]) for name in names),
        STARTS_WITHIN_S,
    )
    return status({**request, "names": names})


def _is_started(records: Path, name: str, request: dict[str, Any]) -> bool:
    """Whether a process is running, or was started by this request when its reply was lost."""
    if states.is_stopped(records, request["run_id"]):
        return True
    state = states.read(records, name, request["run_id"])
    if state and state.get("attempt") == request["attempt"]:
        return True
    return states.is_living(states.judged(state, boot_id()))


def keep(request: dict[str, Any]) -> dict[str, Any]:
    """Writes files below the run's folder that only this user can read."""
    for name, packed in request["files"].items():
        path = Path(request["records"]).parent / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, base64.b64decode(packed))
    return {}


def status(request: dict[str, Any]) -> dict[str, Any]:
    """The state of each process, its last lines, and at which of the ports somebody listens."""
    records = Path(request["records"])
    boot = boot_id()
    found = {}
    for name in request["names"]:
        state = states.read(records, name, request["run_id"])
        log = records / f"{name}.log"
        # What the log has before a keeper is of an earlier run.
        is_own = "keeper" in state and log.exists()
        found[name] = {
            "state": states.judged(state, boot),
            "since": state.get("since"),
            "restarts": state.get("restarts", 0),
            "last_lines": last_lines(log, begin=state.get("log_begin", 0)) if is_own else [],
            "silent_s": time.time() - log.stat().st_mtime if is_own else 0.0,
        }
    listening = [listens(port) for port in request.get("ports", [])]
    folders = request.get("reporting", [])
    metrics = {one: last_lines(records.parent / one / "metrics.jsonl", 1) for one in folders}
    return {"states": found, "listening": listening, "metrics": metrics}


def tail(request: dict[str, Any]) -> dict[str, Any]:
    """What the logs hold beyond the offsets; a negative offset counts from the end.

    ``alive`` is read before the logs, so processes that are not in it write nothing more.
    """
    records = Path(request["records"])
    alive = request.get("alive")
    if alive is None:
        names, run_id, boot = request["offsets"], request["run_id"], boot_id()
        now = {name: states.judged(states.read(records, name, run_id), boot) for name in names}
        alive = [name for name in now if states.is_living(now[name])]
    texts = {}
    for name, offset in request["offsets"].items():
        try:
            begin, data = LogFile(records / f"{name}.log").read(offset, MOST_AT_ONCE)
        except OSError:
            continue
        # Whole lines only, so that lines of several processes can be interleaved. Except for the
        # last line of a process that has ended, and for a line longer than one read.
        whole = data[: data.rfind(b"\n") + 1]
        if name not in alive or (not whole and len(data) == MOST_AT_ONCE):
            whole = data
        if offset < 0 and begin:
            begin += whole.find(b"\n") + 1
            whole = whole[whole.find(b"\n") + 1 :]
        texts[name] = {"text": whole.decode("utf-8", "replace"), "offset": begin + len(whole)}
    return {"logs": texts, "alive": alive}


def last_lines(path: Path, most: int = 20, begin: int = 0) -> list[str]:
    """The end of a log, or what follows the offset at which a keeper has begun."""
    try:
        first, data = LogFile(path).read(-LAST_BYTES, LAST_BYTES)
    except OSError:
        return []
    if 0 < begin - first <= len(data):  # beyond the end, somebody has cut the log
        data = data[begin - first :]
    text = data.decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip()][-most:]


ANSWERS = {
    "start": start,
    "status": status,
    "tail": tail,
    "stop": stop,
    "end": end,
    "keep": keep,
    "check": check,
    "listen": listen,
    "reach": reach,
    "results": results,
    "piece": piece,
    "digest": digest,
}
