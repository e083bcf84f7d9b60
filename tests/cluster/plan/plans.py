"""Plans that tests make from rows and flags."""

from cluster import options
from cluster.inventory.hosts_csv import Row
from cluster.model import Here, Host, Plan
from cluster.plan import make_plan

HERE = Here(
    "/home/me/run", "/opt/python", "/opt/impala/experiment.py", "me", "/home/me/.ssh/known_hosts",
    lambda ip: ip in ("localhost", "127.0.0.1", "10.0.0.9"),
)  # fmt: skip


def row(job: str, ip: str, port: int, **other: object) -> Row:
    return Row(line=port, job=job, ip=ip, tf_port=port, **other)  # type: ignore[arg-type]


def plan(rows: list[Row], *flags: str, numbers: dict[tuple[Host, int], int] | None = None) -> Plan:
    chosen, settings = options.parse(["--workers_csv_path=x", *flags])
    return make_plan(rows, settings, chosen, HERE, numbers)


def flags_of(argv: tuple[str, ...]) -> dict[str, str]:
    return dict(part[2:].split("=", 1) for part in argv if part.startswith("--"))
