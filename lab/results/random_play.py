"""Measures the return of random play on a level, in a process of its own.

    python -m lab.results.random_play SETTINGS_AS_JSON

It prints a line of JSON. Environments may be anybody's code, so the lab keeps them out of itself.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import environments
from environments import View
from trainer.machine.launching import PROJECT, import_from_here
from trainer.settings.config import Settings
from trainer.storage.records import write_whole
from user_error import UserError

EPISODES = 100
# Long games end it earlier, with as many episodes as there are.
LONGEST_S = 60.0
GIVE_UP_S = 600.0
SEED = 7


def measure(settings: Settings) -> dict[str, dict[str, float]]:
    """The mean return, deviation and number of episodes of random play, for each level."""
    path = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "lab.results.random_play", json.dumps(settings.flat())],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=GIVE_UP_S,
        check=False,
    )
    if found.returncode:
        last = found.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"random play on {settings.level.level_name}: {last[0]}")
    return json.loads(found.stdout.splitlines()[-1])


def kept(path: Path, values: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What was measured earlier and is in the file; measured and written there if it is not."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        measured = measure(Settings(**values))
        write_whole(path, json.dumps(measured, indent=1).encode())
        return measured


def play(settings: Settings, level: str) -> dict[str, float]:
    """Plays one level at random."""
    shown = {one.name: getattr(settings.level, one.name) for one in dataclasses.fields(View)}
    # One environment: of several, the long games under way at the end would be missing.
    environment = environments.make(
        level, 1, SEED,
        sticky_actions=settings.level.sticky_actions,
        max_episode_frames=settings.level.max_episode_frames,
        max_rewardless_steps=0,
        **shown,
    )  # fmt: skip
    actions = environments.RandomActions(environment.spec, SEED)
    returns: list[float] = []
    until = time.monotonic() + LONGEST_S
    with contextlib.closing(environment):
        environment.reset()
        while len(returns) < EPISODES and (not returns or time.monotonic() < until):
            environment.step(actions.draw(environment.num_envs))
            returns += [one.raw_return for one in environment.episodes()]
            if not returns and time.monotonic() > until + GIVE_UP_S / 2:
                raise UserError(f"{level}: no episode has ended")
    return {
        "return": float(np.mean(returns)),
        "deviation": float(np.std(returns)),
        "episodes": len(returns),
    }


def main() -> int:
    """Prints what it measures for the settings in the argument."""
    import_from_here()
    settings = Settings(**json.loads(sys.argv[1]))
    try:
        print(json.dumps({level: play(settings, level) for level in settings.level.levels}))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
