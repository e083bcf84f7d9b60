"""Learners, their batches, and what actors must send them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from algorithms.feeding import ERROR, IMPORTANCE, FirstInFirstOut, Gradients, InStep, Replayed
from algorithms.trajectory import Unroll
from environments import EnvironmentSpec
from trainer.acting.actor import blank_unroll
from trainer.build.choices import activation, agent_name, algorithm
from trainer.build.networks import backdrop_of, learning_agent
from trainer.learning import replayed
from trainer.learning.batches import Batches, bytes_needed
from trainer.learning.contributions import Contributions
from trainer.learning.learner import Learner
from trainer.learning.minibatches import Passes
from trainer.learning.replayed import GIB, Feeder, ReplayedBatches
from trainer.learning.replayed import Shape as WindowShape
from trainer.learning.rollouts import Crew, Rollouts
from trainer.learning.whole_episodes import WholeEpisodes
from trainer.learning.worker import GradientBatches, applying, blank_computed
from trainer.machine.launching import learners_here
from trainer.remote import wire
from trainer.remote.synthetic import random_batch
from trainer.settings import sizes
from trainer.settings.config import Settings
from trainer.team.team import ALONE, Team
from transport import Identity, Layout
from user_error import UserError

# Settings of an optimizer that an actor may have for itself.
OF_OPTIMIZERS = ("optimizer", "gradients_clipping", "decay", "momentum", "epsilon")
# All by which learners move their weights, so that those of equal learners stay near each other.
OF_LEARNERS = (
    *OF_OPTIMIZERS,
    "learning_rate",
    "learning_rate_schedule",
    "total_environment_frames",
)
# From so many bytes on, the size of a replay of unrolls is printed.
LARGE = GIB // 10


def learner(
    settings: Settings, spec: EnvironmentSpec, team: Team = ALONE, pieces: int = 1
) -> Learner:
    """A learner with an agent of its own, see ``Learner``."""
    return learner_of(learning_agent(settings, spec), settings, team, pieces)


def learner_of(agent: Any, settings: Settings, team: Team = ALONE, pieces: int = 1) -> Learner:
    """A learner that trains this agent."""
    feeding = settings.algorithm.feeding
    learning, backdrop = applying(settings.learning, feeding), backdrop_of(settings, agent)
    share = 1 / (feeding.epochs * feeding.minibatches) if isinstance(feeding, InStep) else 1.0
    return Learner(agent, algorithm(settings), learning, backdrop, team, pieces, share)


def batches(
    settings: Settings,
    spec: EnvironmentSpec,
    agent: Any,
    crew: Crew,
    say: Callable[[str], None],
    learners: int = 1,
    agents: int = 1,
) -> Feeder:
    """The learner's batches, fed as the algorithm requires by the actors ``crew``.

    There are so many ``learners`` in its team, and so many ``agents`` with batches in this process.
    """
    feeding, size, seed = (
        settings.algorithm.feeding,
        settings.learning.batch_size,
        settings.program.seed,
    )
    stores = learners_here() * agents
    if isinstance(feeding, InStep):
        return (WholeEpisodes if feeding.whole_episodes else Rollouts)(size, crew, say)
    if isinstance(feeding, Replayed):
        example = unroll(settings, spec, agent)
        shape = _window(settings, spec, agent, feeding)
        _check_room(settings, spec, shape, feeding)
        together = sizes.drawn_together(settings, learners)
        return ReplayedBatches(feeding, size, shape, example, seed, say, together, stores)
    if isinstance(feeding, Gradients):
        return GradientBatches()
    if feeding.replayed:
        _check_unrolls(feeding, unroll(settings, spec, agent), stores, say)
    return Batches(feeding, size, seed)


def passes_of(settings: Settings, learner: Learner, learners: int) -> Passes | None:
    """How to go through batches that are learned from more than once, or for several updates."""
    feeding, size = settings.algorithm.feeding, settings.learning.batch_size
    if isinstance(feeding, Replayed):
        _check_errors(settings.program.algorithm, learner.algorithm.samples)
        together = sizes.drawn_together(settings, learners)
        return Passes(1, together, piece_length=0, pieces=together * size, drawn=True)
    if not isinstance(feeding, InStep):
        return None
    unroll_length = settings.actors.unroll_length
    # An agent that is no ``agents.Agent`` has no states at the beginnings of pieces.
    whole = getattr(learner.agent, "is_recurrent", True)
    return Passes.of(feeding, unroll_length, size, whole, settings.program.seed)


def _check_errors(algorithm: str, samples: Sequence[str]) -> None:
    """Refuses an algorithm of one's own that does not say how far off a replay's windows are."""
    if ERROR not in samples:
        raise UserError(
            f"--algorithm={algorithm}: its samples are {', '.join(samples) or 'none'}, and it "
            f"learns from a replay; expected {ERROR} among them, of which priorities are made. "
            "Name it in `samples`, and return it with the loss."
        )


def check_windows(settings: Settings, spec: EnvironmentSpec, agent: Any) -> None:
    """Refuses windows that the agent cannot learn from, and a replay that never has one."""
    feeding = settings.algorithm.feeding
    if isinstance(feeding, Replayed):
        _check_room(settings, spec, _window(settings, spec, agent, feeding), feeding)


def check_warm_up(settings: Settings, spec: EnvironmentSpec) -> None:
    """Refuses a new run that would end before its replay is full enough to learn from."""
    feeding, total = settings.algorithm.feeding, settings.learning.total_environment_frames
    if not isinstance(feeding, Replayed) or feeding.played:
        return
    frames = feeding.warm_up * spec.frames_per_step
    if frames >= total:
        raise UserError(
            f"--total_environment_frames={total}: nothing would be learned, because the replay "
            f"fills for the first {frames:,} (--replay_warm_up={feeding.warm_up} agent steps); "
            "expected more. Give that, or a smaller --replay_warm_up."
        )


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
    sent = settings.remote.compression, sizes.largest_block(settings, spec.num_bodies)
    if isinstance(settings.algorithm.feeding, Gradients) and contributions:
        return wire.block_layout(blank_computed(one, contributions), *sent)
    return wire.block_layout(one, *sent)


def most_unrolls(settings: Settings, spec: EnvironmentSpec, agent: Any) -> int | None:
    """The unrolls of a block that a replay has room for; None where there is none."""
    feeding = settings.algorithm.feeding
    if not isinstance(feeding, Replayed):
        return None
    shape = _window(settings, spec, agent, feeding)
    return replayed.most_environments(feeding.capacity, shape, settings.actors.unroll_length)


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
        _rules_of_network(settings, agent) | _rules_of_actors(settings),
    )


def identity_of_learners(
    settings: Settings, spec: EnvironmentSpec, agent: Any, blocks: Layout
) -> Identity:
    """Everything on which learners that exchange gradients must agree."""
    learning = dataclasses.asdict(settings.learning)
    moving = {name: str(learning[name]) for name in OF_LEARNERS}
    return identity(settings, spec, agent, blocks) | moving


def _rules_of_network(settings: Settings, agent: Any) -> dict[str, Any]:
    """What changes an agent's outputs and shows in none of its weights."""
    chooses = getattr(agent, "chooses_activation", False)  # one's own may be no ``agents.Agent``
    return {"activation": activation(settings)} if chooses else {}


def _rules_of_actors(settings: Settings) -> dict[str, Any]:
    """The algorithm's settings by which actors play and, where they do, compute gradients."""
    rules, feeding = dataclasses.asdict(settings.algorithm), settings.algorithm.feeding
    if not isinstance(feeding, Gradients):
        return {name: rules[name] for name in settings.algorithm.of_actors}
    if not feeding.shared_optimizer:
        learning = dataclasses.asdict(settings.learning)
        rules |= {name: learning[name] for name in OF_OPTIMIZERS}
    return rules


def _check_unrolls(
    feeding: FirstInFirstOut, example: Unroll, stores: int, say: Callable[[str], None]
) -> None:
    """Refuses a replay of more unrolls than there is room for; says how large a large one gets."""
    needed = bytes_needed(example, feeding.capacity)
    replayed.check_memory("replay_capacity", feeding.capacity, needed, stores)
    if needed >= LARGE:
        say(f"replay of {feeding.capacity:,} unrolls: up to {needed / GIB:.2f} GiB of memory")


def _check_room(
    settings: Settings, spec: EnvironmentSpec, shape: WindowShape, feeding: Replayed
) -> None:
    acting, block = settings.actors, sizes.unrolls_per_actor(settings, spec.num_bodies)
    # How many actors there will be elsewhere, nobody knows.
    actors = acting.num_actors if settings.program.job_name == "local" else 1
    replayed.check_room(feeding.capacity, shape, acting.unroll_length, actors * block, block)


def _window(
    settings: Settings, spec: EnvironmentSpec, agent: Any, feeding: Replayed
) -> WindowShape:
    length = settings.actors.unroll_length
    if not hasattr(agent, "is_recurrent"):
        raise UserError(
            f"--agent_name={settings.agent.agent_name}: --algorithm={settings.program.algorithm} "
            "learns from windows of a replay, which only a subclass of agents.Agent can read."
        )
    return replayed.shape_of(feeding, spec.frame_stack, length, agent.is_recurrent)
