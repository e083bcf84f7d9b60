"""The CSV of hosts: rows as typed values, or every problem in it at once."""

import codecs
import csv
import dataclasses
import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster.inventory import columns
from cluster.inventory.columns import BadValue
from user_error import UserError, closest

NEEDED = ("job", "ip", "tf_port")
# Where something else decides on which node a process runs, and how to get there.
NEEDED_OF_NODES = ("job",)
NOT_OF_NODES = ("cuda_visible_devices", "remote_dir", "ssh_")


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the CSV. The password is kept out of every printed form."""

    line: int
    job: str
    ip: str
    tf_port: int
    cuda_visible_devices: str = ""
    ssh_port: int | None = None
    ssh_username: str = ""
    ssh_password: str = dataclasses.field(default="", repr=False)
    ssh_key: str = ""
    remote_dir: str = ""
    envs: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    python: str = ""
    count: int = 1
    agent: str = ""

    @property
    def ports_of_each(self) -> int:
        """How many ports a process has: a remote has a desktop and a rewarder."""
        return 2 if self.job == "remote" else 1

    @property
    def ports(self) -> range:
        """The first port of each process of the row."""
        return self.all_ports[:: self.ports_of_each]

    @property
    def all_ports(self) -> range:
        """Every port of the row's processes."""
        return range(self.tf_port, self.tf_port + self.count * self.ports_of_each)

    @property
    def has_ssh(self) -> bool:
        """Whether the row says how to log in; a row of this machine does not."""
        return bool(self.ssh_port or self.ssh_username or self.ssh_password or self.ssh_key)


PARSERS: dict[str, Callable[[str], Any]] = {
    "job": columns.job,
    "ip": columns.address,
    "tf_port": columns.port,
    "cuda_visible_devices": columns.devices,
    "ssh_port": columns.port,
    "ssh_username": columns.user,
    "ssh_password": columns.password,
    "ssh_key": columns.key,
    "remote_dir": columns.folder,
    "envs": columns.number(1, 4096),
    "env": columns.environment,
    "python": columns.program,
    "count": columns.number(1, 1024),
    "agent": columns.agent,
}


def read(path: Path, of_nodes: bool = False) -> list[Row]:
    """The rows of a file; a ``UserError`` with a line for each problem if there is any.

    ``of_nodes``: column ip names a node, or is empty for any; there are no logins.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"--workers_csv_path={path} cannot be read: {error.strerror}.") from None
    rows = parse(content, str(path), of_nodes)
    # Not by ``parse``: a CSV may be made on another machine than the one with the keys. The value
    # is not shown, nor kept in a record: in a row shifted by one column, it is the password.
    problems = [
        f"{path}:{row.line}: column ssh_key: there is no such file on this machine; expected that "
        "of a private key. A password goes into column ssh_password."
        for row in rows
        if row.ssh_key and not os.path.exists(row.ssh_key)
    ]
    if problems:
        raise UserError("\n".join(problems))
    return rows


def parse(content: bytes, name: str, of_nodes: bool = False) -> list[Row]:
    """The rows in a file's bytes; ``name`` is the file's name in messages."""
    problems: list[tuple[int, str]] = []
    lines = list(_lines(_decode(content, name)))
    needed = NEEDED_OF_NODES if of_nodes else NEEDED
    header = _header(lines[0] if lines else None, needed, problems)
    rows = _rows(lines[1:], header, needed, problems) if header else []
    if not of_nodes:
        _check_together(rows, problems)
    if problems:
        texts = [f"{name}{f':{line}' if line else ''}: {what}" for line, what in sorted(problems)]
        raise UserError("\n".join(texts))
    return rows


def _decode(content: bytes, name: str) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{name}: is encoded as UTF-16. Save it as UTF-8.")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = len(re.findall(rb"\r\n|\n|\r", before)) + 1
        column = error.start - max(before.rfind(b"\n"), before.rfind(b"\r"))
        raise UserError(
            f"{name}:{line}: byte {column} of the line (0x{content[error.start]:02x}) is not "
            "UTF-8. Save the file as UTF-8."
        ) from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not str.splitlines, which also splits at characters that may be part of a password.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if line.strip(" \t,") and not line.lstrip().startswith("#"):
            yield number, line


def _split(line: str) -> list[str]:
    """The fields of a line; a quoted field ends on its own line."""
    fields = next(csv.reader([line], strict=True))
    if any("\n" in field for field in fields):
        raise csv.Error
    return fields


def _header(
    line: tuple[int, str] | None, needed: Sequence[str], problems: list[tuple[int, str]]
) -> list[str]:
    if line is None:
        problems.append((0, f"is empty. The first line must be {','.join(list(PARSERS)[:7])}."))
        return []
    number, text = line
    try:
        names = [field.strip() for field in _split(text)]
    except csv.Error:
        names = [text]
    if not set(names) & set(PARSERS):
        what = f"is not a header; the first line must be {','.join(list(PARSERS)[:7])}."
        problems.append((number, what))
        return []
    for name in names:
        if name not in PARSERS:
            problems.append((number, f"unknown column {name!r}. {closest(name, PARSERS)}"))
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.append((number, f"column {name!r} appears {names.count(name)} times."))
    missing = [name for name in needed if name not in names]
    if missing:
        problems.append((number, f"the header has no column {' and '.join(missing)}."))
    return names


def _rows(
    lines: list[tuple[int, str]],
    header: list[str],
    needed: Sequence[str],
    problems: list[tuple[int, str]],
) -> list[Row]:
    rows: list[Row] = []
    jobs: set[str | None] = set()
    for number, line in lines:
        before = len(problems)
        values = _values(number, line, header, needed, problems)
        jobs.add(values.get("job"))
        if len(problems) == before and all(name in values for name in needed):
            rows.append(Row(**{"line": number, "ip": "", "tf_port": 0, **values}))
            problems.extend((number, what) for what in _check_row(rows[-1]))
    # A row whose job could not be read may have been meant for a learner.
    if not jobs & {"learner", None}:
        problems.append((0, "there is no learner: at least one row must have job 'learner'."))
    return rows


def _values(
    number: int,
    line: str,
    header: list[str],
    needed: Sequence[str],
    problems: list[tuple[int, str]],
) -> dict[str, Any]:
    """The readable values of a row, by column."""
    try:
        fields = _split(line)
    except csv.Error:
        problems.append((number, "a quotation mark is not closed, or is inside a field."))
        return {}
    if len(fields) != len(header):
        # The fields are not shown: shifted by one, a password could be among them.
        what = "short: it has" if len(fields) < len(header) else "long: it has"
        problems.append((number, f"the row is too {what} {len(fields)} of {len(header)} fields."))
        return {}
    values: dict[str, Any] = {}
    for name, field in zip(header, fields, strict=True):
        given = field.strip()
        if name == "ssh_password" and given:  # spaces may be part of it, but not all of it
            given = field
        if not given and name in needed:
            problems.append((number, f"column {name}: is empty."))
        if given and needed == NEEDED_OF_NODES and name.startswith(NOT_OF_NODES):
            what = "leave it empty: the cluster decides that; see --learner_resources."
            problems.append((number, f"column {name}: {what}"))
        if given == "remote" and needed == NEEDED_OF_NODES and name == "job":
            what = "remotes are for --backend=ssh: leave the row out; actors on Slurm start them."
            problems.append((number, f"column {name}: {what}"))
        if not given or name not in PARSERS:
            continue
        try:
            values[name] = PARSERS[name](given)
        except BadValue as error:
            # In other columns the password may stand, where fields were left out.
            shown = f"{given!r} {error}" if name in NEEDED else str(error)
            problems.append((number, f"column {name}: {shown}"))
    return values


def _check_row(row: Row) -> Iterator[str]:
    if row.job != "actor" and row.envs is not None:
        yield f"column envs: a number is given for a {row.job}; only actors have environments."
    if row.job == "learner" and row.count != 1:
        yield "column count: a number is given for a learner; give each learner its own row."
    if row.job != "learner" and row.agent:
        kind = {"actor": "an actor", "remote": "a remote"}[row.job]
        yield f"column agent: a name is given for {kind}; only learners have an agent."
    if row.all_ports[-1] > 65535:
        yield (
            f"column count: so many processes from port {row.tf_port} on would need "
            "ports above 65535."
        )


def _check_together(rows: list[Row], problems: list[tuple[int, str]]) -> None:
    """Duplicate rows, ports that two processes of a host would share, logins that differ."""
    seen: dict[Row, int] = {}
    logins: dict[tuple[str, int | None, str], Row] = {}
    owners: dict[tuple[str, int], int] = {}
    for row in rows:
        first = seen.setdefault(dataclasses.replace(row, line=0), row.line)
        if first != row.line:
            problems.append((row.line, f"the row is a duplicate of line {first}."))
            continue
        # Without any SSH column, a row may mean this machine.
        sshd = row.ssh_port or (22 if row.has_ssh else None)
        login = logins.setdefault((row.ip, sshd, row.ssh_username), row)
        for column in ("ssh_password", "ssh_key"):
            if getattr(login, column) != getattr(row, column):
                what = f"column {column}: differs from line {login.line}, which is the same login."
                problems.append((row.line, what))
        host = columns.host_of(row.ip)
        for port in row.all_ports:
            first = owners.setdefault((host, port), row.line)
            if first != row.line:
                problems.append(
                    (row.line, f"column tf_port: port {port} of {row.ip} is used by line {first}.")
                )
                break
