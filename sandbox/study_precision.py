"""Whether bfloat16 arithmetic learns as well as float32, and how much sooner it is there.

    python -m sandbox.study_precision [--seeds=1,2,3] [--smoke] [-- flags of experiment.py]

Only agents that see pictures have layers that compute in bfloat16.
"""

import sys

from sandbox import study

FLAGS = ("--level_name=PongNoFrameskip-v4",)
# So few environments that some of their games end soon.
SMOKE = (
    "--total_environment_frames=12000",
    "--report_every_s=0.5",
    "--num_actors=1",
    "--envs_per_actor=2",
    "--batch_size=2",
)


def main() -> int:
    """Runs the study."""
    variants = {name: (f"--precision={name}",) for name in ("float32", "bfloat16")}
    return study.main(
        "float32 against bfloat16.", variants, FLAGS, SMOKE, out="docs/studies/precision"
    )


if __name__ == "__main__":
    sys.exit(main())
