"""A module whose `parallel_env` makes no game."""

parallel_env = object
