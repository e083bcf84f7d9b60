"""The settings of DQN and Double DQN."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from algorithms.feeding import Replayed
from algorithms.figures import Figure
from algorithms.own_settings.rewards import RewardSettings
from algorithms.settings import Kind
from flags import setting
from user_error import UserError


@dataclasses.dataclass(frozen=True)
class DQNSettings(RewardSettings):
    """Q-learning from a replay store, with a target network."""

    implementation: ClassVar[str] = "algorithms.dqn:DQN"
    defaults: ClassVar[Mapping[str, Any]] = {
        "num_actors": 1,
        "envs_per_actor": 4,
        "unroll_length": 4,
        "batch_size": 32,
        "learning_rate": 0.0001,
        "publish_every_updates": 4,
        "gradients_clipping": 10.0,
    }
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("mean_value", "mean value", "learning"),
        Figure("error", "error", "losses", in_line=False),
    )
    fixed: ClassVar[tuple[str, ...]] = ("dueling",)
    of_actors: ClassVar[tuple[str, ...]] = (
        "exploration_start",
        "exploration_end",
        "exploration_steps",
        "exploration_ladder",
        "updates_per_step",
        "replay_warm_up",
    )

    double: bool = setting(
        False, "Learning", "the network chooses the next action, the target network values it"
    )
    dueling: bool = setting(
        False, "Learning", "learn a value of the row, and of each action its advantage over others"
    )
    n_steps: int = setting(
        3, "Learning", "rewards in a target before the target network's value", least=1, most=1000
    )
    replay_steps: int = setting(
        100_000, "Learning", "newest agent steps that are kept", least=100, most=10**9
    )
    replay_warm_up: int = setting(
        5_000, "Learning", "agent steps that are played before the first update", least=1
    )
    checkpoint_replay: bool = setting(
        False,
        "Learning",
        "keep the replay beside the checkpoints, so that a resume goes on as if nothing had "
        "happened; for a single learner",
    )
    replay_played: str = setting(
        "",
        "Learning",
        "a folder of recorded play (python -m world_models.play --record) that the replay begins "
        "with; its steps count for --replay_warm_up, and as many as that for --exploration_steps",
    )
    updates_per_step: float = setting(
        0.25, "Learning", "updates for each new agent step", above=0, most=1000
    )
    priority_exponent: float = setting(
        0.0,
        "Learning",
        "how much more often steps with large errors are replayed; 0: all alike, 0.6 is usual",
        least=0,
        most=1,
    )
    importance_exponent: float = setting(
        0.4, "Learning", "how far the loss corrects for that; 1: fully", least=0, most=1
    )
    burn_in: int = setting(
        0,
        "Learning",
        "agents with an LSTM: rows before those learned from that only update its state",
        least=0,
        most=1000,
    )
    target_every: int = setting(
        500, "Learning", "updates after which the target network becomes the network", least=1
    )
    target_step: float = setting(
        0.0,
        "Learning",
        "instead, move it by this fraction of the way with every update; 0: copy it",
        least=0,
        most=1,
    )
    exploration_start: float = setting(
        1.0, "Learning", "chance of a random action at first", least=0, most=1
    )
    exploration_end: float = setting(
        0.02,
        "Learning",
        "the chance later, and in tests with sampled actions; with --exploration_ladder, there "
        "that of the environment that explores least",
        least=0,
        most=1,
    )
    exploration_steps: int = setting(
        50_000,
        "Learning",
        "agent steps until then, of each learner; it falls linearly",
        least=1,
    )
    exploration_ladder: float = setting(
        0.0,
        "Learning",
        "environments explore to different degrees: the chance to the power of 1 to 1 + this; "
        "0: all alike; for many actors 7 with --exploration_end=0.4, as in Ape-X",
        least=0,
    )

    def completed(self, kind: Kind) -> Self:
        """With what fits; actions that are numbers are refused."""
        if kind.continuous:
            raise UserError(
                "DQN learns a value for each action, so it needs actions that can be counted; this "
                "level's are numbers. --algorithm=ppo, impala, a2c and a3c can choose those."
            )
        return super().completed(kind)

    @property
    def feeding(self) -> Replayed:
        """How batches are fed."""
        return Replayed(
            capacity=self.replay_steps,
            warm_up=self.replay_warm_up,
            updates_per_step=self.updates_per_step,
            ahead=self.n_steps,
            burn_in=self.burn_in,
            priority_exponent=self.priority_exponent or None,
            importance_exponent=self.importance_exponent,
            kept=self.checkpoint_replay,
            played=self.replay_played,
        )


@dataclasses.dataclass(frozen=True)
class DoubleDQNSettings(DQNSettings):
    """Double DQN with prioritized replay."""

    double: bool = setting(
        True, "Learning", "the network chooses the next action, the target network values it"
    )
    priority_exponent: float = setting(
        0.6,
        "Learning",
        "how much more often steps with large errors are replayed; 0: all alike",
        least=0,
        most=1,
    )
