"""What processes say, wherever it goes."""

import contextlib
import gc
import sys
import tempfile

import pytest

from trainer.machine.quiet import import_tensorflow
from trainer.programs import actor_process, training
from trainer.team import horovod_team


@pytest.mark.parametrize("module", [actor_process, horovod_team, training])
def test_a_full_disk_below_the_output_ends_no_actor_and_no_learner(monkeypatch, module):
    full = open("/dev/full", "w")  # noqa: SIM115 (it cannot be closed without an error)
    monkeypatch.setattr(sys, "stdout", full)
    with pytest.raises(OSError, match="No space left"):
        print("as others say it", flush=True)
    module.say("x" * 20_000)
    with contextlib.suppress(OSError):
        full.close()


def test_what_tensorflow_is_made_of_is_not_searched_for_garbage():
    import_tensorflow()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10 * len(gc.get_objects())


def test_a_full_disk_for_temporary_files_keeps_nothing_from_starting(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(OSError):
        tempfile.TemporaryFile().close()
    import_tensorflow()
