"""What has been trained so far, and where it lies: no start and no fetch is to lose it."""

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backends.ssh.hosts import Hosts
from cluster.model import LOCAL, Place
from cluster.on_host.answers import LAST_BYTES, last_lines
from cluster.on_host.results import AGENTS, CHECKPOINT, agent_of, digest, of_agent, results
from cluster.record import Record
from cluster.ssh.failures import HostFailed
from cluster.this_machine import here
from user_error import UserError

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"


def must_be_found(
    before: Record | None, now: Place, logdir: str, agent: str, hosts: Hosts, allow_partial: bool
) -> None:
    """A ``UserError`` if the agent's first learner, now there, would not find what was trained.

    Only its own checkpoints are looked for. If the run ``before`` was one of hosts, they are where
    its first learner was; if that does not answer, the copy by fetch counts. A run on Slurm, and a
    training without a cluster, have theirs here. With ``allow_partial``, one that begins anew
    although nothing is known is only warned of.
    """
    was, its = Place(LOCAL, here().folder, ""), logdir
    if before and before.backend == "ssh":
        # Earlier versions did not write which agent a learner trains.
        firsts = {one.agent: one for one in before.firsts}
        was, its = firsts.get(agent, before.firsts[0]).place, before.logdir
    elif before and before.backend == "kubernetes":
        _warn(
            f"{logdir}: the run before has its checkpoints in a volume of Kubernetes, where the "
            f"first learner {_at(now)} does not find them."
        )
    if (was.host, was.folder, its) == (now.host, now.folder, logdir):
        return
    saved = _frames_saved(was, its, agent, hosts)
    if saved == 0:
        return
    begins_at = _frames_saved(now, logdir, agent, hosts)
    if isinstance(begins_at, HostFailed):  # the checks say so
        return
    own = of_agent(agent)
    whose = f"the first learner of {agent}" if agent else "the first learner"
    where = f"{_at(was)}, in {Path(was.folder, its, own)}"
    how = "" if was.host.is_local else " (--action=fetch brings it here)"
    if isinstance(saved, HostFailed):
        why = saved
        saved = _newest(results({"records": f"{logdir}/cluster", "which": "newest"}), agent)
        where = f"here, in {Path(logdir, own)}, and {was.host} cannot be asked ({why.problem})"
        how = ""
        if not saved and not begins_at:
            _begins_anew(why, was, now, logdir, whose, allow_partial)
    if begins_at >= saved:
        return
    raise UserError(
        f"{logdir}: checkpoints of {saved:,} frames are {where}; {whose} would be "
        f"{_at(now)} and begin at {begins_at:,}. Copy that folder, with metrics.jsonl and "
        f"without cluster/, to {Path(now.folder, logdir, own)} there "
        f"first{how}, or give another --logdir."
    )


def warn_of_pods(before: Record | None, logdir: str) -> None:
    """A warning where pods are to go on with what was trained without them: they do not see it."""
    if before and before.backend == "kubernetes":
        return
    is_elsewhere = before is not None and before.backend == "ssh"
    if is_elsewhere or _newest(results({"records": f"{logdir}/cluster", "which": "newest"}), ""):
        _warn(
            f"{logdir}: pods see only their volume, so the first learner does not go on from what "
            "was trained before without them."
        )


def _warn(what: str) -> None:
    print(f"warning: {what}", file=sys.stderr)


def _at(place: Place) -> str:
    return "here" if place.host.is_local else f"on {place.host}"


def _begins_anew(
    why: HostFailed, was: Place, now: Place, logdir: str, whose: str, allow_partial: bool
) -> None:
    unknown = (
        f"{was.host} cannot be asked ({why.problem}), so it is unknown whether it has checkpoints "
        "of the run"
    )
    if not allow_partial:
        raise UserError(
            f"{logdir}: {unknown}. Try again when it can, with the login that the run had; to "
            f"begin anew {_at(now)}, give another --logdir, or --allow_partial."
        )
    _warn(f"{unknown}; {whose} begins anew {_at(now)}.")


def _frames_saved(place: Place, logdir: str, agent: str, hosts: Hosts) -> int | HostFailed:
    """Those of the first learner's newest checkpoint, or why its host does not say."""
    asked = {"do": "results", "folder": place.folder, "logdir": logdir, "which": "newest"}
    reply = hosts.ask_all({place: asked})[place]
    return reply if isinstance(reply, HostFailed) else _newest(reply, agent)


def _newest(listed: dict[str, Any], agent: str) -> int:
    """The frames of the newest checkpoint: not of other agents, nor of learners' own folders."""
    own = of_agent(agent)
    paths = [Path(name) for name, _, _ in listed["files"]]
    named = [CHECKPOINT.fullmatch(path.name) for path in paths if path.parent == own / CHECKPOINTS]
    return max((int(one[1]) for one in named if one), default=0)


def must_not_be_behind(
    folder: Path, sizes: Mapping[str, int], where: str, ask: Callable[..., dict[str, Any]]
) -> None:
    """A ``UserError`` if the results here, in ``folder``, are of a training that got further.

    ``sizes`` are those of the files there; ``ask`` sends a request about one of them.
    """
    there = {agent_of(one) for one in sizes}
    for path in (folder / METRICS, *folder.glob(f"{AGENTS}/*/{METRICS}")):
        frames = _frames(last_lines(path, 1))
        name = path.relative_to(folder)
        # Each agent's are on the host of its own first learner: none may be there.
        if agent_of(str(name)) not in there:
            continue
        size = sizes.get(str(name), 0)
        # Metrics only grow. After a resume they have fewer frames for a while, but begin alike.
        if not frames or _begins_alike(path, str(name), size, ask):
            continue
        begin = max(0, size - LAST_BYTES)
        piece = ask("piece", name=str(name), offset=begin, length=size - begin)
        theirs = _frames(base64.b64decode(piece["data"]).decode("utf-8", "replace").splitlines())
        if theirs < frames:
            raise UserError(
                f"{path} is of {frames:,} frames. The one on {where} is of {theirs:,}, of another "
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
