"""A person plays in the model, in the real game beside it, or in any level alone."""
