"""Trials and sessions: which there are, their processes, what is kept of them on disk."""
