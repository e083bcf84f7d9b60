"""A run of ``--algorithm=simple`` opened to be looked at: evaluated, or played by hand."""

import json
from pathlib import Path
from typing import NamedTuple

from environments import EnvironmentSpec
from trainer import build
from trainer.settings import config
from trainer.settings.config import Settings
from user_error import UserError
from world_models.training import folders, world_model
from world_models.training.experience import Experience, read_all
from world_models.training.world_model import WorldModel


class Opened(NamedTuple):
    """What a run's folder holds."""

    settings: Settings
    spec: EnvironmentSpec
    model: WorldModel
    real: Experience  # what the model has learned from


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


def opened(logdir: str) -> Opened:
    """The model of this run, and what it has learned from."""
    settings = settings_of(logdir)
    spec, where = build.level_spec(settings), folders.of(settings)
    model = WorldModel(settings, spec)
    found = world_model.newest(where.model, print)
    if found is None:
        raise UserError(f"--logdir={logdir}: there is no world model in {where.model} yet.")
    model.restore(found, where.model)
    stored = read_all(where.play, settings.level.level_name)
    real = Experience([one.part for one in stored], settings.algorithm.model_frames)
    return Opened(settings, spec, model, real)
