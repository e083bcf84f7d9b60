"""Play by hand: in a run's world model with the real game beside it, or any level alone.

  python -m world_models.play --logdir=logs/simple
  python -m world_models.play --logdir=logs/simple --record     and learn from what you play
  python -m world_models.play --model_bundle=zoo:catch_model    in a model that somebody made
  python -m world_models.play --level_name=PongNoFrameskip-v4   the real game alone
  python -m world_models.play --level_name=Catch-v0 --record --logdir=logs/mine

In a window where there is a display, otherwise on a page for a browser on this machine.
"""

import contextlib
import copy
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

import flags
from checkout import import_from_here
from flags import setting
from trainer.acting.settings import LevelSettings
from trainer.machine.quiet import import_tensorflow
from trainer.machine.terminal import end_output, say
from user_error import UserError, exit_code, in_short

GROUP = "What to do"
# Flags of trainings that also say how a level is seen and played here.
LOOKS = (
    *("env_kwargs", "wrappers", "num_action_repeats", "frame_skip", "frame_stack", "width"),
    *("height", "crop", "colour", "sticky_actions", "full_action_set", "action_set"),
)
LEVEL_FPS = "level_fps"  # what --fps of trainings is called here
USUAL_FPS = 10.0
LETS_IN_S = 0.002  # those who press keys, while a world in real time is always stepped
START = 2**41  # seeds that no training uses


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of this command."""

    logdir: str = setting("", GROUP, "folder of a run of --algorithm=simple")
    model_bundle: str = setting(
        "", GROUP, "a world model's bundle: a file, https://...#sha256=..., or zoo:NAME"
    )
    registry: str = setting("", GROUP, "file or address of such names; default: the project's own")
    real_only: bool = setting(False, GROUP, "with --logdir: only the real game, as its agent sees")
    zoom: int = setting(0, GROUP, "pixels for each pixel; 0: as is readable", least=0, most=64)
    fps: float = setting(
        0.0,
        GROUP,
        "steps a second; 0: 10, or those of a world in real time, which has no others",
        least=0,
        most=60,
    )
    wait: bool = setting(
        False, GROUP, "begin in wait mode: each key is a step; not for worlds in real time"
    )
    record: bool = setting(
        False,
        GROUP,
        "add your steps to the real play in --logdir, so that something learns from it",
    )
    videos: str = setting(
        "", GROUP, "folder for what was shown; default: played in --logdir or logs"
    )
    browser: bool = setting(False, GROUP, "serve the page although there is a display")
    port: int = setting(0, GROUP, "port of the page; 0: a free one", least=0, most=65535)
    seed: int = setting(1, GROUP, "seed of the games", least=0, most=2**31 - 1)


def main(arguments: list[str]) -> int:
    """Plays; returns the exit code."""
    import_from_here()
    code = exit_code("world_models.play", lambda: _run(arguments))
    end_output()
    return code


def _run(arguments: list[str]) -> None:
    definitions = [*dataclasses.fields(Options), *_level_fields()]
    parser = flags.parser_of(definitions, "python -m world_models.play", __doc__ or "", "")
    values = flags.parse(parser, arguments)
    own = {field.name for field in dataclasses.fields(Options)}
    options = Options(**{name: value for name, value in values.items() if name in own})
    flags.check_ranges(options)
    level = {name: value for name, value in values.items() if name not in own}
    _check_ranges(level)
    _check(options, level)
    import_tensorflow()
    _play(options, level)


def _level_fields() -> list[dataclasses.Field]:
    """The flags that say how a level alone is to be."""
    known = {field.name: field for field in dataclasses.fields(LevelSettings)}
    fps = _changed(known["fps"], name=LEVEL_FPS)
    return [_changed(known["level_name"], default=""), *(known[name] for name in LOOKS), fps]


def _check_ranges(level: dict[str, Any]) -> None:
    for field in _level_fields():
        wrong = flags.problem_with(field, level[field.name])
        if wrong:
            raise UserError(f"--{field.name}={level[field.name]}: {wrong}.")


def _changed(field: dataclasses.Field, **attributes: Any) -> dataclasses.Field:
    changed = copy.copy(field)
    for name, value in attributes.items():
        setattr(changed, name, value)
    return changed


def _check(options: Options, level: dict[str, Any]) -> None:
    alone = level["level_name"]
    if options.logdir and options.model_bundle:
        raise UserError("expected one of --logdir and --model_bundle; both bring a model.")
    if not (options.logdir or options.model_bundle or alone):
        raise UserError(
            "expected --logdir, a run of --algorithm=simple, --model_bundle, a model, or "
            "--level_name, a level."
        )
    if "," in alone:
        raise UserError(f"--level_name={alone}: expected one level; keys play one game at a time.")
    own = [f.name for f in _level_fields() if level[f.name] != f.default]
    if own and not alone:
        raise UserError(f"--{own[0]} is for --level_name; a run and a model have their own levels.")
    if alone and options.model_bundle:
        raise UserError("--model_bundle brings its own level; leave --level_name out.")
    if options.record and not options.logdir:
        raise UserError("--record adds to the real play of a folder: give --logdir.")
    if alone and options.logdir and (Path(options.logdir) / "settings.json").exists():
        raise UserError(
            f"--logdir={options.logdir} is a run, which has its own level; leave --level_name out, "
            "or name a folder of its own to --record."
        )


def _play(options: Options, level: dict[str, Any]) -> None:
    from trainer import build
    from trainer.storage.played import check_looks, looks_of, read_all
    from world_models.player.recording import Recording
    from world_models.player.server import served
    from world_models.player.session import Session
    from world_models.player.window import play_in_window

    settings, real, model = _games(options, level)
    fps = real.pictures_per_second if real.spec.goes_on else options.fps or USUAL_FPS
    looks, logdir = looks_of(build.looks(settings)), Path(options.logdir or "logs")
    steps = logdir / "play" if options.record else None
    with contextlib.closing(real):
        if steps:  # nobody could learn from two games, or two looks of one, in a folder
            check_looks(read_all(steps, real.spec.level_name), real.spec, looks, steps)
        recording = Recording(
            Path(options.videos or logdir / "played"),
            fps,
            steps,
            real.spec.level_name,
            looks,
        )
        try:
            session = Session(real, model, options.zoom, options.wait, recording)
            shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
            with contextlib.suppress(KeyboardInterrupt):
                if shown and not options.browser:
                    play_in_window(session, fps)
                else:
                    with served(session, options.port) as address:
                        say(f"Play at {address} (only on this machine; Ctrl-C or Q ends)")
                        _tick(session, fps)
        finally:
            recording.close()
    files = {recording.path: recording.error, recording.steps_path: recording.steps_error}
    for path, error in files.items():
        if error:
            print(f"warning: {path} is not complete ({error}).", file=sys.stderr)
    say(f"What was shown: {recording.path}")
    if steps:
        count = len(recording.parts)
        say(f"Your steps: {count} files in {steps}" if count else "No steps to record.")


def _tick(session: Any, fps: float) -> None:
    """Steps at the rate of ``fps`` until the session is ended; raises what has ended it."""
    due = time.monotonic()
    while not session.ended:
        due = max(due + 1 / fps, time.monotonic())
        session.tick()
        time.sleep(max(LETS_IN_S, due - time.monotonic()))
    session.shown(session.number, 0.0)
    time.sleep(0.3)  # for the page to hear of it
    if session.error:
        raise session.error


def _games(options: Options, level: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The settings of the level, the real game, and the model if there is to be one."""
    from trainer import build
    from trainer.settings.config import Settings
    from world_models.player.sides import DreamedGame, RealGame
    from world_models.trained.opened import opened, settings_of

    if level["level_name"]:
        shown = {**level, "fps": level[LEVEL_FPS]}
        del shown[LEVEL_FPS]
        settings = Settings(**shown, video="shown.mp4")
        spec = build.level_spec(settings)
        _check_choices(spec)
        _check_pace(options, spec)
        game = RealGame(
            lambda n: build.test_environment(settings, 0, 1, START + options.seed + n), True
        )
        return settings, game, None
    if options.real_only and options.logdir:  # it may have no model yet
        settings, model = settings_of(options.logdir), None
    else:  # an error, if it has none, before a game is opened
        asked = Settings(
            algorithm="simple",
            logdir=options.logdir,
            model_bundle=options.model_bundle,
            registry=options.registry,
        )
        run = opened(asked)
        settings, model = run.settings, None if options.real_only else DreamedGame(run.model)
    settings = settings.replace(num_actors=1, envs_per_actor=1)
    _check_pace(options, build.level_spec(settings))

    def make(number: int) -> Any:
        return build.actor_environment(settings, 0, START + options.seed + number)

    return settings, RealGame(make, False), model


def _check_choices(spec: Any) -> None:
    if not hasattr(spec.action_space, "n"):
        raise UserError(
            f"--level_name={spec.level_name} takes actions {in_short(spec.action_space)}; keys can "
            "only choose one among several (Discrete)."
        )
    if spec.num_bodies > 1:
        raise UserError(
            f"--level_name={spec.level_name} has {spec.num_bodies} bodies; keys can play only one."
        )


def _check_pace(options: Options, spec: Any) -> None:
    """Refuses a pace of our own for what goes on by itself: a step that is late does not count."""
    given = "--wait" if options.wait else f"--fps={options.fps:g}" if options.fps else ""
    if spec.goes_on and given:
        raise UserError(
            f"{given}: {spec.level_name} goes on by itself, whatever is pressed. Leave it out; the "
            f"speed of a level over VNC is --{LEVEL_FPS}."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
