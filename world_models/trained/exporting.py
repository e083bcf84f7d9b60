"""``--mode=export``: a world model as one file: weights in 16 bits, starts of dreams, a card.

It is a checkpoint without what only a resume needs, as an agent's bundle is. Of real play it has
only some stacks of pictures, so that a policy can be trained in the model anywhere.
"""

import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.registry import settings_of
from trainer.acting.settings import LevelSettings
from trainer.machine.launching import script_name, typed
from trainer.machine.provenance import here
from trainer.settings.config import Settings
from trainer.storage import bundles as files
from trainer.trained.bundling import entry, safe, written
from user_error import UserError
from world_models.trained import opened
from world_models.training.bundles import FLAG, fields_of
from world_models.training.experience import KeptStarts

MOST_STARTS, LEAST_STARTS = 256, 32
BYTES_OF_STARTS = 2**20
OF_EVALUATION = (
    *("played_by", "temperature", "seed", "real_steps", "rollouts"),
    *("reward_accuracy/at_12", "reward_accuracy/at_50", "from_start/reward_accuracy/to_end"),
    *("drift/at_12", "drift/at_50"),
)


def export(settings: Settings, given: Collection[str] = ()) -> None:
    """Writes LEVEL_model.npz to ``--export_dir``; prints where it is and how to use it."""
    if settings.trained.export_format != "bundle":
        raise UserError(
            f"--export_format={settings.trained.export_format}: a world model is exported as a "
            "bundle; give --export_format=bundle. Its policy is exported without --algorithm."
        )
    own_file = settings.algorithm.model_bundle and not settings.storage.logdir
    if own_file and not settings.trained.export_dir:
        raise UserError(
            f"{FLAG}={settings.algorithm.model_bundle} is exported by itself and has no run's "
            "folder to write to: give --export_dir=FOLDER."
        )
    run = opened.opened(settings, given)
    depth = max(run.model.sizes.frames, run.spec.frame_stack)
    starts = KeptStarts.drawn(opened.starts(run), _count(run, depth), depth)
    level = run.settings.level.level_name
    name = f"{safe(level)}_model"
    folder = Path(settings.trained.export_dir or Path(run.settings.run_folder) / "bundle")
    path = folder / f"{name}.npz"
    own = [name for name in fields_of(settings_of("simple")) if name != "model_bundle"]
    kept = [*fields_of(LevelSettings), *own, "algorithm", "sizes", "seed"]
    checkpoint = dataclasses.replace(run.checkpoint, algorithm=starts.arrays())
    bundle = files.bundled(checkpoint, kept, _card(run))
    counters = ("updates", "real_steps")
    bundle.counters |= {name: run.checkpoint.counters[name] for name in counters}
    content = written(bundle, path)
    print(f"Bundled the world model of {run.where} into {path} ({len(content):,} bytes).")
    python, train = shlex.quote(typed(sys.executable)), script_name("bin/train")
    this = shlex.quote(f"{FLAG}={path}")
    print(f"  evaluate  {python} -m world_models.evaluate {this}")
    print(f"  play      {python} -m world_models.play {this}")
    print(f"  train in  {train} --algorithm=simple --phase=policy {this}")
    print(f"  registry  {name}: {entry(path.name, content)}")


def _count(run: opened.Opened, depth: int) -> int:
    """How many starts fit into the file."""
    sizes = run.model.sizes
    each = sizes.height * sizes.width * sizes.channels * depth
    return int(np.clip(BYTES_OF_STARTS // each, LEAST_STARTS, MOST_STARTS))


def _card(run: opened.Opened) -> dict[str, Any]:
    """Where a model comes from, and how well it predicts."""
    counters, settings = run.checkpoint.counters, run.checkpoint.settings
    return {
        "levels": [run.settings.level.level_name],
        "world_model": settings["world_model"],
        "updates": counters["updates"],
        "learned_from_real_steps": counters["real_steps"],
        "seed": settings["seed"],
        "evaluation": _evaluation(run),
        "trained_with": counters.get("trained_with"),
        "created": time.strftime("%Y-%m-%d"),
        "bundled_with": here(),
    }


def _evaluation(run: opened.Opened) -> dict[str, Any] | None:
    """The figures of the last evaluation, if it was of this model."""
    if not run.folder:
        return None
    try:
        report = json.loads((run.folder / "evaluation_model.json").read_text())
        of_this = report["model"], report["updates"]
        if of_this != (str(run.where.resolve()), run.model.updates):
            return None
        return {name: report["cells"][0].get(name) for name in OF_EVALUATION}
    except (OSError, ValueError, KeyError, IndexError):
        return None
