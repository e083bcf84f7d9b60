"""Importing TensorFlow."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from trainer.machine import quiet
quiet.import_tensorflow()
assert not {"keras", "jax", "matplotlib"} & set(sys.modules), sys.modules
import matplotlib.figure
import tensorflow as tf
assert tf.keras.layers.Dense(3)(tf.ones([2, 2])).shape == [2, 3]
print("all is there")
"""


def test_what_training_does_not_need_is_imported_by_those_who_need_it():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all is there\n"), done.stderr
    assert done.stderr == ""
