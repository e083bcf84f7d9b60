"""Stands in for experiment.py where hundreds of sessions are wanted: reports without learning.

It understands the flags that matter here, resumes from its last report, and notes each start.
``--reporters=raises`` fails, ``--reporters=hangs`` never reports, and in ``--reporters=silent`` no
episode ends. Seeds of finalists are unlucky: their returns are half as high. With ``--tell_bodies``
there are two bodies. TERM ends it after a second, with a checkpoint, unless it hangs. A full disk
costs it what does not fit, and of the last checkpoint its exit code tells, as with the trainer.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

NOT_WRITTEN = 75

flags = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
folder = Path(flags["logdir"])
total = int(flags.get("total_environment_frames", 2000))
rate = float(flags.get("learning_rate", 0.0006))
seed = int(flags.get("seed", 1))
pace = 0.02 if total <= 1000 else 0.2  # the larger is to be watched on its way


def save():
    with contextlib.suppress(OSError):
        (folder / "checkpoints").mkdir(exist_ok=True)
        new = folder / "checkpoints" / ".best.npz.tmp"
        new.write_bytes(b"weights")
        os.replace(new, folder / "checkpoints" / "best.npz")
        return True
    return False


def end(*_):
    time.sleep(1)
    sys.exit(0 if save() else NOT_WRITTEN)


def add(path, text):
    size = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a") as file:
            file.write(text)
    except OSError:
        os.truncate(path, size)


def rows(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


add(folder / "starts.txt", f"{seed}\n")
if flags.get("reporters") == "raises" and not (folder.parents[1] / "mended").exists():
    print("the level has raised something")
    sys.exit(2)
if flags.get("reporters") == "hangs":
    time.sleep(600)
signal.signal(signal.SIGTERM, end)
metrics = folder / "metrics.jsonl"
frames = ([0] + [row["environment_frames"] for row in rows(metrics)])[-1]
try:
    (folder / "settings.json").write_text(json.dumps({"total_environment_frames": total}))
    (folder / "events.out.tfevents.1").write_bytes(b"events")
    (folder / "train.log").write_text("a line\n" * 10_000 + "the last line\n")
except OSError:
    sys.exit(NOT_WRITTEN)
while frames < total:
    time.sleep(pace)
    frames = min(total, frames + total // 10)
    height = (500 - 1e5 * abs(rate - 0.0006)) * (1.0 if seed < 1000 else 0.5) + seed % 1000
    row = {
        "environment_frames": frames, "wall_time": frames / 1000, "updates": frames / 10,
        "episodes": frames, "recent_episodes": 100, "total_loss": 1.0, "entropy": 0.5,
        "mean_episode_return": height * frames / total, "time_left": (total - frames) / 1000,
    }  # fmt: skip
    if flags.get("reporters") == "silent":
        row |= {"mean_episode_return": None, "episodes": 0, "recent_episodes": 0}
    if "tell_bodies" in flags:
        row |= {f"mean_episode_return/{name}": height * frames / total * factor
                for name, factor in (("agent_0", 0.5), ("agent_1", 1.5))}  # fmt: skip
    add(metrics, json.dumps(row) + "\n")
    save()
sys.exit(0 if save() else NOT_WRITTEN)
