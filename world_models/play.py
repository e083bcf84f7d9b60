"""Play by hand: in a run's world model with the real game beside it, or any level alone.

  python -m world_models.play --logdir=logs/simple
  python -m world_models.play --logdir=logs/simple --record     and learn from what you play
  python -m world_models.play --level_name=PongNoFrameskip-v4   the real game alone

In a window where there is a display, otherwise on a page for a browser on this machine.
"""

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

import flags
from flags import setting
from trainer.machine.launching import import_from_here
from trainer.machine.quiet import import_tensorflow
from user_error import UserError

GROUP = "What to do"
START = 2**41  # seeds that no training uses


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of this command."""

    logdir: str = setting("", GROUP, "folder of a run of --algorithm=simple")
    level_name: str = setting("", GROUP, "a level to play alone, without a model")
    real_only: bool = setting(False, GROUP, "with --logdir: only the real game, as its agent sees")
    zoom: int = setting(0, GROUP, "pixels for each pixel; 0: as is readable", least=0, most=64)
    fps: float = setting(10.0, GROUP, "steps a second", above=0, most=60)
    wait: bool = setting(False, GROUP, "begin in wait mode: each key is a step")
    record: bool = setting(
        False, GROUP, "add your steps to the run's real play, so that the model learns from them"
    )
    videos: str = setting("", GROUP, "folder for what was shown; default: played in --logdir")
    browser: bool = setting(False, GROUP, "serve the page although there is a display")
    port: int = setting(0, GROUP, "port of the page; 0: a free one", least=0, most=65535)
    seed: int = setting(1, GROUP, "seed of the games", least=0, most=2**31 - 1)


def main(arguments: list[str]) -> int:
    """Plays; returns the exit code."""
    import_from_here()
    try:
        parser = flags.parser_of(
            dataclasses.fields(Options), "python -m world_models.play", __doc__ or "", ""
        )
        options = Options(**flags.parse(parser, arguments))
        flags.check_ranges(options)
        _check(options)
        import_tensorflow()
        _play(options)
    except UserError as error:
        print(f"world_models.play: {error}", file=sys.stderr)
        return 2
    return 0


def _check(options: Options) -> None:
    if bool(options.logdir) == bool(options.level_name):
        raise UserError(
            "expected either --logdir, a run of --algorithm=simple, or --level_name, a level."
        )
    if options.record and not options.logdir:
        raise UserError("--record adds to the real play of a run: give --logdir.")


def _play(options: Options) -> None:
    from world_models.player import recording
    from world_models.player.server import served
    from world_models.player.session import Session
    from world_models.player.window import play_in_window

    real, model = _games(options)
    session = Session(real, model, options.zoom, options.wait)
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    with contextlib.closing(real), contextlib.suppress(KeyboardInterrupt):
        if shown and not options.browser:
            play_in_window(session, options.fps)
        else:
            with served(session, options.port) as address:
                print(f"Play at {address} (only on this machine; Ctrl-C or Q ends)", flush=True)
                _tick(session, options.fps)
    folder = Path(options.videos or Path(options.logdir or "logs") / "played")
    print(f"What was shown: {recording.write_video(session, folder, options.fps)}")
    if options.record:
        stored = recording.store_steps(session, Path(options.logdir) / "play", real.spec.level_name)
        print(f"Your steps: {stored}" if stored else "There were no steps to record.")


def _tick(session: Any, fps: float) -> None:
    """Steps at the rate of ``fps`` until the session is ended."""
    due = time.monotonic()
    while not session.ended:
        due = max(due + 1 / fps, time.monotonic())
        session.tick()
        time.sleep(max(0.0, due - time.monotonic()))
    session.shown(session.number, 0.0)
    time.sleep(0.3)  # for the page to hear of it


def _games(options: Options) -> tuple[Any, Any]:
    """The real game and the model, if there is to be one."""
    from trainer import build
    from trainer.settings.config import Settings
    from world_models.player.sides import DreamedGame, RealGame
    from world_models.training.opened import opened, settings_of

    if options.level_name:
        settings = Settings(level_name=options.level_name, video="shown.mp4")
        _check_choices(build.level_spec(settings))
        return RealGame(
            lambda n: build.test_environment(settings, 0, 1, START + options.seed + n), True
        ), None
    settings = settings_of(options.logdir).replace(num_actors=1, envs_per_actor=1)

    def make(number: int) -> Any:
        return build.actor_environment(settings, 0, START + options.seed + number)

    if options.real_only:
        return RealGame(make, False), None
    model = opened(options.logdir).model  # an error, if it has none, before a game is opened
    return RealGame(make, False), DreamedGame(model)


def _check_choices(spec: Any) -> None:
    if not hasattr(spec.action_space, "n"):
        raise UserError(
            f"--level_name={spec.level_name} takes actions {spec.action_space}; keys can only "
            "choose one among several (Discrete)."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
