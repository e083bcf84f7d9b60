"""Trains agents: settings, acting, learning, storage, reports, and what is left of a run."""
