"""Shared by benchmarks: flags, medians, reports, the trainer as a process."""
