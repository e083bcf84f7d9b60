"""A world model opened to be looked at: evaluated, exported, or played by hand."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from environments import EnvironmentSpec
from trainer import build
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint
from trainer.storage.played import read_all
from user_error import UserError
from world_models.training import bundles, folders, world_model
from world_models.training.experience import Experience, KeptStarts
from world_models.training.world_model import WorldModel


class Opened(NamedTuple):
    """What a run's folder or a bundle holds."""

    settings: Settings
    spec: EnvironmentSpec
    model: WorldModel
    checkpoint: Checkpoint
    where: Path

    @property
    def folder(self) -> Path | None:
        """The folder of its run; None for a file that is looked at by itself."""
        return Path(self.settings.run_folder) if self.settings.storage.logdir else None


def settings_of(logdir: str) -> Settings:
    """The settings of the run in this folder."""
    path = Path(logdir) / "settings.json"
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"--logdir={logdir}: {path} cannot be read ({error}). Name the folder of a run of "
            "--algorithm=simple."
        ) from None
    if record.get("algorithm") != "simple":
        raise UserError(
            f"--logdir={logdir} is a run of --algorithm={record.get('algorithm')}, which has no "
            "world model; name one of --algorithm=simple."
        )
    return config.from_record(record | {"logdir": logdir})


def opened(settings: Settings, given: Collection[str] = ()) -> Opened:
    """The model of ``--model_bundle`` or of the run in ``--logdir``.

    Settings that were ``given`` override those of its training.
    """
    bundle, now = settings.algorithm.model_bundle, settings.flat()
    changes = {name: now[name] for name in given if name in now}
    if bundle:
        where, found = bundles.find(bundle, settings.storage.registry, changes)
        settings = config.from_record(
            found.settings | {"model_bundle": bundle, "logdir": settings.storage.logdir} | changes
        )
    else:
        settings = settings_of(settings.run_folder)
        settings = settings.replace(**changes | {"logdir": settings.run_folder})
        where = folders.of(settings).model
        newest = world_model.newest(where, print)
        if newest is None:
            raise UserError(f"--logdir={settings.run_folder}: there is no world model in {where}.")
        found = newest
    spec = build.level_spec(settings)
    model = WorldModel(settings, spec)
    model.restore(found, where)
    return Opened(settings, spec, model, found, where)


def starts(run: Opened) -> Experience | KeptStarts:
    """Real pictures to go on from: those of the run, or those in the model's file."""
    kept = KeptStarts.of(run.checkpoint)
    if kept:
        return kept
    level = run.settings.level.level_name
    stored = read_all(folders.of(run.settings).play, level)
    if not stored:
        raise UserError(f"--logdir={run.settings.run_folder} has no real play of {level}.")
    return Experience([one.part for one in stored], run.settings.algorithm.model_frames)
