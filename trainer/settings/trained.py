"""The settings of what is done with a trained agent."""

import dataclasses

from flags import setting

POLICIES = ("sampled", "greedy", "random")
LONGEST_ALONGSIDE = 1_000  # agent steps
FORMATS = ("saved_model", "bundle")


@dataclasses.dataclass(frozen=True)
class TrainedSettings:
    """What to do with a trained agent."""

    checkpoint: str = setting(
        "newest",
        "Testing",
        "newest, best, a number of frames, a checkpoint's or bundle's file, "
        "https://...#sha256=..., or zoo:NAME; zoo: lists names",
    )
    test_num_episodes: int = setting(
        10, "Testing", "episodes to play on each level", least=1, most=100_000
    )
    test_policy: str = setting(
        "sampled",
        "Testing",
        "sampled actions; greedy: the likeliest one; random: any action, whatever the agent says",
        choices=POLICIES,
    )
    test_temperature: float = setting(
        1.0,
        "Testing",
        "divides the logits of actions, and multiplies deviations, which stay from 0.0067 to 2.7 "
        "times half an action's range: below 1, sampled actions are the likelier ones more often; "
        "0: greedy. Of agents with values of actions (DQN): 1 is "
        "play as in training, and others sample by the softmax of the values divided by it",
        least=0,
    )
    step_limit: int = setting(
        -1,
        "Testing",
        "agent steps after which a game is cut off; it counts with the return until then, and the "
        "table says how many there were; 0: games are played to their end; -1: 0 in a test and "
        "with --watch, 1,000 in a training's evaluations and in a world model",
        least=-1,
        most=2**31 - 1,
    )
    grid: str = setting(
        "",
        "Testing",
        "evaluate each combination of these settings, as in "
        "'temperature=0,0.5,1;noops=0,8;episodes=20'. Names: test_policy, temperature, noops, "
        "episodes, step_limit, sticky_actions, max_episode_frames, seed. Writes a table, "
        "LOGDIR/evaluation_grid.json after each combination, and .png",
    )
    opponent: str = setting(
        "",
        "Testing",
        "who plays the other bodies of a game, of which the agent then plays one: random, or the "
        "folder of a run or one of its checkpoints; default: the agent plays all of them",
    )
    num_videos: int = setting(
        0,
        "Testing",
        "record the first games of so many environments for each level, and each combination of "
        "--grid, in LOGDIR/videos",
        least=0,
        most=16,
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
        "",
        "Testing",
        "folder that --mode=export writes to; default: LOGDIR/export, of bundles LOGDIR/bundle",
    )
    export_format: str = setting(
        "saved_model",
        "Testing",
        "saved_model: for programs without this code; bundle: one small file with weights, "
        "settings and where they come from, for --checkpoint and --initial_weights",
        choices=FORMATS,
    )

    @property
    def steps_of_test(self) -> int:
        """``--step_limit`` with ``--mode=test``, and of games that somebody watches."""
        return max(0, self.step_limit)

    @property
    def steps_alongside(self) -> int:
        """``--step_limit`` where a game may go on for very long: in trainings and dreams."""
        return LONGEST_ALONGSIDE if self.step_limit < 0 else self.step_limit

    @property
    def draws(self) -> bool:
        """Whether games are drawn for people."""
        return bool(self.video or self.watch or self.num_videos)
