"""A training whose updates need more memory than there is."""

from typing import Any

import pytest
import tensorflow as tf

from tests.trainer.levels import Steps, level
from tests.trainer.training import endless, parts, small
from trainer.learning.batches import describe
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.reporting.metrics import Meter
from user_error import UserError


def test_the_error_names_the_flags_to_lower(monkeypatch):
    made = parts(small(level(Steps), batch_size=5, total_environment_frames=1000))
    batch = describe(made.actor().unroll(), 5)

    def exhausted(*_: Any) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(type(made.learner.contribution), "__call__", exhausted)
    meter = Meter(made.settings.level.levels, 1, {}, made.learner.figures)
    training = Training(made.settings, made.learner, meter, endless(batch), StopSignal(), run=None)
    length = made.settings.actors.unroll_length
    with pytest.raises(UserError, match=f"--batch_size=5 and --unroll_length={length}: lower one"):
        training.run()
