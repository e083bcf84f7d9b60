"""Actors in other processes, as the learner sees them, and the transport of their unrolls."""
