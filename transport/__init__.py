"""Moves data: unrolls from actors to a learner, whatever they contain, and weights back.

A block is a nest of arrays that holds several unrolls side by side. In one process an
``UnrollQueue`` carries blocks. Between processes a ``Receiver`` fills one from the ``Link`` of
each actor, and weights go the other way; ``distributed`` or ``secure`` carries the messages
between them.
"""

from transport.in_process import Closed, UnrollQueue
from transport.layout import ArraySpec, Layout
from transport.link import Link
from transport.messages import Identity, Refused
from transport.messages import identity as make_identity
from transport.receiver import Receiver

__all__ = [
    "ArraySpec",
    "Closed",
    "Identity",
    "Layout",
    "Link",
    "Receiver",
    "Refused",
    "UnrollQueue",
    "make_identity",
]
