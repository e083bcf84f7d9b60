"""What V-trace's correction is worth: with it and without, under more and more policy lag.

    python -m sandbox.study_correction [--seeds=1,2,3] [--smoke] [-- flags of experiment.py]

Lag is forced by giving actors new weights only after so many updates. The table has the
resulting lag, as measured by the trainings.
"""

import itertools
import sys

from sandbox import study

CORRECTIONS = ("vtrace", "none")
WAITS = (1, 64, 256)  # updates between two sets of weights
FLAGS = (
    "--level_name=CartPole-v1",
    "--total_environment_frames=500000",
    "--report_every_s=1",
    "--nonormalise_observations",
    "--entropy_cost=0.01",
    "--replay_share=0",
)
SMOKE = ("--total_environment_frames=4000", "--report_every_s=0.5")


def main() -> int:
    """Runs the study."""
    waits = WAITS[:1] if "--smoke" in sys.argv else WAITS
    variants = {
        f"{correction}, weights every {wait} updates": (
            f"--correction={correction}",
            f"--publish_every_updates={wait}",
        )
        for wait, correction in itertools.product(waits, CORRECTIONS)
    }
    return study.main(
        "V-trace against no correction under forced policy lag.",
        variants,
        FLAGS,
        SMOKE,
        out="docs/studies/correction",
    )


if __name__ == "__main__":
    sys.exit(main())
