"""Evaluates a run of --algorithm=simple: the policy, in the real game and the model, and the model.

  python -m world_models.evaluate --logdir=logs/simple
  python -m world_models.evaluate --logdir=logs/simple --grid='temperature=0,1;noops=0,8'
  python -m world_models.evaluate --model_bundle=zoo:catch_model --test_policy=random

Short for experiment.py --mode=test --algorithm=simple, whose flags it takes.
"""

import sys

from trainer.machine.launching import import_from_here
from trainer.machine.quiet import import_tensorflow
from trainer.settings import config
from user_error import exit_code

WORDS = ["--mode=test", "--algorithm=simple"]


def main(arguments: list[str]) -> int:
    """Evaluates; returns the exit code."""
    import_from_here()
    words = [*WORDS, *arguments]

    def run() -> None:
        settings, given = config.parse(words), config.given(words)
        import_tensorflow()
        from world_models.trained.testing import test

        test(settings, given)

    return exit_code("world_models.evaluate", run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
