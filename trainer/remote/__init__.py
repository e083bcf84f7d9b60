"""Actors in other processes, as the learner sees them, and what carries their unrolls."""
