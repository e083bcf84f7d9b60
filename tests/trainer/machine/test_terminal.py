"""The output of processes, wherever it goes."""

import contextlib
import gc
import sys
import tempfile

import pytest

from trainer.machine.quiet import import_tensorflow
from trainer.programs import actor_process, training
from trainer.team import horovod_team


@pytest.mark.parametrize("module", [actor_process, horovod_team, training])
def test_output_to_a_full_disk_ends_no_actor_and_no_learner(monkeypatch, module):
    full = open("/dev/full", "w")  # noqa: SIM115 (it cannot be closed without an error)
    monkeypatch.setattr(sys, "stdout", full)
    with pytest.raises(OSError, match="No space left"):
        print("without protection", flush=True)
    module.say("x" * 20_000)
    with contextlib.suppress(OSError):
        full.close()


def test_tensorflow_s_objects_are_exempt_from_garbage_collection():
    import_tensorflow()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10 * len(gc.get_objects())


def test_tensorflow_is_imported_even_if_no_temporary_file_can_be_made(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(OSError):
        tempfile.TemporaryFile().close()
    import_tensorflow()
