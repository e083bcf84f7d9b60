"""Learners that train together: sums over all of them, and keeping their weights equal."""
