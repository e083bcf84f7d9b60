"""Compares a run's world model with new real play, action by action.

  python -m world_models.evaluate --logdir=logs/simple
  python -m world_models.evaluate --logdir=logs/simple --by=chance --rollouts=512

The policy of the run, or chance, plays the real game; the model goes on from real pictures with
the same actions. Its reward sums are compared after 12 and 50 steps and at the episode's end.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import flags
from flags import setting
from trainer.machine.launching import import_from_here
from trainer.machine.quiet import import_tensorflow
from user_error import UserError

GROUP = "What to do"
# Real play for evaluation shares no seed with that of a training.
START = 2**40


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of this command."""

    logdir: str = setting("", GROUP, "folder of a run of --algorithm=simple")
    by: str = setting("policy", GROUP, "who plays the real game", choices=("policy", "chance"))
    real_steps: int = setting(4_000, GROUP, "agent steps that are played for it", least=100)
    rollouts: int = setting(512, GROUP, "rollouts that are compared", least=1, most=10_000)
    steps: int = setting(50, GROUP, "steps of a rollout", least=1, most=1_000)
    seed: int = setting(1, GROUP, "seed of games, actions and rollouts", least=0)


def main(arguments: list[str]) -> int:
    """Evaluates; returns the exit code."""
    import_from_here()
    try:
        parser = flags.parser_of(
            dataclasses.fields(Options), "python -m world_models.evaluate", __doc__ or "", ""
        )
        options = Options(**flags.parse(parser, arguments))
        flags.check_ranges(options)
        import_tensorflow()
        print("\n".join(f"{name:<42} {_text(value)}" for name, value in _run(options).items()))
    except UserError as error:
        print(f"world_models.evaluate: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: Options) -> dict[str, Any]:
    """The figures; also written into the run's folder, with pictures of some rollouts."""
    from trainer.storage.records import write_whole
    from world_models.training import evaluating, pictures, playing
    from world_models.training.experience import Experience
    from world_models.training.folders import writing
    from world_models.training.opened import opened

    run = opened(options.logdir)
    count = min(8, run.settings.algorithm.real_envs)
    choose = None
    if options.by == "policy":
        choose = playing.by_policy(run.settings, count, options.seed)
        if choose is None:
            raise UserError(f"--by=policy: {options.logdir} has no policy yet; give --by=chance.")
    choose = choose or playing.at_random(run.model.sizes.actions, options.seed)
    parts, steps = [], 0
    with playing.real_game(run.settings, count, START + options.seed) as game:
        games = playing.Games(game)
        while steps < options.real_steps:
            parts.append(games.play(choose, options.real_steps - steps)[0])
            steps += parts[-1].steps
    real = Experience(parts, run.model.sizes.frames)
    figures, shown = evaluating.evaluate(
        run.model, real, options.seed, options.steps, options.rollouts
    )
    figures = {"played_by": options.by, "real_steps": steps, "updates": run.model.updates} | figures
    folder = Path(options.logdir) / "world_model"
    with writing(folder):
        write_whole(folder / "evaluation.json", json.dumps(figures, indent=2).encode() + b"\n")
        length = int(shown.valid[0].sum())
        strip = pictures.strip(shown.predicted[0, :length], shown.real[0, :length])
        write_whole(folder / "evaluation.png", pictures.png(strip))
        pictures.write_video(
            folder / "evaluation.mp4", shown.predicted[0, :length], shown.real[0, :length]
        )
    return figures


def _text(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
