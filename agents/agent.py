"""The base class of all agents: from an observation to a policy and a baseline."""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import gymnasium as gym
import numpy as np
import sonnet as snt
import tensorflow as tf

from agents.backdrop import Backdrop
from agents.distributions import Distribution
from agents.frame_stack import beginnings, earlier_frames, stack_frames
from agents.kinds.bodies import bodies_of
from agents.kinds.normaliser import KindsNormaliser
from agents.layers import Build, Linear
from agents.lstm import LSTM, LSTMState
from agents.network import USUAL, Network
from agents.normaliser import Normaliser
from user_error import UserError, in_short


class Heads(NamedTuple):
    """The outputs that an algorithm needs for each row."""

    action_values: bool = False  # a value for each action instead of a distribution's parameters
    values: int = 1  # number of values of the row itself, such as one for each level; 0 for none
    separate: bool = False  # whether the values are best learned by layers of their own

    @property
    def activation(self) -> str:
        """What suits networks of vectors: values of actions may be far outside of -1…1."""
        return "relu" if self.action_values else "tanh"


POLICY_AND_VALUE = Heads()
Known = Backdrop | Normaliser | KindsNormaliser


class AgentOutput(NamedTuple):
    """An agent's output for each row."""

    policy: tf.Tensor  # [T, B, P] float32, the distribution's parameters or each action's value
    baseline: Any  # float32, the row's value: [T, B]; [T, B, L] with L values; () without any


class AgentState(NamedTuple):
    """What an agent carries from one row to the next; empty tuples for what it does not have."""

    frames: tf.Tensor | tuple[()]  # [B, frame_stack - 1, ...], as the torso prepares them
    lstm: LSTMState | tuple[()]


class Torso(snt.Module, abc.ABC):
    """From observations to features."""

    frame: tf.TensorSpec  # one prepared observation, without [T, B]
    output_size: int
    backdrop: Known | None = None  # what the learner knows of usual frames

    @abc.abstractmethod
    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, ...] → [T, B, *frame.shape]: what is done once per frame, before stacking."""

    @abc.abstractmethod
    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, ...], frames from `see` joined along the last axis → features [N, output_size]."""

    def see(self, frames: tf.Tensor, blank: tf.Tensor) -> tf.Tensor:
        """Prepared frames [N, *frame.shape] → the same, as the network gets them, before stacking.

        ``blank`` is the result of ``blank()``, passed in so that it is computed once.
        """
        return self.backdrop.subtract_mean(frames, blank) if self.backdrop else frames

    def blank(self) -> tf.Tensor:
        """A prepared frame [*frame.shape] with nothing on it."""
        if self.backdrop:
            return self.backdrop.blank()
        return tf.zeros(self.frame.shape, self.frame.dtype)


class Agent(snt.Module, abc.ABC):
    """observation → torso → + last reward, last action → [LSTM] → policy, baseline.

    A subclass says which observations it `needs`, makes its torso, and may have an LSTM.
    """

    needs: str  # which observations, as error messages say it
    lstm_size = 0  # the usual size; 0 for an agent without an LSTM
    chooses_activation = False  # whether ``--activation`` is for its layers

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        frame_stack: int = 1,
        compute_dtype: tf.DType = tf.float32,
        weights_dtype: tf.DType = tf.float32,
        seed: int | None = None,
        heads: Heads = POLICY_AND_VALUE,
        network: Network = USUAL,
        name: str | None = None,
    ):
        """Makes the agent and all its variables.

        Args:
            observation_space: of one environment; of stacked frames only the newest.
            action_space: of one environment.
            frame_stack: how many frames the agent sees at once.
            compute_dtype: what large layers compute in. Heads and LSTM use float32.
            weights_dtype: what the weights of those layers are stored in.
            seed: of the initial weights, which are the same for every dtype.
            heads: its outputs for each row.
            network: what the user chooses of its layers.
            name: of the module.
        """
        super().__init__(name=name)
        build = Build(
            np.random.default_rng(seed),
            tf.as_dtype(compute_dtype),
            tf.as_dtype(weights_dtype),
            network._replace(activation=network.activation or heads.activation),
        )
        self._check(network, heads, action_space)
        lstm_size = network.lstm or self.lstm_size
        self._bodies = bodies_of(action_space, network)
        self.distribution: Distribution = self._bodies.distribution
        self._earlier_frames = frame_stack - 1
        self._torso = self.make_torso(observation_space, frame_stack, build)
        last = 1 + self._bodies.encoding_size
        features = self._torso.output_size + last
        separate = self._separate(network, heads, observation_space)
        self._lstm = LSTM(features, lstm_size, build) if lstm_size else None
        features = lstm_size or features
        in_float32 = build.in_float32()
        # A policy that starts out nearly uniform tries every action.
        scale = 1.0 if heads.action_values else 0.01
        self._policy = self._bodies.policy_head(features, in_float32, scale)
        self._baseline_torso = None
        if separate:
            self._baseline_torso = self.make_torso(observation_space, frame_stack, build)
            # What is known of usual observations is the same for both.
            self._baseline_torso.backdrop = self._torso.backdrop
            features = self._baseline_torso.output_size + last
        values = self._bodies.baselines(heads.values)
        self.baseline_head = (
            Linear(features, values, in_float32, 1.0, "baseline") if values else None
        )

    def _check(self, network: Network, heads: Heads, action_space: gym.Space) -> None:
        """Refuses what this agent cannot do."""
        if network.lstm and not self.lstm_size:
            raise UserError(f"--lstm_size={network.lstm}: {type(self).__name__} has no LSTM.")
        if network.activation and not self.chooses_activation:
            raise UserError(
                f"--activation={network.activation} is for agents of vectors, not for "
                f"{type(self).__name__}."
            )
        spaces = [kind.action_space for kind in network.kinds] or [action_space]
        asked = network.deviation != USUAL.deviation or not network.state_deviations
        if asked and not any(isinstance(space, gym.spaces.Box) for space in spaces):
            raise UserError(
                f"--first_deviation={network.deviation:g} "
                f"--{'' if network.state_deviations else 'no'}state_deviations: for actions that "
                f"are numbers; the level's are {in_short(action_space)}. Give "
                f"--first_deviation={USUAL.deviation:g} --state_deviations."
            )
        if heads.action_values and not isinstance(action_space, gym.spaces.Discrete):
            raise UserError(
                f"the algorithm learns a value for each action, so it needs actions that can be "
                f"counted (Discrete); the level's are {in_short(action_space)}. Choose an "
                "--algorithm that learns a policy."
            )

    def _separate(self, network: Network, heads: Heads, observation_space: gym.Space) -> bool:
        """Whether the baseline gets a torso of its own."""
        possible = not self.lstm_size and len(observation_space.shape or ()) == 1
        if network.separate and not possible:
            raise UserError(
                "--separate_baseline=on is for agents of vectors without an LSTM, not for "
                f"{type(self).__name__}."
            )
        if network.separate and not heads.values:
            raise UserError(
                "--separate_baseline=on: this algorithm learns values of actions, and no baseline "
                "beside them. Leave it out."
            )
        wanted = heads.separate if network.separate is None else network.separate
        return bool(wanted and possible and heads.values)

    @classmethod
    @abc.abstractmethod
    def fits(cls, observation_space: gym.Space) -> bool:
        """Whether it accepts such observations."""

    @abc.abstractmethod
    def make_torso(self, observation_space: Any, frame_stack: int, build: Build) -> Torso:
        """The network from stacked observations, of a space that it `fits`, to features."""

    @property
    def backdrop(self) -> Known | None:
        """The mean that is subtracted from frames; a learner keeps it up to date."""
        return self._torso.backdrop

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """Observations [T, B, ...] in the form that torso and backdrop take."""
        return self._torso.prepare(observation)

    def initial_state(self, batch_size: int | tf.Tensor) -> AgentState:
        """The state [B, ...] before an episode's first step."""
        frames: tf.Tensor | tuple[()] = ()
        if self._earlier_frames:
            frame = self._torso.frame
            frames = tf.zeros([batch_size, self._earlier_frames, *frame.shape], frame.dtype)
        return AgentState(frames, self._lstm.initial_state(batch_size) if self._lstm else ())

    def states(
        self,
        observation: tf.Tensor,
        reward: tf.Tensor,
        first: tf.Tensor,
        state: AgentState,
        starts: Sequence[int],
    ) -> AgentState:
        """The states before some rows of an unroll, joined: [starts * B, ...].

        Found from the unroll's rows until then and the state before them. Only for agents without
        an LSTM, whose states are but earlier frames.
        """
        if not self._earlier_frames:
            return state
        prepared, blank = self.prepare(observation), self._torso.blank()
        begun = beginnings(first, reward)
        return AgentState(earlier_frames(prepared, begun, state.frames, blank, starts), ())

    @property
    def is_recurrent(self) -> bool:
        """Whether it has an LSTM."""
        return self._lstm is not None

    def __call__(
        self,
        observation: tf.Tensor,
        reward: tf.Tensor,
        action: tf.Tensor,
        first: tf.Tensor,
        state: AgentState,
    ) -> tuple[AgentOutput, AgentState]:
        """Policy and baseline of each row; one row when acting, a whole unroll when learning.

        Args:
            observation: [T, B, ...]; of stacked frames only the newest.
            reward: [T, B] float32, raw, of the transition that led to the observation.
            action: [T, B, ...], the action that led to the observation.
            first: [T, B] bool, the observation starts an episode. Then reward, action and
                state are of the previous episode and ignored; earlier frames count if that
                reward is nan.
            state: [B, ...], before row 0.

        Returns:
            The output of each row, and the state after the last.
        """
        torso, frames, earlier = self._torso, self.prepare(observation), state.frames
        blank = torso.blank()
        if self._earlier_frames:
            begun = beginnings(first, reward)
            stacks, earlier = stack_frames(
                frames, begun, earlier, blank, lambda each: torso.see(each, blank)
            )
        else:
            stacks = torso.see(snt.merge_leading_dims(frames, 2), blank)
        observation = snt.merge_leading_dims(tf.convert_to_tensor(observation), 2)
        last = self._last_transition(reward, action, first, observation)
        features = tf.concat([tf.cast(torso(stacks), tf.float32), last], axis=-1)
        lstm_state: Any = state.lstm
        if self._lstm:
            unrolled, lstm_state = self._lstm(
                snt.split_leading_dim(features, reward, 2), first, lstm_state
            )
            features = snt.merge_leading_dims(unrolled, 2)
        policy = self._bodies.policy(self._policy(features), observation)
        baseline: Any = ()
        if self._baseline_torso:
            features = tf.concat([tf.cast(self._baseline_torso(stacks), tf.float32), last], axis=-1)
        if self.baseline_head:
            baseline = self._bodies.baseline(self.baseline_head(features), observation)
            baseline = snt.split_leading_dim(baseline, reward, 2)
        policy = snt.split_leading_dim(policy, reward, 2)
        return AgentOutput(policy, baseline), AgentState(earlier, lstm_state)

    def _last_transition(
        self, reward: tf.Tensor, action: tf.Tensor, first: tf.Tensor, observation: tf.Tensor
    ) -> tf.Tensor:
        """[T * B, 1 + E]: the clipped last reward and the last action, zeros at a start.

        ``observation`` is [T * B, ...].
        """
        reward, action, first = (
            snt.merge_leading_dims(tf.convert_to_tensor(array), 2)
            for array in (reward, action, first)
        )
        clipped = tf.clip_by_value(reward, -1.0, 1.0)[..., tf.newaxis]
        encoded = self._bodies.encode(action, observation)
        last = tf.concat([clipped, encoded], axis=-1)
        # Not a product with 0: NaN would persist through all later episodes.
        return tf.where(first[..., tf.newaxis], 0.0, last)


def is_byte_image(space: gym.Space) -> TypeGuard[gym.spaces.Box]:
    """Whether observations are bytes [H, W, C]."""
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8
