"""Which actor plays on which desktop of a CSV's remotes, and what both are started with.

Pure functions, as in ``plan``.
"""

import os.path
from collections import Counter
from collections.abc import Iterator, Sequence

import credentials
from cluster.model import Dealt, Here, Member, Process, cut_off
from cluster.options import Options
from trainer.settings import sizes
from trainer.settings.config import Settings
from user_error import UserError

REAL_TIME = "vnc:"
# Several desktops share a host: libraries would start a thread a core in each.
ONE_THREAD = (("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"))


def deal(
    remotes: Sequence[Member], actors: Sequence[Member], settings: Settings, options: Options
) -> tuple[Dealt, ...]:
    """A remote for each environment, in the order of the actors: those of their hosts first."""
    if not remotes:
        return ()
    count = _envs_of_each(actors, settings, options)
    if len(remotes) != count * len(actors):
        raise UserError(
            f"{options.workers_csv_path}: {len(remotes)} remotes, but {len(actors)} actors with "
            f"{count} environments each: expected one remote for each environment. Change column "
            "count of the remotes, column envs, or --envs_per_actor."
        )
    left = list(remotes)
    near = [
        _take(left, [one for one in left if one.host == actor.host][:count]) for actor in actors
    ]
    dealt = []
    for actor, own in zip(actors, near, strict=True):
        dealt += [Dealt(remote, actor) for remote in own]
        for _ in range(count - len(own)):
            dealt.append(Dealt(_take_from_fullest(left), actor))
    problems = [f"{options.workers_csv_path}:{line}: {what}" for line, what in cut_off(dealt)]
    if problems:
        raise UserError("\n".join(problems))
    return tuple(dealt)


def _envs_of_each(actors: Sequence[Member], settings: Settings, options: Options) -> int:
    """Environments of an actor; a ``UserError`` if these cannot be on remotes."""
    path = options.workers_csv_path
    for level in settings.level.levels:
        if not level.startswith(REAL_TIME):
            raise UserError(
                f"{path} has remotes, but --level_name={level} is not played on desktops: expected "
                f"{REAL_TIME}NAME, or no row with job 'remote'."
            )
    if settings.actors.remotes:
        raise UserError(f"{path} has remotes already: leave out --remotes, or those rows.")
    counts = {one.row.envs or sizes.envs_per_actor(settings) for one in actors}
    if len(counts) != 1:
        found = ", ".join(map(str, sorted(counts))) or "no actors"
        raise UserError(
            f"{path}: where there are remotes, all actors need the same number of environments; "
            f"found {found}."
        )
    return counts.pop()


def _take(left: list[Member], chosen: list[Member]) -> list[Member]:
    for one in chosen:
        left.remove(one)
    return chosen


def _take_from_fullest(left: list[Member]) -> Member:
    """One from the host where most are left, so that all hosts have as much to do."""
    hosts = Counter(one.host for one in left)
    return _take(left, [max(left, key=lambda one: hosts[one.host])])[0]


def flags_of_actors(dealt: Sequence[Dealt], settings: Settings) -> dict[str, str]:
    """The same for all of them: each takes the remotes at its own place of the list."""
    if not dealt:
        return {}
    return {
        "remotes": ",".join(one.address for one in dealt),
        "remote_password_file": password_file(settings),
    }


def password_file(settings: Settings) -> str:
    """The file that ``entrusting`` puts on the hosts of remotes and actors."""
    return f"{settings.credentials_folder}/{credentials.DESKTOPS}"


def processes(
    dealt: Sequence[Dealt], settings: Settings, options: Options, here: Here
) -> Iterator[Process]:
    """What serves each desktop, in the order of the CSV."""
    levels, view = settings.level.levels, settings.level
    for one in sorted(dealt, key=lambda one: one.remote.number):
        remote = one.remote
        served = levels[one.actor.number % len(levels)].removeprefix(REAL_TIME)
        is_page = served.startswith("browser:")  # whose file may describe it, too
        is_program = served.endswith((".yaml", ".yml")) and not is_page
        kind = "game" if is_program else "level_name"
        desktop, rewarder = remote.ports
        flags = {
            kind: served,
            "fps": view.fps,
            "env_kwargs": view.env_kwargs,
            "wrappers": view.wrappers,
            "full_action_set": view.full_action_set or "",
            "seed": (settings.program.seed + remote.number) % 2**31,
            "host": one.listens_at,
            "vnc_port": desktop,
            "rewarder_port": rewarder,
            "password_file": password_file(settings),
        }
        script = os.path.dirname(here.script)
        found = remote.host.is_local and script != here.folder
        yield Process(
            name=remote.name,
            job="remote",
            place=remote.place,
            argv=(
                *(remote.place.python, "-m", "environments.remote", "serve"),
                *(f"--{name}={value}" for name, value in flags.items() if value != ""),
            ),
            env=(*ONE_THREAD, *((("PYTHONPATH", script),) if found else ()), *remote.row.env),
            restarts=options.restart_actors,
        )
