"""The parts of a training, each measured alone."""
