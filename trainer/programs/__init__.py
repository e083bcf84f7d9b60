"""A process from start to end: local training, learner or actor; and how it stops."""
