"""Looking at a run: the state of each process, the run's figures, and the logs."""

import dataclasses
import datetime
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cluster import show
from cluster.hosts import Hosts, places, request
from cluster.record import Listener, Part, Record
from cluster.ssh import HostFailed
from user_error import UserError

LOOK_EVERY_S = 1.0
LONGEST_LINE = 120
# What mpirun's -tag-output puts before each line of a learner, and where two learners wrote at
# once, into a line as well.
TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:")


@dataclasses.dataclass(frozen=True)
class SeenPart:
    """A process as it is now."""

    part: Part
    state: str
    since: float | None = None
    restarts: int = 0
    last_lines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The process's name."""
        return self.part.name

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or will again."""
        return self.state.split(",")[0] in ("starting", "running", "pausing", "stopping")

    @property
    def has_failed(self) -> bool:
        """Whether it ended otherwise than by having done its work or being stopped."""
        return not self.is_alive and self.state not in ("done", "stopped")


@dataclasses.dataclass(frozen=True)
class Seen:
    """A run as it is now."""

    parts: list[SeenPart]
    listening: dict[Listener, bool]
    figures: dict[str, Any]


def look(record: Record, hosts: Hosts) -> Seen:
    """Asks every host of the run how its processes are."""
    by_place = places(record)
    listeners = {
        where: [one for one in record.listeners if one.place == where] for where in by_place
    }
    replies = hosts.ask_all(
        {
            where: request(
                record,
                "status",
                where,
                parts,
                addresses=[(one.ip, one.port) for one in listeners[where]],
            )
            for where, parts in by_place.items()
        }
    )
    seen = Seen([], {}, {})
    for where, reply in replies.items():
        if isinstance(reply, HostFailed):
            state = f"unknown: {reply.problem}"
            seen.parts.extend(SeenPart(part, state) for part in by_place[where])
            seen.listening.update(dict.fromkeys(listeners[where], False))
            continue
        seen.parts.extend(_seen(part, reply["states"][part.name]) for part in by_place[where])
        seen.listening.update(zip(listeners[where], reply["listening"], strict=True))
        seen.figures.update(_figures(reply["metrics"]))
    seen.parts.sort(key=lambda one: record.parts.index(one.part))
    return seen


def _seen(part: Part, state: dict[str, Any]) -> SeenPart:
    return SeenPart(
        part,
        state["state"],
        state["since"],
        state["restarts"],
        tuple(state["last_lines"]),
    )


def _figures(lines: list[str]) -> dict[str, Any]:
    try:
        figures = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {}
    return figures if isinstance(figures, dict) else {}


def status(record: Record, hosts: Hosts, follow: bool) -> int:
    """Shows the run; returns 1 if a process has failed or cannot be seen."""
    seen = look(record, hosts)
    if follow:
        with Live(_picture(seen, record), console=show.console(), auto_refresh=False) as live:
            while any(one.is_alive for one in seen.parts):
                time.sleep(LOOK_EVERY_S)
                seen = look(record, hosts)
                live.update(_picture(seen, record), refresh=True)
    else:
        show.console().print(_picture(seen, record))
    return int(any(one.has_failed for one in seen.parts))


def _picture(seen: Seen, record: Record) -> Table:
    table = Table("process", "host", "state", "since", "restarts", "last line", box=box.SIMPLE)
    table.caption_justify = "left"
    where = {one.name: str(one.host) for one in record.listeners}
    for one in seen.parts:
        for name, line in _lines_of(one):
            table.add_row(
                name,
                where.get(name, str(one.part.host)),
                Text(one.state, "red" if one.has_failed else ""),
                _clock(one.since),
                str(one.restarts or ""),
                Text(line[:LONGEST_LINE], no_wrap=True, overflow="ellipsis"),
            )
    table.caption = _figures_text(seen.figures)
    return table


def _lines_of(one: SeenPart) -> list[tuple[str, str]]:
    """Name and last line of the process; for a ``mpirun``, of each of its learners."""
    last = dict.fromkeys(one.part.parts or (one.name,), "")
    for line in one.last_lines:
        last.update((writer, text) for writer, text in written(one.part, line) if writer in last)
    return list(last.items())


def written(part: Part, line: str) -> Iterator[tuple[str, str]]:
    """Who wrote what of a line in a log: under ``mpirun``, the learners that it tags."""
    before, *tagged = TAG.split(line) if part.parts else [line]
    if before:
        yield part.name, before
    for rank, text in zip(tagged[::2], tagged[1::2], strict=True):
        if text and int(rank) < len(part.parts):
            yield part.parts[int(rank)], text


def _figures_text(figures: dict[str, Any]) -> str:
    told = []
    for name, shown in (
        ("environment_frames", "{:,.0f} frames"),
        ("frames_per_second", "{:,.0f} frames/s"),
        ("mean_episode_return", "mean return {:.4g}"),
        ("policy_lag", "policy lag {:.3g}"),
    ):
        if isinstance(figures.get(name), (int, float)):
            told.append(shown.format(figures[name]))
    return " · ".join(told)


def _clock(since: float | None) -> str:
    if since is None:
        return ""
    then = datetime.datetime.fromtimestamp(since)
    today = then.date() == datetime.date.today()
    return then.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def logs(record: Record, hosts: Hosts, name: str, follow: bool) -> int:
    """Prints the newest lines of all logs, each with its process's name in front."""
    wanted = [part for part in record.parts if name in ("", part.name, *part.parts)]
    if not wanted:
        known = ", ".join(part.name for part in record.parts)
        raise UserError(f"--name={name}: the run has no such process. It has {known}.")
    # Where one log is asked for, there is room for more of it.
    begin = -65536 if name else -2048
    offsets = {part.name: begin for part in wanted}
    while True:
        _print_new(record, hosts, wanted, offsets, name)
        if not follow:
            return 0
        time.sleep(LOOK_EVERY_S)


def _print_new(
    record: Record, hosts: Hosts, wanted: list[Part], offsets: dict[str, int], only: str
) -> None:
    requests = {
        where: request(
            record, "tail", where, parts, offsets={p.name: offsets[p.name] for p in parts}
        )
        for where, all_parts in places(record).items()
        if (parts := [part for part in all_parts if part in wanted])
    }
    by_name = {part.name: part for part in wanted}
    for where, reply in hosts.ask_all(requests).items():
        if isinstance(reply, HostFailed):
            print(f"{where.host}: {reply}")
            continue
        for name, log in reply["logs"].items():
            offsets[name] = log["offset"]
            for line in log["text"].splitlines():
                for writer, text in written(by_name[name], line):
                    if only in ("", name, writer):
                        print(f"{writer:<12} {text}", flush=True)
