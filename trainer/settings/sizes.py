"""Sizes that follow from several settings: environments of an actor, unrolls on their way."""

import math

from algorithms.feeding import Gradients, InStep, Replayed
from trainer.settings.config import Settings

# Environments of an actor where no number is given.
FEWEST_ENVS, MOST_ENVS = 10, 32
ACTORS_ELSEWHERE = 3
HEAVY_ENVS = 4  # where each is a browser, a desktop or a build of Unity
# Updates whose windows are drawn at once: more would take memory, and have older priorities.
MOST_TOGETHER = 32
# Unrolls in a block that a learner takes whatever its own settings.
ORDINARY_UNROLLS = 256


def envs_per_actor(settings: Settings) -> int:
    """Environments that an actor plays side by side.

    More of them share what each call of the network costs, and make unrolls older.
    """
    if settings.actors.envs_per_actor:
        return settings.actors.envs_per_actor
    if isinstance(settings.algorithm.feeding, Gradients):
        return settings.learning.batch_size
    if settings.level.is_heavy:
        return HEAVY_ENVS
    if isinstance(settings.algorithm.feeding, InStep):
        actors = settings.actors.num_actors if settings.program.job_name == "local" else 1
        return math.ceil(settings.learning.batch_size / actors)
    # While the learner trains on one batch, the next is played. An actor in a process of its own
    # does not know how many there are, and counts with a few.
    actors = (
        settings.actors.num_actors if settings.program.job_name == "local" else ACTORS_ELSEWHERE
    )
    ahead = math.ceil(2 * fresh_unrolls(settings) / actors)
    return min(max(FEWEST_ENVS, ahead), MOST_ENVS)


def filling(settings: Settings, actors: int, learners: int) -> Settings:
    """With as many environments for each of these actors as fill the batches that are in step.

    An actor by itself cannot know how many there are; whoever starts all of them does.
    """
    decided = settings.actors.envs_per_actor or settings.level.is_heavy
    if decided or not actors or not isinstance(settings.algorithm.feeding, InStep):
        return settings
    of_a_learner = math.ceil(actors / learners)
    # Of a game that agents share, each has its part.
    games = max(1, len(settings.level.agent_names))
    each = math.ceil(settings.learning.batch_size / of_a_learner)
    return settings.replace(envs_per_actor=games * each)


def unrolls_per_actor(settings: Settings, bodies: int) -> int:
    """Unrolls in an actor's block: one a body of its games, each of which has so many."""
    return math.ceil(envs_per_actor(settings) / bodies) * bodies


def capacity(settings: Settings, bodies: int = 1) -> int:
    """Unrolls that actors may be ahead of the learner; ``bodies`` is the number in a game."""
    in_play = settings.actors.num_actors * unrolls_per_actor(settings, bodies)
    return settings.learning.queue_capacity or max(in_play, fresh_unrolls(settings))


def waiting_unrolls(settings: Settings) -> int:
    """Unrolls that may wait at a learner whose actors are in other processes."""
    return settings.learning.queue_capacity or fresh_unrolls(settings)


def largest_block(settings: Settings, bodies: int) -> int:
    """Unrolls of the largest block that a learner takes from an actor."""
    return max(ORDINARY_UNROLLS, unrolls_per_actor(settings, bodies), waiting_unrolls(settings))


def fresh_unrolls(settings: Settings) -> int:
    """New unrolls in a batch; the rest of it is replayed."""
    return settings.algorithm.feeding.fresh(settings.learning.batch_size)


def piece_length(feeding: InStep, unroll_length: int) -> int:
    """Steps of a rollout that stay together; 0: whole unrolls."""
    shorter = 0 < feeding.piece_length < unroll_length
    return math.gcd(feeding.piece_length, unroll_length) if shorter else 0


def drawn_together(settings: Settings, learners: int) -> int:
    """Updates whose windows are drawn from a replay store at once, and made in one call.

    Several learners add up their gradients after each update.
    """
    if learners > 1 or not isinstance(settings.algorithm.feeding, Replayed):
        return 1
    every = settings.learning.publish_every_updates
    return max(count for count in range(1, MOST_TOGETHER + 1) if every % count == 0)
