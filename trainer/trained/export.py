"""``--mode=export``: a trained agent as a TensorFlow SavedModel that does not need this code."""

import json
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import tensorflow as tf

from environments import EnvironmentSpec
from trainer import build
from trainer.acting.deciding import decide
from trainer.settings.config import Settings
from trainer.trained import bundling
from trainer.trained import trained_agent as trained
from trainer.trained.export_notes import FORMAT, KINDS, README, about
from trainer.trained.trained_agent import Trained
from user_error import UserError

# What there is in the folder of an export.
CONTENT = (
    *("about.json", "README.md", "saved_model.pb", "fingerprint.pb"),
    *("variables", "assets", "assets.extra"),
)


class ExportedAgent(tf.Module):
    """An agent whose signatures take and return flat dictionaries of tensors.

    The parts of its state, whatever its structure, are ``state_0``, ``state_1`` and so on.
    """

    def __init__(self, agent: Any, spec: EnvironmentSpec, found: Trained):
        super().__init__()
        self._agent = agent
        self._algorithm = build.algorithm(found.settings)
        self._spec = spec
        self._spread, self._mean = found.scale_of_values()
        self._structure = agent.initial_state(1)

    @property
    def state(self) -> dict[str, tf.TensorSpec]:
        """The state's tensors, [B, ...]."""
        return {
            f"state_{i}": tf.TensorSpec([None, *part.shape[1:]], part.dtype)
            for i, part in enumerate(tf.nest.flatten(self._structure))
        }

    @property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """The inputs of ``act``."""
        seen, acts = self._spec.observation_space, self._spec.action_space
        return {
            "observation": tf.TensorSpec([None, *seen.shape], tf.as_dtype(seen.dtype)),
            "reward": tf.TensorSpec([None], tf.float32),
            "last_action": tf.TensorSpec([None, *(acts.shape or ())], self._spec.action_dtype),
            "first": tf.TensorSpec([None], tf.bool),
            "seed": tf.TensorSpec([2], tf.int32),
            **self.state,
        }

    def signatures(self) -> dict[str, Any]:
        """``act``, and ``initial_state`` if the agent has a state."""
        act = tf.function(self._act, autograph=False)
        functions = {"act": act.get_concrete_function(**_named(self.inputs))}
        if self.state:
            size = tf.TensorSpec([], tf.int32, "batch_size")
            initial_state = tf.function(self._initial_state, autograph=False)
            functions["initial_state"] = initial_state.get_concrete_function(batch_size=size)
        return functions

    def _initial_state(self, batch_size: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._flat(self._agent.initial_state(batch_size))

    def _act(
        self, observation: Any, reward: Any, last_action: Any, first: Any, seed: Any, **state: Any
    ) -> dict[str, tf.Tensor]:
        packed = tf.nest.pack_sequence_as(self._structure, [state[name] for name in self.state])
        agent, algorithm = self._agent, self._algorithm
        decision, new_state = decide(
            agent, algorithm, observation, reward, last_action, first, packed, seed
        )
        output = decision.output
        return {
            "action": decision.action,
            **decision.recorded,
            "greedy_action": algorithm.act(agent, output, seed, greedy=True)[0],
            "policy": output.policy,
            "baseline": output.baseline * self._spread + self._mean,
            **self._flat(new_state),
        }

    def _flat(self, state: Any) -> dict[str, tf.Tensor]:
        return dict(zip(self.state, tf.nest.flatten(state), strict=True))


def export(settings: Settings, given: Collection[str] = ()) -> None:
    """Writes the SavedModel, about.json and README.md to ``--export_dir``."""
    found = trained.find(settings, given)
    if settings.trained.export_format == "bundle":
        bundling.export(found)
        return
    folder = Path(settings.trained.export_dir or found.folder / "export")
    _check_replaceable(folder)
    spec = found.spec()
    # The processor that will run it may not support bfloat16.
    exported = ExportedAgent(found.agent(spec, "float32"), spec, found)
    notes = about(found, spec, exported.inputs, exported.state)
    try:
        _write_all(folder, exported, notes)
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise UserError(f"--export_dir={folder} could not be written ({reason}).") from error
    print(f"Exported {found.path} to {folder}; {folder / 'README.md'} explains how to use it.")


def _write_all(folder: Path, exported: ExportedAgent, notes: dict[str, Any]) -> None:
    """Writes an export beside the folder, then replaces the folder with it."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / "new"
        tf.saved_model.save(exported, str(new), signatures=exported.signatures())
        _write(new / "about.json", json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
        _write(new / "README.md", README + (KINDS if "kinds" in notes else ""))
        if folder.exists():
            os.replace(folder, Path(temporary) / "old")
        os.replace(new, folder)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _named(specs: dict[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec(one.shape, one.dtype, name) for name, one in specs.items()}


def _check_replaceable(folder: Path) -> None:
    """Refuses a folder that cannot be written or that holds anything but an older export."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=folder.parent).cleanup()
    except OSError as error:
        raise UserError(f"--export_dir={folder}: cannot write there: {error.strerror}.") from error
    if _is_export(folder):
        more = sorted(path.name for path in folder.iterdir() if path.name not in CONTENT)
        if more:
            raise UserError(
                f"--export_dir={folder} also holds {more[0]}, which no export has written; "
                "everything there would be replaced. Choose another folder, or move that away."
            )
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        raise UserError(
            f"--export_dir={folder} exists and is not an export, so it is not replaced. "
            "Choose another folder, or move it away."
        )


def _is_export(folder: Path) -> bool:
    try:
        about = json.loads((folder / "about.json").read_text("utf-8"))
        return about.get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        return False
