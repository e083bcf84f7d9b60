"""What replaying recent unrolls is worth: shares of a batch that are drawn again.

    python -m sandbox.study_replay [--seeds=1,2,3] [--smoke] [-- flags of experiment.py]

Frames count new experience only, so a larger share means more updates for as many frames.
"""

import sys

from sandbox import study

SHARES = (0.0, 0.5, 0.75)
FLAGS = (
    "--level_name=CartPole-v1",
    "--total_environment_frames=300000",
    "--report_every_s=1",
    "--nonormalise_observations",
    "--entropy_cost=0.01",
)
SMOKE = ("--total_environment_frames=4000", "--report_every_s=0.5")


def main() -> int:
    """Runs the study."""
    shares = SHARES[1:2] if "--smoke" in sys.argv else SHARES
    variants = {f"replay share {share:g}": (f"--replay_share={share}",) for share in shares}
    return study.main(
        "Shares of replayed unrolls.", variants, FLAGS, SMOKE, out="docs/studies/replay"
    )


if __name__ == "__main__":
    sys.exit(main())
