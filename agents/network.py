"""What a user may choose of a network; what is left out is as the agent has it."""

from typing import Any, NamedTuple

import gymnasium as gym

from user_error import UserError


class BodyKind(NamedTuple):
    """What a body sees and does, where bodies of one agent differ."""

    observation_space: Any  # a Box
    action_space: gym.Space


class Network(NamedTuple):
    """Choices for any agent; those that an agent cannot use are refused."""

    hidden: tuple[int, ...] = ()  # outputs of the fully connected layers
    channels: tuple[int, ...] = ()  # of the convolutions, or of a ResNet's sections
    lstm: int = 0  # size of the LSTM of an agent that has one
    normalise: bool = False  # show numbers in units of their spread, as it is seen
    separate: bool | None = None  # the baseline has a torso of its own; None: see ``Heads``
    activation: str = ""  # of a network of vectors: tanh or relu; see ``Heads.activation``
    deviation: float = 1.0  # of the numbers of an untrained policy, in halves of their range
    state_deviations: bool = True  # deviations of numbers depend on what is seen
    masked: bool = False  # the last numbers of an observation say which actions are allowed
    kinds: tuple[BodyKind, ...] = ()  # of bodies, if they differ

    def hidden_or(self, default: tuple[int, ...], agent: str, count: int = 0) -> tuple[int, ...]:
        """The fully connected layers; ``count`` is how many the agent must have, 0 for any."""
        return _chosen("hidden_sizes", self.hidden, default, agent, count)

    def channels_or(self, default: tuple[int, ...], agent: str, count: int = 0) -> tuple[int, ...]:
        """The channels; ``count`` as in ``hidden_or``."""
        return _chosen("channels", self.channels, default, agent, count)


USUAL = Network()


def _chosen(
    flag: str, given: tuple[int, ...], default: tuple[int, ...], agent: str, count: int
) -> tuple[int, ...]:
    if count and given and len(given) != count:
        shown = ",".join(map(str, default))
        raise UserError(
            f"--{flag}={','.join(map(str, given))}: {agent} needs {count} "
            f"number{'s' if count > 1 else ''}, such as {shown}."
        )
    return given or default
