"""How data moves: unrolls from actors to a learner, without knowing what they mean.

A block is a nest of arrays that holds several unrolls side by side.
"""

from transport.in_process import Closed, UnrollQueue

__all__ = ["Closed", "UnrollQueue"]
