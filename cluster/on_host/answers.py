"""Answers to what a frontend asks a host: start these, how are they, what did they say, stop."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from cluster.on_host import windows
from cluster.on_host.checks import check
from cluster.on_host.keeper import write_whole
from cluster.on_host.processes import boot_id, descendants, is_alive, marked, send, wait_until
from cluster.on_host.reaching import listen, reach

STARTS_WITHIN_S = 20.0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """One reply to one request; both are JSON. ``folder`` is below the home unless absolute."""
    request["folder"] = os.path.join(os.path.expanduser("~"), request["folder"])
    request["records"] = os.path.join(request["folder"], request["logdir"], "cluster")
    return ANSWERS[request["do"]](request)


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Starts a keeper for each process and waits until all have written their state."""
    records = Path(request["records"])
    records.mkdir(parents=True, exist_ok=True)
    in_the_way = windows.clear(request["tmux"], request["run_id"])
    if in_the_way:
        return {"error": in_the_way}
    home = os.path.join(request["folder"], request["project"])
    for process in request["processes"]:
        spec_path = records / f"{process['name']}.spec.json"
        state_path = records / f"{process['name']}.json"
        state_path.unlink(missing_ok=True)
        spec = {
            **process,
            "run_id": request["run_id"],
            "folder": request["folder"],
            "state": str(state_path),
            "log": str(records / f"{process['name']}.log"),
        }
        spec_path.touch(mode=0o600)
        spec_path.write_text(json.dumps(spec))
        python = os.path.join(home, process["python"])
        argv = [python, "-m", "cluster.on_host.keeper", str(spec_path)]
        windows.open_window(request["tmux"], process["name"], argv, home, request["run_id"])
    names = [process["name"] for process in request["processes"]]
    wait_until(
        lambda: all(_state(records, name, request["run_id"]) for name in names), STARTS_WITHIN_S
    )
    return status({**request, "names": names})


def keep(request: dict[str, Any]) -> dict[str, Any]:
    """Writes files below the run's folder that only this user reads."""
    for name, text in request["files"].items():
        path = Path(request["records"]).parent / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text)
    return {}


def status(request: dict[str, Any]) -> dict[str, Any]:
    """The state of each process, its last line, and which of the addresses listen."""
    records = Path(request["records"])
    boot = boot_id()
    states = {}
    for name in request["names"]:
        state = _state(records, name, request["run_id"])
        states[name] = {
            **_judged(state, boot),
            "since": state.get("since"),
            "restarts": state.get("restarts", 0),
            "last_lines": _last_lines(records / f"{name}.log"),
        }
    listening = [_listens(port) for _, port in request.get("addresses", [])]
    metrics = _last_lines(records.parent / "metrics.jsonl", 1)
    return {"states": states, "listening": listening, "metrics": metrics, "now": time.time()}


def tail(request: dict[str, Any]) -> dict[str, Any]:
    """What the logs hold beyond the offsets; a negative offset counts from the end."""
    texts = {}
    for name, offset in request["offsets"].items():
        try:
            with open(Path(request["records"]) / f"{name}.log", "rb") as log:
                size = log.seek(0, os.SEEK_END)
                begin = log.seek(max(0, size + offset) if offset < 0 else min(offset, size))
                data = log.read(1 << 20)
        except OSError:
            continue
        # Whole lines only, so that those of several processes can be joined.
        whole = data[: data.rfind(b"\n") + 1]
        if offset < 0 and begin:
            begin += whole.find(b"\n") + 1
            whole = whole[whole.find(b"\n") + 1 :]
        texts[name] = {"text": whole.decode("utf-8", "replace"), "offset": begin + len(whole)}
    return {"logs": texts}


def stop(request: dict[str, Any]) -> dict[str, Any]:
    """TERM, after the grace period KILL, to what the records and the run's mark name."""
    records, run_id = Path(request["records"]), request["run_id"]
    boot = boot_id()
    recorded = []
    for name in request["names"]:
        state = _state(records, name, run_id)
        if state.get("boot_id") == boot:
            # A keeper ends its process first; one without a keeper is told itself.
            recorded.append(state["keeper"])
            if not is_alive(*state["keeper"]) and state.get("child"):
                recorded.append(state["child"])
    asked = sum(send(pid, started, signal.SIGTERM) for pid, started in recorded)

    def left() -> list[tuple[int, int]]:
        return [(p, s) for p, s in recorded if is_alive(p, s)] + marked(run_id)

    # Those whose keeper is gone or elsewhere, as of learners under another host's mpirun.
    kept = set().union(*(descendants(pid) for pid, _ in recorded))
    for pid, started in marked(run_id):
        if pid not in kept and [pid, started] not in recorded:
            asked += send(pid, started, signal.SIGTERM)
    wait_until(lambda: not left(), request["grace_s"], every=0.2)
    killed = 0
    for _ in range(5):  # a keeper may have been about to start its process again
        killed += sum(send(pid, started, signal.SIGKILL) for pid, started in reversed(left()))
        if wait_until(lambda: not left(), 2.0):
            break
    windows.close(request["tmux"], run_id)
    for name in request["names"]:
        _write_stopped(records / f"{name}.json", _state(records, name, run_id))
    return {"asked": asked, "killed": killed, "left": [pid for pid, _ in left()]}


def _write_stopped(path: Path, state: dict[str, Any]) -> None:
    """For a keeper that was killed and could not write it itself."""
    if state.get("state") not in (None, "ended", "stopped") and not is_alive(*state["keeper"]):
        write_whole(path, json.dumps({**state, "state": "stopped", "since": time.time()}))


def _state(records: Path, name: str, run_id: str) -> dict[str, Any]:
    """What the keeper wrote, if it was this run's."""
    try:
        state = json.loads((records / f"{name}.json").read_text())
    except (OSError, ValueError):
        return {}
    return state if state.get("run_id") == run_id else {}


def _judged(state: dict[str, Any], boot: str) -> dict[str, Any]:
    """What is true now, which after a crash is not what was written last."""
    if not state:
        return {"state": "not started"}
    if state["state"] == "stopped":
        return {"state": "stopped"}
    if state["state"] == "ended":
        code = state["exit_code"]
        return {"state": "done" if code == 0 else _failure(code)}
    if state["boot_id"] != boot:
        return {"state": "lost: the host was started again"}
    if is_alive(*state["keeper"]):
        return {"state": state["state"]}
    child = state.get("child")
    if child and is_alive(*child):
        return {"state": "running, unwatched"}
    return {"state": "died unseen"}


def _failure(code: int) -> str:
    if code >= 0:
        return f"failed: {code}"
    try:
        return f"killed: {signal.Signals(-code).name}"
    except ValueError:
        return f"killed: {-code}"


def _last_lines(path: Path, most: int = 20) -> list[str]:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16384))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-most:]


def _listens(port: int) -> bool:
    """Whether somebody listens at a port here; looked up, as a call would be one to answer."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as rows:
            sockets = [row.split() for row in rows.readlines()[1:]]
            if any(one[3] == "0A" and int(one[1].split(":")[1], 16) == port for one in sockets):
                return True
    return False


ANSWERS = {
    "start": start,
    "status": status,
    "tail": tail,
    "stop": stop,
    "keep": keep,
    "check": check,
    "listen": listen,
    "reach": reach,
}
