"""Makes the parts of a process from its settings.

Programs pass all settings to these functions; each part gets only those that its package declares.
"""

from trainer.build.actors import actor, seat
from trainer.build.choices import (
    agent_name,
    algorithm,
    complete,
    frames_to_train,
    level_spec,
    level_specs,
    looks,
)
from trainer.build.learners import (
    batches,
    blocks,
    check_warm_up,
    check_windows,
    identity,
    identity_of_learners,
    learner,
    learner_of,
    most_unrolls,
    passes_of,
    random_unrolls,
    unroll,
)
from trainer.build.networks import acting_agent, acting_device, learning_agent, player
from trainer.build.worlds import (
    actor_environment,
    shared_environment,
    shared_test_environment,
    test_environment,
)

__all__ = [
    "acting_agent",
    "acting_device",
    "actor",
    "actor_environment",
    "agent_name",
    "algorithm",
    "batches",
    "blocks",
    "check_warm_up",
    "check_windows",
    "complete",
    "frames_to_train",
    "identity",
    "identity_of_learners",
    "learner",
    "learner_of",
    "learning_agent",
    "level_spec",
    "level_specs",
    "looks",
    "most_unrolls",
    "passes_of",
    "player",
    "random_unrolls",
    "seat",
    "shared_environment",
    "shared_test_environment",
    "test_environment",
    "unroll",
]
