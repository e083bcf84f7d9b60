"""``--export_format=bundle``: a trained agent as one small file with a card."""

import hashlib
import json
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import flags
from trainer import build
from trainer.machine.launching import script_name
from trainer.machine.provenance import here
from trainer.settings import config
from trainer.storage import bundles
from trainer.storage.checkpoints import KINDS, Checkpoint
from trainer.trained.trained_agent import NAMING_CODE, Trained, inherited
from user_error import UserError

# Beside the settings that an agent depends on: how it was trained.
ABOUT_TRAINING = (
    *("seed", "total_environment_frames", "num_actors", "envs_per_actor", "unroll_length"),
    *("batch_size", "optimizer", "learning_rate", "learning_rate_schedule", "gradients_clipping"),
)
# What weights mean to a training that goes on with them, and nothing about play.
OF_LEARNER = ("backdrop",)
OF_THIS_MACHINE = {"replay_played"}
# In a run's folder: figures for the card in place of the training's own, such as real returns of
# a policy that was trained elsewhere, and the environment_frames of the checkpoint that has them.
REMARKS = "card.json"
MOST_OF_A_NAME = 200  # bytes; file systems take 255, with what is put before and after it
HOW = ("opponent", "policy", "temperature", "seed")
OF_EVALUATION = ("episodes", "unfinished", "mean", "interval_of_mean", "median", "min", "max")


def export(found: Trained) -> None:
    """Writes LEVEL.npz to ``--export_dir``; prints where it is and how to use it."""
    folder = Path(found.settings.trained.export_dir or found.folder / "bundle")
    path = folder / f"{_name(found)}.npz"
    kept = {*_usual(found), *ABOUT_TRAINING, KINDS} - OF_THIS_MACHINE
    copies = build.algorithm(found.settings).copies
    bundle = bundles.bundled(found.checkpoint, kept, card(found), copies)
    content = written(bundle, path)
    needed = _needed(found)
    # Code is not taken from a file.
    code = [name for name in NAMING_CODE if ":" in str(needed.get(name))]
    print(f"Bundled {found.path} into {path} ({len(content):,} bytes).")
    play = {name: needed[name] for name in code}
    print(f"  play      {_command({'mode': 'test', 'checkpoint': path} | play)}")
    # A run of its own: where there is one, it would go on from its newest checkpoint.
    start = {"initial_weights": path, "logdir": f"{found.folder}-on"}
    print(f"  train on  {_command(start | needed)}")
    print(f"  registry  {_name(found)}: {entry(path.name, content)}")


def _needed(found: Trained) -> dict[str, Any]:
    """The levels, and whatever else the agent depends on that is not the default."""
    trained = found.checkpoint.settings
    others = {
        name: trained[name]
        for name, default in _usual(found).items()
        if trained.get(name) not in (None, default) and name not in OF_THIS_MACHINE
    }
    return {"level_name": ",".join(found.levels)} | others


def _usual(found: Trained) -> dict[str, Any]:
    """The settings that the agent and a training from it depend on, and their defaults."""
    algorithm = found.settings.program.algorithm
    of_learner = [field for field in config.fields(algorithm) if field.name in OF_LEARNER]
    return inherited(algorithm) | {field.name: field.default for field in of_learner}


def _command(values: dict[str, Any]) -> str:
    """A command line with these settings, as it can be pasted into a shell."""
    given = (f"--{name}={flags.text_of(value)}" for name, value in values.items())
    return shlex.join([script_name("bin/train"), *given])


def written(bundle: Checkpoint, path: Path) -> bytes:
    """Writes a bundle into ``--export_dir``; returns what is in the file."""
    try:
        bundles.write(bundle, path)
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"--export_dir={path.parent}: {path} cannot be written ({error.strerror})."
        ) from None


def card(found: Trained) -> dict[str, Any]:
    """Where an agent comes from, and what it reached; of a bundle, what its own card says."""
    counters, evaluation = found.checkpoint.counters, _evaluation(found)
    now = {"created": time.strftime("%Y-%m-%d"), "bundled_with": here()}
    before = bundles.card(found.checkpoint)
    if before is not None:
        return before | ({"evaluation": evaluation} if evaluation else {}) | now
    # Of each level, or of each body on each level.
    means = [np.mean(each) for each in counters.get("recent_returns", []) if np.size(each)]
    return {
        "levels": found.levels,
        "agent": found.settings.agent.agent_name,
        "algorithm": found.settings.program.algorithm,
        "environment_frames": found.environment_frames,
        "mean_return_in_training": float(np.mean(means)) if means else None,
        **_remarks(found),
        "evaluation": evaluation,
        "seed": found.checkpoint.settings.get("seed"),
        "trained_with": counters.get("trained_with"),
        **now,
    }


def _remarks(found: Trained) -> dict[str, Any]:
    """What the run's program says of its training, where that was no ordinary one."""
    try:
        remarks = json.loads((found.path.resolve().parent.parent / REMARKS).read_text())
        of_checkpoint = remarks.pop("environment_frames") == found.environment_frames
    except (OSError, ValueError, KeyError):
        return {}
    return remarks if of_checkpoint else dict.fromkeys(remarks)


def _evaluation(found: Trained) -> dict[str, Any] | None:
    """The figures of the run's last evaluation, if it was of this checkpoint."""
    try:
        report = json.loads((found.folder / "evaluation.json").read_text())
        if report["checkpoint"] != str(found.path.resolve()):
            return None
        if report["environment_frames"] != found.environment_frames:
            return None  # a file such as best.npz has had another checkpoint since
        levels = report["levels"].items()
        figures = {level: {name: one[name] for name in OF_EVALUATION} for level, one in levels}
        how = {name: report[name] for name in HOW}
    except (OSError, ValueError, KeyError):
        return None
    return {**how, "levels": figures}


def _name(found: Trained) -> str:
    return name_of(found.levels)


def name_of(levels: Sequence[str]) -> str:
    """Levels as a file and a registry can have them; of too many, the first and their number."""
    name = safe("+".join(levels))
    if len(name.encode()) <= MOST_OF_A_NAME:
        return name
    more = f"_and_{len(levels) - 1}_more" if len(levels) > 1 else ""
    first = safe(levels[0]).encode()[: MOST_OF_A_NAME - len(more)]
    return first.decode(errors="ignore") + more


def safe(name: str) -> str:
    """A level's name, as a file and a registry can have it."""
    return re.sub(r"[^\w.-]+", "_", name)


def entry(name: str, content: bytes) -> str:
    """What a registry says of a file."""
    return f"{{source: {name}, sha256: {hashlib.sha256(content).hexdigest()}}}"
