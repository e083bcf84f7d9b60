"""The settings of ``--algorithm=simple``: a model of the game, and a policy that learns in it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flags
from algorithms.settings import AlgorithmSettings
from flags import setting
from user_error import UserError

PHASES = ("all", "collect", "model", "policy")
SUBJECTS = ("agent_real", "agent_simulated", "model")
NETWORKS = ("deterministic", "stochastic_discrete")


@dataclasses.dataclass(frozen=True)
class SimpleSettings(AlgorithmSettings):
    """A program of phases: play, learn the game, learn to play in the model, and again."""

    program: ClassVar[str] = "world_models.training.loop:train"
    programs: ClassVar[Mapping[str, str]] = {
        "test": "world_models.trained.testing:test",
        "export": "world_models.trained.exporting:export",
    }
    defaults: ClassVar[Mapping[str, Any]] = {
        "episodic_life": False,  # a game in the model is a whole one
        "num_actors": 1,
        "envs_per_actor": 16,
        "unroll_length": 50,
        "batch_size": 16,
        "learning_rate": 0.00025,
        "learning_rate_schedule": "constant",
    }

    phase: str = setting(
        "all",
        "Learning",
        "all: the whole program; or one part of it alone: collect real play (by the policy of the "
        "folder, or at random), train the model, train the policy in the model",
        choices=PHASES,
    )
    base_algorithm: str = setting(
        "ppo", "Learning", "what trains the policy in the model: any other algorithm"
    )
    base_settings: str = setting(
        "",
        "Learning",
        "settings of --base_algorithm: name=value,name=value; such as epochs=3,minibatches=2",
    )
    model_epochs: int = setting(
        15, "Learning", "times that the model and then the policy are trained", least=1, most=1000
    )
    real_steps: int = setting(
        6_400,
        "Learning",
        "agent steps in the real game before the first epoch, and again after each",
        least=1,
        most=10**8,
    )
    real_envs: int = setting(
        16, "Learning", "real games that are played side by side", least=1, most=4096
    )
    dream_ratio: float = setting(
        125.0, "Learning", "agent steps in the model in an epoch, for each real one", above=0
    )
    rollout_length: int = setting(
        50,
        "Learning",
        "agent steps after which a dream is cut; values go on beyond the cut",
        least=1,
        most=100_000,
    )
    true_starts: float = setting(
        0.0625,
        "Learning",
        "the share of dreams that start where an episode did; others start within one",
        least=0,
        most=1,
    )
    model_updates: int = setting(
        15_000, "Learning", "updates of the model in an epoch", least=1, most=10**8
    )
    longer_models: str = setting(
        "",
        "Learning",
        "epochs with more updates of the model, as EPOCH:TIMES with commas between; epochs count "
        "from 0, and from the end as -1, -2",
    )
    longer_policies: str = setting(
        "", "Learning", "the same for steps of the policy in the model: 1:2,-1:3"
    )
    world_model: str = setting(
        "deterministic", "Learning", "the model's architecture", choices=NETWORKS
    )
    model_filters: int = setting(
        64, "Learning", "channels of the model's largest layer", least=1, most=4096
    )
    model_doublings: int = setting(
        2, "Learning", "times that channels double on the way to the middle", least=0, most=8
    )
    model_depth: int = setting(
        6, "Learning", "times that the picture is halved at most", least=1, most=12
    )
    model_frames: int = setting(
        4, "Learning", "newest pictures that the model sees", least=1, most=64
    )
    target_frames: int = setting(
        1,
        "Learning",
        "steps in a row that the model learns to predict, more and more of them from its own "
        "predictions",
        least=1,
        most=64,
    )
    model_levels: int = setting(
        256, "Learning", "levels of brightness that the model tells apart", least=2, most=256
    )
    model_state: int = setting(
        64, "Learning", "stochastic_discrete: channels that it carries along", least=1, most=4096
    )
    model_bits: int = setting(
        128, "Learning", "stochastic_discrete: bits of chance in a step", least=8, most=1024
    )
    bits_drawn: float = setting(
        0.5,
        "Learning",
        "stochastic_discrete: the share of bits in training that do not know the next picture",
        least=0,
        most=1,
    )
    sampling_updates: int = setting(
        40_000,
        "Learning",
        "updates of the model after which --bits_drawn is reached, and targets follow predicted "
        "pictures only",
        least=1,
    )
    model_batch: int = setting(
        16, "Learning", "pieces of play in an update of the model", least=1, most=65536
    )
    model_learning_rate: float = setting(
        0.0005, "Learning", "step size of the model's updates; it falls to a tenth", above=0
    )
    model_loss_clip: float = setting(
        0.03, "Learning", "nats of a pixel's loss that do not count", least=0
    )
    model_dropout: float = setting(
        0.1, "Learning", "the share of the model's numbers left out in training", least=0, most=0.9
    )
    model_noise: float = setting(
        0.05, "Learning", "the share of pixels that are replaced in training", least=0, most=0.9
    )

    model_bundle: str = setting(
        "",
        "Learning",
        "a world model's bundle that a run without a model of its own starts with, or that is "
        "evaluated: a file, https://...#sha256=..., or zoo:NAME",
    )
    subjects: str = setting(
        ",".join(SUBJECTS),
        "Testing",
        "what --mode=test evaluates: agent_real, the policy in the real game; agent_simulated, the "
        "policy in the model; model, its predictions of real play",
    )
    rollouts: int = setting(
        128, "Testing", "predicted pieces of real play that are compared", least=1, most=10_000
    )
    rollout_steps: int = setting(50, "Testing", "steps of each of them", least=1, most=1_000)
    played_steps: int = setting(
        4_000, "Testing", "agent steps of real play that they are taken from", least=100
    )

    def __post_init__(self) -> None:
        flags.check_ranges(self)  # before a list is made of as many epochs as are asked for
        for subject in self.subjects.split(","):
            if subject not in SUBJECTS:
                raise UserError(
                    f"--subjects={self.subjects}: {subject!r} is none; expected some of "
                    f"{','.join(SUBJECTS)}."
                )
        for name in ("longer_models", "longer_policies"):
            self.times(name)
        if self.model_bits % 8:
            raise UserError(f"--model_bits={self.model_bits}: expected a multiple of 8.")

    def times(self, name: str) -> list[int]:
        """By how much each epoch is longer, for ``longer_models`` or ``longer_policies``."""
        times, text = [1] * self.model_epochs, getattr(self, name)
        for pair in text.split(",") if text else []:
            try:
                epoch, factor = map(int, pair.split(":"))
                times[epoch] = factor
            except (ValueError, IndexError):
                factor = 0
            if factor < 1:
                raise UserError(
                    f"--{name}={text}: {pair!r} is not EPOCH:TIMES; expected epochs of the "
                    f"{self.model_epochs} of --model_epochs, as 0:3,-1:3."
                )
        return times
