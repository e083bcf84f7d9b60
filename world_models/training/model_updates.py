"""The updates of a model, by one learner or by several that share each batch."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from trainer.settings.config import Settings
from trainer.team.team import ALONE, Team
from world_models.networks.loss import Losses, Windows
from world_models.training.experience import Experience
from world_models.training.world_model import WorldModel


def updates(
    settings: Settings,
    model: WorldModel,
    real: Experience,
    total: int,
    stopped: Callable[[], bool],
    team: Team = ALONE,
) -> Iterator[Losses]:
    """Trains until ``total`` updates or a stop of any learner; yields the losses of each update.

    All learners draw the same batch, and each learns from its part of it.
    """
    own = settings.algorithm
    random = np.random.default_rng([settings.program.seed, model.updates])

    def draw() -> Windows:
        windows = real.draw(own.model_batch, own.target_frames, random)
        return Windows(*(one[team.rank :: team.size] for one in windows))

    with ThreadPoolExecutor(1) as ahead:
        drawn = ahead.submit(draw)
        stop = team.size == 1 and stopped()  # several stop together, after an update
        while model.updates < total and not stop:
            windows, drawn = drawn.result(), ahead.submit(draw)
            if team.size == 1:
                yield model.learn(windows)
                stop = stopped()
            else:
                losses, stop = model.learn_part(windows, team, stopped())
                yield losses
