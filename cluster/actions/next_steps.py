"""What a user is shown after a start."""

import shlex
import shutil
import sys
from collections import Counter

from cluster import record as records
from cluster.actions.seen import Seen
from cluster.model import Plan
from cluster.options import Options
from trainer.machine.launching import typed


def print_next_steps(plan: Plan, seen: Seen, options: Options) -> None:
    """Prints what runs now, and the commands that a user may want next."""
    jobs: Counter[str] = Counter()
    parts = [one.part for one in seen.parts if one.is_alive]
    for part in parts:
        jobs[part.job] += len(part.parts) or 1
    print(f"Started {records.counted(jobs)}. Next commands:")
    has_windows = options.tmux_sess and shutil.which("tmux")
    if has_windows and any(part.host.is_local for part in parts):
        print(f"  tmux attach -t {shlex.quote(options.tmux_sess)}")
    for action in ("status", "logs", "stop"):
        print(f"  {shlex.join([*_again(plan, options), f'--action={action}'])}")


def _again(plan: Plan, options: Options) -> list[str]:
    """The start of later commands; they need passwords if this one did."""
    command = [typed(sys.executable), sys.argv[0], f"--logdir={plan.logdir}"]
    if any(one.row.ssh_password for one in (*plan.learners, *plan.actors)):
        command.append(f"--workers_csv_path={options.workers_csv_path}")
    if options.ssh_password_env:
        command.append(f"--ssh_password_env={options.ssh_password_env}")
    elif options.ask_ssh_password:
        command.append("--ask_ssh_password")
    return command
