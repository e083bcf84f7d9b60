"""The parts of a training with complete settings, each as a call that is repeated to measure it."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from algorithms.feeding import FirstInFirstOut, InStep
from algorithms.trajectory import Unroll
from environments import EnvironmentStep, VectorEnvironment
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.acting.actor import Actor
from trainer.learning.batches import Batches
from trainer.learning.learner import Learner
from trainer.learning.minibatches import Passes
from trainer.machine.quota import usable_cores
from trainer.remote import wire
from trainer.settings import sizes
from trainer.settings.config import Settings
from transport import UnrollQueue
from user_error import UserError

Call = Callable[[], float]  # does a piece of work, returns its agent steps
# Steps that acting sees again and again, so that no emulator has to run meanwhile.
STEPS = 8


def emulation(settings: Settings, threads: int, callers: int) -> list[Call]:
    """An actor's environments, stepped with random actions."""

    def caller(index: int) -> Call:
        environment = _environment(settings, index, threads)
        actions = _random_actions(environment)

        def step() -> int:
            environment.step(next(actions))
            environment.episodes()
            return environment.num_envs

        return step

    return [caller(index) for index in range(callers)]


def inference(settings: Settings, callers: int) -> list[Call]:
    """Choosing actions as actors do it: one call for all environments of an actor."""
    policy = _acting(settings)

    def caller(index: int) -> Call:
        environment = _environment(settings, index, 1)
        steps = itertools.cycle(_recorded(environment))
        state = policy.initial_state(environment.num_envs)
        action = next(_random_actions(environment))
        seed = np.array([index, 0], np.int32)
        chance = np.zeros(environment.num_envs, np.float32)

        def act() -> int:
            nonlocal action, state
            seed[1] += 1
            action, _, state = policy.act(next(steps), action, state, seed, chance)
            return environment.num_envs

        return act

    return [caller(index) for index in range(callers)]


def acting(settings: Settings, threads: int, callers: int) -> list[Call]:
    """An actor's whole loop: emulation and inference in turn, and recording the results."""
    policy, envs = _acting(settings), sizes.envs_per_actor(settings)

    def caller(index: int) -> Call:
        actor = _actor(settings, policy, index, threads)

        def play() -> int:
            actor.unroll()
            return envs * settings.actors.unroll_length

        return play

    return [caller(index) for index in range(callers)]


def learning(settings: Settings, threads: int, callers: int) -> list[Call]:
    """The learner's updates with a batch that was really played; the weights stay as they are."""
    spec = build.level_spec(settings)
    actor = _actor(settings, _acting(settings), 0, usable_cores())
    batches = _batches(settings)
    batches.next(actor.unroll)  # with nothing to replay yet, it would hold new unrolls only
    batch = batches.next(actor.unroll)
    assert batch is not None

    def caller() -> Call:
        learner = build.learner(settings, spec, pieces=threads)
        passes = _several_updates(settings, learner)

        def update() -> int:
            if passes:
                learner.learn_alone(batch.unrolls, passes, run_left=0.0)
                return batch.steps
            statistics = learner.update(batch.unrolls, run_left=0.0)
            bool(statistics.skipped)  # waits for it, as the training does
            return batch.steps

        return update

    return [caller() for _ in range(callers)]


def _several_updates(settings: Settings, learner: Learner) -> Passes | None:
    """How a batch is gone through where that takes several updates."""
    passes = build.passes_of(settings, learner, 1)
    if passes is None or passes.epochs * passes.minibatches == 1:
        return None
    if not passes.are_alike:
        raise UserError(
            f"--minibatches={passes.minibatches} does not divide the {passes.pieces} pieces of a "
            "batch evenly, so learning cannot be measured alone."
        )
    return passes


def transport(settings: Settings) -> list[Call]:
    """Blocks through the queue of one process, and joined to a batch."""
    block = _actor(settings, _acting(settings), 0, usable_cores()).unroll()
    queue, joined = UnrollQueue(sizes.capacity(settings)), _batches(settings)
    envs = sizes.envs_per_actor(settings)

    def take() -> Unroll | None:
        queue.announce(envs)
        queue.put(block, envs)
        return queue.take()

    def batch() -> int:
        joined.next(take)
        return sizes.fresh_unrolls(settings) * settings.actors.unroll_length

    return [batch]


def block_bytes(settings: Settings) -> int:
    """How many bytes an unroll takes between processes."""
    spec = build.level_spec(settings)
    blank = build.unroll(settings, spec, build.acting_agent(settings, spec))
    return wire.block_layout(blank).size()


def weights_bytes(settings: Settings) -> int:
    """How many bytes of weights an actor fetches."""
    return wire.weights_layout(build.acting_agent(settings, build.level_spec(settings))).size()


def gradient_bytes(settings: Settings) -> int:
    """How many bytes of gradients a learner adds to those of the others."""
    agent = build.learning_agent(settings, build.level_spec(settings))
    return sum(int(np.prod(one.shape)) * one.dtype.size for one in agent.trainable_variables)


def _environment(settings: Settings, index: int, threads: int) -> VectorEnvironment:
    own = settings.replace(env_threads=threads)
    environment = build.actor_environment(own, index)
    environment.reset()
    return environment


def _random_actions(environment: VectorEnvironment) -> Iterator[np.ndarray]:
    space, count = environment.spec.action_space, environment.num_envs
    space.seed(0)
    some = [np.array([space.sample() for _ in range(count)]) for _ in range(4 * STEPS)]
    kind = np.float32 if np.issubdtype(some[0].dtype, np.floating) else np.int32
    return itertools.cycle([actions.astype(kind) for actions in some])


def _recorded(environment: VectorEnvironment) -> list[EnvironmentStep]:
    """Steps that were really played, copied as actors copy them."""
    actions = _random_actions(environment)
    steps = (environment.step(next(actions)) for _ in range(STEPS))
    return [EnvironmentStep(*(array.copy() for array in step)) for step in steps]


def _acting(settings: Settings) -> ActingAgent:
    device = build.acting_device(settings)
    agent = build.acting_agent(settings, build.level_spec(settings), device)
    return ActingAgent(agent, build.algorithm(settings), device)


def _actor(settings: Settings, policy: ActingAgent, index: int, threads: int) -> Actor:
    return Actor(
        _environment(settings, index, threads),
        policy,
        settings.actors.unroll_length,
        level=index % len(settings.level.levels),
        seed=settings.program.seed + index,
    )


def _batches(settings: Settings) -> Batches:
    """Batches of unrolls, which algorithms in step cut into minibatches themselves."""
    feeding = settings.algorithm.feeding
    if isinstance(feeding, InStep) and not feeding.whole_episodes:
        feeding = FirstInFirstOut()
    if not isinstance(feeding, FirstInFirstOut):
        raise UserError(
            f"--algorithm={settings.program.algorithm} does not learn from batches of unrolls as "
            "they are played: its parts cannot be measured; expected impala, ppo or a2c."
        )
    return Batches(feeding, settings.learning.batch_size, settings.program.seed)
