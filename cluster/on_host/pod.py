"""A learner or an actor in a pod of Kubernetes.

    python -m cluster.on_host.pod learner PORT -- COMMAND
    python -m cluster.on_host.pod actor ADDRESS,ADDRESS,… FIRST -- COMMAND
    python -m cluster.on_host.pod team -- MPIRUN …

{address} in the command becomes the learner's own address, or that of the actor's learner; {task}
its number: the pod's index, and for an actor FIRST more; {credentials} a copy of the
pod's secret that only its own user can read. A team's mpirun passes all this on to its learners.

Whoever is asked to end exits with 143, also after a checkpoint was written: a Job takes 0 for the
end of the training, and would not start it again.
"""

import os
import sys
from pathlib import Path

from cluster.on_host.member import ADDRESS, Member, own_address

TASK, CREDENTIALS = "{task}", "{credentials}"
# Where a pod's manifest mounts its secret, and a folder that is kept in memory only.
SECRETS, PRIVATE = "/run/secrets/impala", "/run/impala"
ASKED_TO_END = 143


def run(command: list[str], values: dict[str, str]) -> int:
    """Runs the command to its end; returns its exit code, or that it was asked to end."""
    member = Member()
    for name, value in values.items():
        command = [word.replace(name, value) for word in command]
    member.start(command)
    code = member.wait(lambda: False)
    return ASKED_TO_END if member.is_asked else code or 0


def values_of(job: str, words: list[str], command: list[str]) -> dict[str, str]:
    """What the names in a command stand for in this pod."""
    if job == "team":
        return {}
    index = int(os.environ.get("JOB_COMPLETION_INDEX") or 0)
    if job == "actor":
        index += int(words[1])
        learners = words[0].split(",")
        found = {ADDRESS: learners[index % len(learners)], TASK: str(index)}
    else:
        found = {ADDRESS: listening_at(words[0]), TASK: str(index)}
    if any(CREDENTIALS in word for word in command):
        found[CREDENTIALS] = copy_secret(Path(SECRETS), Path(PRIVATE))
    return found


def copy_secret(mounted: Path, private: Path) -> str:
    """Copies the pod's secret, which Kubernetes lets its group read, for its user alone."""
    [secret] = mounted.glob("*.pem")
    copy = private / secret.name
    copy.unlink(missing_ok=True)
    with open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret.read_bytes())
    return str(copy)


def listening_at(port: str) -> str:
    """The address of a learner in this pod."""
    host = os.environ.get("POD_IP") or own_address("")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


if __name__ == "__main__":
    split = sys.argv.index("--")
    given = sys.argv[split + 1 :]
    sys.exit(run(given, values_of(sys.argv[1], sys.argv[2:split], given)))
