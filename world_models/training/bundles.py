"""``--model_bundle``: a world model that somebody has handed on."""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from trainer.acting.settings import LevelSettings
from trainer.settings.config import Settings
from trainer.storage import checkpoints, fetching
from trainer.storage.checkpoints import Checkpoint, Damaged
from trainer.storage.folder import writing
from trainer.trained.trained_agent import check_names_no_code
from user_error import UserError
from world_models.training import folders, world_model

FLAG = "--model_bundle"
# What a command that names a bundle takes from it: how the level looks, and what the model is.
OF_MODEL = (
    *("world_model", "model_filters", "model_doublings", "model_depth", "model_frames"),
    *("model_levels", "model_state", "model_bits", "model_dropout", "model_noise"),
    "target_frames",
)


def find(
    given: str, registry: str = "", chosen: Mapping[str, Any] | None = None
) -> tuple[Path, Checkpoint]:
    """The world model that a file, address or name stands for.

    A file must not name code, unless the user has ``chosen`` the same.
    """
    path = fetching.located(given, FLAG, registry) or Path(given)
    try:
        is_file = path.is_file()
    except OSError as error:  # it lies in a folder of somebody else
        raise UserError(f"{FLAG}={given} cannot be read ({error.strerror}).") from None
    if not is_file:
        raise UserError(
            f"{FLAG}={given}: expected a world model's bundle: a file, https://...#sha256=..., or "
            "zoo:NAME."
        )
    try:
        checkpoint = checkpoints.read(path)
    except Damaged as error:
        raise UserError(f"{FLAG}={given}: {error}.") from None
    if checkpoint.settings.get("algorithm") != "simple" or "sizes" not in checkpoint.settings:
        raise UserError(
            f"{FLAG}={given} is no world model, but an agent; --checkpoint or --initial_weights "
            "takes it."
        )
    theirs, own = checkpoint.settings, chosen or {}
    others = {name: theirs[name] for name in theirs if own.get(name) != theirs[name]}
    check_names_no_code(others, f"{FLAG}={given}")
    return path, checkpoint


def completed(settings: Settings, given: Collection[str]) -> Settings:
    """The settings of a training, with those of its ``--model_bundle`` that were not ``given``."""
    own = settings.algorithm
    if not own.model_bundle:
        return settings
    flat = settings.flat()
    chosen = {name: flat[name] for name in given if name in flat}
    try:
        _, checkpoint = find(own.model_bundle, settings.storage.registry, chosen)
    except UserError:
        kept = _own_model(settings)
        if kept is None:
            raise
        checkpoint = kept
    theirs, level = checkpoint.settings, settings.level.level_name
    if "level_name" in given and level != theirs["level_name"]:
        raise UserError(
            f"{FLAG}={own.model_bundle} is a world model of {theirs['level_name']} and not of "
            f"--level_name={level}."
        )
    names = [name for name in (*fields_of(LevelSettings), *OF_MODEL) if name in theirs]
    return settings.replace(**{name: theirs[name] for name in names if name not in given})


def _own_model(settings: Settings) -> Checkpoint | None:
    """That of a run that goes on, which needs the file no more that it started with."""
    if not settings.storage.logdir:  # the folder is that of the level, which the file would tell
        return None
    return world_model.newest(folders.of(settings).model, lambda text: None)


def begun(bundle: Checkpoint) -> Checkpoint:
    """The first checkpoint of a run that starts with a bundle, whose updates are not the run's."""
    before = {world_model.BEFORE: bundle.counters["updates"]}
    return dataclasses.replace(bundle, counters=bundle.counters | before)


def install(checkpoint: Checkpoint, where: folders.Folders) -> None:
    """Makes it the newest checkpoint of a run's model."""
    with writing(where.model):
        world_model.store(where.model).save(checkpoint)


def fields_of(kind: Any) -> list[str]:
    """The names of the settings of a class."""
    return [field.name for field in dataclasses.fields(kind)]
