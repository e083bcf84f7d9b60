"""A trained agent from a run's checkpoint, for playing and for export."""

import dataclasses
import sys
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms import registry
from algorithms.algorithm import Algorithm
from environments import EnvironmentSpec
from trainer import build
from trainer.reporting import several
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage import checkpoints, fetching
from trainer.storage.checkpoints import KINDS, Checkpoint, Store
from user_error import UserError

# Settings that may name code to import, as package.module:name.
NAMING_CODE = ("level_name", "wrappers", "agent_name", "algorithm", "base_algorithm")
# The values that the run was trained with apply unless others are given.
INHERITED_GROUPS = ("Environment", "Agent")


@dataclasses.dataclass(frozen=True)
class Trained:
    """A checkpoint, and the settings to use it with."""

    settings: Settings
    folder: Path  # of the run
    path: Path  # of the checkpoint
    checkpoint: Checkpoint

    @property
    def environment_frames(self) -> int:
        """The frames that it was trained for."""
        return int(self.checkpoint.counters["environment_frames"])

    @property
    def about(self) -> str:
        """Which agent it is, and how long it was trained."""
        name = self.settings.agent.agent_name
        return f"{name} from {self.path}, trained for {self.environment_frames:,} frames"

    @property
    def levels(self) -> list[str]:
        """The levels that it was trained on."""
        return self.of_training.level.levels

    @property
    def of_training(self) -> Settings:
        """The settings with the levels that it was trained on."""
        name = self.checkpoint.settings.get("level_name", self.settings.level.level_name)
        return self.settings.replace(level_name=name)

    def spec(self) -> EnvironmentSpec:
        """What the agent is made for: the levels to be played, or if bodies differ all it knows."""
        settings = self.of_training if KINDS in self.checkpoint.settings else self.settings
        return build.level_spec(settings)

    def agent(self, spec: EnvironmentSpec, precision: str = "") -> Any:
        """The trained agent, computing in ``precision`` or else in ``--precision``."""
        # The number of its baselines depends on the levels of its training.
        settings = self.of_training.replace(precision=precision or self.settings.agent.precision)
        agent = build.acting_agent(settings, spec)
        weights, variables = list(self.checkpoint.weights.values()), agent.variables
        fits = [w.shape for w in weights] == [tuple(v.shape) for v in variables]
        if not (fits and self._means_the_same()):
            raise UserError(self._misfit())
        for variable, value in zip(variables, weights, strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        return agent

    def scale_of_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Spread and mean that turn the agent's baselines into values: [L], or [] for one."""
        spread, mean = self._scales()
        return (spread[0], mean[0]) if len(mean) == 1 else (spread, mean)

    def value(self, level_name: str) -> Callable[[np.ndarray], float]:
        """A function from an environment's baseline, [] or [L], to its value on a level."""
        index = self.levels.index(level_name) if level_name in self.levels else 0
        return to_value(*self._scales(), index)

    def _scales(self) -> tuple[np.ndarray, np.ndarray]:
        # The units are those of the training, whatever this command says of --popart.
        return self._algorithm_of_training().scale_of_values(self.checkpoint.algorithm)

    def _algorithm_of_training(self) -> Algorithm:
        settings = config.from_record(self.checkpoint.settings)
        made: Algorithm = registry.make(
            settings.program.algorithm, settings.algorithm, len(self.levels)
        )
        return made

    def _means_the_same(self) -> bool:
        """Whether weights of these shapes are what they were in training."""
        heads, before = build.algorithm(self.of_training).heads, self._algorithm_of_training().heads
        named = self.settings.agent.activation
        of_training = self.checkpoint.settings.get("activation", named)
        return (
            # Layers of the baseline's own show in the shapes.
            heads._replace(separate=False) == before._replace(separate=False)
            and named.replace("auto", heads.activation)
            == of_training.replace("auto", before.activation)
        )

    def _misfit(self) -> str:
        trained, now = self.checkpoint.settings, self.settings.flat()
        changed = {
            name: now[name]
            for name in inherited(self.settings.program.algorithm)
            # None: nobody has chosen it.
            if name in trained and now[name] not in (None, trained[name])
        }
        if not changed:
            return (
                f"--checkpoint: the weights in {self.path} do not fit "
                f"the present code of --agent_name={self.settings.agent.agent_name}."
            )
        given = " ".join(f"--{name}={value}" for name, value in changed.items())
        before = " ".join(f"--{name}={trained[name]}" for name in changed)
        return (
            f"{given} does not fit the weights in {self.path}, which were trained with "
            f"{before}. Leave it out, or choose another run with --logdir."
        )


def to_value(spread: np.ndarray, mean: np.ndarray, index: int) -> Callable[[np.ndarray], float]:
    """A function from an environment's baseline, [] or [L], to its value on level ``index``.

    ``spread`` and ``mean`` are [L], or [1] for one baseline.
    """
    return lambda baseline: float(np.ravel(baseline * spread + mean)[index * (len(mean) > 1)])


def find(settings: Settings, given: Collection[str] = (), games: Settings | None = None) -> Trained:
    """The checkpoint that ``--logdir`` and ``--checkpoint`` select.

    Settings that were ``given`` override those of the run, also if they are defaults. With
    ``games``, it is that of their ``--opponent``, which may name code that they name themselves.
    """
    which = settings.trained.checkpoint
    fetched = fetching.located(which, "--checkpoint", settings.storage.registry)
    try:
        folder = Path(settings.run_folder) if fetched else _run_folder(settings)
        if not (fetched or Path(which).is_file()):
            _check_of_one(folder)
        store = Store(checkpoints.folder_of(folder), settings.storage.keep_checkpoints)
        path, checkpoint = store.find(str(fetched or which), _warn)
    except OSError as error:
        raise UserError(
            f"--logdir={settings.run_folder} --checkpoint={settings.trained.checkpoint}: "
            f"{error.filename} cannot be read ({error.strerror})."
        ) from None
    now = settings.flat()
    foreign = bool(fetched) or (path == Path(which) and not _is_of_a_run(path))
    if foreign:
        _check_code(_always_used(checkpoint, now), path, games)
    if registry.settings_of(checkpoint.settings.get("algorithm", registry.DEFAULT)).program:
        raise UserError(
            f"--checkpoint={which} is a world model and no agent; expected a policy's checkpoint."
        )
    changes = taken_over(checkpoint.settings, settings, given)
    if foreign:
        _check_code(changes, path, games)
        if not settings.storage.logdir:
            folder = folder_of(which)
    settings = config.from_record(now | {"logdir": str(folder)} | changes)
    return Trained(settings, folder, path, checkpoint)


def folder_of(which: str) -> Path:
    """Where the results of a checkpoint go that is of no run here: never into another's folder."""
    if which.startswith(fetching.NAMED):
        name = Path(which.removeprefix(fetching.NAMED)).name
    elif fetching.ADDRESS.match(which):
        name = Path(urllib.parse.urlsplit(which).path).stem  # what follows may be a signature
    else:
        name = Path(which).stem
    return Path("logs/trained") / name


def _is_of_a_run(path: Path) -> bool:
    """Whether a checkpoint lies where a run has put it."""
    folder = path.resolve().parent
    return folder.name == "checkpoints" and (folder.parent / "settings.json").exists()


def _always_used(checkpoint: Checkpoint, now: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training that are used whatever is given, but for those given alike."""
    theirs = checkpoint.settings
    used = ["algorithm"] + ["level_name"] * (KINDS in theirs)
    return {name: theirs[name] for name in used if name in theirs and theirs[name] != now[name]}


def check_names_no_code(
    settings: Mapping[str, Any],
    what: str,
    named: Collection[str] = (),
    remedy: str = "If you trust it, give that flag yourself.",
) -> None:
    """Refuses settings from somebody else's file that would import and call code by its name.

    ``what`` names the file; what the command has ``named`` itself is no matter of the file.
    """
    for name, value in settings.items():
        if name in NAMING_CODE and any(":" in one for one in _names(value) - set(named)):
            raise UserError(
                f"{what} asks for code by its name, which a file must not: "
                f"--{name}={value}. {remedy}"
            )


def _check_code(theirs: Mapping[str, Any], path: Path, games: Settings | None) -> None:
    """The same for the settings of a checkpoint, or of the ``--opponent`` of these games."""
    if games is None:
        check_names_no_code(theirs, f"--checkpoint={path}")
        return
    ours = games.flat()
    named = set[str]().union(*(_names(ours[name]) for name in NAMING_CODE if name in ours))
    remedy = "Give one of the same games, or, if you trust it, the folder of its run."
    check_names_no_code(theirs, f"--opponent={path}", named, remedy)


def _names(value: Any) -> set[str]:
    """What a setting names, with commas between."""
    return {one.strip() for one in str(value).split(",")}


def taken_over(
    trained: Mapping[str, Any], settings: Settings, given: Collection[str]
) -> dict[str, Any]:
    """The settings of a training that apply here: others were not ``given`` in their place."""
    now, command = settings.flat(), settings.program.algorithm
    # The defaults of this command's algorithm, which are not those of the training's.
    usual = Settings(algorithm=command).flat() | {"algorithm": registry.DEFAULT}
    return {
        name: trained[name]
        for name in inherited(trained.get("algorithm", ""))
        if name in trained and name not in given and now.get(name) == usual.get(name)
    }


def inherited(algorithm: str) -> dict[str, Any]:
    """The settings that are inherited from the run, and their defaults."""
    algorithm = algorithm or registry.DEFAULT
    own = {"algorithm"} | {
        field.name for field in dataclasses.fields(registry.settings_of(algorithm))
    }
    return {
        field.name: field.default
        for field in config.fields(algorithm)
        if field.metadata["group"] in INHERITED_GROUPS or field.name in own
    }


def _run_folder(settings: Settings) -> Path:
    """The run's folder: --logdir, or the one with the file that --checkpoint names."""
    file = Path(settings.trained.checkpoint)
    if settings.storage.logdir or not file.is_file():
        return Path(settings.run_folder)
    return file.parent.parent if file.parent.name == "checkpoints" else file.parent


def _check_of_one(folder: Path) -> None:
    """Refuses the folder of a run of several agents, each of which has a folder of its own."""
    own = sorted(str(one.parent) for one in folder.glob(f"{several.FOLDER}/*/checkpoints"))
    if own and not (folder / "checkpoints").exists():
        raise UserError(
            f"{folder} is the folder of several agents; expected that of one: {' or '.join(own)}."
        )


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)
