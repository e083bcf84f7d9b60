"""The processor's time of a process, thread by thread."""

import os
import subprocess
import sys
import threading
import time

from benchmarks.tools.cpu_time import (
    MAIN,
    OTHERS,
    STEPPED,
    TICK_S,
    cpu_seconds,
    kind_of,
    thread_time,
)
from tests.cluster.conftest import wait_for
from trainer.machine.threads import name_thread


def test_a_line_of_proc_is_read_whatever_the_threads_name():
    fields = ["S", *["0"] * 10, "250", "50", *["0"] * 30]
    name, seconds = thread_time(f"4711 (a (b) c) {' '.join(fields)}\n")
    assert name == "a (b) c"
    assert seconds == 300 * TICK_S


def test_threads_are_told_apart_by_their_names():
    assert kind_of("emulator") == "emulator threads"
    assert kind_of("actor 3") == "actors' own threads"
    assert kind_of("something") == OTHERS


def test_work_is_found_at_the_thread_that_does_it():
    done = threading.Event()

    def work():
        name_thread("emulator 1")
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        before, now = 0.0, 0.0
        until = time.monotonic() + 60
        while now - before < 5 * TICK_S and time.monotonic() < until:
            time.sleep(0.05)
            found = cpu_seconds({os.getpid(): "trainer"})
            now = found.get("emulator threads", 0.0)
        assert now >= 5 * TICK_S
        assert found[MAIN["trainer"]] > 0
    finally:
        done.set()
        thread.join()


def test_work_of_processes_that_step_environments_is_found():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as stepping:
        try:
            found = wait_for(lambda: busy(cpu_seconds({os.getpid(): "actor"})))
        finally:
            stepping.kill()
    assert found[MAIN["actor"]] > 0


def busy(found):
    return found.get(STEPPED, 0.0) >= 5 * TICK_S and found
