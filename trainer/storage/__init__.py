"""Files of a run's folder: checkpoints, the folder's lock, records that grow."""
