"""Nothing that was trained is begun again elsewhere, or replaced by what was trained less."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cluster import options, record
from cluster.backends.kubernetes.backend import KubernetesBackend
from cluster.backends.slurm import backend as slurm_backend
from cluster.backends.slurm.backend import SlurmBackend
from cluster.backends.ssh import backend as ssh_backend
from cluster.backends.ssh import fetching
from cluster.backends.ssh.backend import SshBackend
from cluster.backends.ssh.hosts import Hosts
from cluster.model import LOCAL, Host, Place, Plan
from cluster.on_host.answers import answer
from cluster.record import Listener, Record
from cluster.ssh.failures import HostFailed
from tests.cluster.plan.plans import plan, row
from user_error import UserError

FIRST, SECOND = "10.0.0.1", "10.0.0.2"
LEARNERS = [row("learner", FIRST, 8001), row("learner", SECOND, 8001)]
AGENTS = ("red", "blue")
TABLE = "job,ip,tf_port\nlearner,10.0.0.1,8001\nlearner,10.0.0.2,8001\n"


class Several(Hosts):
    """Hosts that are folders of this one; some do not answer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.silent: set[str] = set()

    def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        if place.host.is_local:
            return answer(request)
        if place.host.ip in self.silent:
            raise HostFailed("No route to host", passing=True)
        return answer({**request, "folder": str(self.root / place.host.ip)})

    def saved(self, ip: str, frames: int, logdir: str = "logs/run", of: str = "") -> None:
        name = f"{of}checkpoints/frames-{frames:015d}.npz"
        path = self.root / ip / logdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"weights")


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Several:
    made = Several(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(ssh_backend, "connections", lambda *_: None)
    monkeypatch.setattr(ssh_backend, "Hosts", lambda _: made)
    return made


def check(
    hosts: Several,
    monkeypatch: pytest.MonkeyPatch,
    before: Plan | Record | None,
    *flags: str,
    table: str = TABLE,
) -> None:
    """What a start does before anything is started, after that run, or one of that plan."""
    Path("hosts.csv").write_text(table)
    if before:
        record.write(record.record_of(before, "") if isinstance(before, Plan) else before, {})
    silent = {Host(ip, 22, ssh_backend.here().username) for ip in hosts.silent}
    monkeypatch.setattr(ssh_backend.checking, "check", lambda *_: ([], silent))
    given = ["--workers_csv_path=hosts.csv", "--logdir=logs/run", "--ssh_config=none", *flags]
    made = SshBackend(*options.parse(given))
    made.prepare()
    made.check()


def test_a_first_learner_that_has_moved_is_refused_until_its_checkpoints_are_there(
    hosts: Several, monkeypatch: pytest.MonkeyPatch
):
    before = plan([LEARNERS[1]], "--logdir=logs/run")
    check(hosts, monkeypatch, before)  # it has saved nothing
    hosts.saved(SECOND, 4000)
    where = "logs/run: checkpoints of 4,000 frames are on .*10.0.0.2, in impala/logs/run;.*begin at"
    with pytest.raises(UserError, match=f"{where} 0. Copy that folder, with metrics") as refused:
        check(hosts, monkeypatch, before)
    assert "\n" not in str(refused.value)
    hosts.saved(FIRST, 3000)
    with pytest.raises(UserError, match=f"{where} 3,000"):
        check(hosts, monkeypatch, before)
    hosts.saved(FIRST, 4000)
    check(hosts, monkeypatch, before)


def test_checkpoints_of_other_learners_in_its_folder_are_not_those_of_the_first(
    hosts: Several, monkeypatch: pytest.MonkeyPatch
):
    before = plan([LEARNERS[1]], "--logdir=logs/run")
    hosts.saved(SECOND, 9000, of="learner-1/")
    hosts.saved(SECOND, 9000, of="agents/blue/")
    check(hosts, monkeypatch, before)
    hosts.saved(SECOND, 4000)
    with pytest.raises(UserError, match="checkpoints of 4,000 frames are on"):
        check(hosts, monkeypatch, before)


def test_the_checkpoints_of_an_agents_first_learner_are_in_the_agents_folder(
    hosts: Several, monkeypatch: pytest.MonkeyPatch
):
    table = "job,ip,tf_port,agent\nlearner,10.0.0.1,8001,red\nlearner,10.0.0.2,8001,blue\n"
    before = plan([LEARNERS[1]], "--logdir=logs/run")
    hosts.saved(SECOND, 9000, of="agents/blue/")
    check(hosts, monkeypatch, before, table=table)
    hosts.saved(SECOND, 4000, of="agents/red/")
    with pytest.raises(UserError, match="checkpoints of 4,000 frames are on"):
        check(hosts, monkeypatch, before, table=table)


RED_AND_BLUE = "job,ip,tf_port,agent\nlearner,10.0.0.1,8001,red\nlearner,10.0.0.2,8001,blue\n"


def of_two_agents() -> Plan:
    rows = [
        dataclasses.replace(one, agent=name) for one, name in zip(LEARNERS, AGENTS, strict=True)
    ]
    return plan(rows, "--logdir=logs/run", "--agents=red,blue")


@pytest.mark.parametrize("is_first", [False, True])
def test_a_second_agents_first_learner_that_has_moved_is_refused_too(
    hosts: Several, monkeypatch: pytest.MonkeyPatch, is_first: bool
):
    """Wherever its row is in the CSV."""
    before = of_two_agents()
    hosts.saved(FIRST, 9000, of="agents/red/")
    hosts.saved(SECOND, 4000, of="agents/blue/")
    check(hosts, monkeypatch, before, table=RED_AND_BLUE)
    rows = ["learner,10.0.0.1,8001,red", "learner,10.0.0.3,8001,blue"]
    moved = "\n".join(["job,ip,tf_port,agent", *(reversed(rows) if is_first else rows), ""])
    words = "of 4,000 frames are on .*10.0.0.2, in impala/logs/run/agents/blue; the first learner"
    with pytest.raises(UserError, match=f"{words} of blue would be on .*10.0.0.3 and begin at 0"):
        check(hosts, monkeypatch, before, table=moved)
    hosts.saved("10.0.0.3", 4000, of="agents/blue/")
    check(hosts, monkeypatch, before, table=moved)


def test_each_agents_results_come_from_the_host_of_its_own_first_learner(
    hosts: Several, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    here, there = tmp_path / "here", {ip: tmp_path / ip / "logs" / "run" for ip in (FIRST, SECOND)}
    for ip, frames in ((FIRST, 1000), (SECOND, 2000)):
        for name in AGENTS:  # of each other's they have what a former run has left
            metrics(there[ip] / "agents" / name, frames)
    (there[FIRST] / "learning_curve.png").write_bytes(b"of both")
    (there[SECOND] / "learning_curve.png").write_bytes(b"of one")
    run = record.record_of(of_two_agents(), "")
    assert fetching.fetch(run, hosts, str(here), "newest", 0.0) == 0
    for name, ip in zip(AGENTS, (FIRST, SECOND), strict=True):
        own = Path("agents", name, "metrics.jsonl")
        assert (here / own).read_text() == (there[ip] / own).read_text()
    assert (here / "learning_curve.png").read_bytes() == b"of both"
    said = capsys.readouterr().out
    assert "Copied 2 files" in said and "Copied 1 files" in said
    # A host that is away keeps nothing of another's from coming.
    hosts.silent = {FIRST}
    metrics(there[SECOND] / "agents" / "blue", 2000, 5000)
    assert fetching.fetch(run, hosts, str(here), "newest", 0.0) == 1
    assert "5000" in (here / "agents" / "blue" / "metrics.jsonl").read_text()


def test_where_the_former_host_is_silent_the_first_learner_begins_anew_only_on_request(
    hosts: Several, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    hosts.silent = {FIRST}
    before = plan(LEARNERS, "--logdir=logs/run")
    words = (
        r"10.0.0.1 cannot be asked \(No route to host\), so it is unknown.*begin anew.*"
        "another --logdir, or --allow_p"
    )
    with pytest.raises(UserError, match=words) as refused:
        check(hosts, monkeypatch, before, table=TABLE.replace("learner,10.0.0.1,8001\n", ""))
    assert "\n" not in str(refused.value)
    check(hosts, monkeypatch, before, "--allow_partial")
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ") and "begins anew on " in line
    hosts.saved("", 3000, logdir="here/logs/run")  # by fetch
    with pytest.raises(UserError, match="of 3,000 frames are here, in logs/run, and .*10.0.0.1 ca"):
        check(hosts, monkeypatch, before, "--allow_partial")
    hosts.saved(SECOND, 4000)
    check(hosts, monkeypatch, before, "--allow_partial")
    assert capsys.readouterr().err == ""


def test_another_spelling_of_the_logdir_begins_nothing_anew(
    hosts: Several, monkeypatch: pytest.MonkeyPatch
):
    hosts.saved(FIRST, 4000)
    rows = [dataclasses.replace(one, ssh_username=ssh_backend.here().username) for one in LEARNERS]
    before = plan(rows, "--logdir=logs/run")
    check(hosts, monkeypatch, before)
    with pytest.raises(UserError, match="checkpoints of 4,000 frames are on .*begin at 0"):
        check(hosts, monkeypatch, before, f"--logdir={Path.cwd()}/logs/run")


@pytest.mark.parametrize("backend", ["", "slurm"])
def test_what_was_trained_here_is_not_begun_again_on_another_host(
    hosts: Several, monkeypatch: pytest.MonkeyPatch, backend: str
):
    before = Record("id", "logs/run", "", (), (), backend) if backend else None
    check(hosts, monkeypatch, before)
    hosts.saved("here", 4000)
    words = "of 4,000 frames are here, in .*/here/logs/run; .* would be on .*10.0.0.1 and begin"
    with pytest.raises(UserError, match=f"{words} at 0. Copy that folder") as refused:
        check(hosts, monkeypatch, before)
    assert "\n" not in str(refused.value) and "fetch" not in str(refused.value)
    check(hosts, monkeypatch, before, table="job,ip,tf_port\nlearner,localhost,8001\n")
    hosts.saved(FIRST, 4000)
    check(hosts, monkeypatch, before)


def test_slurm_does_not_begin_anew_what_was_trained_on_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(slurm_backend.queue, "run", lambda *_, **__: "")
    made = SlurmBackend(
        *options.parse(["--backend=slurm", "--learners=1", "--actors=1", "--logdir=logs/run"])
    )
    made.prepare()
    elsewhere = Listener("learner-0", Place(LOCAL, str(tmp_path / "there"), "python"), "", 1)
    record.write(Record("id", "logs/run", "", (), (elsewhere,)), {})
    assert made.check()  # it has saved nothing
    of_hosts = Several(tmp_path)
    of_hosts.saved("there", 4000)
    words = "of 4,000 frames are here, in .*/there/logs/run; the first learner would be here and"
    with pytest.raises(UserError, match=words):
        made.check()
    of_hosts.saved("here", 4000)
    assert made.check()


def test_what_a_volume_has_or_lacks_is_told(
    hosts: Several, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    class Empty:
        """A cluster that has nothing and takes everything."""

        namespace = "lab"

        def find(self, kind: str, name: str) -> None:
            return None

        def create(self, one: dict[str, Any], only_check: bool = False) -> None:
            pass

    def start_pods() -> str:
        flags = ["--backend=kubernetes", "--learners=1", "--logdir=logs/run"]
        made = KubernetesBackend(*options.parse(flags))
        made.prepare()
        assert made.check()
        return capsys.readouterr().err

    monkeypatch.setattr(KubernetesBackend, "_cluster", Empty())
    assert start_pods() == ""
    hosts.saved("here", 4000)
    assert start_pods().startswith("warning: logs/run: pods see only their volume")
    jobs = (("Job/impala-run-learner", ("learner-0",)),)
    of_pods = Record("id", "logs/run", "", (), (), "kubernetes", jobs, namespace="lab")
    hosts.saved(FIRST, 4000)
    check(hosts, monkeypatch, of_pods)
    told = "logs/run: the run before has its checkpoints in a volume of Kubernetes, where the first"
    assert capsys.readouterr().err.startswith(f"warning: {told}")
    assert start_pods() == ""
    check(hosts, monkeypatch, plan(LEARNERS, "--logdir=logs/run"))
    assert start_pods().startswith("warning: ")


def metrics(folder: Path, *frames: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f'{{"environment_frames": {one}}}\n' for one in frames]
    (folder / "metrics.jsonl").write_text("".join(lines))


@pytest.mark.parametrize("of_one", ["", "agents/red"])
def test_results_of_another_training_that_got_less_far_are_not_fetched(
    hosts: Several, tmp_path: Path, of_one: str
):
    there, here = tmp_path / FIRST / "logs" / "run", tmp_path / "here"
    place = Place(Host(FIRST, 22, "ann"), "impala", "python")
    run = Record("id", "logs/run", "", (), (Listener("learner-0", place, FIRST, 1),))

    def fetch() -> int:
        return fetching.fetch(run, hosts, str(here), "newest", 0.0)

    metrics(there / of_one, 1000, 2000)
    assert fetch() == 0
    metrics(here / of_one, 500, 3000)
    (here / "best.npz").write_text("of 3000 frames")
    (there / "best.npz").write_text("of 2000 frames")
    words = "is of 3,000 frames. The one on ann@10.0.0.1 is of 2,000, of another training"
    with pytest.raises(UserError, match=words) as refused:
        fetch()
    assert "\n" not in str(refused.value)
    assert (here / "best.npz").read_text() == "of 3000 frames"
    (there / of_one / "metrics.jsonl").rename(there / of_one / "settings.json")
    with pytest.raises(UserError, match="is of 0, of another training"):
        fetch()
    metrics(there / of_one, 1000, 2000, 5000)
    assert fetch() == 0


def test_a_training_that_has_resumed_is_fetched_although_it_is_behind_for_a_while(
    hosts: Several, tmp_path: Path
):
    place = Place(Host(FIRST, 22, "ann"), "impala", "python")
    run = Record("id", "logs/run", "", (), (Listener("learner-0", place, FIRST, 1),))
    metrics(tmp_path / "here", 1000, 3000)
    metrics(tmp_path / FIRST / "logs" / "run", 1000, 3000, 1500)
    assert fetching.fetch(run, hosts, str(tmp_path / "here"), "newest", 0.0) == 0


def test_results_of_an_agent_that_trains_elsewhere_are_no_reason_to_refuse_those_of_another(
    hosts: Several, tmp_path: Path
):
    place = Place(Host(FIRST, 22, "ann"), "impala", "python")
    run = Record("id", "logs/run", "", (), (Listener("learner-0", place, FIRST, 1),))
    metrics(tmp_path / FIRST / "logs" / "run" / "agents" / "red", 1000)
    metrics(tmp_path / "here" / "agents" / "blue", 3000)
    assert fetching.fetch(run, hosts, str(tmp_path / "here"), "newest", 0.0) == 0
    assert (tmp_path / "here" / "agents" / "red" / "metrics.jsonl").exists()
