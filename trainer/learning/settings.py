"""The settings of an update."""

import dataclasses

from flags import setting

OPTIMIZERS = ("rmsprop", "adam", "sgd")
SCHEDULES = ("linear", "constant")
XLA = ("auto", "on", "off")


@dataclasses.dataclass(frozen=True)
class LearningSettings:
    """How batches become updates."""

    total_environment_frames: int = setting(
        0,
        "Learning",
        "frames to train for, over all resumes. 0: 10,000,000 where the agent sees pictures, "
        "1,000,000 elsewhere",
        least=0,
        most=10**15,
    )
    batch_size: int = setting(
        8,
        "Learning",
        "unrolls in an update (ppo: in a rollout; reinforce: whole episodes), or windows of a "
        "replay store, of one step without an LSTM",
        least=1,
        most=65536,
    )
    queue_capacity: int = setting(
        0,
        "Learning",
        "unrolls that actors may be ahead of the learner, those in play included; more would "
        "only be older. 0: one from each environment, or a batch's new ones where those are more; "
        "with actors in other processes a batch's new ones, beside those in play",
        least=0,
        most=10**6,
    )
    gradients_clipping: float = setting(
        0.5, "Learning", "largest global norm of the gradients; not positive: off"
    )
    optimizer: str = setting("adam", "Learning", "how gradients move weights", choices=OPTIMIZERS)
    learning_rate: float = setting(
        0.0006,
        "Learning",
        "step size, see --learning_rate_schedule",
        above=0,
    )
    learning_rate_schedule: str = setting(
        "linear",
        "Learning",
        "linear: the learning rate falls to 0 at --total_environment_frames; constant: it stays",
        choices=SCHEDULES,
    )
    decay: float = setting(
        0.99,
        "Learning",
        "RMSProp: decay of the mean square of gradients",
        least=0,
        most=1,
    )
    momentum: float = setting(0.0, "Learning", "RMSProp: momentum", least=0, most=1)
    epsilon: float = setting(
        1e-5,
        "Learning",
        "RMSProp: added under the root of the mean square; Adam: to that root",
        above=0,
    )
    publish_every_updates: int = setting(
        1,
        "Learning",
        "updates after which actors get new weights; more spares the network and makes the "
        "policies that act older",
        least=1,
    )
    xla: str = setting(
        "auto",
        "Learning",
        "compile updates with XLA; auto: on a GPU, and on a CPU those that are made in one call, "
        "of a whole rollout or of windows drawn together, if the network has no convolutions; if "
        "XLA fails, without it",
        choices=XLA,
    )
    stop_at_return: float | None = setting(
        None,
        "Learning",
        "end the training once the mean raw return of the last 100 episodes is this high",
    )
    stop_after_s: float = setting(
        0.0,
        "Learning",
        "end the training after this many seconds; a resume gets as many again. 0: no limit",
        least=0,
    )
    max_skipped_updates: int = setting(
        20,
        "Learning",
        "batches in a row with losses or gradients that are not finite before the run stops",
        least=1,
    )
