"""What has been trained so far, and where it lies: no start and no fetch is to lose it."""

import base64
import json
import os.path
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backends.ssh.hosts import Hosts, request
from cluster.model import Place, Plan
from cluster.on_host.answers import LAST_BYTES, last_lines
from cluster.on_host.results import AGENTS, CHECKPOINT, digest, results
from cluster.record import Record
from cluster.ssh.failures import HostFailed
from user_error import UserError

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"


def must_be_found(before: Record | None, plan: Plan, hosts: Hosts, allow_partial: bool) -> None:
    """A ``UserError`` if the first learner would not find the checkpoints of the run ``before``.

    Only those of the first learner are looked for; it writes them on its own host. Where that does
    not answer, the copy by fetch counts. With ``allow_partial``, one that begins anew although
    nothing is known is only warned of.
    """
    if before is None or before.backend != "ssh":
        return
    was, now = before.listeners[0].place, plan.learners[0].place
    if (was.host, was.folder, before.logdir) == (now.host, now.folder, plan.logdir):
        return
    agent = plan.learners[0].row.agent
    begins_at = _frames_saved(now, plan.logdir, agent, before, hosts)
    if begins_at is None:  # the checks say that it does not answer
        return
    saved = _frames_saved(was, before.logdir, agent, before, hosts)
    where = f"on {was.host}, in {os.path.join(was.folder, before.logdir)}"
    how = " (--action=fetch brings it here)"
    if saved is None:
        fetched = before.path.parent.parent
        saved = _newest(results({"records": str(before.path.parent), "which": "newest"}), agent)
        where = f"here, in {fetched}, and {was.host} does not answer"
        how = ""
        if not saved and not begins_at:
            _begins_anew(was, now, plan.logdir, allow_partial)
    if begins_at >= saved:
        return
    raise UserError(
        f"{plan.logdir}: checkpoints of {saved:,} frames are {where}; the first learner would be "
        f"on {now.host} and begin at {begins_at:,}. Copy that folder, with metrics.jsonl and "
        f"without cluster/, to {os.path.join(now.folder, plan.logdir)} there "
        f"first{how}, or give another --logdir."
    )


def _begins_anew(was: Place, now: Place, logdir: str, allow_partial: bool) -> None:
    unknown = f"{was.host} does not answer, so it is unknown whether it has checkpoints of the run"
    if not allow_partial:
        raise UserError(
            f"{logdir}: {unknown}. Try again when it does; to begin anew on {now.host}, give "
            "another --logdir, or --allow_partial."
        )
    print(f"warning: {unknown}; the first learner begins anew on {now.host}.", file=sys.stderr)


def _frames_saved(place: Place, logdir: str, agent: str, run: Record, hosts: Hosts) -> int | None:
    """Those of the first learner's newest checkpoint; None if its host does not answer."""
    asked = {**request(run, "results", place, [], which="newest"), "logdir": logdir}
    reply = hosts.ask_all({place: asked})[place]
    return None if isinstance(reply, HostFailed) else _newest(reply, agent)


def _newest(listed: dict[str, Any], agent: str) -> int:
    """The frames of the newest checkpoint: not of other agents, nor of learners' own folders."""
    own = Path(AGENTS, agent) if agent else Path()
    paths = [Path(name) for name, _, _ in listed["files"]]
    named = [CHECKPOINT.fullmatch(path.name) for path in paths if path.parent == own / CHECKPOINTS]
    return max((int(one[1]) for one in named if one), default=0)


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
