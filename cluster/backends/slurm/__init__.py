"""Nodes that Slurm lends: learners as one job, actors as arrays of jobs."""
