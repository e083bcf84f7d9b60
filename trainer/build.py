"""Makes the parts of a process from its settings.

Programs pass all settings to these functions; each part gets only those that its package declares.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf

import agents
import environments
from algorithms import registry
from algorithms.algorithm import Algorithm
from algorithms.feeding import IMPORTANCE, Gradients, InStep, Replayed
from algorithms.settings import AlgorithmSettings, Kind
from algorithms.trajectory import Unroll
from environments import EnvironmentSpec, Remotes, SharedEnvironment, VectorEnvironment, View
from trainer.acting.acting_agent import ActingAgent
from trainer.acting.actor import Actor, Policy, Seat, blank_unroll
from trainer.learning import replayed
from trainer.learning.batches import Batches
from trainer.learning.contributions import Contributions
from trainer.learning.learner import Learner
from trainer.learning.replayed import Feeder, ReplayedBatches
from trainer.learning.replayed import Shape as WindowShape
from trainer.learning.rollouts import Crew, Rollouts, WholeEpisodes
from trainer.learning.worker import GradientBatches, Worker, applying, blank_computed
from trainer.machine import precision
from trainer.machine.gpus import visible_gpus
from trainer.machine.quota import usable_cores
from trainer.machine.terminal import say
from trainer.machine.threads import threads_named
from trainer.remote import wire
from trainer.remote.synthetic import random_batch
from trainer.settings import sizes
from trainer.settings.config import Settings
from trainer.team.team import ALONE, Team
from transport import Identity, Layout

MOST_ENVS = 4096  # of an actor, see --envs_per_actor
GOLDEN = (5**0.5 - 1) / 2
PROCESSOR = "/device:CPU:0"


def level_spec(settings: Settings) -> EnvironmentSpec:
    """The spec that all levels of the run share; an error if no agent can play them all."""
    return environments.together(level_specs(settings))


def level_specs(settings: Settings) -> list[EnvironmentSpec]:
    """Each level's own spec."""
    return [environments.spec(level, **looks(settings)) for level in settings.level.levels]


def complete(settings: Settings, spec: EnvironmentSpec) -> Settings:
    """The settings, with values that fit the level where none were chosen."""
    return settings.replace(
        agent_name=agent_name(settings, spec),
        total_environment_frames=settings.learning.total_environment_frames
        or frames_to_train(spec),
        **dataclasses.asdict(_of_algorithm(settings, spec)),
    )


def frames_to_train(spec: EnvironmentSpec) -> int:
    """The default of ``--total_environment_frames``."""
    return 10_000_000 if spec.image else 1_000_000


def algorithm(settings: Settings) -> Algorithm:
    """The algorithm of ``--algorithm``, with its own settings."""
    levels = settings.level.levels
    return registry.make(settings.program.algorithm, _of_algorithm(settings), len(levels))


def _of_algorithm(settings: Settings, spec: EnvironmentSpec | None = None) -> AlgorithmSettings:
    """The algorithm's settings, completed for the levels of the run."""
    atari = environments.is_atari(settings.level.levels[0])
    if spec is None:
        return settings.algorithm.completed(Kind(atari))
    continuous = isinstance(spec.action_space, gymnasium.spaces.Box)
    return settings.algorithm.completed(Kind(atari, not spec.image, continuous))


def learner(
    settings: Settings, spec: EnvironmentSpec, team: Team = ALONE, pieces: int = 1
) -> Learner:
    """A learner with an agent of its own, see ``Learner``."""
    return learner_of(learning_agent(settings, spec), settings, team, pieces)


def learner_of(agent: Any, settings: Settings, team: Team = ALONE, pieces: int = 1) -> Learner:
    """A learner that trains this agent."""
    learning = applying(settings.learning, settings.algorithm.feeding)
    return Learner(agent, algorithm(settings), learning, _backdrop(settings, agent), team, pieces)


def _backdrop(settings: Settings, agent: Any) -> Any:
    """The agent's mean picture, if it has one that is to be updated."""
    # Agents that are not an ``agents.Agent`` may have no backdrop.
    backdrop = getattr(agent, "backdrop", None)
    off = isinstance(backdrop, agents.Backdrop) and not settings.agent.backdrop
    return None if off else backdrop


def batches(
    settings: Settings,
    spec: EnvironmentSpec,
    agent: Any,
    crew: Crew,
    say: Callable[[str], None],
    learners: int = 1,
) -> Feeder:
    """The learner's batches, fed as the algorithm requires by the actors ``crew``."""
    feeding, size, seed = (
        settings.algorithm.feeding,
        settings.learning.batch_size,
        settings.program.seed,
    )
    if isinstance(feeding, InStep):
        return (WholeEpisodes if feeding.whole_episodes else Rollouts)(size, crew, say)
    if isinstance(feeding, Replayed):
        example = unroll(settings, spec, agent)
        shape = _window(settings, spec, agent, feeding)
        together = sizes.drawn_together(settings, learners)
        return ReplayedBatches(feeding, size, shape, example, seed, say, together)
    if isinstance(feeding, Gradients):
        return GradientBatches()
    return Batches(feeding, size, seed)


def _window(
    settings: Settings, spec: EnvironmentSpec, agent: Any, feeding: Replayed
) -> WindowShape:
    length = settings.actors.unroll_length
    return replayed.shape_of(feeding, spec.frame_stack, length, agent.is_recurrent)


def unroll(settings: Settings, spec: EnvironmentSpec, agent: Any) -> Unroll:
    """One unroll of the right types and shapes, with arbitrary values."""
    return blank_unroll(
        spec,
        settings.actors.unroll_length,
        agent.initial_state(1),
        algorithm(settings).records,
    )


def random_unrolls(
    settings: Settings, spec: EnvironmentSpec, agent: Any, learners: int = 1
) -> Unroll:
    """A batch of random unrolls, or of windows of a replay store."""
    one, feeding = unroll(settings, spec, agent), settings.algorithm.feeding
    if isinstance(feeding, Replayed):
        rows = _window(settings, spec, agent, feeding).rows
        one = blank_unroll(spec, rows - 1, agent.initial_state(1), (*one.recorded, IMPORTANCE))
    return random_batch(
        one,
        spec,
        settings.learning.batch_size * sizes.drawn_together(settings, learners),
        len(settings.level.levels),
        settings.program.seed,
    )


def blocks(
    settings: Settings, spec: EnvironmentSpec, agent: Any, contributions: Contributions | None
) -> Layout:
    """The layout of what actors send; ``contributions`` are needed where they compute gradients."""
    one = unroll(settings, spec, agent)
    sent = settings.remote.compression, sizes.largest_block(settings)
    if isinstance(settings.algorithm.feeding, Gradients) and contributions:
        return wire.block_layout(blank_computed(one, contributions), *sent)
    return wire.block_layout(one, *sent)


def identity(settings: Settings, spec: EnvironmentSpec, agent: Any, blocks: Layout) -> Identity:
    """Everything on which an actor must agree with its learner."""
    return wire.identity(
        settings.program.algorithm,
        agent_name(settings, spec),
        settings.level,
        spec,
        agent,
        settings.actors.unroll_length,
        settings.remote.compression,
        blocks,
        settings.program.agent,
    )


def _seed_of(seed: int, start: int) -> int:
    """The seed of an actor that starts after ``start`` updates, so that it repeats no episodes."""
    if not start:
        return seed
    return int(np.random.SeedSequence([seed, start]).generate_state(1)[0]) % 2**31


def actor(
    settings: Settings,
    environment: VectorEnvironment,
    policy: Policy,
    index: int,
    check: Callable[[], None],
    start: int = 0,
) -> Actor:
    """Actor ``index`` of a process that starts after ``start`` updates; see ``Actor``."""
    level = index % len(settings.level.levels)
    of_seat = _seat(settings, environment, index, level, start)
    return Actor(environment, policy, settings.actors.unroll_length, check=check, **of_seat)


def seat(
    settings: Settings,
    environment: VectorEnvironment,
    policy: Policy,
    index: int,
    level: int,
    start: int = 0,
) -> Seat:
    """An agent's seat in the environments of actor ``index``; ``level`` is among its own levels."""
    of_seat = _seat(settings, environment, index, level, start)
    return Seat(environment, policy, settings.actors.unroll_length, **of_seat)


def _seat(
    settings: Settings, environment: VectorEnvironment, index: int, level: int, start: int
) -> dict[str, Any]:
    return {
        "level": level,
        "seed": _seed_of(settings.program.seed * 100_003 + index, start),
        # 32 bits are enough for 524,288 actors; those so far apart share their streams.
        "first_stream": index * MOST_ENVS % 2**31,
        "chance": _chance(settings, index, environment.num_envs),
    }


def _chance(settings: Settings, index: int, count: int) -> Callable[[int], np.ndarray] | None:
    """The chance of random actions in an actor's environments, by the number of updates."""
    playing = algorithm(settings)
    if not playing.explores:
        return None
    # Evenly spread, however many actors there are.
    places = (np.arange(index * count, (index + 1) * count) * GOLDEN % 1.0).astype(np.float32)
    return lambda updates: playing.exploration(updates, places)


def actor_environment(
    settings: Settings, index: int, start: int = 0, spec: EnvironmentSpec | None = None
) -> VectorEnvironment:
    """The environments of an actor, see ``actor``; actors take the levels in turn.

    ``spec`` is the run's; it is found out if it is not given.
    """
    made = _actor_environment(settings, index, start, environments.make)
    return _fitted(made, settings, spec)


def shared_environment(
    settings: Settings, index: int, shares: Sequence[Sequence[int]], start: int = 0
) -> SharedEnvironment:
    """The same where several agents play; ``shares`` are the bodies of each."""
    make = functools.partial(environments.make_shared, shares=shares)
    return _actor_environment(settings, index, start, make)


def _actor_environment(settings: Settings, index: int, start: int, make: Callable[..., Any]) -> Any:
    level = index % len(settings.level.levels)
    with threads_named("emulator"):
        return make(
            settings.level.levels[level],
            sizes.envs_per_actor(settings),
            # Far apart, so that no two actors share a seed.
            _seed_of(settings.program.seed + index * 1_000_003, start),
            level_index=level,
            sticky_actions=settings.level.sticky_actions,
            episodic_life=settings.level.episodic_life,
            noop_max=settings.level.noop_max,
            max_episode_frames=settings.level.max_episode_frames,
            max_rewardless_steps=settings.level.max_rewardless_steps,
            num_threads=_emulator_threads(settings),
            env_processes=settings.actors.worker_processes,
            batches=(
                settings.actors.num_actors
                if settings.program.job_name == "local"
                else settings.actors.actors_on_host
            ),
            cores=usable_cores(),
            remotes=_remotes(settings, index),
            **looks(settings),
        )


def _fitted(
    environment: VectorEnvironment, settings: Settings, spec: EnvironmentSpec | None
) -> VectorEnvironment:
    """The environment for the agent of all levels."""
    if spec is None and len(settings.level.levels) > 1:
        spec = level_spec(settings)
    return environments.fitted(environment, spec) if spec and spec.kinds else environment


def _remotes(settings: Settings, index: int) -> Remotes:
    """Where an actor's worlds in real time come from; each actor of a run has its own."""
    acting, count = settings.actors, sizes.envs_per_actor(settings)
    given = tuple(filter(None, acting.remotes.split(",")))
    mine = given[index * count :]
    return Remotes(mine, acting.remote_password_file, acting.injected_lag_ms, say, bool(given))


def _emulator_threads(settings: Settings) -> int:
    """Threads for an actor's emulators: as many as the cores that may be used by it."""
    return settings.actors.env_threads or max(1, usable_cores() // settings.actors.actors_on_host)


def test_environment(
    settings: Settings, level: int, count: int, seed: int, spec: EnvironmentSpec | None = None
) -> VectorEnvironment:
    """``count`` games for evaluation, rendered if they are recorded or watched.

    There are fewer where each is a program of its own. ``spec`` is the agent's, as above.
    """
    made = _test_environment(settings, level, count, seed, environments.make)
    return _fitted(made, settings, spec)


def shared_test_environment(
    settings: Settings, level: int, count: int, seed: int, shares: Sequence[Sequence[int]]
) -> SharedEnvironment:
    """The same where several agents play; ``shares`` are the bodies of each."""
    make = functools.partial(environments.make_shared, shares=shares)
    return _test_environment(settings, level, count, seed, make)


def _test_environment(
    settings: Settings, level: int, count: int, seed: int, make: Callable[..., Any]
) -> Any:
    return make(
        settings.level.levels[level],
        min(count, sizes.HEAVY_ENVS) if settings.level.is_heavy else count,
        seed,
        level_index=level,
        sticky_actions=settings.level.sticky_actions,
        noop_max=settings.level.noop_max,
        max_episode_frames=settings.level.max_episode_frames,
        max_rewardless_steps=0,
        remotes=_remotes(settings, 0),
        num_threads=settings.actors.env_threads or usable_cores(),
        render=settings.trained.draws,
        whole_games=True,
        **looks(settings),
    )


def looks(settings: Settings) -> dict[str, Any]:
    """The settings that change how an agent sees a level."""
    return {field.name: getattr(settings.level, field.name) for field in dataclasses.fields(View)}


def agent_name(settings: Settings, spec: EnvironmentSpec) -> str:
    """The name of the chosen agent, or of one that fits the level."""
    return settings.agent.agent_name or agents.default_name(spec.observation_space)


def learning_agent(settings: Settings, spec: EnvironmentSpec) -> Any:
    """An agent with float32 weights."""
    dtype = precision.compute_dtype(settings.agent.precision)
    return _agent(settings, spec, dtype, tf.float32)


def acting_agent(settings: Settings, spec: EnvironmentSpec, device: str = "") -> Any:
    """An agent that keeps its large weights in the precision in which it computes.

    ``device`` is where; empty: where TensorFlow puts it.
    """
    dtype = precision.compute_dtype(settings.agent.precision, on_processor=device == PROCESSOR)
    # Gradients need all digits.
    computes = isinstance(settings.algorithm.feeding, Gradients)
    with tf.device(device or None):
        return _agent(settings, spec, dtype, tf.float32 if computes else dtype)


def player(settings: Settings, agent: Any, device: str = "", pieces: int = 1) -> ActingAgent:
    """What actors play with, made of ``acting_agent``."""
    feeding = settings.algorithm.feeding
    if not isinstance(feeding, Gradients):
        return ActingAgent(agent, algorithm(settings), device)
    backdrop = _backdrop(settings, agent)
    return Worker(agent, algorithm(settings), settings.learning, feeding, backdrop, pieces)


def acting_device(settings: Settings) -> str:
    """Where the actors of a learner's own process compute; empty: where TensorFlow puts it."""
    on_gpu = settings.actors.acting_device == "gpu" or not visible_gpus()
    return "" if on_gpu else PROCESSOR


def _agent(
    settings: Settings, spec: EnvironmentSpec, compute_dtype: tf.DType, weights_dtype: tf.DType
) -> Any:
    return agents.make(
        agent_name(settings, spec),
        spec.observation_space,
        spec.action_space,
        spec.frame_stack,
        compute_dtype=compute_dtype,
        weights_dtype=weights_dtype,
        seed=settings.program.seed,
        heads=algorithm(settings).heads,
        network=agents.Network(
            hidden=settings.agent.hidden,
            channels=settings.agent.channel_counts,
            lstm=settings.agent.lstm_size,
            normalise=settings.agent.normalise_observations,
            separate={"on": True, "off": False}.get(settings.agent.separate_baseline),
            masked=spec.masked,
            kinds=tuple(agents.BodyKind(*kind) for kind in spec.kinds),
        ),
    )
