"""Arms that can be moved joint by joint: the simulated one, and OWI's over USB."""

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from environments.python.arm import model
from user_error import UserError

DEGREES_PER_SECOND = 30.0
JOINT_OF = {"base": "base", "shoulder": "upper", "elbow": "lower"}


class Arm(Protocol):
    """An arm whose motors run until the next command."""

    def drive(self, motors: Mapping[str, int], lamp: bool) -> None:
        """Runs the motors that are named, 1 one way and -1 the other; all others stop."""

    def wait(self, seconds: float) -> None:
        """Lets them run for a while."""

    def close(self) -> None:
        """Stops all motors, and switches the lamp off."""


class SimulatedArm:
    """The arm of ArmReach-v0, which turns evenly; it has no grip, wrist or lamp."""

    def __init__(self) -> None:
        self.degrees = dict.fromkeys(model.JOINTS, 0.0)
        self.lamp = False
        self._motors: Mapping[str, int] = {}

    def drive(self, motors: Mapping[str, int], lamp: bool) -> None:
        """Remembers which motors run."""
        self._motors, self.lamp = dict(motors), lamp

    def wait(self, seconds: float) -> None:
        """Turns the joints, as far as their ranges go."""
        for motor, way in self._motors.items():
            joint = JOINT_OF.get(motor)
            if joint:
                turned = self.degrees[joint] + way * DEGREES_PER_SECOND * seconds
                self.degrees[joint] = float(np.clip(turned, *model.RANGES[joint]))

    def close(self) -> None:
        """Stops."""
        self.drive({}, lamp=False)


class OwiArm:
    """OWI's Robotic Arm Edge: three bytes a command, two bits a motor."""

    VENDOR, PRODUCT = 0x1267, 0x0000
    # In the first byte, a motor's bits; the first of them is one way, the second the other.
    SHIFT = {"grip": 0, "wrist": 2, "elbow": 4, "shoulder": 6}
    REQUEST_TYPE, REQUEST, VALUE = 0x40, 6, 0x100  # to the device, as its maker's program has it
    TIMEOUT_MS = 1000

    def __init__(self, device: Any = None):
        """``device`` is pyusb's; by default the first arm that is plugged in."""
        self._device = device if device is not None else _plugged_in()
        self.drive({}, lamp=False)

    def drive(self, motors: Mapping[str, int], lamp: bool) -> None:
        """Sends which motors run."""
        first = sum((1 if way > 0 else 2) << self.SHIFT[m] for m, way in motors.items()
                    if m in self.SHIFT and way)  # fmt: skip
        base = motors.get("base", 0)
        command = bytes([first, (1 if base > 0 else 2) if base else 0, int(lamp)])
        self._device.ctrl_transfer(
            self.REQUEST_TYPE, self.REQUEST, self.VALUE, 0, command, self.TIMEOUT_MS
        )

    def wait(self, seconds: float) -> None:
        """Lets the motors run."""
        time.sleep(seconds)

    def close(self) -> None:
        """Stops all motors."""
        self.drive({}, lamp=False)


def _plugged_in() -> Any:
    try:
        import usb.core
    except ImportError:
        raise UserError(
            "--driver=owi needs pyusb. Run: .venv/bin/pip install pyusb==1.3.1; and Debian's "
            "libusb-1.0-0."
        ) from None
    try:
        device = usb.core.find(idVendor=OwiArm.VENDOR, idProduct=OwiArm.PRODUCT)
    except usb.core.USBError as error:
        raise UserError(f"--driver=owi: the USB bus cannot be used ({error}).") from None
    except usb.core.NoBackendError:
        raise UserError("--driver=owi needs libusb. Run: apt-get install libusb-1.0-0") from None
    if device is None:
        raise UserError(
            "--driver=owi: no OWI arm (1267:0000) is plugged in, or it is switched off."
        )
    return device
