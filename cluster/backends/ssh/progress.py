"""What has been trained so far, and where it lies: no start and no fetch is to lose it."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backends.ssh.hosts import Hosts, request
from cluster.model import Place, Plan
from cluster.on_host.answers import LAST_BYTES, last_lines
from cluster.on_host.results import AGENTS, CHECKPOINT, digest
from cluster.record import Record
from cluster.ssh.failures import HostFailed
from user_error import UserError

METRICS = "metrics.jsonl"


def must_be_found(before: Record | None, plan: Plan, hosts: Hosts) -> None:
    """A ``UserError`` if the first learner would not find the checkpoints of the run ``before``.

    Only the first learner writes any, on its own host.
    """
    if before is None or before.backend != "ssh":
        return
    was, now = before.listeners[0].place, plan.learners[0].place
    if (was.host, was.folder, before.logdir) == (now.host, now.folder, plan.logdir):
        return
    begins_at = _frames_saved(now, plan.logdir, before, hosts)
    if begins_at is None:  # the checks say that it does not answer
        return
    saved = _frames_saved(was, before.logdir, before, hosts)
    if begins_at >= (1 if saved is None else saved):
        return
    reached = "the run's checkpoints" if saved is None else f"checkpoints of {saved:,} frames"
    raise UserError(
        f"{plan.logdir}: {reached} are on {was.host}, in {was.folder}/{before.logdir}; the first "
        f"learner would be on {now.host} and begin at {begins_at:,}. Copy them to "
        f"{now.folder}/{plan.logdir} there first (--action=fetch brings them here), or give "
        "another --logdir."
    )


def _frames_saved(place: Place, logdir: str, run: Record, hosts: Hosts) -> int | None:
    """Those of the newest checkpoint in a folder; None if its host does not answer."""
    asked = {**request(run, "results", place, [], which="newest"), "logdir": logdir}
    reply = hosts.ask_all({place: asked})[place]
    if isinstance(reply, HostFailed):
        return None
    found = [CHECKPOINT.fullmatch(Path(name).name) for name, _, _ in reply["files"]]
    return max((int(one[1]) for one in found if one), default=0)


def must_not_be_behind(
    folder: Path, sizes: Mapping[str, int], where: str, ask: Callable[..., dict[str, Any]]
) -> None:
    """A ``UserError`` if the results here, in ``folder``, are of a training that got further.

    ``sizes`` are those of the files there; ``ask`` sends a request about one of them.
    """
    for path in (folder / METRICS, *folder.glob(f"{AGENTS}/*/{METRICS}")):
        frames = _frames(last_lines(path, 1))
        name = path.relative_to(folder)
        # Each agent's are on the host of its own first learner: none may be there.
        if not any(name.parent in Path(one).parents for one in sizes):
            continue
        size = sizes.get(str(name), 0)
        # Metrics only grow. After a resume they have fewer frames for a while, but begin alike.
        if not frames or _begins_alike(path, str(name), size, ask):
            continue
        begin = max(0, size - LAST_BYTES)
        piece = ask("piece", name=str(name), offset=begin, length=size - begin)
        there = _frames(base64.b64decode(piece["data"]).decode("utf-8", "replace").splitlines())
        if there < frames:
            raise UserError(
                f"{path} is of {frames:,} frames. The one on {where} is of {there:,}, of another "
                "training, whose files would replace those here. Move the results here to another "
                "folder first, all but cluster/."
            )


def _begins_alike(path: Path, name: str, size: int, ask: Callable[..., dict[str, Any]]) -> bool:
    here = path.stat().st_size
    mine = digest({"records": str(path.parent / "cluster"), "name": path.name, "size": here})
    return here <= size and ask("digest", name=name, size=here) == mine


def _frames(lines: Sequence[str]) -> int:
    """Those of the last report."""
    try:
        return int(json.loads(lines[-1])["environment_frames"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0
