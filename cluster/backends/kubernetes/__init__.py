"""Pods that Kubernetes runs: learners as a Job or an MPIJob, actors as indexed Jobs."""
