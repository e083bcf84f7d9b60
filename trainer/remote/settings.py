"""The settings of connections between learners and actors."""

import dataclasses

from flags import setting

TRANSPORTS = ("tensorflow", "secure")
COMPRESSIONS = ("none", "zstd")


@dataclasses.dataclass(frozen=True)
class RemoteSettings:
    """How learners and actors of different processes find and trust each other."""

    learner_host: str = setting(
        "localhost:8001",
        "Cluster",
        "host:port at which a learner listens, and at which its actors find it; for an actor of "
        "several --agents NAME=host:port of each, with commas between",
    )
    actor_hosts: str = setting(
        "",
        "Cluster",
        "host:port of a learner's actors, separated by commas; others may join, too",
    )
    peers: str = setting(
        "",
        "Cluster",
        "A3C with several equal learners: host:port of each, separated by commas, --learner_host "
        "among them. They exchange their actors' gradients, and start together",
    )
    transport: str = setting(
        "tensorflow",
        "Cluster",
        "how learners and actors communicate. tensorflow: its own server, which obeys anyone who "
        "reaches its port; secure: gRPC over TLS with a token, see docs/trust.md",
        choices=TRANSPORTS,
    )
    compression: str = setting(
        "none",
        "Cluster",
        "how actors send their unrolls. zstd makes pictures a small part of their size, for "
        "networks of 1 Gbit/s or less; learner and actors need the same",
        choices=COMPRESSIONS,
    )
    credentials: str = setting(
        "",
        "Cluster",
        "--transport=secure: file by which learners and actors recognise each other. "
        "Default: learner.pem, which a learner creates if it is missing, or actor.pem, in "
        "LOGDIR/credentials",
    )
    peer_timeout_s: float = setting(
        10.0,
        "Cluster",
        "seconds of silence after which a peer is considered gone",
        least=0.5,
        most=86_400,
    )
    synthetic_unrolls: bool = setting(
        False,
        "Cluster",
        "train on random unrolls, without actors: to measure learners; nothing is learned",
    )
