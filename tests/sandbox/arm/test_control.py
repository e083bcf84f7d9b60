"""Moving an arm by keys: the simulated one, and what OWI's is sent."""

import io
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from environments.python.arm import model
from sandbox.arm import drivers
from sandbox.arm.control import HELP, SECONDS, control
from user_error import UserError

PROJECT = Path(__file__).parents[3]
TURN = drivers.DEGREES_PER_SECOND * SECONDS


# A motor runs for a minute; what the arm is sent is written to a file.
SLOW = """
import signal, sys
from sandbox.arm import __main__ as program, control, drivers

class Device:
    def ctrl_transfer(self, kind, request, value, index, data, timeout):
        with open(sys.argv[1], "a") as file:
            print(*data, file=file)

signal.signal(signal.SIGHUP, signal.SIG_DFL)
drivers._plugged_in, control.SECONDS = Device, 60.0
sys.exit(program.main(["control", "--driver=owi"]))
"""


class StandIn:
    """A USB device that keeps what it was sent."""

    def __init__(self):
        self.sent = []

    def ctrl_transfer(self, kind, request, value, index, data, timeout):
        assert (kind, request, value, index) == (0x40, 6, 0x100, 0)
        self.sent.append(tuple(data))


def test_keys_turn_the_joints_and_stop_at_their_ends(capsys):
    arm = drivers.SimulatedArm()
    control(arm, io.StringIO("ggbfd?"))
    assert arm.degrees == pytest.approx({"base": TURN, "upper": TURN, "lower": TURN})
    control(arm, io.StringIO("g" * 200))
    assert arm.degrees["base"] == model.RANGES["base"][1]
    assert HELP in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("a", (1, 0, 0)), ("z", (2, 0, 0)), ("s", (4, 0, 0)), ("x", (8, 0, 0)),
        ("d", (16, 0, 0)), ("c", (32, 0, 0)), ("f", (64, 0, 0)), ("v", (128, 0, 0)),
        ("g", (0, 1, 0)), ("b", (0, 2, 0)), ("q", (0, 0, 1)),
    ],
)  # fmt: skip
def test_each_key_is_one_command_and_then_a_stop(key, command, monkeypatch):
    monkeypatch.setattr(drivers.time, "sleep", lambda seconds: None)
    device = StandIn()
    control(drivers.OwiArm(device), io.StringIO(key))
    lamp = (0, 0, command[2])
    assert device.sent == [(0, 0, 0), command, lamp, (0, 0, 0)]


def test_an_arm_stops_whatever_happens(monkeypatch):
    device = StandIn()
    arm = drivers.OwiArm(device)

    def broken(seconds):
        raise RuntimeError("unplugged")

    monkeypatch.setattr(arm, "wait", broken)
    with pytest.raises(RuntimeError):
        control(arm, io.StringIO("f"))
    assert device.sent[-1] == (0, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_arm_stops_when_its_program_is_ended_and_the_terminal_is_as_it_was(number, tmp_path):
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    sent = tmp_path / "sent"
    sent.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(sent)], cwd=PROJECT, stdin=theirs, stdout=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline().decode().strip() == HELP
    os.write(ours, b"f")
    until = time.monotonic() + 30
    while "64 0 0\n" not in sent.read_text():
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert sent.read_text().splitlines() == ["0 0 0", "64 0 0", "0 0 0"]
    assert termios.tcgetattr(theirs) == before
    process.stdout.close()
    os.close(theirs)
    os.close(ours)


def test_keys_that_stop_or_kill_programs_stop_no_arm_in_the_midst_of_a_move():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        # The terminal is its own, so that keys send it signals.
        ["setsid", "--ctty", sys.executable, "-m", "sandbox.arm", "control"],
        cwd=PROJECT,
        stdin=theirs,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline().strip() == HELP
    os.write(ours, b"\x1a\x1cg")  # Ctrl-Z, Ctrl-\
    printed = [process.stdout.readline() for _ in range(3)]
    assert f"base {TURN:.1f}°" in printed[-1]
    os.write(ours, b"\x03")
    assert process.wait(30) == 0
    process.stdout.close()
    os.close(theirs)
    os.close(ours)


def test_what_is_no_keys_is_refused_and_the_arm_stands_still():
    for source, told in (
        (None, "no standard input"),
        (io.TextIOWrapper(io.BytesIO(b"\xff"), "utf-8"), "is not text"),
    ):
        device = StandIn()
        with pytest.raises(UserError, match=told):
            control(drivers.OwiArm(device), source)
        assert device.sent[-1] == (0, 0, 0)


def test_without_its_library_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "usb", None)
    monkeypatch.setitem(sys.modules, "usb.core", None)
    with pytest.raises(UserError, match="pip install pyusb"):
        drivers.OwiArm()


def test_keys_come_from_a_terminal_and_leave_it_as_it_was():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox.arm", "control"],
        cwd=PROJECT,
        stdin=theirs,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline().strip() == HELP
    os.write(ours, b"gg")
    assert f"base {TURN:.1f}°" in process.stdout.readline()
    os.write(ours, b"\x1b")
    assert process.wait(30) == 0
    os.close(theirs)
    os.close(ours)
