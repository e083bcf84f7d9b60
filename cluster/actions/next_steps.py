"""What a user is shown after a start."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence

from cluster import record as records
from cluster.actions.seen import Seen, SeenPart
from trainer.machine.launching import typed


def print_next_steps(logdir: str, seen: Seen, again: Sequence[str], tmux: str = "") -> None:
    """Prints what runs now, and the commands that a user may want next.

    ``again`` are the flags that later commands need, besides the folder.
    """
    jobs: Counter[str] = Counter()
    parts = [one.part for one in seen.parts if one.is_alive]
    for part in parts:
        jobs[part.job] += len(part.parts) or 1
    waits = any(one.is_alive and one.state.startswith("waiting") for one in seen.parts)
    print(f"{'Submitted' if waits else 'Started'} {records.counted(jobs)}. Next commands:")
    if tmux and shutil.which("tmux") and any(part.host.is_local for part in parts):
        print(f"  tmux attach -t {shlex.quote(tmux)}")
    command = [typed(sys.executable), sys.argv[0], f"--logdir={logdir}", *again]
    for action in ("status", "logs", "stop"):
        print(f"  {shlex.join([*command, f'--action={action}'])}")


def print_left(left: Sequence[str], action: str) -> None:
    """Prints what could not be ended, and how to end it: not by the action that started it."""
    print("\n".join(left))
    words = {
        "start": "End the rest with --action=stop, once it can be reached.",
        "add": "End the rest with --action=remove and --hosts, once it can be reached.",
    }
    print(words.get(action, "Give the same command to try again."))


def failure(one: SeenPart) -> str:
    """What is known of a process that has failed."""
    last = "".join(f"\n    | {line[:300]}" for line in one.last_lines[-15:])
    return f"  {one.name} on {one.part.host}: {one.state}{last}"
