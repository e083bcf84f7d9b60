"""Learners that train together: their sums, and that their weights stay equal."""
