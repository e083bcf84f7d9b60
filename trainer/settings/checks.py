"""Refuses settings that cannot work, before anything is started."""

import dataclasses
from collections.abc import Collection
from pathlib import PurePath
from typing import Any

import flags
from algorithms.feeding import Gradients, InStep
from trainer.acting.settings import AGENTS
from trainer.machine.launching import script_name
from trainer.settings import addresses, grid, seating, sizes
from trainer.settings.config import Settings
from trainer.settings.trained import TrainedSettings
from user_error import UserError, closest

# Flags that other modes would ignore, and the modes that they are for, before any semicolon.
FOR_TRAINED = {
    "checkpoint": "--mode=test or export; a training takes other weights with --initial_weights",
    "video": "--mode=test",
    "num_videos": "--mode=test",
    "grid": "--mode=test",
    "export_dir": "--mode=export",
    "export_format": "--mode=export",
}


def check(settings: Settings) -> None:
    """Refuses values out of their range, each named by its flag."""
    check_ranges(settings)
    if not all(settings.level.levels):
        raise UserError(
            f"--level_name={settings.level.level_name}: there is an empty name between the commas."
        )
    twice = [name for name in settings.level.levels if settings.level.levels.count(name) > 1]
    if twice:
        raise UserError(f"--level_name={settings.level.level_name}: {twice[0]} is given twice.")
    seating.check(settings.level)
    _check_network(settings.agent.agent_name)
    if settings.program.mode == "train" and settings.program.job_name == "local":
        _check_local(settings)
    if settings.program.mode == "train" and settings.program.job_name != "local":
        _check_addresses(settings)
    if settings.level.agents:
        _check_agents(settings)
    elif settings.program.agent and settings.program.mode == "train":
        raise UserError(
            f"--agent={settings.program.agent} is one of several agents; name them all in --agents."
        )
    trains = settings.program.mode == "train"
    if trains and settings.program.job_name == "learner" and settings.trained.watch:
        raise UserError(
            "--watch is for a training on this machine, or for --mode=test. A cluster's agent can "
            "be watched with --mode=test --watch and a copy of the run's folder."
        )
    mode, algorithm = settings.program.mode, settings.algorithm
    if algorithm.program and mode != "train" and mode not in algorithm.programs:
        raise UserError(
            f"--mode={mode} --algorithm={settings.program.algorithm}: that is a program of "
            f"trainings. Leave it and its preset out: the run's folder, --logdir="
            f"{settings.run_folder}, says how its policy was trained."
        )
    _check_for_trained(settings.trained, mode)
    if trains:
        check_desktops(settings)
    _check_feeding(settings)
    _check_minibatches(settings)
    if settings.remote.peers:
        _check_peers(settings)
    if settings.trained.grid:
        _check_grid(settings)
    video = settings.trained.video
    if video and PurePath(video).suffix.lower() not in (".mp4", ".gif"):
        raise UserError(f"--video={video}: expected a name such as FILE.mp4 or FILE.gif.")


def check_started(settings: Settings) -> None:
    """Refuses what a cluster's learners would refuse, before any of them is started."""
    if settings.algorithm.program:
        raise UserError(
            f"--algorithm={settings.program.algorithm} is a program of trainings on one machine: "
            f"start it with {script_name('bin/train')}."
        )
    first = next(iter(settings.level.agent_names), "")
    check(settings.replace(job_name="learner", agent=first))


def _check_network(name: str) -> None:
    """Refuses a network that there is not; one's own are found later."""
    if name and ":" not in name and name.lower() not in [one.lower() for one in AGENTS]:
        raise UserError(
            f"--agent_name={name} is not known. {closest(name, AGENTS)} "
            "Name one of your own as package.module:Class."
        )


def _check_for_trained(trained: TrainedSettings, mode: str) -> None:
    """Refuses what this mode would ignore, because it is for another use of a trained agent."""
    for field in dataclasses.fields(trained):
        value, name = getattr(trained, field.name), field.name
        if name in _for_others(mode) and value != field.default:
            raise UserError(
                f"--{name}={flags.text_of(value)} is for {FOR_TRAINED[name]}. Name the mode, or "
                "leave the flag out."
            )
    idle = mode == "train" and not (trained.evaluate_every_s or trained.watch)
    if trained.opponent and idle:
        raise UserError(
            f"--opponent={trained.opponent} is for --mode=test; in a training, for games beside "
            "it: give --evaluate_every_s or --watch, too, or leave it out."
        )


def _for_others(mode: str) -> set[str]:
    """The flags that are for other modes than this one."""
    return {name for name, modes in FOR_TRAINED.items() if mode not in modes.partition(";")[0]}


def without_unused(values: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    """The values of a command, without those of a file that are for other modes or commands.

    ``given`` are the names of flags, which are refused instead.
    """
    mode = values.get("mode", "train")
    idle = mode == "train" and not (values["evaluate_every_s"] or values["watch"])
    unused = (_for_others(mode) | ({"opponent"} if idle else set())) - set(given)
    defaults = {field.name: field.default for field in dataclasses.fields(TrainedSettings)}
    # The recorded settings of one of several agents say which it was.
    alone = mode == "train" and not values["agents"] and "agent" not in given
    return (
        values
        | {name: one for name, one in defaults.items() if name in unused}
        | ({"agent": ""} if alone and "agent" in values else {})
    )


def _check_addresses(settings: Settings) -> None:
    """Whether the address of a learner, or those of an actor's learners, can be read."""
    names, given = settings.level.agent_names, settings.remote.learner_host
    if names and settings.program.job_name == "actor":
        addresses.of_agents(given, names)
    else:
        addresses.address(given)


def _check_agents(settings: Settings) -> None:
    """Whether several agents can do what is asked of them."""
    program, trained = settings.program, settings.trained
    if settings.algorithm.program:
        raise UserError(
            f"--agents={settings.level.agents}: --algorithm={program.algorithm} trains one agent."
        )
    learns = program.mode == "train" and program.job_name == "learner"
    if learns or program.agent:
        seating.check_agent(settings.level, program.agent)
    if program.mode == "train" and (trained.evaluate_every_s or trained.watch):
        flag = "--watch" if trained.watch else f"--evaluate_every_s={trained.evaluate_every_s:g}"
        raise UserError(
            f"{flag}: games beside a training are for one agent; leave it out, and play with "
            "--mode=test, also during the training."
        )


def _check_grid(settings: Settings) -> None:
    """Whether a grid can be read, and goes with the rest."""
    grid.cells(settings.trained.grid)
    if settings.trained.video:
        raise UserError(
            f"--video={settings.trained.video} is for a single evaluation; expected --num_videos "
            "beside --grid."
        )


def _check_peers(settings: Settings) -> None:
    """Whether learners can exchange gradients, and this one is among them."""
    given, own = settings.remote.peers, settings.remote.learner_host
    if not isinstance(settings.algorithm.feeding, Gradients):
        raise UserError(
            f"--peers: --algorithm={settings.program.algorithm} exchanges no gradients between "
            "learners; only --algorithm=a3c does. Others train together under mpirun."
        )
    if settings.program.job_name != "learner":
        raise UserError(f"--peers is for --job_name=learner, not {settings.program.job_name}.")
    if settings.team.gradient_compression != "none":
        raise UserError(
            f"--gradient_compression={settings.team.gradient_compression}: learners that exchange "
            "gradients by --peers send them as they are. Leave it out."
        )
    peers = given.split(",")
    for peer in peers:
        addresses.address(peer, "--peers")
    if len(set(peers)) < max(2, len(peers)) or own not in peers:
        raise UserError(
            f"--peers={given}: expected the addresses of two learners or more, each once, and "
            f"--learner_host={own} among them."
        )


def _check_feeding(settings: Settings) -> None:
    """Refuses what would have no effect with the way that batches are fed."""
    feeding, algorithm = settings.algorithm.feeding, settings.program.algorithm
    every, envs = settings.learning.publish_every_updates, settings.actors.envs_per_actor
    if feeding.actors_wait and every != 1:
        raise UserError(
            f"--publish_every_updates={every}: with --algorithm={algorithm}, actors wait for the "
            "weights after each batch. Leave it out."
        )
    is_local = settings.program.job_name == "local"  # elsewhere, each actor may have its own
    if (
        is_local
        and isinstance(feeding, Gradients)
        and envs not in (0, settings.learning.batch_size)
    ):
        raise UserError(
            f"--envs_per_actor={envs} --batch_size={settings.learning.batch_size}: an actor of "
            f"--algorithm={algorithm} makes each gradient of one unroll from each of its "
            "environments. Give both the same number, or only --batch_size."
        )


def _check_minibatches(settings: Settings) -> None:
    feeding, length = settings.algorithm.feeding, settings.actors.unroll_length
    if not isinstance(feeding, InStep):
        return
    piece = sizes.piece_length(feeding, length) or length
    pieces = settings.learning.batch_size * (length // piece)
    if feeding.minibatches > pieces:
        raise UserError(
            f"--minibatches={feeding.minibatches}: a rollout has {pieces} pieces only "
            f"(--batch_size={settings.learning.batch_size} --unroll_length={length})."
        )


def check_ranges(settings: Settings) -> None:
    """Refuses values outside of what their own definitions say."""
    for part in settings.parts():
        flags.check_ranges(part)
    written = {
        "logdir": settings.storage.logdir,
        "export_dir": settings.trained.export_dir,
        "video": settings.trained.video,
    }
    for name, path in written.items():
        if path.startswith("~"):
            raise UserError(
                f"--{name}={path}: shells do not expand ~ there, and a folder of that name would "
                "be made. Give $HOME instead of it, or the whole path."
            )


def check_played(settings: Settings, actors: Collection[int], where: str) -> None:
    """Refuses actors of these numbers if they leave a level out; without any, others start them."""
    levels = settings.level.levels
    played = {number % len(levels) for number in actors}
    left_out = [level for index, level in enumerate(levels) if index not in played]
    if actors and left_out:
        raise UserError(
            f"--level_name names {len(levels)} levels, but {where} has {len(actors)} "
            f"actor{'s' * (len(actors) != 1)}, and each plays one level, by its number modulo "
            f"{len(levels)}: {', '.join(left_out)} would never be played. Add actors, or name "
            "fewer levels."
        )


def check_desktops(settings: Settings) -> None:
    """Refuses flags of desktops where no level is played on one: another game would be.

    Not before the levels are known, which an evaluation may have from its run.
    """
    acting, level = settings.actors, settings.level
    file, lag = acting.remote_password_file, acting.injected_lag_ms
    told = {
        "--remotes": acting.remotes,
        f"--remote_password_file={file}": file,
        f"--injected_lag_ms={lag:g}": lag,
    }
    given = [flag for flag, value in told.items() if value]
    if level.is_on_desktops or not given:
        return
    raise UserError(
        f"{given[0]}: {level.level_name} is not played on desktops: expected "
        "--level_name=vnc:NAME. Or leave the flag out."
    )


def _check_local(settings: Settings) -> None:
    """Whether the actors of this process can do what is asked of them."""
    if settings.remote.synthetic_unrolls:
        raise UserError("--synthetic_unrolls is for --job_name=learner, which has no actors.")
    if len(settings.level.levels) > settings.actors.num_actors:
        raise UserError(
            f"--level_name names {len(settings.level.levels)} levels, but --num_actors is "
            f"{settings.actors.num_actors}: each level needs an actor of its own. "
            f"Give --num_actors={len(settings.level.levels)} or more."
        )
