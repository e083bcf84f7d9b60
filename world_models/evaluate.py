"""Evaluates a run of --algorithm=simple: the policy, in the real game and the model, and the model.

  python -m world_models.evaluate --logdir=logs/simple
  python -m world_models.evaluate --logdir=logs/simple --grid='temperature=0,1;noops=0,8'
  python -m world_models.evaluate --model_bundle=zoo:catch_model --test_policy=random

Short for experiment.py --mode=test --algorithm=simple, whose flags it takes.
"""

import sys

from checkout import import_from_here
from flags import with_this_python
from trainer.machine.launching import script_name
from trainer.machine.quiet import import_tensorflow
from trainer.machine.terminal import end_output
from trainer.settings import config
from trainer.settings.program import ProgramSettings
from user_error import UserError, exit_code

WORDS = ["--mode=test", "--algorithm=simple"]


def main(arguments: list[str]) -> int:
    """Evaluates; returns the exit code."""
    import_from_here()
    words = [*WORDS, *arguments]

    def run() -> None:
        if {"-h", "--help"} & {*arguments}:
            _help()
            return
        settings, given = config.parse(words), config.given(words)
        _check(settings.program)
        import_tensorflow()
        from world_models.trained.testing import test

        test(settings, given)

    code = exit_code("world_models.evaluate", run)
    end_output()
    return code


def _help() -> None:
    parser = config.make_parser("simple")
    parser.prog = with_this_python("python -m world_models.evaluate")
    parser.description, parser.epilog = with_this_python(__doc__ or ""), ""
    parser.print_help()


def _check(program: ProgramSettings) -> None:
    """Refuses flags that ask for something else than this command does."""
    if program.algorithm != "simple":
        raise UserError(
            f"--algorithm={program.algorithm} has no world model; expected simple. Leave the flag "
            f"out, or evaluate the agent with {script_name('bin/train')} --mode=test."
        )
    if program.mode != "test":
        raise UserError(
            f"--mode={program.mode}: this command only evaluates; expected test. Leave the flag "
            f"out, or give it to {script_name('bin/train')} --algorithm=simple."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
