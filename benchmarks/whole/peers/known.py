"""The peers: what each needs, and what is known of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainer.machine.quota import usable_cores
from user_error import UserError, closest

HERE = Path(__file__).parent


class Peer(NamedTuple):
    """Another trainer."""

    key: str  # how --peers calls it
    name: str
    # Parts of its work that decide only how fast it is, each with the values to try.
    ways: Mapping[str, Sequence[Any]] = {}
    # The algorithms and levels for which it has published settings of its own.
    works: frozenset[tuple[str, str]] = frozenset()

    @property
    def driver(self) -> Path:
        """A program for the peer's own Python."""
        return HERE / f"drive_{self.key}.py"

    @property
    def packages(self) -> Path:
        """All that this Python has installed, each with its version."""
        return HERE / f"{self.key}.txt"


THREADS = tuple(2**n for n in range(usable_cores().bit_length()))
WORKERS = (1, 2, 4)

PEERS = (
    Peer("sample_factory", "Sample Factory 2.1.1 APPO", {"threads": THREADS, "workers": WORKERS}),
    # Ray starts no more of them than there are cores.
    Peer(
        "rllib", "RLlib 2.60 IMPALA", {"runners": tuple(n for n in WORKERS if n <= usable_cores())}
    ),
)


NETWORKS = ("SimpleConvNetAgent", "ResNetAgent")  # that their drivers have

# Those that can be compared by the time to a return.
UNTIL_PEERS = (
    Peer(
        "sb3",
        "Stable-Baselines3 2.9.2",
        {"threads": THREADS, "processes": (False, True)},
        frozenset(
            (
                *((name, "CartPole-v1") for name in ("ppo", "a2c", "dqn")),
                *((name, "LunarLander-v3") for name in ("ppo", "a2c", "dqn")),
                ("ppo", "PongNoFrameskip-v4"),
                ("ppo", "HalfCheetah-v5"),
            )
        ),
    ),
    Peer(
        "sample_factory",
        "Sample Factory 2.1.1 APPO",
        {"threads": THREADS, "workers": WORKERS},
        frozenset({("ppo", "PongNoFrameskip-v4")}),
    ),
)
# What they have in the place of an algorithm of this trainer.
NEAREST = {"double_dqn": "dqn"}


def chosen(text: str, peers: Sequence[Peer] = PEERS) -> list[Peer]:
    """Those of the peers that ``--peers`` names."""
    if text == "none":
        return []
    known = {peer.key: peer for peer in peers}
    keys = each_once(text, "--peers")
    for key in keys:
        if key not in known:
            raise UserError(f"--peers={key} is not known. {closest(key, [*known, 'none'])}")
    return [known[key] for key in keys]


def each_once(text: str, flag: str) -> list[str]:
    """The names of a list with commas between."""
    names = text.split(",")
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UserError(f"{flag}={text}: {twice} is given twice; expected each once.")
    return names
