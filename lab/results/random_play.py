"""Measures the returns of random play, in a process of its own.

    python -m lab.results.random_play LEVEL_SETTINGS_BY_WORLD_AS_JSON

It prints a line of JSON. Environments may be anybody's code, so the lab keeps them out of itself.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

import environments
from checkout import import_from_here
from environments import View
from lab.trials.keeper import ending_with_parent, kill_group
from trainer.acting.settings import LevelSettings
from trainer.machine.launching import module_command, with_project
from trainer.settings.config import Settings
from trainer.storage.records import write_whole
from user_error import UserError

EPISODES = 100
# Long games end it earlier, with as many episodes as there are.
LONGEST_S = 60.0
GIVE_UP_S = 600.0
SEED = 7
# Settings besides the level that change what random play gets; others only change what is seen.
OF_A_WORLD = (
    *("num_action_repeats", "frame_skip", "full_action_set", "action_masks", "env_kwargs"),
    *("wrappers", "action_set", "fps", "sticky_actions", "noop_max", "max_episode_frames"),
)


class RandomPlay:
    """Returns of random play, measured once for each world and kept in a file."""

    def __init__(self, path: Path):
        self._path = path
        self._known: dict[str, dict[str, float]] = {}
        self._failed: dict[str, UserError] = {}  # not tried again by this process
        self._is_kept = True  # in the file, for which there may be no room
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False
        with contextlib.suppress(OSError, ValueError):
            self._known = json.loads(path.read_text())

    def knows(self, values: Mapping[str, Any]) -> bool:
        """Whether all worlds of a session's settings have been measured."""
        return set(worlds(values)) <= set(self._known)

    def returns(self, values: Mapping[str, Any]) -> dict[str, float]:
        """The mean return on each level of a session's settings."""
        self.measure([values])
        found = worlds(values)
        return {one.level_name: self._known[name]["return"] for name, one in found.items()}

    def stop(self) -> None:
        """Ends a measurement, which then raises a ``UserError``; a signal's handler may call it."""
        self._is_stopped = True
        if self._process is not None and self._process.returncode is None:
            kill_group(self._process.pid)

    def measure(
        self,
        every: Iterable[Mapping[str, Any]],
        say: Callable[[str], None] = lambda text: None,
        failed: Callable[[UserError], None] | None = None,
    ) -> None:
        """Measures what is not known yet of the worlds of several sessions' settings.

        Each is kept as soon as it is known, as many take half an hour; ``say`` gets the progress.
        ``failed`` gets the errors of worlds, after which the others are measured still.
        """
        if not self._is_kept:
            self._keep({})
        missing = {
            name: dataclasses.asdict(world)
            for values in every
            for name, world in worlds(values).items()
            if name not in self._known
        }
        for number, (name, world) in enumerate(missing.items(), 1):
            say(f"random play on {name}, {number} of {len(missing)}, for {LONGEST_S:g} s at most")
            try:
                self._keep(self._measured(name, world))
            except UserError as error:
                if failed is None or self._is_stopped:
                    raise
                failed(error)

    def _measured(self, name: str, world: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """What is measured of a world; where that has failed, the error again, at once."""
        if name in self._failed:
            raise self._failed[name]
        try:
            return measured({name: world}, self._begun)
        except UserError as error:
            self._failed[name] = error
            raise

    def _keep(self, found: Mapping[str, dict[str, float]]) -> None:
        """Adds what was measured; may raise OSError, after which the next call writes it."""
        self._known |= found
        self._is_kept = False
        write_whole(self._path, json.dumps(self._known, indent=1).encode())
        self._is_kept = True

    def _begun(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        if self._is_stopped:  # before there was a process to end
            self.stop()


def worlds(values: Mapping[str, Any]) -> dict[str, LevelSettings]:
    """The settings of each level, by its name and by what differs from the defaults."""
    level, usual = Settings(**values).level, LevelSettings()
    own = {one: getattr(level, one) for one in OF_A_WORLD}
    differs = [f"{name}={one}" for name, one in own.items() if one != getattr(usual, name)]
    return {
        " ".join([name, *differs]): dataclasses.replace(level, level_name=name)
        for name in level.levels
    }


def measured(
    settings: Mapping[str, Mapping[str, Any]], begun: Callable[[subprocess.Popen[str]], None]
) -> dict[str, dict[str, float]]:
    """The mean return, deviation and number of episodes of random play in each world.

    ``begun`` gets the process that plays, whose group is its own.
    """
    what = f"random play on {', '.join(settings)}"
    with subprocess.Popen(
        [*module_command("lab.results.random_play"), json.dumps(settings)],
        env=with_project(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C asks the lab to stop, which then decides
    ) as process:
        try:
            begun(process)
            printed, said = process.communicate(timeout=GIVE_UP_S * len(settings))
        except subprocess.TimeoutExpired as error:
            raise UserError(f"{what} has not ended after {error.timeout:g} s") from None
        finally:
            if process.returncode is None:
                kill_group(process.pid)
    if process.returncode:
        last = said.strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"{what}: {last[0]}")
    try:
        return json.loads(printed.splitlines()[-1])  # what is imported may print before
    except (ValueError, IndexError):
        raise UserError(
            f"{what}: found no result; expected one. The world has ended its process."
        ) from None


def play(settings: LevelSettings) -> dict[str, float]:
    """Plays one level at random."""
    shown = {one.name: getattr(settings, one.name) for one in dataclasses.fields(View)}
    # One environment: of several, the long games under way at the end would be missing.
    environment = environments.make(
        settings.level_name, 1, SEED,
        sticky_actions=settings.sticky_actions,
        episodic_life=False,
        noop_max=settings.noop_max,
        max_episode_frames=settings.max_episode_frames,
        max_rewardless_steps=0,
        **shown,
    )  # fmt: skip
    actions = environments.RandomActions(environment.spec, SEED)
    returns: list[float] = []
    until = time.monotonic() + LONGEST_S
    with contextlib.closing(environment):
        step = environment.reset()
        while len(returns) < EPISODES and (not returns or time.monotonic() < until):
            step = environment.step(actions.draw(environment.num_envs, seen=step.observation))
            returns += [one.raw_return for one in environment.episodes()]
            if not returns and time.monotonic() > until + GIVE_UP_S / 2:
                raise UserError(f"{settings.level_name}: no episode has ended")
    if unknown := [one for one in returns if not np.isfinite(one)]:
        level = settings.level_name
        raise UserError(f"{level}: found a return of {unknown[0]}; expected finite rewards")
    return {
        "return": float(np.mean(returns)),
        "deviation": float(np.std(returns)),
        "episodes": len(returns),
    }


def main() -> int:
    """Prints what it measures for the settings in the argument."""
    ending_with_parent()()  # nothing of a lab that was killed is left
    import_from_here()
    given = json.loads(sys.argv[1])
    with _own_output() as output:
        try:
            print(json.dumps({name: play(LevelSettings(**one)) for name, one in given.items()}),
                  file=output)  # fmt: skip
        except UserError as error:
            print(error, file=sys.stderr)
            return 2
    return 0


def _own_output() -> IO[str]:
    """The output that the lab reads; what worlds print, also as they end, goes nowhere now."""
    output = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return output


if __name__ == "__main__":
    sys.exit(main())
