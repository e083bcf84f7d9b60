"""Serves a game on a desktop of its own: ``python -m environments.remote serve``."""
