"""What benchmarks share: flags, medians, reports, the trainer as a process."""
