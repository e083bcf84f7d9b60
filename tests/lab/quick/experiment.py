"""Stands in for experiment.py where hundreds of sessions are wanted: reports without learning.

It understands the flags that matter here, resumes from its last report, and notes each start.
``--reporters=raises`` fails, ``--reporters=hangs`` never reports.
"""

import json
import sys
import time
from pathlib import Path

flags = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
folder = Path(flags["logdir"])
total = int(flags.get("total_environment_frames", 1000))
rate = float(flags.get("learning_rate", 0.0006))
pace = 0.02 if total <= 1000 else 0.2  # the larger is to be watched on its way

with open(folder / "starts.txt", "a") as starts:
    starts.write(flags.get("seed", "1") + "\n")
if flags.get("reporters") == "raises" and not (folder.parents[1] / "mended").exists():
    print("the level has raised something")
    sys.exit(2)
if flags.get("reporters") == "hangs":
    time.sleep(600)
metrics = folder / "metrics.jsonl"
frames = 0
if metrics.exists():
    frames = json.loads(metrics.read_text().splitlines()[-1])["environment_frames"]
(folder / "settings.json").write_text(json.dumps({"total_environment_frames": total}))
(folder / "checkpoints").mkdir(exist_ok=True)
while frames < total:
    time.sleep(pace)
    frames = min(total, frames + total // 10)
    height = 500 - 1e5 * abs(rate - 0.0006) + int(flags.get("seed", 1))
    row = {
        "environment_frames": frames, "wall_time": frames / 1000, "updates": frames / 10,
        "episodes": frames, "recent_episodes": 100, "total_loss": 1.0, "entropy": 0.5,
        "mean_episode_return": height * frames / total, "time_left": (total - frames) / 1000,
    }  # fmt: skip
    with open(metrics, "a") as file:
        file.write(json.dumps(row) + "\n")
    (folder / "checkpoints" / "best.npz").write_bytes(b"weights")
