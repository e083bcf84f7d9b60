"""Slurm on this machine: munged, slurmctld and several slurmd, all on loopback, and nothing else.

As root. Each node is a slurmd of its own; all of them share this machine's files and cores, of
which each claims several.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.tools.ports import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
CONFIG = """
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
TmpFS={folder}/tmp-%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=100000,requeue_delay=1
ReturnToService=2
SlurmdTimeout=10
KillWait=15
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""
CPUS = 8


def missing() -> str:
    """Why Slurm cannot run here, or "" if it can."""
    if os.geteuid():
        return "needs root for Slurm's daemons"
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    return f"needs {', '.join(lacking)}" if lacking else ""


class Slurm:
    """A cluster of nodes n1, n2, …; ``close`` ends it."""

    def __init__(self, nodes: int = 3):
        self.folder = Path(tempfile.mkdtemp(prefix="impslurm"))
        self.folder.chmod(0o755)
        self.nodes = [f"n{number + 1}" for number in range(nodes)]
        self.env = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen] = {}
        try:
            self._configure()
            self._start_munge()
            self._start("slurmctld", "slurmctld", "-D", "-i")
            for node in self.nodes:
                self.start_node(node)
            self._wait(lambda: self.states() == ["idle"] * nodes)
        except BaseException:
            self.close()
            raise

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands."""
        env = {**os.environ, **self.env}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def states(self) -> list[str]:
        """The state of each node."""
        return self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%t").stdout.split()

    def start_node(self, node: str) -> None:
        """Starts a node's daemon."""
        self._start(node, "slurmd", "-D", "-N", node)

    def kill_node(self, node: str) -> None:
        """Kills a node's daemon, and the daemons of its jobs' steps, as if it lost its power."""
        daemon = self._daemons.pop(node)
        for pid in _steps_of(self.folder / f"spool-{node}", node):
            os.kill(pid, 9)
        daemon.kill()
        daemon.wait()

    def close(self) -> None:
        """Cancels all jobs and ends the daemons."""
        if "slurmctld" in self._daemons:
            self.run("scancel", "--user=root", "--full", "--signal=KILL")
            self.run("scancel", "--user=root")
            for _ in range(50):
                if not self.run("squeue", "-h").stdout:
                    break
                time.sleep(0.2)
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _configure(self) -> None:
        named = [
            f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={free_port()} "
            f"CPUs={CPUS} RealMemory=4000"
            for node in self.nodes
        ]
        text = CONFIG.format(folder=self.folder, port=free_port(), nodes="\n".join(named))
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "state").mkdir()
        for node in self.nodes:
            (self.folder / f"spool-{node}").mkdir()
            (self.folder / f"tmp-{node}").mkdir()

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        files = {"socket": "munge.sock", "pid-file": "munge.pid", "log-file": "munge.log"}
        flags = [f"--{name}={self.folder / file}" for name, file in files.items()]
        flags += [f"--seed-file={self.folder}/munge.seed", f"--key-file={key}"]
        self._start("munge", "munged", "--force", "--foreground", *flags)
        self._wait((self.folder / "munge.sock").exists)

    def _start(self, name: str, *command: str) -> None:
        with open(self.folder / f"{name}.log", "a") as log:
            self._daemons[name] = subprocess.Popen(
                command, env={**os.environ, **self.env}, stdout=log, stderr=log
            )

    def _wait(self, until) -> None:
        end = time.monotonic() + 30
        while not until():
            logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
            assert time.monotonic() < end, logs
            time.sleep(0.1)


def _steps_of(spool: Path, node: str) -> list[int]:
    """The processes of a node's jobs: all in the sessions of its step daemons."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            name = (process / "comm").read_text()
        except OSError:
            continue
        if f"SLURMD_NODENAME={node}".encode() in environment or (
            name.startswith("slurmstepd") and str(spool).encode() in b"".join(environment)
        ):
            found.append(int(process.name))
    return found
