"""The settings of what is played, by how many, and by which network."""

import dataclasses

from flags import setting

PRECISIONS = ("auto", "float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class LevelSettings:
    """What is played."""

    level_name: str = setting(
        "PongNoFrameskip-v4",
        "Environment",
        "a Gymnasium id (legacy Atari ids included), package.module:make for one's own, "
        "or several with commas between",
    )
    num_action_repeats: int = setting(
        1,
        "Environment",
        "times that each action is repeated; for Atari on top of the standard 4 frames a step",
        least=1,
        most=1000,
    )
    width: int = setting(84, "Environment", "width of image observations", least=8, most=1024)
    height: int = setting(84, "Environment", "height of image observations", least=8, most=1024)
    sticky_actions: float | None = setting(
        None,
        "Environment",
        "chance that Atari repeats the last action instead; default: as the level's id says",
        least=0,
        most=1,
    )
    full_action_set: bool = setting(
        False, "Environment", "all 18 Atari actions instead of those that the game uses"
    )
    episodic_life: bool = setting(
        False, "Environment", "training only: the loss of a life ends an Atari episode"
    )

    @property
    def levels(self) -> list[str]:
        """The levels of ``--level_name``, in order."""
        return [name.strip() for name in self.level_name.split(",")]


@dataclasses.dataclass(frozen=True)
class ActorSettings:
    """How it is played, and in pieces of which length."""

    num_actors: int = setting(2, "Actors", "actor threads of this process", least=1, most=1024)
    envs_per_actor: int = setting(
        0,
        "Actors",
        "environments that an actor plays side by side; 0: as many as let the actors of a local "
        "training, or three with processes of their own, play two batches together, but from 10 "
        "to 32",
        least=0,
        most=4096,
    )
    env_threads: int = setting(
        0,
        "Actors",
        "emulator threads of an actor; 0: one a core",
        least=0,
        most=1024,
    )
    unroll_length: int = setting(10, "Learning", "agent steps in an unroll", least=1, most=10_000)


@dataclasses.dataclass(frozen=True)
class AgentSettings:
    """Which network plays and learns."""

    agent_name: str = setting(
        "",
        "Agent",
        "SimpleConvNetAgent, ResNetAgent, ResNetLSTMAgent, VectorAgent, VectorLSTMAgent or "
        "package.module:Class; default: one that fits the level",
    )
    precision: str = setting(
        "auto",
        "Agent",
        "arithmetic of convolutions and large layers; weights stay float32. auto: bfloat16 where "
        "the processor has instructions for it",
        choices=PRECISIONS,
    )
    backdrop: bool = setting(
        True,
        "Learning",
        "show an agent of pictures how pixels differ from a level's mean picture, in units of "
        "their spread, instead of as shares of 255",
    )
