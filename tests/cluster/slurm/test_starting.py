"""A start on Slurm of which a part is refused, without any Slurm."""

from pathlib import Path

import pytest

from cluster import options
from cluster.backends.slurm import plan, queue, starting
from cluster.backends.slurm.queue import SlurmFailed
from cluster.inventory import hosts_csv
from tests.cluster.slurm.test_plan import HERE

CSV = b"job,ip\nlearner,\nactor,n1\nactor,n77\n"


@pytest.mark.parametrize(
    ("flags", "refused", "code", "said"),
    [
        ((), "actors-1", 1, "Not everything started, so the run is stopped again:"),
        (("--allow_partial",), "actors-1", 0, "Started 1 learner and 1 actor."),
        (("--allow_partial",), "learner-0", 1, "so the run is stopped again:"),
    ],
)
def test_a_run_without_some_actors_starts_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, flags, refused: str, code: int, said
):
    submitted: list[str] = []

    def slurm(*command: str, text: str | None = None) -> str:
        if command[0] == "sbatch":
            name = Path(command[-1]).stem
            if name == refused:
                raise SlurmFailed("Invalid node name specified")
            submitted.append(name)
        if command[0] == "scancel":
            submitted.clear()
        if command[0] == "sacct":
            raise SlurmFailed("Slurm accounting storage is disabled")
        asked = [word.removeprefix("--name=") for word in command if word.startswith("--name=")]
        names = [one for words in asked for one in words.split(",")]
        lines = [
            f"{name}|7{'_0' * ('actors' in name)}|RUNNING|None|n1\n"
            for name in names
            if any(f"-{one}-" in name for one in submitted)
        ]
        return "".join(lines)

    monkeypatch.setattr(queue, "run", slurm)
    monkeypatch.setattr(starting, "read_address", lambda *_: "n1:12345")
    flags = ("--transport=tensorflow", "--workers_csv_path=hosts.csv", *flags)
    chosen, settings = options.parse(["--backend=slurm", f"--logdir={tmp_path}", *flags])
    rows = hosts_csv.parse(CSV, "hosts.csv", of_nodes=True)
    made = plan.make_plan(rows, settings, chosen, HERE)
    assert starting.start(made, chosen, settings, HERE) == code
    printed = capsys.readouterr().out
    assert said in printed and f"  {refused}: Invalid node name specified" in printed
    assert "actor-1 on" not in printed  # why it is not there is said once
    assert submitted == (["learner-0", "actors-0"] if code == 0 else [])
