"""TensorFlow gives two calls the same number now and then, and refuses the second."""

import os
import subprocess
import sys
from pathlib import Path

from tests.trainer.cluster import free_address

# What opens /dev/urandom reads one of 2^16 numbers, so that few calls are enough.
FEW_NUMBERS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static int few(void) {
  uint32_t seed[16] = {0};
  int file = memfd_create("few", 0);
  if (getrandom(seed, 2, 0) != 2 || write(file, seed, sizeof seed) != sizeof seed) return -1;
  lseek(file, 0, SEEK_SET);
  return file;
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  if (strcmp(path, "/dev/urandom") == 0) return few();
  int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  return next(path, flags, mode);
}
"""

ROUNDS = """
import sys

import numpy as np
import tensorflow as tf

from transport.distributed import Connection, Server, v1

refused = 0
run = v1.Session.run


def counted(*what, **more):
    global refused
    try:
        return run(*what, **more)
    except tf.errors.AbortedError:
        refused += 1
        raise


v1.Session.run = counted
host, port = sys.argv[1].split(":")
server = Server(host, int(port))
connection = Connection(host, int(port), 30.0)
for number in range(600):
    connection.write(str(number).encode())
    connection.put(np.full(1, number % 256, np.uint8), np.arange(3, dtype=np.uint8))
    assert server.hear(30.0) == str(number).encode()
    assert server.receive()[0] == number % 256
    server.publish(np.zeros(3, np.uint8), number)
    assert connection.weights(30.0)[1] == number
print(refused)
"""


def test_a_call_that_is_refused_for_its_number_is_made_again(tmp_path: Path):
    source, library = tmp_path / "few.c", tmp_path / "few.so"
    source.write_text(FEW_NUMBERS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, free_address()],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0
