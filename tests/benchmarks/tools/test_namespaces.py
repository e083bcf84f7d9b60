"""Hosts on this machine are gone again however their maker ends."""

import signal
import subprocess
import sys
import time

import pytest

from benchmarks.tools import namespaces

pytestmark = [
    pytest.mark.skipif(bool(namespaces.missing("tc")), reason=namespaces.missing("tc")),
    pytest.mark.xdist_group("benchmarks"),
]

MAKE = """
import sys, time
from benchmarks.tools.namespaces import Bridge
with Bridge() as bridge:
    host = bridge.add()
    print(bridge.prefix, flush=True)
    time.sleep(1000)
"""


def there(prefix: str) -> list[str]:
    """The links and namespaces whose names begin so."""
    listed = namespaces.sh("ip -o link; ip netns").replace(":", " ").split()
    return [
        word for word in listed if word.startswith((f"{prefix}br", f"{prefix}v", f"{prefix}ns"))
    ]


def test_a_host_is_reached_at_its_address_and_through_its_slow_link():
    with namespaces.Bridge() as bridge:
        host = bridge.add()

        host.limit(10)
        assert "rate 10Mbit" in namespaces.sh(f"tc qdisc show dev {host.link}")
        inside = host.inside("tc", "qdisc", "show", "dev", "eth0")
        assert "rate 10Mbit" in namespaces.sh(" ".join(inside))
        assert there(bridge.prefix)
    assert not there(bridge.prefix)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_all_is_removed_when_its_maker_is_stopped_or_killed(number):
    maker = subprocess.Popen([sys.executable, "-c", MAKE], stdout=subprocess.PIPE, text=True)
    assert maker.stdout
    prefix = maker.stdout.readline().strip()
    assert len(there(prefix)) >= 3
    maker.send_signal(number)
    maker.communicate(timeout=30)
    until = time.monotonic() + 30
    while there(prefix):
        assert time.monotonic() < until, there(prefix)
        time.sleep(0.1)
