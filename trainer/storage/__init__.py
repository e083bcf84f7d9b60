"""Files of a run's folder: checkpoints, the lock, append-only records."""
