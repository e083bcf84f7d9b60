"""One training with several seeds, one after another, and its curve with their spread.

    python -m sandbox.study_seeds --out=docs/studies/pong --seeds=1,2,3 --reach=18 -- \\
        --level_name=PongNoFrameskip-v4 --total_environment_frames=10000000
    python -m sandbox.study_seeds --out=docs/studies/pong --draw=logs/pong-1,logs/pong-2

The second only draws finished trainings, from any folder.
"""

import sys

from sandbox import study

SMOKE = ("--level_name=CartPole-v1", "--total_environment_frames=4000", "--report_every_s=0.5")


def main() -> int:
    """Runs the study."""
    return study.main("One training with several seeds.", {"": ()}, (), SMOKE)


if __name__ == "__main__":
    sys.exit(main())
