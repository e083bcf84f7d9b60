"""Bundles: a trained agent in one small file, to hand on.

A bundle is a checkpoint without what only a resume needs: weights in 16 bits, means and spreads
as they are, what the algorithm keeps beside copies of the weights, and the settings that an agent
depends on. So whatever takes a checkpoint's file takes a bundle. Its card says where it comes from.
"""

import glob
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from trainer.storage import checkpoints, npz
from trainer.storage.checkpoints import Checkpoint
from trainer.storage.folder import remove_leftovers

CARD = "card"  # among the counters of a checkpoint's file
# How the names of weights end that are measured, not trained. What an agent sees is a difference
# from a mean in units of a spread that may be a hundred thousandth of it.
MEASURES = ("mean", "mean_square", "variance", "seen")


def bundled(
    checkpoint: Checkpoint, kept: Collection[str], card: dict[str, Any], copies: str = ""
) -> Checkpoint:
    """What a bundle has of a checkpoint; ``kept`` are the names of its settings to keep.

    What the algorithm keeps is left out where its name begins with ``copies``, if that is given.
    """
    return Checkpoint(
        weights={
            name: array if _measures(name) else _halved(array)
            for name, array in checkpoint.weights.items()
        },
        optimizer={},
        algorithm={
            name: array
            for name, array in checkpoint.algorithm.items()
            if not (copies and name.startswith(copies))
        },
        counters={
            "environment_frames": checkpoint.counters["environment_frames"],
            CARD: card,
        },
        settings={name: checkpoint.settings[name] for name in kept if name in checkpoint.settings},
    )


def write(bundle: Checkpoint, path: Path) -> None:
    """Writes a bundle, whole or not at all; may raise OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, f".{glob.escape(path.name)}.*.tmp")
    with npz.replacing(path) as file:
        checkpoints.write(bundle, file, compress=True)


def card(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """The card of a bundle; None for a run's own checkpoint."""
    return checkpoint.counters.get(CARD)


def _measures(name: str) -> bool:
    """Whether weights of this name, which may be numbered, are measured."""
    return name.partition("#")[0].endswith(MEASURES)


def _halved(array: np.ndarray) -> np.ndarray:
    """The array in 16 bits, or as it is where that would lose more than digits."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if np.isfinite(half).all() else array
