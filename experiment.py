"""One process: trains an agent, alone or with others, plays with a trained one, or exports it."""

import io
import sys

from algorithms import registry
from checkout import import_from_here
from trainer.machine.launching import script_name
from trainer.machine.quiet import import_tensorflow
from trainer.programs.stopping import end_silently, ended_by_signals
from trainer.settings import config
from user_error import EndedOutside, UserError


def main(arguments: list[str] | None = None) -> int:
    """Runs what the flags ask for, by default the command line's; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    import_from_here()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A letter that the output has not becomes a question mark, which is as wide in a panel.
        sys.stdout.reconfigure(errors="replace")
    try:
        settings = config.parse(arguments)
        with ended_by_signals():
            import_tensorflow()
        try:
            _run(settings, config.given(arguments))
        finally:
            _end_output()
    except UserError as error:
        print(f"{script_name('experiment.py')}: {error}", file=sys.stderr)
        return error.code
    except EndedOutside as error:
        print(f"{script_name('experiment.py')}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while playing or exporting
        return 130
    return 0


def _run(settings: config.Settings, given: frozenset[str]) -> None:
    """Runs ``--mode``, importing only what it needs; ``given`` are the names of the flags given."""
    mode = settings.program.mode
    program = registry.program_of(settings.program.algorithm, mode)
    if program and mode != "train":
        program(settings, given)
    elif mode == "test":
        from trainer.trained.evaluation import evaluate

        evaluate(settings, given)
    elif mode == "export":
        from trainer.trained.export import export

        export(settings, given)
    else:
        with ended_by_signals():
            _train(settings, given)


def _end_output() -> None:
    """Keeps output that cannot be written from changing the exit code."""
    from trainer.machine.terminal import end_output

    end_output()


def _train(settings: config.Settings, given: frozenset[str]) -> None:
    """Runs this process's part of a training."""
    program = registry.program_of(settings.program.algorithm)
    if program:
        program(settings, given)
        return
    if settings.program.job_name == "actor":
        from trainer.programs.actor_process import act

        act(settings)
        return
    from trainer.trained import alongside

    alongside.check(settings)
    if settings.program.job_name == "learner":
        from trainer.programs.learner_process import learn

        learn(settings, alongside.start)
    else:
        from trainer.programs.local import train

        train(settings, companions=alongside.start)


if __name__ == "__main__":
    code = main()
    end_silently()
    sys.exit(code)
