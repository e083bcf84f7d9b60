"""The settings of what is done with a trained agent."""

import dataclasses

from flags import setting

POLICIES = ("sampled", "greedy")


@dataclasses.dataclass(frozen=True)
class TrainedSettings:
    """What to do with a trained agent."""

    checkpoint: str = setting(
        "newest", "Testing", "newest, best, or a checkpoint's file or number of frames"
    )
    test_num_episodes: int = setting(
        10, "Testing", "episodes to play on each level", least=1, most=100_000
    )
    test_policy: str = setting(
        "sampled", "Testing", "sampled actions, or greedy: the likeliest one", choices=POLICIES
    )
    video: str = setting("", "Testing", "record an episode here: FILE.mp4 or FILE.gif")
    watch: bool = setting(
        False,
        "Testing",
        "show the game in a window while it is played; in a training, games with its newest "
        "weights",
    )
    evaluate_every_s: float = setting(
        0.0,
        "Watching",
        "in a training, play --test_num_episodes whole games this often, on the cores of the "
        "learner; 0: never",
        least=0,
    )
    export_dir: str = setting(
        "", "Testing", "where --mode=export writes the SavedModel; default: LOGDIR/export"
    )
