"""Shows the state of a run: a row for each process, and the run's figures."""

import dataclasses
import datetime
import json
import math
import re
import time
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cluster import show
from cluster.actions.logs import written
from cluster.actions.seen import Seen, SeenPart, advice
from cluster.backends.backend import Backend
from cluster.on_host.keeper import SAYS as KEEPER
from cluster.record import Record, again

LOOK_EVERY_S = 1.0
LONGEST_LINE = 120
# How a process reports its own speed, see trainer/reporting/pace.py.
RATE = re.compile(r": ([\d,]+) frames/s$")
# A process silent for so long may be stuck: its last reported speed is not shown.
SILENT_S = 90.0


@dataclasses.dataclass(frozen=True)
class Row:
    """A learner, an actor or TensorBoard, as it is shown."""

    process: str
    host: str
    state: str
    since: float | None
    restarts: int
    frames_per_second: str
    last_line: str
    failed: bool
    silent: bool = False


def status(record: Record, backend: Backend, follow: bool, as_json: bool = False) -> int:
    """Shows the run; returns 1 if a process has failed, cannot be seen or shows no sign of life."""
    shown = show.console()
    seen = backend.look(record)
    if follow and shown.is_terminal and not as_json:
        with Live(console=shown, auto_refresh=False) as live:
            live.update(_picture(seen, record, on_top=True), refresh=True)
            while seen.may_be_alive:
                time.sleep(LOOK_EVERY_S)
                record = again(record)
                seen = backend.look(record)
                live.update(_picture(seen, record, on_top=True), refresh=True)
        return int(seen.has_failed)
    _print(seen, record, as_json, shown)
    while follow and seen.may_be_alive:
        time.sleep(LOOK_EVERY_S)
        record = again(record)
        seen = backend.look(record)
        _print(seen, record, as_json, shown)
    return int(seen.has_failed)


def _print(seen: Seen, record: Record, as_json: bool, shown: Console) -> None:
    if not as_json:
        shown.print(_picture(seen, record))
        return
    rows = [dataclasses.asdict(row) for row in rows_of(seen, record)]
    for row in rows:
        row["frames_per_second"] = float(row["frames_per_second"].replace(",", "") or "nan")
        if math.isnan(row["frames_per_second"]):
            row["frames_per_second"] = None
    told = {"processes": rows, **_figures(seen, record)}
    print(json.dumps({**told, "alive": seen.is_alive, "failed": seen.has_failed}), flush=True)


def _figures(seen: Seen, record: Record) -> dict[str, dict[str, Any]]:
    """The run's figures, or those of each of several agents, which the first learners report."""
    firsts = {one.agent: seen.figures.get(one.name, {}) for one in record.firsts}
    if len(firsts) > 1:
        return {"figures": {}, "agents": firsts}
    # Other backends than ssh record no listeners.
    return {"figures": next(iter((firsts or seen.figures).values()), {})}


def rows_of(seen: Seen, record: Record) -> Iterator[Row]:
    """A row for each process; for a ``mpirun``, for each of its learners."""
    where = {one.name: str(one.host) for one in record.listeners}
    for one in seen.parts:
        for name, line, rate in lines_of(one, seen.figures):
            state = seen.unseen.get(name, one.state)
            yield Row(
                name,
                where.get(name, str(one.part.host)),
                state,
                one.since,
                one.restarts,
                rate if state == "running" else "",
                line,
                one.has_failed or name in seen.unseen,
                one.is_silent,
            )


def _picture(seen: Seen, record: Record, on_top: bool = False) -> Table:
    """A row for each process; the run's figures below, or above where the end may be cut off."""
    table = Table(box=box.SIMPLE, title_justify="left", caption_justify="left")
    for column in ("process", "host", "state", "since", "restarts", "frames/s", "last line"):
        # On a narrow terminal, the other columns shrink.
        table.add_column(column, no_wrap=column in ("process", "since", "restarts", "frames/s"))
    for row in rows_of(seen, record):
        table.add_row(
            row.process,
            row.host,
            Text(row.state, "red" if row.failed or row.silent else ""),
            _clock(row.since),
            str(row.restarts or ""),
            row.frames_per_second,
            Text(row.last_line[:LONGEST_LINE], no_wrap=True, overflow="ellipsis"),
        )
    told = _figures(seen, record)
    figures = [_figures_text(told["figures"], seen.is_alive)]
    for agent, its in told.get("agents", {}).items():
        figures.append(f"{agent}: {_figures_text(its, seen.is_alive) or 'no report yet'}")
    text = "\n".join(filter(None, [*figures, advice(seen, record)]))
    table.title, table.caption = (text, None) if on_top else (None, text)
    return table


def lines_of(one: SeenPart, figures: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Name, last line and speed of the process; for a ``mpirun``, of each of its learners."""
    last = dict.fromkeys(one.part.parts or (one.name,), "")
    rates = dict.fromkeys(last, "")
    if one.part.job == "learner" and not one.part.parts:
        own = figures.get(one.name, {})
        rates[one.name] = _number(own.get("frames_per_second"), "{:,.0f}")
    for line in one.last_lines:
        if line.startswith(KEEPER):  # earlier lines are from a process that has failed
            rates = dict.fromkeys(rates, "")
            last = dict.fromkeys(last, line)
        for writer, text in written(one.part, line):
            if writer in last:
                found = RATE.search(text)
                rates[writer] = found[1] if found else rates[writer]
                # Speeds and indented lines never replace another line, which says more.
                weak = found or text[:1].isspace()
                last[writer] = last[writer] or text if weak else text
    silent = one.silent_s > SILENT_S
    return [(name, last[name], "" if silent else rates[name]) for name in last]


def _figures_text(figures: dict[str, Any], alive: bool) -> str:
    parts = [
        _number(figures.get(name), shown)
        for name, shown in (
            ("environment_frames", "{:,.0f} frames"),
            ("frames_per_second", "{:,.0f} frames/s" if alive else ""),
            ("mean_episode_return", "mean return {:,.2f}"),
            ("policy_lag", "policy lag {:.3g}" if alive else ""),
        )
    ]
    return " · ".join(filter(None, parts))


def _number(value: Any, shown: str) -> str:
    return shown.format(value) if isinstance(value, (int, float)) else ""


def _clock(since: float | None) -> str:
    if since is None:
        return ""
    then = datetime.datetime.fromtimestamp(since)
    today = then.date() == datetime.date.today()
    return then.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")
